//! Client for both servers: HTTP/2 over TLS 1.3, as Kubernetes clients use.
//!
//! No compression (no `Accept-Encoding` is sent), JSON only, and a single cipher suite, so that neither server can
//! choose cheaper work than the other.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Flow-control windows of Go's HTTP/2 client.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;

/// A client certificate and its key.
pub type ClientCertificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Address and credentials of a server.
#[derive(Clone)]
pub struct Endpoint {
    pub address: SocketAddr,
    tls: Arc<ClientConfig>,
    token: Option<HeaderValue>,
}

impl Endpoint {
    /// `roots` is the PEM text of the certificates to trust.
    pub fn new(address: SocketAddr, roots: &[u8], certificate: Option<ClientCertificate>) -> Result<Self> {
        let mut trusted = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(roots) {
            trusted.add(certificate?)?;
        }
        let mut provider = aws_lc_rs::default_provider();
        provider.cipher_suites = vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256];
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(trusted);
        let mut config = match certificate {
            Some((chain, key)) => config.with_client_auth_cert(chain, key)?,
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self { address, tls: Arc::new(config), token: None })
    }

    /// The same server with a bearer token.
    pub fn with_token(mut self, token: &str) -> Result<Self> {
        self.token = Some(HeaderValue::from_str(&format!("Bearer {token}"))?);
        Ok(self)
    }

    /// Opens a connection.
    pub async fn connect(&self) -> Result<KubeClient> {
        let socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        let name = ServerName::from(self.address.ip());
        let stream = TlsConnector::from(self.tls.clone()).connect(name, socket).await?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(stream))
            .await?;
        // The task ends with the client. Its errors also fail requests.
        tokio::spawn(connection);
        Ok(KubeClient { sender, target: self.clone() })
    }
}

/// A connection. Clones share it.
#[derive(Clone)]
pub struct KubeClient {
    sender: SendRequest<Full<Bytes>>,
    target: Endpoint,
}

impl KubeClient {
    /// Sends a request and returns when the response head arrived.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        media_type: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        let uri = format!("https://{}{path}", self.target.address);
        let mut request = Request::builder().method(method).uri(uri).header(ACCEPT, "application/json");
        if let Some(token) = &self.target.token {
            request = request.header(AUTHORIZATION, token);
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, media_type);
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::new(body))?).await?)
    }

    /// Sends a request that must return `code`, and returns the body.
    pub async fn exchange(
        &mut self,
        method: Method,
        path: &str,
        media_type: &str,
        body: Bytes,
        code: u16,
    ) -> Result<Bytes> {
        let asked = format!("{method} {path}");
        let response = self.send(method, path, media_type, body).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        if status.as_u16() != code {
            bail!("{asked}: {status}: {}", String::from_utf8_lossy(&body[..body.len().min(500)]));
        }
        Ok(body)
    }

    pub async fn get(&mut self, path: &str) -> Result<Bytes> {
        self.exchange(Method::GET, path, "", Bytes::new(), 200).await
    }

    pub async fn create(&mut self, path: &str, body: Bytes) -> Result<Bytes> {
        self.exchange(Method::POST, path, "application/json", body, 201).await
    }

    /// Server-side apply of an existing object.
    pub async fn apply(&mut self, path: &str, body: Bytes) -> Result<Bytes> {
        let path = format!("{path}?fieldManager=bench");
        self.exchange(Method::PATCH, &path, "application/apply-patch+yaml", body, 200).await
    }

    /// Merge patch.
    pub async fn merge(&mut self, path: &str, change: &Value) -> Result<Bytes> {
        let body = change.to_string().into();
        self.exchange(Method::PATCH, path, "application/merge-patch+json", body, 200).await
    }

    /// Starts a watch. The caller reads events from the body.
    pub async fn watch(&mut self, path: &str) -> Result<Incoming> {
        let response = self.send(Method::GET, path, "", Bytes::new()).await?;
        ensure!(response.status() == 200, "watch {path}: {}", response.status());
        Ok(response.into_body())
    }
}

/// Parses a client certificate from its PEM chain and key.
pub fn client_certificate(chain: &[u8], key: &[u8]) -> Result<ClientCertificate> {
    let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key).context("cannot read the client's key")?;
    Ok((chain, key))
}
