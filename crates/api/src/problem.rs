//! Error responses: RFC 9457 problem details, with the kind of failure and a stable code.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use domain::ErrorKind;
use domain::actor::AuthorizationError;
use schemars::JsonSchema;
use serde::Serialize;
use tenancy::Error;

use crate::response::AuditObject;

/// Default `Retry-After`, in seconds.
const DEFAULT_RETRY_AFTER_SECS: u64 = 5;

/// Error response of a request. Internal details have been logged before it is built.
#[derive(Debug)]
#[must_use]
pub struct Problem {
    kind: ErrorKind,
    status: StatusCode,
    code: &'static str,
    detail: String,
    retry_after: Option<u64>,
    audit_object: Option<AuditObject>,
}

/// A problem on the wire.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct ProblemView {
    /// Always `about:blank`: the status determines the problem type.
    r#type: &'static str,
    title: &'static str,
    status: u16,
    /// Human-readable error message.
    detail: String,
    /// Class of the error: `Invalid`, `Unauthenticated`, `Forbidden`, `NotFound`, `Conflict`, `Precondition`,
    /// `TooLarge`, `Exhausted`, `Timeout`, `Unavailable`, `Unsupported` or `Internal`.
    kind: String,
    /// Stable machine-readable error code.
    code: &'static str,
}

impl Problem {
    pub fn new(kind: ErrorKind, code: &'static str, detail: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(kind.http_status()).expect("the table has statuses of HTTP");
        let retry_after =
            matches!(kind, ErrorKind::Exhausted | ErrorKind::Unavailable).then_some(DEFAULT_RETRY_AFTER_SECS);
        Self { kind, status, code, detail: detail.into(), retry_after, audit_object: None }
    }

    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, "invalid", detail)
    }

    pub fn not_found(kind: &'static str, name: &str) -> Self {
        Error::NotFound { kind, name: abbreviate(name) }.into()
    }

    pub fn unauthenticated() -> Self {
        Error::Unauthenticated.into()
    }

    /// A token was sent as a query parameter while that is disabled.
    pub fn token_param_disabled() -> Self {
        let detail = "tokens in query parameters are disabled: send `Authorization: Bearer`";
        Self::new(ErrorKind::Unauthenticated, "token-parameter", detail)
    }

    /// With an explicit HTTP status.
    pub fn with_status(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, ..Self::new(ErrorKind::from_http_status(status.as_u16()), code, detail) }
    }

    /// Sets the object for the audit trail.
    pub fn with_audit_object(self, object: Option<AuditObject>) -> Self {
        Self { audit_object: object, ..self }
    }

    /// Overrides `Retry-After`, in seconds.
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// For a request that was carried out, but whose response exceeds the limits.
    pub fn after_side_effects(self) -> Self {
        Self {
            detail: format!("{}; the request was carried out, but its response is too large", self.detail),
            ..self
        }
    }

    /// The stable code, for programs.
    pub fn code(&self) -> &'static str {
        self.code
    }
}

/// Message and code of an error, for API flavours that write another format ([`crate::flavour`]).
#[derive(Clone)]
pub struct ErrorDetail {
    pub detail: String,
    pub code: &'static str,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let refused = ErrorDetail { detail: self.detail.clone(), code: self.code };
        let view = ProblemView {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: self.detail,
            kind: format!("{:?}", self.kind),
            code: self.code,
        };
        let body = serde_json::to_string(&view).expect("a problem is plain text and a number");
        let mut response = (self.status, [(CONTENT_TYPE, "application/problem+json")], body).into_response();
        response.extensions_mut().insert(refused);
        let mut set = |name: HeaderName, value: HeaderValue| drop(response.headers_mut().insert(name, value));
        if let Some(seconds) = self.retry_after {
            set(RETRY_AFTER, seconds.into());
        }
        if self.kind == ErrorKind::Unauthenticated {
            set(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"longshore\""));
        }
        if let Some(object) = self.audit_object {
            response.extensions_mut().insert(object);
        }
        response
    }
}

impl From<AuthorizationError> for Problem {
    fn from(refusal: AuthorizationError) -> Self {
        Error::from(refusal).into()
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        if let Error::Unavailable(cause) | Error::Internal(cause) = &error {
            tracing::error!(error = cause.as_ref() as &dyn std::error::Error, "{error}");
        }
        let problem = Self::new(error.kind(), code(&error), error.to_string());
        match error {
            Error::Throttled { seconds } => Self { retry_after: Some(seconds.max(1)), ..problem },
            _ => problem,
        }
    }
}

impl From<releases::service::Error> for Problem {
    fn from(error: releases::service::Error) -> Self {
        use releases::service::Error::*;
        let kind = error.kind();
        if matches!(kind, ErrorKind::Unavailable | ErrorKind::Internal) {
            tracing::error!(error = &error as &dyn std::error::Error, "release request failed");
        }
        let code = match &error {
            Unauthorized(refusal) => return refusal.clone().into(),
            NamespaceNotAccessible(_) => "namespace",
            WorkspaceNotAccessible(_) => "workspace",
            UserRequired => "no-person",
            NotManagedByRequest(_) => "by-hand",
            AlreadyExists(_) | RepoAlreadyExists(_) => "exists",
            Conflict(_) | PreconditionFailed(_) => "changed",
            Chart(_) => "chart",
            _ => kind_code(kind),
        };
        Self::new(kind, code, error.to_string())
    }
}

impl From<fleet::Error> for Problem {
    fn from(error: fleet::Error) -> Self {
        use fleet::Error::*;
        let kind = error.kind();
        if let Forbidden(cause) | Unavailable(cause) | Internal(cause) = &error {
            tracing::error!(error = cause.as_ref() as &dyn std::error::Error, "{error}");
        }
        let code = match &error {
            Unauthorized(refusal) => return refusal.clone().into(),
            ModifiedConcurrently(_) => "changed",
            PoolsUnsupported => "no-pools",
            _ => kind_code(kind),
        };
        Self::new(kind, code, error.to_string())
    }
}

/// The stable code of an error: specific where clients need more than the kind.
fn code(error: &Error) -> &'static str {
    match error {
        Error::Authorization(AuthorizationError::MissingCapability(_)) => "role",
        Error::Authorization(AuthorizationError::TokenScope(_)) => "scope",
        Error::Authorization(AuthorizationError::UnrestrictedUserRequired) => "not-themselves",
        Error::WrongCredentials => "wrong-credentials",
        Error::Throttled { .. } => "throttled",
        Error::RegistrationClosed => "registration-closed",
        Error::AccountExists => "account-exists",
        Error::ConcurrentUpdate(_) | Error::StaleResourceVersion(_) => "changed",
        other => kind_code(other.kind()),
    }
}

fn kind_code(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "invalid",
        ErrorKind::Unauthenticated => "unauthenticated",
        ErrorKind::Forbidden => "forbidden",
        ErrorKind::NotFound => "not-found",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Precondition => "precondition",
        ErrorKind::TooLarge => "too-large",
        ErrorKind::Exhausted => "exhausted",
        ErrorKind::Timeout => "timeout",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::Internal => "internal",
    }
}

/// Shortens client input for use in a message.
pub fn abbreviate(text: &str) -> String {
    const LIMIT: usize = 64;
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
