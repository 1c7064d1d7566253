//! A platform's refusal, as RFC 9457 shapes it, in one line for people.

use std::fmt;

use http::StatusCode;
use serde::Deserialize;

use super::output::tame;

/// Why the platform did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub status: StatusCode,
    /// The platform's own words; without them the status has to do.
    pub detail: Option<String>,
    /// What went wrong, for programs.
    pub code: Option<String>,
    /// Under which the platform's log has more.
    pub request_id: Option<String>,
}

#[derive(Default, Deserialize)]
struct Body {
    detail: Option<String>,
    title: Option<String>,
    code: Option<String>,
}

impl Problem {
    /// Of an answer that says no, whoever wrote it: a proxy on the way has no problem documents.
    pub fn of(status: StatusCode, body: &[u8], request_id: Option<&str>) -> Self {
        let body: Option<Body> = serde_json::from_slice(body).ok();
        let body = body.unwrap_or_default();
        let detail = body.detail.or(body.title).filter(|text| !text.is_empty());
        Self { status, detail, code: body.code, request_id: request_id.map(str::to_owned) }
    }

    /// Whether it is the token that is no good, and not something that was sent with it.
    pub fn is_about_the_token(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED && self.code.as_deref() != Some("wrong-credentials")
    }

    /// ` (request ID)`, for the end of a line.
    pub fn request(&self) -> String {
        self.request_id.as_ref().map(|id| format!(" (request {})", tame(id))).unwrap_or_default()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => f.write_str(&tame(detail))?,
            None => write!(f, "the answer was {}", self.status)?,
        }
        f.write_str(&self.request())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_one_line() {
        let rows: [(&str, Option<&str>, &str); 5] = [
            (
                r#"{"type":"about:blank","title":"Not Found","status":404,"detail":"there is no workspace `x`"}"#,
                Some("r-1"),
                "there is no workspace `x` (request r-1)",
            ),
            (r#"{"title":"Not Found"}"#, None, "Not Found"),
            ("<html>nginx</html>", None, "the answer was 404 Not Found"),
            ("", Some("r-2"), "the answer was 404 Not Found (request r-2)"),
            (r#"{"detail":"two\nlines \u001b[31m"}"#, None, r"two\nlines \u{1b}[31m"),
        ];
        for (body, id, expected) in rows {
            assert_eq!(Problem::of(StatusCode::NOT_FOUND, body.as_bytes(), id).to_string(), expected);
        }
    }
}
