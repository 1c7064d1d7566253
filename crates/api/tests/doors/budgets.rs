//! Memory held by callers: request bodies that never end, and responses that are not read.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use api::peer::PeerAddr;
use axum::body::{Body, Bytes};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{Request, StatusCode};
use futures::{StreamExt, future, stream};
use tokio::sync::Semaphore;
use tower::ServiceExt;

use crate::test_server::{ROOT, STEP_TIMEOUT, TestServer, TestUser};

const MIB: usize = 1 << 20;

/// An upload of `size` bytes. With `arrived` its body never ends, and `arrived` is notified once the server has read
/// `size` bytes.
fn upload(person: &TestUser, size: usize, arrived: Option<Arc<Semaphore>>) -> Request<Body> {
    let pieces = stream::iter(0..size / MIB).map(|_| Ok::<_, Infallible>(Bytes::from(vec![0; MIB])));
    let body = match arrived {
        Some(arrived) => {
            let rest = stream::once(async move {
                arrived.add_permits(1);
                future::pending().await
            });
            Body::from_stream(pieces.chain(rest))
        }
        None => Body::from_stream(pieces),
    };
    Request::post(format!("{ROOT}/packages?ws={}", person.id))
        .header(AUTHORIZATION, format!("Bearer {}", person.token))
        .header(CONTENT_TYPE, "application/gzip")
        .body(body)
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_bodies_of_one_tenant_do_not_block_others() {
    let house = TestServer::new().await;
    let (greedy, other) = (house.create_user(1, &[]).await, house.create_user(2, &[]).await);
    let arrived = Arc::new(Semaphore::new(0));
    let endless = || upload(&greedy, 9 * MIB, Some(arrived.clone()));
    let held: Vec<_> = (0..2).map(|_| tokio::spawn(house.router().oneshot(endless()))).collect();
    tokio::time::timeout(STEP_TIMEOUT, arrived.acquire_many(2)).await.unwrap().unwrap().forget();
    let refused = house.send(upload(&greedy, 8 * MIB, None)).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{}", refused.text);
    assert_eq!(refused.headers[RETRY_AFTER], "1");
    assert_eq!(refused.json()["code"], "budget", "{}", refused.text);
    // The body is not a valid archive, but it was read.
    let served = house.send(upload(&other, 8 * MIB, None)).await;
    assert_eq!(served.code(), 400, "{}", served.text);
    for upload in held {
        upload.abort();
        let _ = upload.await;
    }
    let served = house.send(upload(&greedy, 8 * MIB, None)).await;
    assert_eq!(served.code(), 400, "{}", served.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_responses_of_anonymous_caller_do_not_block_others() {
    let house = TestServer::new().await;
    let ask = async |address: &str, path: &str| {
        let peer: SocketAddr = address.parse().unwrap();
        let request = Request::get(path).extension(PeerAddr(peer)).body(Body::empty()).unwrap();
        house.router().oneshot(request).await.unwrap()
    };
    let mut unread = Vec::new();
    let refused = loop {
        let answer = ask("203.0.113.7:1", "/openapi.json").await;
        match answer.status() {
            StatusCode::OK => unread.push(answer),
            _ => break answer,
        }
        assert!(unread.len() < 1_000);
    };
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()[RETRY_AFTER], "1");
    assert_eq!(ask("203.0.113.8:1", "/openapi.json").await.status(), StatusCode::OK);
    assert_eq!(ask("203.0.113.7:1", "/healthz").await.status(), StatusCode::OK);
    unread.clear();
    assert_eq!(ask("203.0.113.7:1", "/openapi.json").await.status(), StatusCode::OK);
}
