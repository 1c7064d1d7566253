//! A cluster that does not respond: cached data is returned and marked as stale, and uncached data is an error.

use axum::http::Method;
use futures::future::join_all;
use serde_json::json;
use testkit::fault::Line;
use testkit::until;

use crate::house::{House, Key};

#[tokio::test(flavor = "multi_thread")]
async fn without_the_cluster_memory_answers_and_says_how_old_it_is() {
    let house = House::new().await;
    let person = house.person(1, &[]).await;
    let session = house.sign_in(person.id.as_str(), &person.token).await;
    house.fault.turn(Line::Cut);
    let listed = until("a list that says that it is old", async || {
        let listed = house.get("workspaces", &session).await;
        assert_eq!(listed.code(), 200, "{}", listed.text);
        listed.json()["stale"].is_u64().then_some(listed.json())
    })
    .await;
    assert_eq!(listed["items"][0]["name"], person.id.as_str());
    let own = house.get("users/me", &session).await;
    assert!(own.code() == 200 && own.headers.contains_key("x-longshore-stale"), "{:?}", own.headers);
    let form = json!({"login": person.id.as_str(), "secret": person.token});
    let signed = house.post("session", &Key::Nothing, form).await;
    assert_eq!(signed.code(), 200, "one can still sign in: {}", signed.text);
    for line in [Line::Cut, Line::Silent] {
        house.fault.turn(line);
        let writes = [
            (Method::POST, "workspaces", Some(json!({"name": "acme"}))),
            (Method::POST, "tokens", Some(json!({"name": "t", "scopes": ["all"]}))),
            (Method::POST, "kubeconfig", None),
            (Method::PATCH, "users/me", Some(json!({"organization": "Other"}))),
        ];
        let asked = writes.map(|(method, path, body)| house.ask(method, path, &session, body));
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
    house.fault.turn(Line::Sound);
    let own = house.get("users/me", &session).await.json();
    assert_eq!(own["organization"], "Acme");
}
