//! In-memory network: resolver, connector and HTTP server.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use outbound::{
    Access, Address, ByteStream, Connector, Dialer, EgressPolicy, FetchClient, FetchError, FetchRequest,
    FetchResponse, Resolver, Timeouts,
};
use tokio::io::DuplexStream;

/// A public address, which the default policy allows.
pub const PUBLIC: &str = "203.0.113.7";

type ConnectionHandler = dyn Fn(SocketAddr, DuplexStream) + Send + Sync;

/// Addresses of names, the handler of connections, and a record of resolved names and dialled addresses.
#[derive(Clone)]
pub struct FakeNetwork {
    hosts: Arc<Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>>,
    handler: Arc<ConnectionHandler>,
    dialled: Arc<Mutex<Vec<SocketAddr>>>,
    resolved: Arc<Mutex<Vec<String>>>,
}

impl FakeNetwork {
    /// Network whose connections are all handled by `serve`.
    pub fn with_connections(serve: impl Fn(SocketAddr, DuplexStream) + Send + Sync + 'static) -> Self {
        Self {
            hosts: Arc::default(),
            handler: Arc::new(serve),
            dialled: Arc::default(),
            resolved: Arc::default(),
        }
    }

    /// Network whose servers answer HTTP requests with `answer`.
    pub fn new(
        answer: impl Fn(&Request<Incoming>) -> Response<Full<Bytes>> + Send + Sync + Clone + 'static,
    ) -> Self {
        Self::with_connections(move |_, line| serve(line, answer.clone()))
    }

    /// Sets the addresses of a name, one list per lookup; the last list repeats.
    pub fn with_host(self, name: &str, answers: &[&[&str]]) -> Self {
        let parse = |answer: &&[&str]| answer.iter().map(|ip| ip.parse().unwrap()).collect();
        self.hosts.lock().unwrap().insert(name.to_owned(), answers.iter().map(parse).collect());
        self
    }

    pub fn dialled(&self) -> Vec<SocketAddr> {
        self.dialled.lock().unwrap().clone()
    }

    pub fn resolved(&self) -> usize {
        self.resolved.lock().unwrap().len()
    }

    pub fn client(&self, policy: EgressPolicy) -> FetchClient {
        FetchClient::with_timeouts(
            Dialer::with_connector(policy, self.clone(), self.clone()),
            Timeouts::default(),
        )
    }

    pub async fn get(&self, address: &str) -> Result<FetchResponse, FetchError> {
        self.get_with(address, &Access::anonymous()).await
    }

    pub async fn get_with(&self, address: &str, access: &Access) -> Result<FetchResponse, FetchError> {
        let address: Address = address.parse()?;
        let ask = FetchRequest { accept_gzip: true, ..FetchRequest::new(&address, access, 1 << 20) };
        self.client(EgressPolicy::default()).get(&ask).await
    }
}

/// Serves HTTP/1 on a connection.
pub fn serve<L>(
    line: L,
    answer: impl Fn(&Request<Incoming>) -> Response<Full<Bytes>> + Send + Sync + Clone + 'static,
) where
    L: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let answered = answer(&request);
        async move { Ok::<_, io::Error>(answered) }
    });
    tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(line), service));
}

impl Resolver for FakeNetwork {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.resolved.lock().unwrap().push(host.to_owned());
        let mut names = self.hosts.lock().unwrap();
        let answers = names.get_mut(host);
        let answer = answers
            .map(|answers| if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() });
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such name")) })
    }
}

impl Connector for FakeNetwork {
    fn connect(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn ByteStream>>> {
        self.dialled.lock().unwrap().push(to);
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        (self.handler)(to, theirs);
        Box::pin(async move { Ok(Box::new(ours) as Box<dyn ByteStream>) })
    }
}

pub fn ok(body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    Response::new(Full::new(body.into()))
}

pub fn redirect(to: &str) -> Response<Full<Bytes>> {
    Response::builder().status(302).header("location", to).body(Full::default()).unwrap()
}
