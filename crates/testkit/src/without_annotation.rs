//! Client that does not know one of the platform's annotations, as the helm command does not.

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube::Client;
use kube::client::Body;
use tower::service_fn;

/// Wraps a client so that `mark` is missing from the Secrets that it reads and writes.
pub fn without_annotation(client: Client, namespace: &str, mark: &'static str) -> Client {
    let call = move |request: Request<Body>| {
        let client = client.clone();
        async move {
            if !request.uri().path().contains("/secrets") {
                let (head, body) = client.send(request).await?.into_parts();
                return Ok::<_, kube::Error>(Response::from_parts(head, body.boxed_unsync()));
            }
            let (head, body) = request.into_parts();
            let request_body = replace_key(&body.collect_bytes().await?, mark);
            let (head, body) =
                client.send(Request::from_parts(head, Body::from(request_body))).await?.into_parts();
            let response_body = Full::new(replace_key(&body.collect_bytes().await?, mark).into());
            Ok(Response::from_parts(head, response_body.map_err(|never| match never {}).boxed_unsync()))
        }
    };
    Client::new(service_fn(call), namespace)
}

/// Replaces the key by another of the same length, which no code looks for.
fn replace_key(text: &[u8], mark: &str) -> Vec<u8> {
    String::from_utf8_lossy(text).replace(mark, &"x".repeat(mark.len())).into_bytes()
}
