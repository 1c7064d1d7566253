//! API flavours of a route: how it accepts credentials and writes errors. Native routes follow web conventions. Routes of the
//! OpenYurt console follow what its old clients expect ([`crate::openyurt`]).

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Response};
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Serialize;

use crate::call::query_of;
use crate::credentials::Credentials;
use crate::problem::Refused;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Native,
    /// The OpenYurt console.
    OpenYurt,
}

/// Query parameter with a token, for clients that cannot set headers.
pub const TOKEN: &str = "token";

/// Alternative header for the token.
const AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");

/// RFC 9745: the date since which tokens in query parameters are deprecated.
const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
const SINCE: HeaderValue = HeaderValue::from_static("@1794787200");

/// A refusal, as the OpenYurt console reads it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ConsoleRefusal")]
pub struct ConsoleRefusal {
    /// What went wrong, for people.
    msg: String,
    /// Always false: it was not done.
    status: bool,
    /// What went wrong, for programs.
    code: String,
}

impl Dialect {
    /// The credential in the request's headers.
    pub fn credentials(self, headers: &HeaderMap) -> Credentials<'_> {
        match (Credentials::of(headers), self) {
            (Credentials::None, Self::OpenYurt) => {
                let header = headers.get(AUTH_TOKEN);
                header.map_or(Credentials::None, |value| {
                    Credentials::Bearer(value.to_str().unwrap_or("").trim())
                })
            }
            (shown, _) => shown,
        }
    }

    /// The token in the query, if this flavour accepts one.
    pub fn token_in_query(self, parts: &Parts) -> Option<String> {
        match self {
            Self::Native => None,
            // A malformed query is refused later.
            Self::OpenYurt => query_of(parts).ok()?.remove(TOKEN),
        }
    }

    /// Marks the response to a request with a token in the query: deprecated, and not to be stored by caches.
    pub fn deprecate(headers: &mut HeaderMap) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(DEPRECATION, SINCE);
    }

    /// Rewrites an error response in the format of this flavour. Other responses are unchanged.
    pub fn phrase(self, mut response: Response<Body>) -> Response<Body> {
        let refused = response.extensions_mut().remove::<Refused>();
        match (self, refused) {
            (Self::OpenYurt, Some(Refused { detail, code })) => {
                let view = ConsoleRefusal { msg: detail, status: false, code: word(code) };
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
fn word(code: &str) -> String {
    match code {
        "account-exists" | "exists" => "already_exists".to_owned(),
        other => other.replace('-', "_"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_looked_at_in_their_order() {
        let rows: &[(&[(&str, &str)], Credentials<'_>)] = &[
            (&[], Credentials::None),
            (&[("x-auth-token", " lsh_a ")], Credentials::Bearer("lsh_a")),
            (&[("x-auth-token", "")], Credentials::Bearer("")),
            (&[("x-auth-token", "a"), ("authorization", "Bearer b")], Credentials::Bearer("b")),
            (&[("x-auth-token", "a"), ("authorization", "Basic b")], Credentials::Bearer("")),
            (
                &[("x-auth-token", "a"), ("cookie", "longshore_session=c")],
                Credentials::Session { cookie: "c", csrf: None },
            ),
        ];
        for (pairs, expected) in rows {
            let headers: HeaderMap = pairs
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
                .collect();
            assert!(Dialect::OpenYurt.credentials(&headers) == *expected, "{pairs:?}");
        }
        let only = HeaderMap::from_iter([(AUTH_TOKEN, HeaderValue::from_static("a"))]);
        assert!(
            Dialect::Native.credentials(&only) == Credentials::None,
            "our own routes know no such header"
        );
    }

    #[test]
    fn words_are_spelled_as_the_console_spells_them() {
        for (ours, theirs) in [
            ("account-exists", "already_exists"),
            ("not-found", "not_found"),
            ("wrong-credentials", "wrong_credentials"),
            ("namespace", "namespace"),
        ] {
            assert_eq!(word(ours), theirs);
        }
    }
}
