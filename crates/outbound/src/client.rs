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

use crate::access::{Access, TlsTrust};
use crate::address::Address;
use crate::body::{self, BodyLimit, MemoryBudget};
use crate::dial::{DialError, Dialer};
use crate::error::{FetchError, REDIRECTS};
use crate::tls;

/// Maximum number of cached connection pools, one per [`TlsTrust`]. The cache is cleared when full.
const MAX_CACHED_CLIENTS: usize = 64;
/// Maximum size of a response head. No chart server sends more.
const MAX_HEAD_LEN: usize = 64 << 10;

/// Timeouts of a fetch.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Until the response head arrives: DNS, connect, TLS and the first response line.
    pub response: Duration,
    /// For the next bytes of the body.
    pub idle: Duration,
    /// For the whole fetch, including redirects.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { response: seconds(30), idle: seconds(30), total: seconds(300) }
    }
}

type HyperClient = Http<HttpsConnector<Dialer>, Empty<Bytes>>;

/// Fetches addresses. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct FetchClient {
    dialer: Dialer,
    timeouts: Timeouts,
    /// Connection pools. Requests with the same CA certificates and the same client certificate share one.
    hyper_clients: Arc<Mutex<HashMap<(TlsTrust, bool), HyperClient>>>,
}

/// One fetch: address, credentials, limits.
#[derive(Clone)]
pub struct FetchRequest<'a> {
    pub address: &'a Address,
    pub access: &'a Access,
    pub accept: &'static str,
    /// Validators of a cached copy. The server answers 304 if the copy is current.
    pub validators: Option<&'a Validators>,
    /// Accepts gzip; the body is decompressed.
    pub accept_gzip: bool,
    /// Maximum number of bytes, both as transferred and after decompression.
    pub max_len: usize,
    /// The memory budget that the body is charged to.
    pub budget: Option<&'a dyn MemoryBudget>,
}

impl<'a> FetchRequest<'a> {
    pub fn new(address: &'a Address, access: &'a Access, at_most: usize) -> Self {
        Self {
            address,
            access,
            accept: "*/*",
            validators: None,
            accept_gzip: false,
            max_len: at_most,
            budget: None,
        }
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
pub struct FetchResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Empty unless the status is 200.
    pub body: Bytes,
    /// Final address after redirects.
    pub address: Address,
}

impl FetchResponse {
    /// Returns the response if its status is 200, otherwise [`FetchError::Status`].
    pub fn ok(self) -> Result<Self, FetchError> {
        if self.status == StatusCode::OK {
            return Ok(self);
        }
        Err(FetchError::Status { at: self.address, status: self.status.as_u16() })
    }

    pub fn is_not_modified(&self) -> bool {
        self.status == StatusCode::NOT_MODIFIED
    }

    pub fn validators(&self) -> Validators {
        Validators { etag: self.header(&ETAG), last_modified: self.header(&LAST_MODIFIED) }
    }

    pub fn header(&self, name: &HeaderName) -> Option<String> {
        Some(self.headers.get(name)?.to_str().ok()?.to_owned())
    }
}

impl FetchClient {
    pub fn new(dialer: Dialer) -> Self {
        Self::with_timeouts(dialer, Timeouts::default())
    }

    pub fn with_timeouts(dialer: Dialer, patience: Timeouts) -> Self {
        Self { dialer, timeouts: patience, hyper_clients: Arc::default() }
    }

    /// Fetches an address and follows redirects.
    pub async fn get(&self, ask: &FetchRequest<'_>) -> Result<FetchResponse, FetchError> {
        let within = self.timeouts.total;
        match timeout(within, self.follow_redirects(ask)).await {
            Ok(answer) => answer,
            Err(_) => Err(FetchError::TotalTimeout { at: ask.address.clone(), within }),
        }
    }

    async fn follow_redirects(&self, ask: &FetchRequest<'_>) -> Result<FetchResponse, FetchError> {
        let (mut at, mut access) = (ask.address.clone(), ask.access.clone());
        for _ in 0..=REDIRECTS {
            let response = self.send(ask, &at, &access).await?;
            let Some(reference) = redirect_location(&response) else {
                return self.read(ask, at, response).await;
            };
            let reference = String::from_utf8_lossy(reference.as_bytes());
            let next =
                at.join(&reference).map_err(|why| FetchError::InvalidRedirect { at: at.clone(), why })?;
            if at.is_secure() && !next.is_secure() {
                return Err(FetchError::InsecureRedirect { at, to: next.origin() });
            }
            // Credentials dropped at a change of origin are not restored by a redirect back: another server chose that
            // target.
            if next.origin() != at.origin() {
                access = access.for_other_origin();
            }
            at = next;
        }
        Err(FetchError::TooManyRedirects { at: ask.address.clone() })
    }

