//! A cluster that does not respond: cached data is returned and marked as stale, and uncached data is an error.

use axum::http::Method;
use futures::future::join_all;
use serde_json::json;
use testkit::fault::LinkState;
use testkit::wait_for;

use crate::test_server::{TestCredential, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn reads_are_served_stale_from_cache_when_cluster_is_unreachable() {
    let house = TestServer::new().await;
    let person = house.create_user(1, &[]).await;
    let session = house.sign_in(person.id.as_str(), &person.token).await;
    house.fault.set_link(LinkState::Disconnected);
    let listed = wait_for("a list that says that it is old", async || {
        let listed = house.get("workspaces", &session).await;
        assert_eq!(listed.code(), 200, "{}", listed.text);
        listed.json()["stale"].is_u64().then_some(listed.json())
    })
    .await;
    assert_eq!(listed["items"][0]["name"], person.id.as_str());
    let own = house.get("users/me", &session).await;
    assert!(own.code() == 200 && own.headers.contains_key("x-longshore-stale"), "{:?}", own.headers);
    let form = json!({"login": person.id.as_str(), "secret": person.token});
    let signed = house.post("session", &TestCredential::Anonymous, form).await;
    assert_eq!(signed.code(), 200, "one can still sign in: {}", signed.text);
    for line in [LinkState::Disconnected, LinkState::Unresponsive] {
        house.fault.set_link(line);
        let writes = [
            (Method::POST, "workspaces", Some(json!({"name": "acme"}))),
            (Method::POST, "tokens", Some(json!({"name": "t", "scopes": ["all"]}))),
            (Method::POST, "kubeconfig", None),
            (Method::PATCH, "users/me", Some(json!({"organization": "Other"}))),
        ];
        let asked = writes.map(|(method, path, body)| house.call(method, path, &session, body));
        for answer in join_all(asked).await {
            assert_eq!(
                (answer.code(), answer.json()["kind"].as_str()),
                (503, Some("Unavailable")),
                "{}",
                answer.text
            );
            assert!(answer.headers.contains_key("retry-after"));
            assert!(answer.text.contains("the cluster does not answer"), "{}", answer.text);
        }
    }
    house.fault.set_link(LinkState::Healthy);
    let own = house.get("users/me", &session).await.json();
    assert_eq!(own["organization"], "Acme");
}
