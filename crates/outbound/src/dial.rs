//! Name resolution and connecting.
//!
//! A name is resolved once. All its addresses are checked, and if one is refused none is dialled: a name that points to
//! both a public and a private address is suspicious. The checked address is dialled, not the name, so that a second
//! answer of the resolver changes nothing (DNS rebinding).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::Service;

use crate::policy::EgressPolicy;

/// Connect timeout per address when a name has several.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Resolves a name to its addresses.
pub trait Resolver: Send + Sync + 'static {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Opens a connection to an address.
pub trait Connector: Send + Sync + 'static {
    fn connect(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn ByteStream>>>;
}

/// A byte stream to a server.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> ByteStream for T {}

/// The system's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
        })
    }
}

/// Connects over TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemConnector;

impl Connector for SystemConnector {
    fn connect(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move {
            let line = TcpStream::connect(to).await?;
            line.set_nodelay(true)?;
            Ok(Box::new(line) as Box<dyn ByteStream>)
        })
    }
}

/// Error of resolving or connecting. It distinguishes a refused address from an unreachable one, which reveals nothing
/// about the network: a refused address was never dialled.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DialError {
    #[error("cannot resolve `{host}`: {why}")]
    Unresolved { host: String, why: String },
    /// The message contains neither the resolved address nor its range: a tenant would learn how internal names
    /// resolve. The log has both.
    #[error(
        "`{host}` resolves to an address that the egress policy denies; an administrator can allow it ([outbound] allow)"
    )]
    Refused { host: String },
    #[error("`{host}` does not answer: {why}")]
    Unreachable { host: String, why: String },
}

/// Resolves, checks and connects. The only code that opens outgoing connections.
#[derive(Clone)]
pub struct Dialer {
    policy: Arc<EgressPolicy>,
    resolver: Arc<dyn Resolver>,
    connector: Arc<dyn Connector>,
}

impl Dialer {
    /// Uses the system's resolver and TCP.
    pub fn new(policy: EgressPolicy) -> Self {
        Self::with_connector(policy, SystemResolver, SystemConnector)
    }

    pub fn with_connector(policy: EgressPolicy, resolver: impl Resolver, connector: impl Connector) -> Self {
        Self { policy: Arc::new(policy), resolver: Arc::new(resolver), connector: Arc::new(connector) }
    }

    pub async fn dial(&self, host: &str, port: u16) -> Result<Box<dyn ByteStream>, DialError> {
        let mut last = String::from("no address to try");
        for address in self.resolve_allowed(host).await? {
            match timeout(CONNECT_TIMEOUT, self.connector.connect(SocketAddr::new(address, port))).await {
                Ok(Ok(line)) => return Ok(line),
                Ok(Err(error)) => last = error.to_string(),
                Err(_) => last = format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
            }
        }
        Err(DialError::Unreachable { host: host.to_owned(), why: last })
    }

    /// Resolves a host. Fails if any of its addresses may not be reached.
    async fn resolve_allowed(&self, host: &str) -> Result<Vec<IpAddr>, DialError> {
        let unknown = |why: String| DialError::Unresolved { host: host.to_owned(), why };
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse();
        let addresses = match literal {
            Ok(address) => vec![address],
            Err(_) => self.resolver.resolve(host).await.map_err(|error| unknown(error.to_string()))?,
        };
        if addresses.is_empty() {
            return Err(unknown("no address found".to_owned()));
        }
        for address in &addresses {
            self.policy.check(*address).map_err(|what| {
                tracing::warn!(host, %address, what, "egress policy denied an address");
                DialError::Refused { host: host.to_owned() }
            })?;
        }
        Ok(addresses)
    }
}

impl Connection for Box<dyn ByteStream> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// hyper's connector interface.
impl Service<Uri> for Dialer {
    type Response = TokioIo<Box<dyn ByteStream>>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let dialer = self.clone();
        Box::pin(async move {
            let host = to.host().unwrap_or_default();
            let port = to.port_u16().unwrap_or(if to.scheme_str() == Some("https") { 443 } else { 80 });
            Ok(TokioIo::new(dialer.dial(host, port).await?))
        })
    }
}
