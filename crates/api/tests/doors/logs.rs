//! Streamed container logs: across upgrades, with masked secrets, limited in number, and ended when access is lost.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Method;
use domain::roles::WorkspaceRole;
use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;

use crate::releases::{AcmeFixture, CANARY};
use crate::test_server::{ROOT, STEP_TIMEOUT, TestCredential, TestServer, request, root_actor};

/// A client of a log stream, with all text received.
struct LogStreamClient {
    body: Body,
    received: String,
}

impl LogStreamClient {
    async fn open(house: &TestServer, query: &str, key: &TestCredential) -> Self {
        let path = format!("{ROOT}/releases/host/acme/web/logs?{query}");
        let answer = house.router().oneshot(request(Method::GET, &path, key, None)).await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        assert!(answer.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
        Self { body: answer.into_body(), received: String::new() }
    }

    /// Reads until the text contains `words`, or, with `None`, until the stream ends.
    async fn read_until(&mut self, words: Option<&str>) {
        let hear = async {
            while words.is_none_or(|words| !self.received.contains(words)) {
                let Some(frame) = self.body.frame().await else {
                    assert!(words.is_none(), "it ended before {words:?}");
                    break;
                };
                self.received.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
            }
        };
        let heard = tokio::time::timeout(STEP_TIMEOUT, hear).await;
        assert!(heard.is_ok(), "waited for {words:?}: {}", self.received);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn log_stream_spans_upgrades_and_masks_secrets_until_deletion() {
    let acme = AcmeFixture::new().await;
    let (house, key) = (&acme.house, acme.developer.credential());
    assert_eq!(acme.install(json!({"password": CANARY})).await.code(), 201);
    acme.wait_for_state("active", 1).await;
    let mut listener =
        LogStreamClient::open(house, "follow=true&container=web", &acme.viewer.credential()).await;
    listener.read_until(Some("\"line\":\"hello, the password is [masked]\"")).await;
    assert!(listener.received.starts_with("event: log\ndata: {\"pod\":\"web-"), "{}", listener.received);
    // Secrets of the next revision's pods are masked, too.
    let change = json!({"values": {"password": "another-canary-4712", "greeting": "bye"}});
    let changed = house.call(Method::PATCH, "releases/host/acme/web", &key, Some(change)).await;
    assert_eq!(changed.code(), 200, "{}", changed.text);
    listener.read_until(Some("\"line\":\"bye, the password is [masked]\"")).await;
    let gone = house.call(Method::DELETE, "releases/host/acme/web", &key, None).await;
    assert_eq!(gone.code(), 202, "{}", gone.text);
    listener.read_until(None).await;
    for secret in [CANARY, "another-canary-4712"] {
        assert!(!listener.received.contains(secret), "{}", listener.received);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn log_stream_ends_when_access_is_revoked() {
    let acme = AcmeFixture::new().await;
    let house = &acme.house;
    assert_eq!(acme.install(json!({})).await.code(), 201);
    acme.wait_for_state("active", 1).await;
    let mut listener = LogStreamClient::open(house, "follow&tail=1", &acme.viewer.credential()).await;
    listener.read_until(Some("\"line\":")).await;
    let workspace = "acme".parse().unwrap();
    house.api.tenancy.remove_member(&root_actor(), &workspace, &acme.viewer.id).await.unwrap();
    let since = Instant::now();
    listener.read_until(None).await;
    assert!(since.elapsed() < Duration::from_secs(5));
    assert!(
        listener.received.ends_with("event: bye\ndata: {\"reason\":\"revoked\"}\n\n"),
        "{}",
        listener.received
    );
    let again = house.get("releases/host/acme/web/logs?follow", &acme.viewer.credential()).await;
    assert_eq!(again.code(), 404, "{}", again.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn log_stream_rejects_invalid_queries_and_limits_streams() {
    let acme = AcmeFixture::new().await;
    let (house, key) = (&acme.house, acme.developer.credential());
    assert_eq!(acme.install(json!({})).await.code(), 201);
    acme.wait_for_state("active", 1).await;
    for (query, key, status, detail) in [
        ("follow", acme.stranger.credential(), 404, ""),
        ("follow&previous", key.clone(), 400, "`previous` and `follow` are mutually exclusive"),
        ("follow&max=0", key.clone(), 400, "`max` must be 1 to 50"),
        ("follow&max=51", key.clone(), 400, "`max` must be 1 to 50"),
        ("max=2", key.clone(), 400, "query parameter `max` requires `follow`"),
        ("follow&selector=(", key.clone(), 400, "expected: identifier"),
    ] {
        let answer = house.get(&format!("releases/host/acme/web/logs?{query}"), &key).await;
        assert_eq!(answer.code(), status, "{query}: {}", answer.text);
        assert!(answer.json()["detail"].as_str().unwrap().contains(detail), "{query}: {}", answer.text);
    }
    let other = house.get("releases/host/acme/web/logs?selector=app%3Dother", &key).await.json();
    assert_eq!(other["items"], json!([]));
    let ours = house.get("releases/host/acme/web/logs?selector=app%3Dweb", &key).await.json();
    assert_eq!(ours["items"].as_array().unwrap().len(), 1, "{ours}");
    let mut listeners = Vec::new();
    for _ in 0..10 {
        listeners.push(LogStreamClient::open(house, "follow", &key).await);
    }
    let one_more = house.get("releases/host/acme/web/logs?follow", &key).await;
    assert_eq!(one_more.code(), 429, "{}", one_more.text);
    // Other users are not affected, and a closed stream frees its place.
    drop(LogStreamClient::open(house, "follow", &acme.viewer.credential()).await);
    listeners.pop();
    drop(LogStreamClient::open(house, "follow", &key).await);
    let (tenancy, workspace) = (&house.api.tenancy, "acme".parse().unwrap());
    tenancy.set_role(&root_actor(), &workspace, &acme.developer.id, WorkspaceRole::Operator).await.unwrap();
    for listener in &mut listeners {
        listener.read_until(None).await;
    }
}
