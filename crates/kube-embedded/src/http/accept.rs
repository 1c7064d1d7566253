//! Connections: HTTP/1.1 and HTTP/2 on one listener, with or without TLS, drained at the end.
//!
//! Invariants:
//!
//! - A peer that completes no TLS handshake, sends nothing, or sends no complete request head is disconnected after the timeout of that
//!   step. A connection without open requests is closed after `IDLE_TIMEOUT`.
//! - A peer that does not read its responses is disconnected: when the connection accepts no byte or a response makes no progress for
//!   [`STALL_TIMEOUT`], or when a response is read more slowly than [`super::outgoing::MIN_RATE`].
//! - The number of connections is bounded in total and per address; a connection over the limit is closed immediately.
//! - A failing connection does not affect any other.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tower::{Service, ServiceExt};

use super::coalescing_writer::{CoalescingWriter, FlushingConnection};
use super::outgoing::{Outbox, STALL_TIMEOUT};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of the first bytes, which distinguish HTTP/1 from HTTP/2.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of the first complete request head; on HTTP/1 of every request head.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of a connection without open requests, as in kube-apiserver.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// HTTP/2 pings detect vanished peers even while watches are open. Same values as kube-apiserver.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval of the checks whether the peer reads.
const STALL_INTERVAL: Duration = Duration::from_secs(10);
/// Time limit of open requests after shutdown begins.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(8);
/// Refused connections are logged at most once per interval.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A service that handles the requests of a connection.
pub trait RequestService<B>:
    Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<B, S> RequestService<B> for S where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static
{
}

/// Connection limits of one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub total: usize,
    /// Per client address; for IPv6 per /64.
    pub per_address: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { total: 10_000, per_address: 1_000 }
    }
}

/// Serves until `stop` resolves, then drains open requests. `service` creates the service of one connection from the peer's address and
/// client certificate.
pub async fn accept<S, B>(
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    limits: ConnectionLimits,
    service: impl Fn(SocketAddr, Option<&CertificateDer<'_>>) -> S + Clone + Send + Sync + 'static,
    stop: impl Future<Output = ()>,
) where
    S: RequestService<B>,
    B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let tls = tls.map(TlsAcceptor::from);
    let connections = Arc::new(Connections::new(limits));
    // Each connection has a receiver: when all are dropped, draining is complete.
    let draining = watch::Sender::new(false);
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (socket, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Usually out of file descriptors: wait until some are closed.
                tracing::warn!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(counted) = connections.open(address.ip()) else { continue };
        let (tls, service, draining) = (tls.clone(), service.clone(), draining.subscribe());
        tokio::spawn(async move {
            let _counted = counted;
            let ended = async {
                socket.set_nodelay(true)?;
                let Some(tls) = tls else {
                    return serve_connection(socket, service(address, None), draining).await;
                };
                let stream = timeout(HANDSHAKE_TIMEOUT, tls.accept(socket)).await??;
                let peer = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                let service = service(address, peer);
                serve_connection(stream, service, draining).await
            };
            if let Err(error) = ended.await {
                tracing::debug!(error = error.as_ref() as &dyn std::error::Error, "a connection ended");
            }
        });
    }
    drop(listener);
    draining.send_replace(true);
    if timeout(DRAIN_TIMEOUT, draining.closed()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
}

async fn serve_connection<T, S, B>(
    stream: T,
    service: S,
    mut draining: watch::Receiver<bool>,
) -> Result<(), BoxError>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: RequestService<B>,
    B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(1000)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    let stream = CoalescingWriter::new(stream);
    let requests = Arc::new(OpenRequests::new());
    let outbox = Arc::new(Outbox::default());
    let (counting, sending) = (requests.clone(), outbox.clone());
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(sending.clone());
        let (open, answer) = (counting.begin(), service.clone().oneshot(request));
        // The request counts as open until the last byte of its response has been taken.
        async move {
            let response: Response<B> = answer.await?;
            Ok::<_, Infallible>(response.map(|body| {
                body.map_err(move |error| {
                    let _ = &open;
                    error
                })
            }))
        }
    });
    let io = TokioIo::new(stream.clone());
    let heard = stream.clone();
    let serving = async move {
        let mut connection = std::pin::pin!(builder.serve_connection(io, service));
        let idle = async {
            sleep(SILENCE_TIMEOUT).await;
            if heard.has_read() {
                requests.wait_until_idle().await;
            }
        };
        let stalled = async {
            while heard.stalled_for() < STALL_TIMEOUT && !outbox.is_overdue() {
                sleep(STALL_INTERVAL).await;
            }
        };
        let drained = async {
            let _ = draining.wait_for(|draining| *draining).await; // an error means that the listener is gone
        };
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = stalled => {
                tracing::debug!("closing a connection whose peer does not read");
                return Ok(());
            }
            () = drained => connection.as_mut().graceful_shutdown(),
            () = idle => {
                connection.as_mut().graceful_shutdown();
                // A request already in flight may still be answered.
                let closed = async {
                    sleep(DRAIN_TIMEOUT).await;
                    while requests.count() > 0 {
                        sleep(DRAIN_TIMEOUT).await;
                    }
                };
                return tokio::select! {
                    ended = connection => ended,
                    () = closed => Ok(()),
                };
            }
        }
        connection.await
    };
    FlushingConnection::new(serving, stream).await
}

