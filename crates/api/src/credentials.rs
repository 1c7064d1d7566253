//! Credentials of a request, and the session cookie.

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, COOKIE};
use tenancy::authenticate::RequestCredentials;
use tenancy::sessions::{self, CSRF_HEADER};

/// The credential in a request's headers. A bearer token takes precedence over a cookie, which browsers send unasked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum HeaderCredentials<'a> {
    None,
    Bearer(&'a str),
    /// A session cookie, with the CSRF header that only this server's own pages can send.
    Session {
        cookie: &'a str,
        csrf: Option<&'a str>,
    },
}

impl<'a> HeaderCredentials<'a> {
    /// Reads the headers. An unreadable credential becomes an empty token, which is never valid: it is refused, not ignored.
    pub fn from_headers(headers: &'a HeaderMap) -> Self {
        let mut authorizations = headers.get_all(AUTHORIZATION).iter();
        if let Some(value) = authorizations.next() {
            let scheme_and_token = value.to_str().ok().and_then(|text| text.split_once(' '));
            return match scheme_and_token {
                Some((scheme, token))
                    if scheme.eq_ignore_ascii_case("bearer") && authorizations.next().is_none() =>
                {
                    Self::Bearer(token.trim())
                }
                _ => Self::Bearer(""),
            };
        }
        match session_cookie(headers) {
            Some(cookie) => {
                Self::Session { cookie, csrf: headers.get(CSRF_HEADER).and_then(|value| value.to_str().ok()) }
            }
            None => Self::None,
        }
    }

    /// Converts to the credential type of `tenancy`.
    pub fn to_request_credentials(self, is_unsafe: bool) -> RequestCredentials<'a> {
        let nothing = RequestCredentials { is_unsafe, ..RequestCredentials::default() };
        match self {
            Self::None => nothing,
            Self::Bearer(token) => RequestCredentials { bearer: Some(token), ..nothing },
            Self::Session { cookie, csrf } => RequestCredentials { cookie: Some(cookie), csrf, ..nothing },
        }
    }
}

/// The value of the session cookie.
pub fn session_cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == sessions::COOKIE_NAME).map(|(_, value)| value)
}

/// `Set-Cookie` value for a session of `seconds`.
pub fn session_cookie_header(value: &str, seconds: i64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}", sessions::COOKIE_NAME)
}

/// `Set-Cookie` value that deletes the session cookie.
pub fn clear_cookie_header(secure: bool) -> String {
    session_cookie_header("", 0, secure)
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bearer_token_takes_precedence_and_malformed_credentials_are_kept() {
        let session = HeaderCredentials::Session { cookie: "abc", csrf: Some("t") };
        let rows: &[(&[(&str, &str)], HeaderCredentials)] = &[
            (&[], HeaderCredentials::None),
            (&[("authorization", "Bearer lsh_x")], HeaderCredentials::Bearer("lsh_x")),
            (&[("authorization", "bearer  lsh_x ")], HeaderCredentials::Bearer("lsh_x")),
            (&[("authorization", "Basic YTpi")], HeaderCredentials::Bearer("")),
            (&[("authorization", "lsh_x")], HeaderCredentials::Bearer("")),
            (&[("authorization", "Bearer a"), ("authorization", "Bearer b")], HeaderCredentials::Bearer("")),
            (&[("cookie", "a=b; longshore_session=abc; c=d"), ("x-csrf-token", "t")], session),
            (&[("cookie", "a=b"), ("cookie", "longshore_session=abc"), ("x-csrf-token", "t")], session),
            (
                &[("cookie", "longshore_session=abc")],
                HeaderCredentials::Session { cookie: "abc", csrf: None },
            ),
            (&[("cookie", "xlongshore_session=abc")], HeaderCredentials::None),
            (
                &[("cookie", "longshore_session=abc"), ("authorization", "Bearer x")],
                HeaderCredentials::Bearer("x"),
            ),
        ];
        for (pairs, expected) in rows {
            let headers: HeaderMap = pairs
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
                .collect();
            assert!(HeaderCredentials::from_headers(&headers) == *expected, "{pairs:?}");
        }
    }

    proptest! {
        #[test]
        fn credentials_are_read_from_arbitrary_headers(
            name in prop_oneof!["authorization", "cookie", "x-csrf-token"],
            value in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let Ok(value) = HeaderValue::from_bytes(&value) else { return Ok(()) };
            let headers = HeaderMap::from_iter([(HeaderName::from_bytes(name.as_bytes()).unwrap(), value)]);
            let shown = HeaderCredentials::from_headers(&headers);
            prop_assert!(name != "authorization" || matches!(shown, HeaderCredentials::Bearer(_)), "it is not passed over");
        }
    }

    #[test]
    fn session_cookie_is_http_only_and_same_site() {
        assert_eq!(
            session_cookie_header("v", 60, true),
            "longshore_session=v; Path=/; HttpOnly; SameSite=Strict; Max-Age=60; Secure"
        );
        assert_eq!(
            clear_cookie_header(false),
            "longshore_session=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"
        );
    }
}
