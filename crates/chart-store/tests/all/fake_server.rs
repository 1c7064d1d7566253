//! A test server on loopback with configurable answers, which records its requests.

use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use chart_store::Fetcher;
use helm_template::profile::Profile;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use outbound::{Access, Dialer, EgressPolicy, FetchClient, HttpAuth, SecretString};
use tokio::net::TcpListener;

pub type HttpResponse = Response<Bytes>;

pub struct FakeServer {
    pub address: String,
    pub host: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl FakeServer {
    pub async fn new(answer: impl Fn(Request<Bytes>) -> HttpResponse + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, record) = (Arc::new(answer), asked.clone());
        tokio::spawn(async move {
            while let Ok((line, _)) = listener.accept().await {
                let (answer, record) = (answer.clone(), record.clone());
                let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                    let (answer, record) = (answer.clone(), record.clone());
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
                        let login = head.headers.get("authorization").map(|login| login.to_str().unwrap());
                        let line = format!("{} {} {}", head.method, head.uri, login.unwrap_or("-"));
                        record.lock().unwrap().push(line);
                        Ok::<_, io::Error>(answer(Request::from_parts(head, body)).map(Full::new))
                    }
                });
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(line), service));
            }
        });
        Self { address: format!("http://{host}"), host, asked }
    }

    /// Requests since the last call: method, path, login.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

pub fn response(status: u16, body: impl Into<Bytes>) -> HttpResponse {
    Response::builder().status(status).body(body.into()).unwrap()
}

/// A client that may reach loopback, but no other private address.
pub fn client() -> FetchClient {
    FetchClient::new(Dialer::new(EgressPolicy::with_allowed(["127.0.0.0/8".parse().unwrap()])))
}

pub fn fetcher() -> Fetcher {
    Fetcher::new(client(), Profile::Helm4, 10 << 20)
}

pub const LOGIN: &str = "Basic bWU6Y2FuYXJ5";

pub fn login_access() -> Access {
    let login = HttpAuth::Basic { username: "me".to_owned(), password: SecretString::new("canary") };
    Access { auth: Some(login), ..Access::default() }
}
