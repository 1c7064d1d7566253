//! HTTP client on hyper and rustls.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, ETAG, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    LAST_MODIFIED, LOCATION, USER_AGENT,
};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Http;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::time::timeout;

use crate::access::{Access, Trust};
use crate::address::Address;
use crate::body::{self, Budget, Limit};
use crate::dial::{DialError, Dialer};
use crate::failure::{Failure, REDIRECTS};
use crate::tls;

/// Maximum number of cached connection pools, one per [`Trust`]. The cache is cleared when full.
const KNOWN: usize = 64;
/// Maximum size of a response head. No chart server sends more.
const LARGEST_HEAD: usize = 64 << 10;

/// Timeouts of a fetch.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Until the response head arrives: DNS, connect, TLS and the first response line.
    pub first_word: Duration,
    /// For the next bytes of the body.
    pub pause: Duration,
    /// For the whole fetch, including redirects.
    pub whole: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { first_word: seconds(30), pause: seconds(30), whole: seconds(300) }
    }
}

type Lines = Http<HttpsConnector<Dialer>, Empty<Bytes>>;

/// Fetches addresses. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    dialer: Dialer,
    patience: Patience,
    /// Connection pools. Requests with the same CA certificates and the same client certificate share one.
    lines: Arc<Mutex<HashMap<(Trust, bool), Lines>>>,
}

/// One fetch: address, credentials, limits.
#[derive(Clone)]
pub struct Ask<'a> {
    pub address: &'a Address,
    pub access: &'a Access,
    pub accept: &'static str,
    /// Validators of a cached copy. The server answers 304 if the copy is current.
    pub had: Option<&'a Validators>,
    /// Accepts gzip; the body is decompressed.
    pub packed: bool,
    /// Maximum number of bytes, both as transferred and after decompression.
    pub at_most: usize,
    /// The memory budget that the body is charged to.
    pub budget: Option<&'a dyn Budget>,
}

impl<'a> Ask<'a> {
    pub fn new(address: &'a Address, access: &'a Access, at_most: usize) -> Self {
        Self { address, access, accept: "*/*", had: None, packed: false, at_most, budget: None }
    }
}

/// `ETag` and `Last-Modified` of an earlier response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    pub etag: Option<String>,
    pub last_modified: Option<String>,
}

/// Response to a fetch.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Empty unless the status is 200.
    pub body: Bytes,
    /// Final address after redirects.
    pub address: Address,
}

impl Answer {
    /// Returns the response if its status is 200, otherwise [`Failure::Status`].
    pub fn ok(self) -> Result<Self, Failure> {
        if self.status == StatusCode::OK {
            return Ok(self);
        }
        Err(Failure::Status { at: self.address, status: self.status.as_u16() })
    }

    pub fn is_unchanged(&self) -> bool {
        self.status == StatusCode::NOT_MODIFIED
    }

    pub fn validators(&self) -> Validators {
        Validators { etag: self.header(&ETAG), last_modified: self.header(&LAST_MODIFIED) }
    }

    pub fn header(&self, name: &HeaderName) -> Option<String> {
        Some(self.headers.get(name)?.to_str().ok()?.to_owned())
    }
}

impl Client {
    pub fn new(dialer: Dialer) -> Self {
        Self::with_patience(dialer, Patience::default())
    }

    pub fn with_patience(dialer: Dialer, patience: Patience) -> Self {
        Self { dialer, patience, lines: Arc::default() }
    }

