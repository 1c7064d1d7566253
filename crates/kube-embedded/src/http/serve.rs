//! The service behind TLS: HTTP/1.1 and HTTP/2 on one listener.

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::service::ApiService;
use crate::access::authn::PeerCertificate;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long open requests may take after the server was asked to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(8);

/// Serves until `stop` resolves, then lets open requests finish.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    service: ApiService,
    stop: impl Future<Output = ()>,
) {
    let acceptor = TlsAcceptor::from(tls);
    let graceful = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        match accepted {
            Ok((socket, _)) => {
                let (acceptor, service, watcher) = (acceptor.clone(), service.clone(), graceful.watcher());
                tokio::spawn(async move {
                    if let Err(error) = connection(socket, acceptor, service, watcher).await {
                        tracing::debug!(%error, "a Kubernetes connection ended");
                    }
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: wait for some to be closed.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("some Kubernetes requests did not end in time");
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

async fn connection(
    socket: TcpStream,
    acceptor: TlsAcceptor,
    service: ApiService,
    watcher: hyper_util::server::graceful::Watcher,
) -> Result<(), BoxError> {
    socket.set_nodelay(true)?;
    let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(socket)).await??;
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let service = match certificate.and_then(|certificate| PeerCertificate::read(certificate)) {
        Some(peer) => service.with_peer(peer),
        None => service,
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1000);
    let connection =
        builder.serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(service));
    watcher.watch(connection.into_owned()).await
}
