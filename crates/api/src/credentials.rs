//! By what a request says who sends it, and the cookie that a browser is given for it.

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, COOKIE};
use tenancy::authenticate::Presented;
use tenancy::sessions::{self, CSRF_HEADER};

/// What a request shows. A token in the header wins over a cookie, which a browser sends by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Credentials<'a> {
    None,
    Bearer(&'a str),
    /// With the header that only our own pages can send.
    Session {
        cookie: &'a str,
        csrf: Option<&'a str>,
    },
}

impl<'a> Credentials<'a> {
    /// What cannot be read is shown as an empty token, which nobody has: it is refused rather than passed over.
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

    /// As tenancy takes it.
    pub fn presented(self, is_unsafe: bool) -> Presented<'a> {
        let nothing = Presented { is_unsafe, ..Presented::default() };
        match self {
            Self::None => nothing,
            Self::Bearer(token) => Presented { bearer: Some(token), ..nothing },
            Self::Session { cookie, csrf } => Presented { cookie: Some(cookie), csrf, ..nothing },
        }
    }
}

/// The value of the session's cookie.
pub fn session_cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == sessions::COOKIE).map(|(_, value)| value)
}

/// The cookie with a session, for as long as it lasts.
pub fn cookie(value: &str, seconds: i64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}", sessions::COOKIE)
}

/// Makes a browser forget it.
pub fn no_cookie(secure: bool) -> String {
    cookie("", 0, secure)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

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

    #[test]
    fn no_script_reads_the_cookie_and_no_other_site_sends_it() {
        assert_eq!(
            cookie("v", 60, true),
            "longshore_session=v; Path=/; HttpOnly; SameSite=Strict; Max-Age=60; Secure"
        );
        assert_eq!(no_cookie(false), "longshore_session=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
    }
}