    /// Fetches an address and follows redirects.
    pub async fn get(&self, ask: &Ask<'_>) -> Result<Answer, Failure> {
        let within = self.patience.whole;
        match timeout(within, self.follow(ask)).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure::TooLong { at: ask.address.clone(), within }),
        }
    }

    async fn follow(&self, ask: &Ask<'_>) -> Result<Answer, Failure> {
        let (mut at, mut access) = (ask.address.clone(), ask.access.clone());
        for _ in 0..=REDIRECTS {
            let response = self.send(ask, &at, &access).await?;
            let Some(reference) = leads_on(&response) else {
                return self.read(ask, at, response).await;
            };
            let reference = String::from_utf8_lossy(reference.as_bytes());
            let next = at.join(&reference).map_err(|why| Failure::Astray { at: at.clone(), why })?;
            if at.is_secure() && !next.is_secure() {
                return Err(Failure::Downgrade { at, to: next.origin() });
            }
            // Credentials dropped at a change of origin are not restored by a redirect back: another server chose that
            // target.
            if next.origin() != at.origin() {
                access = access.elsewhere();
            }
            at = next;
        }
        Err(Failure::Redirects { at: ask.address.clone() })
    }

    async fn send(
        &self,
        ask: &Ask<'_>,
        at: &Address,
        access: &Access,
    ) -> Result<Response<Incoming>, Failure> {
        let request = request(ask, at, access)?;
        let lines = self.lines(at, &access.trust)?;
        let within = self.patience.first_word;
        match timeout(within, lines.request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(failure(&error, at)),
            Err(_) => Err(Failure::Silent { at: at.origin(), within }),
        }
    }

    async fn read(
        &self,
        ask: &Ask<'_>,
        at: Address,
        response: Response<Incoming>,
    ) -> Result<Answer, Failure> {
        let (head, body) = response.into_parts();
        let limit = Limit { sent: ask.at_most, unpacked: ask.at_most };
        let body = if head.status == StatusCode::OK {
            let charged = (ask.packed, ask.budget);
            body::read(body, &head.headers, &at, limit, charged, self.patience.pause).await?
        } else {
            Bytes::new()
        };
        Ok(Answer { status: head.status, headers: head.headers, body, address: at })
    }

    /// Returns the connection pool for this trust configuration. Plain HTTP needs no certificates and always uses the
    /// default.
    fn lines(&self, at: &Address, trust: &Trust) -> Result<Lines, Failure> {
        let key = (if at.is_secure() { trust.clone() } else { Trust::default() }, at.is_secure());
        let mut known = self.lines.lock();
        if let Some(lines) = known.get(&key) {
            return Ok(lines.clone());
        }
        let config = if at.is_secure() {
            tls::config(trust).map_err(|why| Failure::Certificates { at: at.origin(), why })?
        } else {
            tls::config(&Trust { blindly: true, ..Trust::default() })
                .expect("without certificates there is nothing wrong with them")
        };
        let lines = self.build(config);
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(key, lines.clone());
        Ok(lines)
    }

    fn build(&self, config: ClientConfig) -> Lines {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(self.dialer.clone());
        Http::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(4)
            .http1_max_buf_size(LARGEST_HEAD)
            .build(connector)
    }
}

fn request(ask: &Ask<'_>, at: &Address, access: &Access) -> Result<Request<Empty<Bytes>>, Failure> {
    let mut request = Request::builder()
        .uri(at.whole())
        .header(ACCEPT, ask.accept)
        .header(USER_AGENT, concat!("longshore/", env!("CARGO_PKG_VERSION")))
        .header(ACCEPT_ENCODING, if ask.packed { "gzip" } else { "identity" });
    if let Some(login) = &access.login {
        let value = login.header().ok_or_else(|| Failure::Unsendable { at: at.origin() })?;
        request = request.header(AUTHORIZATION, value);
    }
    let had = ask.had.map(|had| [(IF_NONE_MATCH, &had.etag), (IF_MODIFIED_SINCE, &had.last_modified)]);
    for (name, value) in had.into_iter().flatten() {
        if let Some(value) = value.as_deref().and_then(|value| HeaderValue::from_str(value).ok()) {
            request = request.header(name, value);
        }
    }
    request.body(Empty::new()).map_err(|error| Failure::Broken { at: at.clone(), why: error.to_string() })
}

fn leads_on<T>(response: &Response<T>) -> Option<&HeaderValue> {
    match response.status().as_u16() {
        301 | 302 | 303 | 307 | 308 => response.headers().get(LOCATION),
        _ => None,
    }
}

/// Converts hyper's error: finds a dial or TLS error in its source chain.
fn failure(error: &hyper_util::client::legacy::Error, at: &Address) -> Failure {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(link) = next {
        if let Some(dial) = link.downcast_ref::<DialError>() {
            return dial.clone().into();
        }
        if let Some(tls) = tls_error(link) {
            return Failure::Tls { at: at.origin(), why: tls.to_string() };
        }
        next = link.source();
    }
    Failure::Broken { at: at.clone(), why: cause(error) }
}

/// Returns rustls' error, which is nested in one or two `io::Error`s.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    match error.downcast_ref::<std::io::Error>() {
        Some(outer) => tls_error(outer.get_ref()?),
        None => error.downcast_ref(),
    }
}

/// Message of the last source in the chain. The outer ones say only that an error occurred.
pub(crate) fn cause(error: &dyn Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
