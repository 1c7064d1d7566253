//! Raw HTTP requests, below typed clients, with complete responses.

use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;

/// A complete HTTP response.
#[derive(Debug)]
pub struct HttpResponse {
    pub code: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl HttpResponse {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

pub async fn get(client: &kube::Client, path: &str) -> HttpResponse {
    send(client, Request::get(path).body(Vec::new()).unwrap()).await
}

/// Sends a request with a body of this media type.
pub async fn send_body(
    client: &kube::Client,
    method: Method,
    path: &str,
    media: &str,
    body: impl Into<Vec<u8>>,
) -> HttpResponse {
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    send(client, request.body(body.into()).unwrap()).await
}

pub async fn send(client: &kube::Client, request: Request<Vec<u8>>) -> HttpResponse {
    let answer = client.send(request.map(Body::from)).await.unwrap();
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    HttpResponse {
        code: parts.status.as_u16(),
        headers: parts.headers,
        text: String::from_utf8_lossy(&bytes).into_owned(),
    }
}
