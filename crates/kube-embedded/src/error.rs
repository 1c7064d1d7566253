//! API errors: a Kubernetes `Status`.
//!
//! One constructor per situation, with the messages of Kubernetes.
//! See also: `crate::field` (errors of fields), `crate::http` (encoding).

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use governor::work::WorkError;
use serde_json::{Map, Value, json};

use crate::field::{FieldErrors, MAX_ERROR_BYTES};
use crate::store::OverBudget;

/// An error response.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct ApiError {
    pub code: u16,
    /// Empty if Kubernetes gives none.
    pub reason: &'static str,
    pub message: String,
    /// `details` of the Status, if it has one.
    pub details: Option<Map<String, Value>>,
    /// `metadata.continue` of the Status (410 of a paged list).
    pub continue_token: Option<String>,
}

pub type Result<T, E = ApiError> = std::result::Result<T, E>;

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

/// The name of a resource in messages: `pods`, `deployments.apps`.
pub fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn details(pairs: &[(&str, &str)]) -> Map<String, Value> {
    let filled = pairs.iter().filter(|(_, v)| !v.is_empty());
    filled.map(|(k, v)| ((*k).to_owned(), Value::from(*v))).collect()
}

impl ApiError {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, continue_token: None }
    }

    pub fn with_details(mut self, pairs: &[(&str, &str)]) -> Self {
        self.details = Some(details(pairs));
        self
    }

    /// Adds one cause to `details.causes`.
    pub fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        let mut cause = Map::new();
        for (key, text) in [("reason", reason), ("message", message), ("field", field)] {
            if !text.is_empty() {
                cause.insert(key.to_owned(), text.into());
            }
        }
        let details = self.details.get_or_insert_default();
        let causes = details.entry("causes").or_insert_with(|| Value::Array(Vec::new()));
        causes.as_array_mut().expect("causes is always a list").push(Value::Object(cause));
        self
    }

    /// Whether the request failed because the namespace is terminating.
    pub fn is_namespace_terminating(&self) -> bool {
        let causes = self.details.as_ref().and_then(|details| details.get("causes")?.as_array());
        causes.is_some_and(|causes| causes.iter().any(|cause| cause["reason"] == "NamespaceTerminating"))
    }

    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().insert("retryAfterSeconds".to_owned(), seconds.into());
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// `configmaps "a" is forbidden: <why>`; without a name, `configmaps is forbidden: <why>`.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: impl fmt::Display) -> Self {
        let what = qualified(resource, group);
        let message = match (what.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{what} is forbidden: {why}"),
            (false, false) => format!("{what} \"{name}\" is forbidden: {why}"),
        };
        Self::new(403, "Forbidden", message).with_details(&[
            ("name", name),
            ("group", group),
            ("kind", resource),
        ])
    }

    /// `configmaps "a" is forbidden: exceeded storage budget of "acme": used 1000 bytes, requested 50, limit 1024`, with the
    /// cause `StorageBudgetExceeded`.
    pub fn over_budget(group: &str, resource: &str, name: &str, why: &OverBudget) -> Self {
        Self::forbidden(group, resource, name, why).with_cause("StorageBudgetExceeded", &why.to_string(), "")
    }

    /// `configmaps "a" not found`
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", qualified(resource, group)))
            .with_details(&[("name", name), ("group", group), ("kind", resource)])
    }

    /// The path of a known group version has no resource.
    pub fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").with_details(&[])
    }

    pub fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            .with_details(&[])
    }

    /// The error of custom resources instead.
    pub fn verb_not_supported(verb: &str, group: &str, resource: &str) -> Self {
        let what = qualified(resource, group);
        let message = format!("{verb} is not supported on resources of kind \"{what}\"");
        Self::new(405, "MethodNotAllowed", message).with_details(&[("group", group), ("kind", resource)])
    }

    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", qualified(resource, group)))
            .with_details(&[("name", name), ("group", group), ("kind", resource)])
    }

    /// `Operation cannot be fulfilled on configmaps "a": <why>`
    pub fn conflict(group: &str, resource: &str, name: &str, why: impl fmt::Display) -> Self {
        let what = qualified(resource, group);
        Self::new(409, "Conflict", format!("Operation cannot be fulfilled on {what} \"{name}\": {why}"))
            .with_details(&[("name", name), ("group", group), ("kind", resource)])
    }

    /// The conflict of a write with an outdated resourceVersion.
    pub fn outdated_version(group: &str, resource: &str, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, resource, name, why)
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub fn too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    /// The object exceeds etcd's limit. Kubernetes returns the message of etcd, or above the client's limit
    /// that of gRPC.
    pub fn object_too_large(size: usize) -> Self {
        const CLIENT_LIMIT: usize = 2 << 20;
        let message = if size > CLIENT_LIMIT {
            format!(
                "rpc error: code = ResourceExhausted desc = trying to send message larger than max ({size} vs. {CLIENT_LIMIT})"
            )
        } else {
            "etcdserver: request is too large".to_owned()
        };
        Self::new(500, "", message)
    }

    pub fn not_acceptable(available: &str) -> Self {
        Self::new(406, "NotAcceptable", format!("only the following media types are accepted: {available}"))
    }

    pub fn unsupported_media_type(accepted: &str) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            ),
        )
    }

    /// `<Kind>[.<group>] "<name>" is invalid: <errors>`, with a cause for each error.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: impl Into<FieldErrors>) -> Self {
        let errors = errors.into();
        let (mut texts, mut seen) = (Vec::new(), HashSet::new());
        let mut causes = Vec::new();
        let mut total = 0_usize;
        for error in &errors {
            // Escaping makes the message longer than its parts.
            let text = error.to_string();
            total = total.saturating_add(text.len());
            if total > MAX_ERROR_BYTES && !causes.is_empty() {
                break;
            }
            causes.push((error.error_type.reason(), error.message_body(), error.path.as_str()));
            if seen.insert(text.clone()) {
                texts.push(text);
            }
        }
        let list = match texts.as_slice() {
            [only] => only.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let what = qualified(kind, group);
        let omitted = errors.len().saturating_sub(causes.len());
        let more = if omitted == 0 { String::new() } else { format!(" (and {omitted} more errors)") };
        let mut status = Self::new(422, "Invalid", format!("{what} \"{name}\" is invalid: {list}{more}"))
            .with_details(&[("name", name), ("group", group), ("kind", kind)]);
        for (reason, message, field) in causes {
            status = status.with_cause(reason, &message, field);
        }
        status
    }

    pub fn too_many_requests(message: impl Into<String>, seconds: u32) -> Self {
        Self::new(429, "TooManyRequests", message).retry_after(seconds)
    }

    /// No share of a budget is free; the response of API Priority and Fairness, with the budget's name.
    pub fn rejected(rejected: &governor::AdmissionError) -> Self {
        let seconds = u32::try_from(rejected.retry_after().as_secs()).unwrap_or(u32::MAX);
        let message = format!("Too many requests, please try again later: {rejected}.");
        Self::too_many_requests(message, seconds)
    }

    /// The request exceeded its deadline. Whether a write was committed is unknown, as in Kubernetes.
    pub fn request_timeout(limit: Duration) -> Self {
        let message =
            format!("Timeout: request did not complete within the allotted timeout ({} s)", limit.as_secs());
        Self::new(504, "Timeout", message)
    }

    /// The error of work on the pool that did not finish.
    pub fn from_work(error: &WorkError) -> Self {
        match error {
            WorkError::Rejected(rejected) => Self::rejected(rejected),
            WorkError::DeadlineExceeded(limit) => Self::request_timeout(*limit),
            WorkError::Interrupted(_) => Self::request_timeout(crate::verbs::REQUEST_TIMEOUT),
            WorkError::Panicked => {
                Self::internal("This request caused apiserver to panic. Look in the logs for details.")
            }
        }
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message)
    }

    pub fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(501, "NotImplemented", message)
    }

    /// The store cannot be written now; nothing was changed.
    pub fn unavailable(why: &str) -> Self {
        Self::new(
            503,
            "ServiceUnavailable",
            format!("the store cannot be written, nothing was changed: {why}"),
        )
        .retry_after(1)
    }

    /// The disk failed during the write.
    pub fn unknown_write_outcome(why: &str) -> Self {
        Self::internal(format!("Internal error occurred: the outcome of the write is unknown: {why}"))
    }

    /// Removes the reason, as in errors that Kubernetes does not classify.
    pub fn without_reason(mut self) -> Self {
        self.reason = "";
        self
    }

    /// The response body.
    pub fn status(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".to_owned(), token.as_str().into());
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata,
            "status": "Failure", "message": self.message, "code": self.code,
        });
        let fields = status.as_object_mut().expect("a Status is an object");
        if !self.reason.is_empty() {
            fields.insert("reason".to_owned(), self.reason.into());
        }
        if let Some(details) = &self.details {
            fields.insert("details".to_owned(), Value::Object(details.clone()));
        }
        status
    }
}
