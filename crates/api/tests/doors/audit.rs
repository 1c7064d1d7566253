//! Content of the audit log, and what must not be in it.

use api::route::Route;
use api::{HttpSettings, routes};
use axum::http::Method;
use axum::routing::post;
use events::audit::{AuditOutcome, to_json_line};
use serde_json::json;
use tower::ServiceExt;

use crate::test_server::{PASSWORD, ROOT, TestCredential, TestServer, read_response, request};

#[tokio::test(flavor = "multi_thread")]
async fn audit_records_every_mutation_and_refusal_once() {
    let house = TestServer::new().await;
    let person = house.create_user(1, &[]).await;
    house.audit.take();
    let session = house.sign_in(person.id.as_str(), PASSWORD).await;
    house
        .post(
            "session",
            &TestCredential::Anonymous,
            json!({"login": person.id.as_str(), "secret": "wrong-canary"}),
        )
        .await;
    house.post("session", &TestCredential::Anonymous, json!({"login": PASSWORD, "secret": "x"})).await;
    house.get("workspaces", &session).await;
    house.post("workspaces", &session, json!({"name": "acme"})).await;
    house.get("users", &session).await;
    house.get("workspaces/other", &person.credential()).await;
    house.get("session", &TestCredential::Anonymous).await;
    let path = format!("tokens/{}", person.token);
    house.call(Method::DELETE, &path, &person.credential(), None).await;

    let id = person.id.as_str();
    let records = house.audit.take();
    let told: Vec<_> = records
        .iter()
        .map(|record| {
            let via = record.via.as_deref().map(|via| via.split(' ').next().unwrap());
            (record.act, record.who.as_deref(), via, record.object.as_deref(), record.result, record.status)
        })
        .collect();
    let expected = [
        ("session.create", None, None, Some(id), AuditOutcome::Done, Some(200)),
        ("session.create", None, None, Some(id), AuditOutcome::Refused, Some(401)),
        ("session.create", None, None, None, AuditOutcome::Refused, Some(401)),
        ("workspaces.create", Some(id), Some("session"), Some("acme"), AuditOutcome::Done, Some(201)),
        ("users.list", Some(id), Some("session"), None, AuditOutcome::Refused, Some(403)),
        ("workspaces.read", Some(id), Some("token"), Some("other"), AuditOutcome::Refused, Some(404)),
        ("session.read", None, None, None, AuditOutcome::Refused, Some(401)),
        ("tokens.delete", Some(id), Some("token"), Some("?"), AuditOutcome::Refused, Some(404)),
    ];
    assert_eq!(told, expected);
    for record in &records {
        let line = to_json_line(record).unwrap();
        for canary in [PASSWORD, "wrong-canary", &person.token] {
            assert!(!line.contains(canary), "{line}");
        }
        assert_eq!(record.from.unwrap().to_string(), "203.0.113.7");
        assert!(!record.request_id.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_records_abandoned_request() {
    let house = TestServer::new().await;
    let person = house.create_user(1, &[]).await;
    house.audit.take();
    let asked = request(
        Method::POST,
        &format!("{ROOT}/workspaces"),
        &person.credential(),
        Some(json!({"name": "acme"})),
    );
    let mut answer = Box::pin(house.router().oneshot(asked));
    // The request is dropped after it has started, as when its connection breaks.
    assert!(futures::poll!(&mut answer).is_pending());
    drop(answer);
    let records = house.audit.take();
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(
        (records[0].act, records[0].result, records[0].status),
        ("workspaces.create", AuditOutcome::Abandoned, None)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_records_panicking_handler_which_responds_500() {
    async fn broken() -> &'static str {
        panic!("broken on purpose")
    }
    let house = TestServer::new().await;
    let person = house.create_user(1, &[]).await;
    house.audit.take();
    let broken_act = |row: Route| match row.action {
        "workspaces.create" => Route { handler: post(broken), ..row },
        _ => row,
    };
    let router = api::router_with_routes(&house.api, routes::table().into_iter().map(broken_act).collect());
    let ask = |method| request(method, &format!("{ROOT}/workspaces"), &person.credential(), None);
    let answer = read_response(router.clone().oneshot(ask(Method::POST)).await.unwrap()).await;
    assert_eq!((answer.code(), answer.json()["kind"].as_str()), (500, Some("Internal")));
    assert!(!answer.text.contains("on purpose") && answer.headers.contains_key("x-request-id"));
    assert_eq!(
        house.audit.take().iter().map(|record| record.result).collect::<Vec<_>>(),
        [AuditOutcome::Abandoned]
    );
    assert_eq!(
        read_response(router.oneshot(ask(Method::GET)).await.unwrap()).await.code(),
        200,
        "the next is served"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn trusted_proxy_sets_client_ip_and_secure_cookies() {
    let settings = HttpSettings {
        trusted_proxy: true,
        tls: false,
        embedded: true,
        token_parameter: true,
        hosts: Vec::new(),
        version: "test",
    };
    let house = TestServer::with_settings(settings).await;
    let person = house.create_user(1, &[]).await;
    house.audit.take();
    let body = json!({"login": person.id.as_str(), "secret": person.token});
    let mut asked = request(Method::POST, &format!("{ROOT}/session"), &TestCredential::Anonymous, Some(body));
    asked.headers_mut().insert("x-forwarded-for", "127.0.0.1, 198.51.100.4".parse().unwrap());
    let answer = house.send(asked).await;
    assert!(answer.headers["set-cookie"].to_str().unwrap().ends_with("; Secure"), "{:?}", answer.headers);
    assert_eq!(house.audit.take()[0].from.unwrap().to_string(), "198.51.100.4");
}
