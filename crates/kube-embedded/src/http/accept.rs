//! Connections: HTTP/1.1 and HTTP/2 on one listener, with or without TLS, drained at the end.
//!
//! Always true: no peer can hold a connection open without saying anything, and one connection that fails
//! concerns no other.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls_pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tower::Service;

use super::gather::{Gather, Turn};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long open requests may take after the server was asked to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(8);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A service that can answer on a connection.
pub trait Answers<B>:
    Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<B, S> Answers<B> for S where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static
{
}

/// Serves until `stop` resolves, then lets open requests finish. `service` makes the service of one connection,
/// given the peer's address and the certificate that it showed.
pub async fn accept<S, B>(
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    service: impl Fn(SocketAddr, Option<&CertificateDer<'_>>) -> S + Clone + Send + Sync + 'static,
    stop: impl Future<Output = ()>,
) where
    S: Answers<B>,
    B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let tls = tls.map(TlsAcceptor::from);
    let graceful = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (socket, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: wait for some to be closed.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (tls, service, watcher) = (tls.clone(), service.clone(), graceful.watcher());
        tokio::spawn(async move {
            let ended = async {
                socket.set_nodelay(true)?;
                let Some(tls) = tls else { return connection(socket, service(address, None), watcher).await };
                let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(socket)).await??;
                let peer = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                let service = service(address, peer);
                connection(stream, service, watcher).await
            };
            if let Err(error) = ended.await {
                tracing::debug!(error = error.as_ref() as &dyn std::error::Error, "a connection ended");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
}

async fn connection<T, S, B>(stream: T, service: S, watcher: Watcher) -> Result<(), BoxError>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Answers<B>,
    B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1000);
    let stream = Gather::new(stream);
    let io = TokioIo::new(stream.clone());
    let connection = builder.serve_connection(io, TowerToHyperService::new(service)).into_owned();
    Turn::new(watcher.watch(connection), stream).await
}
