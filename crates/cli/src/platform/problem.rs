//! Error responses (RFC 9457 problem details), as one line.

use std::fmt;

use http::StatusCode;
use serde::Deserialize;

use super::output::escape_control;

/// Error response of the platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub status: StatusCode,
    /// The platform's message. Without it, the status is shown.
    pub detail: Option<String>,
    /// Machine-readable error code.
    pub code: Option<String>,
    /// Request id, for searching the platform's log.
    pub request_id: Option<String>,
}

#[derive(Default, Deserialize)]
struct ProblemBody {
    detail: Option<String>,
    title: Option<String>,
    code: Option<String>,
}

impl Problem {
    /// Reads an error response. A proxy's response contains no problem document.
    pub fn from_response(status: StatusCode, body: &[u8], request_id: Option<&str>) -> Self {
        let body: Option<ProblemBody> = serde_json::from_slice(body).ok();
        let body = body.unwrap_or_default();
        let detail = body.detail.or(body.title).filter(|text| !text.is_empty());
        Self { status, detail, code: body.code, request_id: request_id.map(str::to_owned) }
    }

    /// Whether the token itself was rejected, rather than other credentials in the request.
    pub fn is_token_rejection(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED && self.code.as_deref() != Some("wrong-credentials")
    }

    /// ` (request ID)`, as a suffix.
    pub fn request(&self) -> String {
        self.request_id.as_ref().map(|id| format!(" (request {})", escape_control(id))).unwrap_or_default()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => f.write_str(&escape_control(detail))?,
            None => write!(f, "HTTP status {}", self.status)?,
        }
        f.write_str(&self.request())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_is_displayed_on_one_line() {
        let rows: [(&str, Option<&str>, &str); 5] = [
            (
                r#"{"type":"about:blank","title":"Not Found","status":404,"detail":"workspace `x` not found"}"#,
                Some("r-1"),
                "workspace `x` not found (request r-1)",
            ),
            (r#"{"title":"Not Found"}"#, None, "Not Found"),
            ("<html>nginx</html>", None, "HTTP status 404 Not Found"),
            ("", Some("r-2"), "HTTP status 404 Not Found (request r-2)"),
            (r#"{"detail":"two\nlines \u001b[31m"}"#, None, r"two\nlines \u{1b}[31m"),
        ];
        for (body, id, expected) in rows {
            assert_eq!(
                Problem::from_response(StatusCode::NOT_FOUND, body.as_bytes(), id).to_string(),
                expected
            );
        }
    }
}
