//! Error responses: RFC 9457 problem details, with the kind of failure and a stable code.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use domain::Kind;
use domain::actor::Refusal;
use schemars::JsonSchema;
use serde::Serialize;
use tenancy::Error;

use crate::answer::AuditObject;

/// Default `Retry-After`, in seconds.
const PAUSE: u64 = 5;

/// Error response of a request. Internal details have been logged before it is built.
#[derive(Debug)]
#[must_use]
pub struct Problem {
    kind: Kind,
    status: StatusCode,
    code: &'static str,
    detail: String,
    retry_after: Option<u64>,
    object: Option<AuditObject>,
}

/// A problem on the wire.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct ProblemView {
    /// Always `about:blank`: the status says what sort of problem it is.
    r#type: &'static str,
    title: &'static str,
    status: u16,
    /// What went wrong, for people.
    detail: String,
    /// What sort of failure it was: `Invalid`, `Unauthenticated`, `Forbidden`, `NotFound`, `Conflict`, `Precondition`,
    /// `TooLarge`, `Exhausted`, `Timeout`, `Unavailable`, `Unsupported` or `Internal`.
    kind: String,
    /// What went wrong, for programs.
    code: &'static str,
}

impl Problem {
    pub fn new(kind: Kind, code: &'static str, detail: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(kind.http_status()).expect("the table has statuses of HTTP");
        let retry_after = matches!(kind, Kind::Exhausted | Kind::Unavailable).then_some(PAUSE);
        Self { kind, status, code, detail: detail.into(), retry_after, object: None }
    }

    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, "invalid", detail)
    }

    pub fn not_found(kind: &'static str, name: &str) -> Self {
        Error::NotFound { kind, name: shortened(name) }.into()
    }

    pub fn unauthenticated() -> Self {
        Error::NotSignedIn.into()
    }

    /// A token was sent as a query parameter while that is disabled.
    pub fn no_parameter() -> Self {
        let detail = "tokens are not taken as parameters here: send `Authorization: Bearer`";
        Self::new(Kind::Unauthenticated, "token-parameter", detail)
    }

    /// With an explicit HTTP status.
    pub fn of_status(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, ..Self::new(Kind::of_http_status(status.as_u16()), code, detail) }
    }

    /// Sets the object for the audit trail.
    pub fn about(self, object: Option<AuditObject>) -> Self {
        Self { object, ..self }
    }

    /// Overrides `Retry-After`, in seconds.
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// For a request that was carried out, but whose response exceeds the limits.
    pub fn after_the_fact(self) -> Self {
        Self {
            detail: format!("{}; what was asked for has been done, its answer was too large", self.detail),
            ..self
        }
    }

    /// The stable code, for programs.
    pub fn code(&self) -> &'static str {
        self.code
    }
}

/// Message and code of an error, for API flavours that write another format ([`crate::dialect`]).
#[derive(Clone)]
pub struct Refused {
    pub detail: String,
    pub code: &'static str,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let refused = Refused { detail: self.detail.clone(), code: self.code };
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
        if self.kind == Kind::Unauthenticated {
            set(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"longshore\""));
        }
        if let Some(object) = self.object {
            response.extensions_mut().insert(object);
        }
        response
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
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

impl From<releases::acts::Error> for Problem {
    fn from(error: releases::acts::Error) -> Self {
        use releases::acts::Error::*;
        let kind = error.kind();
        if matches!(kind, Kind::Unavailable | Kind::Internal) {
            tracing::error!(error = &error as &dyn std::error::Error, "a release could not be seen to");
        }
        let code = match &error {
            Refused(refusal) => return refusal.clone().into(),
            NotYours(_) => "namespace",
            NoWorkspace(_) => "workspace",
            NoPerson => "no-person",
            ByHand(_) => "by-hand",
            Exists(_) | RepoExists(_) => "exists",
            Changed(_) | Moved(_) => "changed",
            Chart(_) => "chart",
            _ => word(kind),
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
            Refused(refusal) => return refusal.clone().into(),
            Changed(_) => "changed",
            NoPools => "no-pools",
            _ => word(kind),
        };
        Self::new(kind, code, error.to_string())
    }
}

/// The stable code of an error: specific where clients need more than the kind.
fn code(error: &Error) -> &'static str {
    match error {
        Error::Refused(Refusal::Role(_)) => "role",
        Error::Refused(Refusal::Scope(_)) => "scope",
        Error::Refused(Refusal::NotThemselves) => "not-themselves",
        Error::WrongCredentials => "wrong-credentials",
        Error::Throttled { .. } => "throttled",
        Error::RegistrationClosed => "registration-closed",
        Error::AccountExists => "account-exists",
        Error::Changed(_) | Error::Moved(_) => "changed",
        other => word(other.kind()),
    }
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Invalid => "invalid",
        Kind::Unauthenticated => "unauthenticated",
        Kind::Forbidden => "forbidden",
        Kind::NotFound => "not-found",
        Kind::Conflict => "conflict",
        Kind::Precondition => "precondition",
        Kind::TooLarge => "too-large",
        Kind::Exhausted => "exhausted",
        Kind::Timeout => "timeout",
        Kind::Unavailable => "unavailable",
        Kind::Unsupported => "unsupported",
        Kind::Internal => "internal",
    }
}

/// Shortens client input for use in a message.
pub fn shortened(text: &str) -> String {
    const LIMIT: usize = 64;
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
