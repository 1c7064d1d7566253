//! Invalid input is rejected with the name of the field, and nothing changes.

use axum::http::Method;
use axum::http::header::IF_MATCH;
use domain::roles::PlatformRole;
use serde_json::{Value, json};
use testkit::wait_for;

use crate::test_server::{ROOT, TestCredential, TestServer, request};

#[tokio::test(flavor = "multi_thread")]
async fn registration_rejects_unknown_and_oversized_fields() {
    let house = TestServer::new().await;
    let form = |more: Value| {
        let mut form = json!({"email": "a@example.com", "phone": "18300000001", "organization": "Acme"});
        form.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        form
    };
    let long = "x".repeat(10_000);
    let rows = [
        (form(json!({"maxNodeNum": 100})), "unknown field `maxNodeNum`"),
        (form(json!({"validPeriod": 0})), "unknown field `validPeriod`"),
        (form(json!({"platformRoles": ["admin"]})), "unknown field `platformRoles`"),
        (form(json!({"quota": {}})), "unknown field `quota`"),
        (form(json!({"namespace": "kube-system"})), "unknown field `namespace`"),
        (form(json!({"email": long})), "`email`: more than 320 characters"),
        (form(json!({"organization": long})), "`organization`: more than 128 characters"),
        (form(json!({"phone": long})), "`phone`: more than 32 characters"),
        (form(json!({"password": long})), "`password`: more than 256 characters"),
        (form(json!({"phone": "kube-system"})), "is not a phone number"),
        (form(json!({"email": 7})), "`email`: unexpected value"),
        (json!([]), "the body"),
    ];
    for (body, expected) in rows {
        let answer = house.post("users", &TestCredential::Anonymous, body).await;
        assert_eq!(
            (answer.code(), answer.json()["kind"].as_str()),
            (400, Some("Invalid")),
            "{}",
            answer.text
        );
        assert!(answer.json()["detail"].as_str().unwrap().contains(expected), "{}", answer.text);
        assert!(answer.text.len() < 500, "{}", answer.text);
    }
    assert!(house.api.tenancy.directory().accounts().is_empty());
    let huge = house.post("users", &TestCredential::Anonymous, json!({"email": "x".repeat(100_000)})).await;
    assert_eq!(huge.code(), 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn reserved_workspace_names_are_rejected() {
    let house = TestServer::new().await;
    let person = house.create_user(1, &[]).await;
    for name in ["kube-system", "longshore-system", "default", "uaaaaaaaaaa", "A", "", "a/b", &"x".repeat(60)]
    {
        let answer = house.post("workspaces", &person.credential(), json!({"name": name})).await;
        assert_eq!(answer.code(), 400, "{name}: {}", answer.text);
    }
    for path in [
        "workspaces/kube-system",
        "workspaces/%2e%2e",
        "workspaces/%00",
        "users/admin",
        "workspaces/longshore-system/members",
    ] {
        let answer = house.get(path, &person.credential()).await;
        assert_eq!(answer.code(), 404, "{path}: {}", answer.text);
    }
    let not_text = house.get("workspaces/%ff", &person.credential()).await;
    assert_eq!(not_text.code(), 400, "{}", not_text.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn update_checks_if_match() {
    let house = TestServer::new().await;
    let admin = house.create_user(1, &[PlatformRole::Admin]).await;
    let path = format!("users/{}", admin.id);
    let change = |version: &str, organization: &str| {
        let body = json!({"organization": organization});
        let mut change = request(Method::PATCH, &format!("{ROOT}/{path}"), &admin.credential(), Some(body));
        change.headers_mut().insert(IF_MATCH, version.parse().unwrap());
        change
    };
    // The controllers write to the account, too, shortly after its creation.
    let (version, changed) = wait_for("a change to what was seen", async || {
        let seen = house.get(&path, &admin.credential()).await;
        let version = seen.headers["etag"].to_str().unwrap().to_owned();
        assert_eq!(version, format!("\"{}\"", seen.json()["v"].as_str().unwrap()));
        let changed = house.send(change(&version, "Second")).await;
        (changed.code() == 200).then_some((version, changed))
    })
    .await;
    assert_ne!(changed.headers["etag"].to_str().unwrap(), version);
    let late = house.send(change(&version, "Third")).await;
    assert_eq!((late.code(), late.json()["kind"].as_str()), (412, Some("Precondition")), "{}", late.text);
    assert_eq!(house.send(change("*", "Fourth")).await.code(), 200);
    for wrong in ["7", "\"a\", \"b\"", "W/\"7\""] {
        assert_eq!(house.send(change(wrong, "Fifth")).await.code(), 400, "{wrong}");
    }
    assert_eq!(house.get(&path, &admin.credential()).await.json()["organization"], "Fourth");
    let mut unheeded = request(Method::POST, &format!("{ROOT}/kubeconfig"), &admin.credential(), None);
    unheeded.headers_mut().insert(IF_MATCH, "\"1\"".parse().unwrap());
    assert_eq!(house.send(unheeded).await.code(), 400, "what is not heeded is refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_response_has_security_headers() {
    let house = TestServer::new().await;
    for path in ["/healthz", "/", "/docs", "/openapi.json", "/nowhere", "/api/longshore/v1/session"] {
        let answer = house.send(request(Method::GET, path, &TestCredential::Anonymous, None)).await;
        for (name, value) in [("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer")] {
            assert_eq!(answer.headers[name], value, "{path}");
        }
        assert!(
            answer.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'")
        );
        assert!(answer.headers.contains_key("x-request-id"), "{path}");
    }
    let unknown = house.get("auth/methods?verbose", &TestCredential::Anonymous).await;
    assert_eq!(unknown.code(), 400, "{}", unknown.text);
}
