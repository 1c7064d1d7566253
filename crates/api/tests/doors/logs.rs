//! Streamed container logs: across upgrades, with masked secrets, limited in number, and ended when access is lost.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Method;
use domain::roles::WorkspaceRole;
use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;

use crate::house::{House, Key, LIMIT, ROOT, request, root};
use crate::releases::{Acme, CANARY};

/// A client of a log stream, with all text received.
struct Listener {
    body: Body,
    heard: String,
}

impl Listener {
    async fn at(house: &House, query: &str, key: &Key) -> Self {
        let path = format!("{ROOT}/releases/host/acme/web/logs?{query}");
        let answer = house.router().oneshot(request(Method::GET, &path, key, None)).await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        assert!(answer.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
        Self { body: answer.into_body(), heard: String::new() }
    }

    /// Reads until the text contains `words`, or, with `None`, until the stream ends.
    async fn until(&mut self, words: Option<&str>) {
        let hear = async {
            while words.is_none_or(|words| !self.heard.contains(words)) {
                let Some(frame) = self.body.frame().await else {
                    assert!(words.is_none(), "it ended before {words:?}");
                    break;
                };
                self.heard.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
            }
        };
        let heard = tokio::time::timeout(LIMIT, hear).await;
        assert!(heard.is_ok(), "waited for {words:?}: {}", self.heard);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_followed_over_upgrades_without_secrets_to_the_end_of_the_release() {
    let acme = Acme::new().await;
    let (house, key) = (&acme.house, acme.developer.key());
    assert_eq!(acme.install(json!({"password": CANARY})).await.code(), 201);
    acme.until("active", 1).await;
    let mut listener = Listener::at(house, "follow=true&container=web", &acme.viewer.key()).await;
    listener.until(Some("\"line\":\"hello, the password is [masked]\"")).await;
    assert!(listener.heard.starts_with("event: log\ndata: {\"pod\":\"web-"), "{}", listener.heard);
    // Secrets of the next revision's pods are masked, too.
    let change = json!({"values": {"password": "another-canary-4712", "greeting": "bye"}});
    let changed = house.ask(Method::PATCH, "releases/host/acme/web", &key, Some(change)).await;
    assert_eq!(changed.code(), 200, "{}", changed.text);
    listener.until(Some("\"line\":\"bye, the password is [masked]\"")).await;
    let gone = house.ask(Method::DELETE, "releases/host/acme/web", &key, None).await;
    assert_eq!(gone.code(), 202, "{}", gone.text);
    listener.until(None).await;
    for secret in [CANARY, "another-canary-4712"] {
        assert!(!listener.heard.contains(secret), "{}", listener.heard);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_listen_no_more_hears_no_more() {
    let acme = Acme::new().await;
    let house = &acme.house;
    assert_eq!(acme.install(json!({})).await.code(), 201);
    acme.until("active", 1).await;
    let mut listener = Listener::at(house, "follow&tail=1", &acme.viewer.key()).await;
    listener.until(Some("\"line\":")).await;
    let workspace = "acme".parse().unwrap();
    house.api.tenancy.remove_member(&root(), &workspace, &acme.viewer.id).await.unwrap();
    let since = Instant::now();
    listener.until(None).await;
    assert!(since.elapsed() < Duration::from_secs(5));
    assert!(listener.heard.ends_with("event: bye\ndata: {\"reason\":\"revoked\"}\n\n"), "{}", listener.heard);
    let again = house.get("releases/host/acme/web/logs?follow", &acme.viewer.key()).await;
    assert_eq!(again.code(), 404, "{}", again.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_followed_is_refused_and_nobody_listens_too_often() {
    let acme = Acme::new().await;
    let (house, key) = (&acme.house, acme.developer.key());
    assert_eq!(acme.install(json!({})).await.code(), 201);
    acme.until("active", 1).await;
    for (query, key, status, detail) in [
        ("follow", acme.stranger.key(), 404, ""),
        ("follow&previous", key.clone(), 400, "what ran before cannot be followed"),
        ("follow&max=0", key.clone(), 400, "from 1 to 50 containers"),
        ("follow&max=51", key.clone(), 400, "from 1 to 50 containers"),
        ("max=2", key.clone(), 400, "`max` in the query goes with `follow`"),
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
        listeners.push(Listener::at(house, "follow", &key).await);
    }
    let one_more = house.get("releases/host/acme/web/logs?follow", &key).await;
    assert_eq!(one_more.code(), 429, "{}", one_more.text);
    // Other users are not affected, and a closed stream frees its place.
    drop(Listener::at(house, "follow", &acme.viewer.key()).await);
    listeners.pop();
    drop(Listener::at(house, "follow", &key).await);
    let (tenancy, workspace) = (&house.api.tenancy, "acme".parse().unwrap());
    tenancy.set_role(&root(), &workspace, &acme.developer.id, WorkspaceRole::Operator).await.unwrap();
    for listener in &mut listeners {
        listener.until(None).await;
    }
}
