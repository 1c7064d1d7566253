//! The platform's port: HTTP/1.1 and HTTP/2, plain or with TLS, drained when the server stops.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::Api;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::config::Tls;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(8);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Reads the certificate and the key; an error names the file.
pub fn acceptor(tls: &Tls) -> Result<TlsAcceptor, BoxError> {
    let wrong = |file: &Path, why: String| BoxError::from(format!("`{}`: {why}", file.display()));
    let chain: Vec<_> = CertificateDer::pem_file_iter(&tls.cert)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(&tls.cert, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| wrong(&tls.key, error.to_string()))?;
    let mut config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&tls.cert, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves until `stop` resolves, then lets open requests finish.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    api: &Api,
    stop: impl Future<Output = ()>,
) {
    let routes = api::router(api);
    let graceful = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let socket = match accepted {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (routes, tls, watcher) = (routes.clone(), tls.clone(), graceful.watcher());
        tokio::spawn(async move {
            let ended = match tls {
                None => connection(socket, routes, watcher).await,
                Some(tls) => match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(socket)).await {
                    Ok(Ok(stream)) => connection(stream, routes, watcher).await,
                    Ok(Err(error)) => Err(error.into()),
                    Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
                },
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
}

async fn connection<S>(stream: S, routes: axum::Router, watcher: Watcher) -> Result<(), BoxError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder.http2().timer(TokioTimer::new());
    let connection =
        builder.serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(routes));
    watcher.watch(connection.into_owned()).await
}