    async fn send(
        &self,
        ask: &FetchRequest<'_>,
        at: &Address,
        access: &Access,
    ) -> Result<Response<Incoming>, FetchError> {
        let request = build_request(ask, at, access)?;
        let lines = self.hyper_client(at, &access.trust)?;
        let within = self.timeouts.response;
        match timeout(within, lines.request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(from_hyper_error(&error, at)),
            Err(_) => Err(FetchError::ResponseTimeout { at: at.origin(), within }),
        }
    }

    async fn read(
        &self,
        ask: &FetchRequest<'_>,
        at: Address,
        response: Response<Incoming>,
    ) -> Result<FetchResponse, FetchError> {
        let (head, body) = response.into_parts();
        let limit = BodyLimit { transferred: ask.max_len, decompressed: ask.max_len };
        let body = if head.status == StatusCode::OK {
            let charged = (ask.accept_gzip, ask.budget);
            body::read_body(body, &head.headers, &at, limit, charged, self.timeouts.idle).await?
        } else {
            Bytes::new()
        };
        Ok(FetchResponse { status: head.status, headers: head.headers, body, address: at })
    }

    /// Returns the connection pool for this trust configuration. Plain HTTP needs no certificates and always uses the
    /// default.
    fn hyper_client(&self, at: &Address, trust: &TlsTrust) -> Result<HyperClient, FetchError> {
        let key = (if at.is_secure() { trust.clone() } else { TlsTrust::default() }, at.is_secure());
        let mut known = self.hyper_clients.lock();
        if let Some(lines) = known.get(&key) {
            return Ok(lines.clone());
        }
        let config = if at.is_secure() {
            tls::client_config(trust).map_err(|why| FetchError::Certificates { at: at.origin(), why })?
        } else {
            tls::client_config(&TlsTrust { insecure_skip_verify: true, ..TlsTrust::default() })
                .expect("without certificates there is nothing wrong with them")
        };
        let lines = self.build_hyper_client(config);
        if known.len() >= MAX_CACHED_CLIENTS {
            known.clear();
        }
        known.insert(key, lines.clone());
        Ok(lines)
    }

    fn build_hyper_client(&self, config: ClientConfig) -> HyperClient {
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
            .http1_max_buf_size(MAX_HEAD_LEN)
            .build(connector)
    }
}

fn build_request(
    ask: &FetchRequest<'_>,
    at: &Address,
    access: &Access,
) -> Result<Request<Empty<Bytes>>, FetchError> {
    let mut request = Request::builder()
        .uri(at.as_str())
        .header(ACCEPT, ask.accept)
        .header(USER_AGENT, concat!("longshore/", env!("CARGO_PKG_VERSION")))
        .header(ACCEPT_ENCODING, if ask.accept_gzip { "gzip" } else { "identity" });
    if let Some(login) = &access.auth {
        let value =
            login.to_header_value().ok_or_else(|| FetchError::InvalidCredentials { at: at.origin() })?;
        request = request.header(AUTHORIZATION, value);
    }
    let had = ask.validators.map(|had| [(IF_NONE_MATCH, &had.etag), (IF_MODIFIED_SINCE, &had.last_modified)]);
    for (name, value) in had.into_iter().flatten() {
        if let Some(value) = value.as_deref().and_then(|value| HeaderValue::from_str(value).ok()) {
            request = request.header(name, value);
        }
    }
    request
        .body(Empty::new())
        .map_err(|error| FetchError::Interrupted { at: at.clone(), why: error.to_string() })
}

fn redirect_location<T>(response: &Response<T>) -> Option<&HeaderValue> {
    match response.status().as_u16() {
        301 | 302 | 303 | 307 | 308 => response.headers().get(LOCATION),
        _ => None,
    }
}

/// Converts hyper's error: finds a dial or TLS error in its source chain.
fn from_hyper_error(error: &hyper_util::client::legacy::Error, at: &Address) -> FetchError {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(link) = next {
        if let Some(dial) = link.downcast_ref::<DialError>() {
            return dial.clone().into();
        }
        if let Some(tls) = tls_error(link) {
            return FetchError::Tls { at: at.origin(), why: tls.to_string() };
        }
        next = link.source();
    }
    FetchError::Interrupted { at: at.clone(), why: root_cause(error) }
}

/// Returns rustls' error, which is nested in one or two `io::Error`s.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    match error.downcast_ref::<std::io::Error>() {
        Some(outer) => tls_error(outer.get_ref()?),
        None => error.downcast_ref(),
    }
}

/// Message of the last source in the chain. The outer ones say only that an error occurred.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
