//! API flavours of a route: how it accepts credentials and writes errors. Native routes follow web conventions. Routes of the
//! OpenYurt console follow what its old clients expect ([`crate::openyurt`]).

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Response};
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Serialize;

use crate::credentials::HeaderCredentials;
use crate::problem::ErrorDetail;
use crate::request::parse_query;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiFlavour {
    Native,
    /// The OpenYurt console.
    OpenYurt,
}

/// Query parameter with a token, for clients that cannot set headers.
pub const TOKEN_PARAM: &str = "token";

/// Alternative header for the token.
const X_AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");

/// RFC 9745: the date since which tokens in query parameters are deprecated.
const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
const DEPRECATED_SINCE: HeaderValue = HeaderValue::from_static("@1794787200");

/// Error response in the format of the OpenYurt console.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ConsoleError")]
pub struct OpenYurtError {
    /// Human-readable error message.
    msg: String,
    /// Always false.
    status: bool,
    /// Stable machine-readable error code.
    code: String,
}

impl ApiFlavour {
    /// The credential in the request's headers.
    pub fn credentials(self, headers: &HeaderMap) -> HeaderCredentials<'_> {
        match (HeaderCredentials::from_headers(headers), self) {
            (HeaderCredentials::None, Self::OpenYurt) => {
                let header = headers.get(X_AUTH_TOKEN);
                header.map_or(HeaderCredentials::None, |value| {
                    HeaderCredentials::Bearer(value.to_str().unwrap_or("").trim())
                })
            }
            (shown, _) => shown,
        }
    }

    /// The token in the query, if this flavour accepts one.
    pub fn query_token(self, parts: &Parts) -> Option<String> {
        match self {
            Self::Native => None,
            // A malformed query is refused later.
            Self::OpenYurt => parse_query(parts).ok()?.remove(TOKEN_PARAM),
        }
    }

    /// Marks the response to a request with a token in the query: deprecated, and not to be stored by caches.
    pub fn mark_deprecated(headers: &mut HeaderMap) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(DEPRECATION, DEPRECATED_SINCE);
    }

    /// Rewrites an error response in the format of this flavour. Other responses are unchanged.
    pub fn rewrite_error(self, mut response: Response<Body>) -> Response<Body> {
        let refused = response.extensions_mut().remove::<ErrorDetail>();
        match (self, refused) {
            (Self::OpenYurt, Some(ErrorDetail { detail, code })) => {
                let view = OpenYurtError { msg: detail, status: false, code: console_code(code) };
                let body = serde_json::to_string(&view).expect("a refusal is plain text");
                let mut phrased = (response.status(), body).into_response();
                *phrased.headers_mut() = std::mem::take(response.headers_mut());
                phrased.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                *phrased.extensions_mut() = std::mem::take(response.extensions_mut());
                phrased
            }
            _ => response,
        }
    }
}

/// Converts a native error code to the console's spelling.
fn console_code(code: &str) -> String {
    match code {
        "account-exists" | "exists" => "already_exists".to_owned(),
        other => other.replace('-', "_"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_follow_header_precedence() {
        let rows: &[(&[(&str, &str)], HeaderCredentials<'_>)] = &[
            (&[], HeaderCredentials::None),
            (&[("x-auth-token", " lsh_a ")], HeaderCredentials::Bearer("lsh_a")),
            (&[("x-auth-token", "")], HeaderCredentials::Bearer("")),
            (&[("x-auth-token", "a"), ("authorization", "Bearer b")], HeaderCredentials::Bearer("b")),
            (&[("x-auth-token", "a"), ("authorization", "Basic b")], HeaderCredentials::Bearer("")),
            (
                &[("x-auth-token", "a"), ("cookie", "longshore_session=c")],
                HeaderCredentials::Session { cookie: "c", csrf: None },
            ),
        ];
        for (pairs, expected) in rows {
            let headers: HeaderMap = pairs
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
                .collect();
            assert!(ApiFlavour::OpenYurt.credentials(&headers) == *expected, "{pairs:?}");
        }
        let only = HeaderMap::from_iter([(X_AUTH_TOKEN, HeaderValue::from_static("a"))]);
        assert!(
            ApiFlavour::Native.credentials(&only) == HeaderCredentials::None,
            "our own routes know no such header"
        );
    }

    #[test]
    fn error_codes_use_the_console_spelling() {
        for (ours, theirs) in [
            ("account-exists", "already_exists"),
            ("not-found", "not_found"),
            ("wrong-credentials", "wrong_credentials"),
            ("namespace", "namespace"),
        ] {
            assert_eq!(console_code(ours), theirs);
        }
    }
}
