//! Client address of a request.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, Response};
use tower::{Service, ServiceExt};

/// Remote address of the connection.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddr(pub SocketAddr);

/// Headers by which a proxy names its client.
const FORWARDED_FOR: &str = "x-forwarded-for";
const PROXY_HEADERS: &[&str] = &[FORWARDED_FOR, "forwarded", "via", "x-real-ip"];

/// Wraps the service of one connection, so that every request carries its [`PeerAddr`].
pub fn with_peer<B>(
    routes: Router,
    peer: SocketAddr,
) -> impl Service<Request<B>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send + use<B>
where
    B: http_body::Body<Data = bytes::Bytes, Error: Into<axum::BoxError>> + Send + 'static,
{
    routes.map_request(move |mut request: Request<B>| {
        request.extensions_mut().insert(PeerAddr(peer));
        request
    })
}

/// The client's address: the peer, or the client of a trusted proxy. Only the last hop of the header was written by the proxy; earlier
/// hops come from the client.
pub fn client_ip(headers: &HeaderMap, peer: Option<PeerAddr>, trusted_proxy: bool) -> Option<IpAddr> {
    let last_hop = || {
        let last = headers.get_all(FORWARDED_FOR).iter().next_back()?.to_str().ok()?;
        let hop = last.rsplit(',').next()?.trim();
        hop.parse().ok().or_else(|| Some(hop.parse::<SocketAddr>().ok()?.ip()))
    };
    let forwarded = if trusted_proxy { last_hop() } else { None };
    forwarded.or(peer.map(|peer| peer.0.ip())).map(|address| address.to_canonical())
}

/// Whether the client is a program on this machine, and not a proxy that runs here.
pub fn is_local(headers: &HeaderMap, peer: Option<PeerAddr>) -> bool {
    let proxied = PROXY_HEADERS.iter().any(|name| headers.contains_key(*name));
    !proxied && peer.is_some_and(|peer| peer.0.ip().to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(forwarded: &[&str]) -> HeaderMap {
        forwarded.iter().map(|value| (FORWARDED_FOR.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn client_ip_uses_last_hop_of_trusted_proxy_only() {
        let peer = Some(PeerAddr("127.0.0.1:5000".parse().unwrap()));
        let rows: &[(&[&str], bool, &str)] = &[
            (&[], false, "127.0.0.1"),
            (&["203.0.113.9"], false, "127.0.0.1"),
            (&[], true, "127.0.0.1"),
            (&["203.0.113.9"], true, "203.0.113.9"),
            (&["198.51.100.1, 203.0.113.9"], true, "203.0.113.9"),
            (&["198.51.100.1", "203.0.113.9"], true, "203.0.113.9"),
            (&["203.0.113.9:4711"], true, "203.0.113.9"),
            (&["[2001:db8::1]:4711"], true, "2001:db8::1"),
            (&["::ffff:203.0.113.9"], true, "203.0.113.9"),
            (&["127.0.0.1, nonsense"], true, "127.0.0.1"),
        ];
        for (forwarded, trusted, expected) in rows {
            let found = client_ip(&headers(forwarded), peer, *trusted);
            assert_eq!(found, Some(expected.parse().unwrap()), "{forwarded:?} {trusted}");
        }
    }

    #[test]
    fn is_local_is_false_for_proxied_requests() {
        let at = |address: &str| Some(PeerAddr(address.parse().unwrap()));
        assert!(is_local(&headers(&[]), at("127.0.0.1:1")));
        assert!(is_local(&headers(&[]), at("[::1]:1")));
        assert!(is_local(&headers(&[]), at("[::ffff:127.0.0.1]:1")));
        assert!(!is_local(&headers(&["127.0.0.1"]), at("127.0.0.1:1")));
        assert!(!is_local(&headers(&[]), at("203.0.113.9:1")));
        assert!(!is_local(&headers(&[]), None));
    }
}
