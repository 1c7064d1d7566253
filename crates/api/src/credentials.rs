//! Credentials of a request, and the session cookie.

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, COOKIE};
use tenancy::authenticate::Presented;
use tenancy::sessions::{self, CSRF_HEADER};

/// The credential in a request's headers. A bearer token takes precedence over a cookie, which browsers send unasked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Credentials<'a> {
    None,
    Bearer(&'a str),
    /// A session cookie, with the CSRF header that only this server's own pages can send.
    Session {
        cookie: &'a str,
        csrf: Option<&'a str>,
    },
}

impl<'a> Credentials<'a> {
    /// Reads the headers. An unreadable credential becomes an empty token, which is never valid: it is refused, not ignored.
    pub fn of(headers: &'a HeaderMap) -> Self {
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
    pub fn presented(self, is_unsafe: bool) -> Presented<'a> {
        let nothing = Presented { is_unsafe, ..Presented::default() };
        match self {
            Self::None => nothing,
            Self::Bearer(token) => Presented { bearer: Some(token), ..nothing },
            Self::Session { cookie, csrf } => Presented { cookie: Some(cookie), csrf, ..nothing },
        }
    }
}

/// The value of the session cookie.
pub fn session_cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == sessions::COOKIE).map(|(_, value)| value)
}

/// `Set-Cookie` value for a session of `seconds`.
pub fn cookie(value: &str, seconds: i64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}", sessions::COOKIE)
}

/// `Set-Cookie` value that deletes the session cookie.
pub fn no_cookie(secure: bool) -> String {
    cookie("", 0, secure)
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_token_wins_and_nonsense_is_not_passed_over() {
        let session = Credentials::Session { cookie: "abc", csrf: Some("t") };
        let rows: &[(&[(&str, &str)], Credentials)] = &[
            (&[], Credentials::None),
            (&[("authorization", "Bearer lsh_x")], Credentials::Bearer("lsh_x")),
            (&[("authorization", "bearer  lsh_x ")], Credentials::Bearer("lsh_x")),
            (&[("authorization", "Basic YTpi")], Credentials::Bearer("")),
            (&[("authorization", "lsh_x")], Credentials::Bearer("")),
            (&[("authorization", "Bearer a"), ("authorization", "Bearer b")], Credentials::Bearer("")),
            (&[("cookie", "a=b; longshore_session=abc; c=d"), ("x-csrf-token", "t")], session),
            (&[("cookie", "a=b"), ("cookie", "longshore_session=abc"), ("x-csrf-token", "t")], session),
            (&[("cookie", "longshore_session=abc")], Credentials::Session { cookie: "abc", csrf: None }),
            (&[("cookie", "xlongshore_session=abc")], Credentials::None),
            (&[("cookie", "longshore_session=abc"), ("authorization", "Bearer x")], Credentials::Bearer("x")),
        ];
        for (pairs, expected) in rows {
            let headers: HeaderMap = pairs
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
                .collect();
            assert!(Credentials::of(&headers) == *expected, "{pairs:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_stands_in_the_headers_is_read(
            name in prop_oneof!["authorization", "cookie", "x-csrf-token"],
            value in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let Ok(value) = HeaderValue::from_bytes(&value) else { return Ok(()) };
            let headers = HeaderMap::from_iter([(HeaderName::from_bytes(name.as_bytes()).unwrap(), value)]);
            let shown = Credentials::of(&headers);
            prop_assert!(name != "authorization" || matches!(shown, Credentials::Bearer(_)), "it is not passed over");
        }
    }

    #[test]
    fn no_script_reads_the_cookie_and_no_other_site_sends_it() {
        assert_eq!(
            cookie("v", 60, true),
            "longshore_session=v; Path=/; HttpOnly; SameSite=Strict; Max-Age=60; Secure"
        );
        assert_eq!(no_cookie(false), "longshore_session=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
    }
}
