//! Errors of one object and of an apply.
//!
//! Invariant: no message repeats a value of a Secret, whatever the API server returned.

use std::fmt;

use domain::ErrorKind;
use kube_access::storage_budget;
use kube_access::timeout::is_unreachable;
use serde_json::Value;

use crate::apply::ApplyResult;
use crate::discovery::KindLookupError;
use crate::object::{Object, ObjectId};

/// Failure of one object.
#[derive(Debug)]
pub struct ObjectError {
    pub id: ObjectId,
    /// Chart file of the object.
    pub source: Option<String>,
    pub error: ObjectErrorKind,
}

#[derive(Debug, thiserror::Error)]
pub enum ObjectErrorKind {
    #[error(transparent)]
    Discovery(#[from] KindLookupError),
    #[error("it exists and cannot be imported into the current release: {0}")]
    OwnedByOther(String),
    #[error("{message}")]
    Api { kind: ErrorKind, message: String },
    #[error("{0}")]
    NotEstablished(String),
}

/// Some objects failed. `applied` holds the results until then; later waves were not tried.
#[derive(Debug)]
pub struct ApplyError {
    pub failures: Vec<ObjectError>,
    pub applied: ApplyResult,
}

impl ObjectError {
    pub(crate) fn new(object: &Object, id: ObjectId, why: impl Into<ObjectErrorKind>) -> Self {
        Self { id, source: object.source.clone(), error: why.into() }
    }

    /// Failure from an API error of this object.
    pub(crate) fn from_api_error(object: &Object, id: ObjectId, error: &kube::Error) -> Self {
        Self::new(
            object,
            id,
            ObjectErrorKind::Api { kind: api_error_kind(error), message: redacted_message(object, error) },
        )
    }

    pub fn kind(&self) -> ErrorKind {
        match &self.error {
            ObjectErrorKind::Discovery(error) => error.kind(),
            ObjectErrorKind::OwnedByOther(_) => ErrorKind::Conflict,
            ObjectErrorKind::Api { kind, .. } => *kind,
            ObjectErrorKind::NotEstablished(_) => ErrorKind::Timeout,
        }
    }
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, source, error: why } = self;
        match source {
            Some(source) => write!(f, "{id} ({source}): {why}"),
            None => write!(f, "{id}: {why}"),
        }
    }
}

impl ApplyError {
    pub(crate) fn without_writes(failures: Vec<ObjectError>) -> Self {
        Self { failures, applied: ApplyResult::default() }
    }

    /// Kind of the first failure, which usually represents the others.
    pub fn kind(&self) -> ErrorKind {
        self.failures.first().map_or(ErrorKind::Internal, ObjectError::kind)
    }
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failures: Vec<_> = self.failures.iter().map(ToString::to_string).collect();
        f.write_str(&failures.join("; "))
    }
}

impl std::error::Error for ApplyError {}

/// Error kind of an API error.
pub fn api_error_kind(error: &kube::Error) -> ErrorKind {
    match error {
        // Quota errors are 403, but can succeed later when capacity is freed.
        kube::Error::Api(status) if status.code == 403 && status.message.contains("exceeded quota") => {
            ErrorKind::Exhausted
        }
        error if storage_budget::exceeded_message(error).is_some() => ErrorKind::Exhausted,
        kube::Error::Api(status) => ErrorKind::from_http_status(status.code),
        error if is_unreachable(error) => ErrorKind::Unavailable,
        _ => ErrorKind::Internal,
    }
}

/// Error message, unless it repeats a value of a Secret.
fn redacted_message(object: &Object, error: &kube::Error) -> String {
    let words = match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    };
    if object.kind() == "Secret" && discloses(&words, object.value()) {
        return "the cluster refused it; the message is withheld because it repeats a value of the Secret"
            .to_owned();
    }
    words
}

fn discloses(words: &str, secret: &Value) -> bool {
    let values = ["data", "stringData"].into_iter().filter_map(|field| secret[field].as_object());
    values.flat_map(|map| map.values()).any(|value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty() && words.contains(text.as_str()),
        other => words.contains(&other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[test]
    fn api_errors_map_to_error_kinds() {
        let said = |code: u16, message: &str| {
            let status = Status { code, message: message.to_owned(), ..Status::default() };
            api_error_kind(&kube::Error::Api(Box::new(status)))
        };
        assert_eq!(said(403, "pods \"a\" is forbidden: exceeded quota: q"), ErrorKind::Exhausted);
        assert_eq!(said(403, "no"), ErrorKind::Forbidden);
        let full = json!({"message": "full", "code": 403, "details": {"causes": [{"reason": "StorageBudgetExceeded"}]}});
        let full: Status = serde_json::from_value(full).unwrap();
        assert_eq!(api_error_kind(&kube::Error::Api(Box::new(full))), ErrorKind::Exhausted);
        assert_eq!(said(422, "wrong"), ErrorKind::Invalid);
        assert_eq!(said(409, "conflict"), ErrorKind::Conflict);
        assert_eq!(said(503, "later"), ErrorKind::Unavailable);
        assert_eq!(api_error_kind(&kube::Error::Service("the line is cut".into())), ErrorKind::Unavailable);
    }
}
