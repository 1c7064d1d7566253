//! Which sites may send requests: protection against DNS rebinding and cross-site requests.
//!
//! [`check_origin`] checks two things of every request but health probes.
//!
//! The `Host` is an IP address, `localhost`, or a name of `[server] hosts`. A page of another site whose name was rebound to
//! this server's address sends that name. Without configured names every name is accepted behind TLS or a trusted proxy: there a
//! rebound name fails at the certificate, or at the proxy.
//!
//! A request with an unsafe method comes from this server's own pages or from no page at all. Browsers say so by
//! `Sec-Fetch-Site` and `Origin`; other clients send neither. `GET /login` of other sites opens no session
//! (`crate::openyurt::login`).

use std::net::IpAddr;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Response, Uri};
use axum::middleware::Next;
use axum::response::IntoResponse;
use domain::ErrorKind;

use crate::problem::Problem;
use crate::{Api, HttpSettings};

const SEC_FETCH_SITE: &str = "sec-fetch-site";
const FORWARDED_HOST: &str = "x-forwarded-host";
/// Probes name the server as they like and change nothing.
const PROBE_PATHS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Refuses requests to a foreign name, and cross-site requests that change something.
pub async fn check_origin(State(api): State<Api>, request: Request, next: Next) -> Response<Body> {
    match check_request(&api.settings, request.method(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn check_request(
    settings: &HttpSettings,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    if PROBE_PATHS.contains(&uri.path()) {
        return Ok(());
    }
    // HTTP/2 carries the authority in the URI.
    let host = match uri.authority() {
        Some(authority) => Some(authority.clone()),
        None => headers
            .get(HOST)
            .map(|host| Authority::try_from(host.as_bytes()))
            .transpose()
            .map_err(|_| unknown_host())?,
    };
    if host.as_ref().is_some_and(|host| !is_known_host(settings, host.host())) {
        return Err(unknown_host());
    }
    if method.is_safe() {
        return Ok(());
    }
    match headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes) {
        Some(b"same-origin" | b"none") => return Ok(()),
        Some(_) => return Err(cross_site_refused()),
        None => {}
    }
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
    let forwarded = headers.get(FORWARDED_HOST).filter(|_| settings.trusted_proxy);
    let forwarded = forwarded.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let own = |authority: &Authority| {
        host.iter().chain(&forwarded).any(|own| own.as_str().eq_ignore_ascii_case(authority.as_str()))
            || settings.hosts.iter().any(|name| name.eq_ignore_ascii_case(authority.host()))
    };
    match origin.as_ref().and_then(Uri::authority) {
        Some(authority) if own(authority) => Ok(()),
        _ => Err(cross_site_refused()),
    }
}

/// Whether clients may reach the server by this name.
fn is_known_host(settings: &HttpSettings, host: &str) -> bool {
    let name = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
    name.parse::<IpAddr>().is_ok()
        || name == "localhost"
        || name.ends_with(".localhost")
        || settings.hosts.contains(&name)
        || (settings.hosts.is_empty() && settings.is_secure())
}

fn unknown_host() -> Problem {
    let detail = "unknown host name: use the server's IP address, or add the name to [server] hosts";
    Problem::new(ErrorKind::Forbidden, "host", detail)
}

fn cross_site_refused() -> Problem {
    Problem::new(ErrorKind::Forbidden, "cross-site", "cross-site requests are refused")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(hosts: &[&str], trusted_proxy: bool) -> HttpSettings {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        HttpSettings {
            trusted_proxy,
            tls: false,
            embedded: true,
            token_parameter: true,
            hosts,
            version: "test",
        }
    }

    fn passes(settings: &HttpSettings, method: &str, path: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = axum::http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        check_request(settings, request.method(), request.uri(), request.headers()).is_ok()
    }

    #[test]
    fn unknown_host_names_are_refused_without_proxy() {
        #[rustfmt::skip]
        let rows = [
            // host, on loopback, with a configured name, behind a proxy
            ("127.0.0.1:8080",          true,  true,  true),
            ("[::1]:8080",              true,  true,  true),
            ("10.1.2.3",                true,  true,  true),
            ("localhost:8080",          true,  true,  true),
            ("LOCALHOST",               true,  true,  true),
            ("evil.example",            false, false, true),
            ("evil.example:8080",       false, false, true),
            ("127.0.0.1.evil.example",  false, false, true),
            ("longshore.example.com.",  false, true,  true),
            ("Longshore.Example.Com:1", false, true,  true),
        ];
        for (host, on_loopback, named, proxied) in rows {
            let get = |settings: &HttpSettings| {
                passes(settings, "GET", "/api/longshore/v1/session", &[("host", host)])
            };
            assert_eq!(get(&settings(&[], false)), on_loopback, "{host}");
            assert_eq!(get(&settings(&["longshore.example.com"], false)), named, "{host}");
            assert_eq!(get(&settings(&[], true)), proxied, "{host}");
            assert!(passes(&settings(&[], false), "GET", "/readyz", &[("host", host)]), "{host}");
        }
        assert!(
            passes(&settings(&[], false), "POST", "/register", &[]),
            "a client without Host is no browser"
        );
        assert!(!passes(&settings(&[], false), "GET", "/", &[("host", "a b")]));
    }

    /// Method, path, headers, and whether the request passes.
    type OriginCase<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], bool);

    #[test]
    fn cross_site_writes_are_refused() {
        let own = ("host", "127.0.0.1:8080");
        #[rustfmt::skip]
        let rows: &[OriginCase] = &[
            ("POST",   "/register", &[own],                                                       true),
            ("POST",   "/register", &[own, ("origin", "http://127.0.0.1:8080")],                  true),
            ("POST",   "/register", &[own, ("origin", "http://127.0.0.1:9999")],                  false),
            ("POST",   "/register", &[own, ("origin", "https://evil.example")],                   false),
            ("POST",   "/register", &[own, ("origin", "null")],                                   false),
            ("POST",   "/login",    &[own, ("sec-fetch-site", "cross-site")],                     false),
            ("POST",   "/login",    &[own, ("sec-fetch-site", "same-site")],                      false),
            ("POST",   "/login",    &[own, ("sec-fetch-site", "same-origin")],                    true),
            ("POST",   "/login",    &[own, ("sec-fetch-site", "none")],                           true),
            ("GET",    "/login",    &[own, ("sec-fetch-site", "cross-site")],                     true),
            ("GET",    "/pods",     &[own, ("sec-fetch-site", "cross-site")],                     true),
            ("DELETE", "/api/longshore/v1/users/me", &[own, ("origin", "https://evil.example")],  false),
        ];
        for (method, path, headers, well) in rows {
            assert_eq!(
                passes(&settings(&[], false), method, path, headers),
                *well,
                "{method} {path} {headers:?}"
            );
        }
        let forwarded = [
            ("host", "backend:80"),
            ("x-forwarded-host", "shop.example"),
            ("origin", "https://shop.example"),
        ];
        assert!(passes(&settings(&[], true), "POST", "/register", &forwarded));
        assert!(!passes(&settings(&["backend"], false), "POST", "/register", &forwarded));
    }
}