/// Open requests of one connection, and the time since the last one ended.
struct OpenRequests {
    started: Instant,
    open: AtomicUsize,
    /// Milliseconds from `started` to the end of the last request; 0 before the first one ended.
    last_ended: AtomicU64,
}

struct OpenRequest(Arc<OpenRequests>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let since = u64::try_from(self.0.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.last_ended.store(since.max(1), Ordering::Relaxed);
        self.0.open.fetch_sub(1, Ordering::Release);
    }
}

impl OpenRequests {
    fn new() -> Self {
        Self { started: Instant::now(), open: AtomicUsize::new(0), last_ended: AtomicU64::new(0) }
    }

    fn begin(self: &Arc<Self>) -> OpenRequest {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenRequest(self.clone())
    }

    fn count(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Resolves when no request arrived in time, or none has been open for [`IDLE_TIMEOUT`]. Polls instead of being notified, so that
    /// requests do not pay for it.
    async fn wait_until_idle(&self) {
        let mut at = self.started + HEADER_TIMEOUT;
        loop {
            sleep_until(at).await;
            let last = self.last_ended.load(Ordering::Relaxed);
            at = match (self.count(), last) {
                (0, 0) => return,
                (0, last) => self.started + Duration::from_millis(last) + IDLE_TIMEOUT,
                _ => Instant::now() + IDLE_TIMEOUT,
            };
            if at <= Instant::now() {
                return;
            }
        }
    }
}

/// Open connections of one listener.
struct Connections {
    limits: ConnectionLimits,
    open: Mutex<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
    refused: u64,
    logged: Option<Instant>,
}

/// Guard of one open connection: dropping it decrements the counts.
struct OpenConnection {
    connections: Arc<Connections>,
    address: IpAddr,
}

impl Connections {
    fn new(limits: ConnectionLimits) -> Self {
        Self { limits, open: Mutex::default() }
    }

    /// Counts a new connection; `None` if the listener or the address is at its limit.
    fn open(self: &Arc<Self>, address: IpAddr) -> Option<OpenConnection> {
        let address = client_network(address);
        let mut open = self.open.lock();
        let of_address = open.by_address.get(&address).copied().unwrap_or(0);
        if open.total >= self.limits.total || of_address >= self.limits.per_address {
            open.refused += 1;
            if open.logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
                open.logged = Some(Instant::now());
                let (total, refused) = (open.total, open.refused);
                drop(open);
                tracing::warn!(%address, of_address, total, refused, "too many connections, closing new ones");
            }
            return None;
        }
        open.total += 1;
        open.by_address.insert(address, of_address + 1);
        Some(OpenConnection { connections: self.clone(), address })
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.total -= 1;
        let left = open.by_address.get_mut(&self.address).map(|count| {
            *count -= 1;
            *count
        });
        if left == Some(0) {
            open.by_address.remove(&self.address);
        }
    }
}

/// Maps an address to the unit of the limit: for IPv6 the /64, the usual allocation of one host.
fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod floods;
#[cfg(test)]
mod tests;
