//! The console's login route.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, REFERRER_POLICY, SET_COOKIE};
use axum::http::{Method, Request};
use events::audit::AuditOutcome;
use serde_json::{Value, json};

use super::send;
use crate::test_server::{PASSWORD, TestCredential, TestResponse, TestServer, TestUser, request};

async fn get(server: &TestServer, path: &str) -> TestResponse {
    send(server, Method::GET, path, &TestCredential::Anonymous, None).await
}

async fn post(server: &TestServer, body: Value) -> TestResponse {
    send(server, Method::POST, "/login", &TestCredential::Anonymous, Some(body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn login_by_every_identifier_opens_a_session() {
    let server = TestServer::new().await;
    let user = server.create_user(1, &[]).await;
    let TestUser { id, token } = &user;
    let form = format!("mobilephone=18300000001&token={token}");
    let posted = Request::post("/login")
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(Body::from(form))
        .unwrap();
    let responses = [
        get(&server, &format!("/login?email=P1%40example.com&token={token}")).await,
        get(&server, &format!("/login?mobilePhone=18300000001&token={token}")).await,
        get(&server, &format!("/login?name=user-18300000001&token={token}&kubeConfig=x")).await,
        post(&server, json!({"email": "p1@example.com", "token": token})).await,
        post(&server, json!({"phone": "18300000001", "password": PASSWORD, "kubeConfig": {"a": 1}})).await,
        server.send(posted).await,
    ];
    for (place, answer) in responses.iter().enumerate() {
        assert_eq!(answer.code(), 200, "{place}: {}", answer.text);
        let login = answer.json();
        assert_eq!(login["spec"]["namespace"], id.as_str());
        assert_eq!((&login["spec"]["validPeriod"], &login["spec"]["maxNodeNum"]), (&json!(7), &json!(3)));
        assert_eq!((&login["status"]["nodeNum"], &login["status"]["expired"]), (&json!(0), &json!(false)));
        assert!(login["spec"]["kubeConfig"].as_str().unwrap().contains("current-context"), "{login}");
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(keys(&login), "spec status");
        assert_eq!(keys(&login["spec"]), "kubeConfig maxNodeNum namespace nodeAddScript validPeriod");
        assert_eq!(keys(&login["status"]), "effectiveTime expired nodeNum");
        assert_eq!(answer.headers[CACHE_CONTROL], "no-store");
        assert_eq!(answer.headers[REFERRER_POLICY], "no-referrer");
        assert_eq!(answer.headers.contains_key("deprecation"), place < 3, "{place}: in the query only");
        let cookie = answer.headers[SET_COOKIE].to_str().unwrap();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let session = server.get("session", &TestCredential::Session { cookie, csrf: String::new() }).await;
        assert_eq!(session.json()["user"]["id"], id.as_str());
    }
    let records = server.audit.take();
    let logins = records.iter().filter(|record| record.act.starts_with("console.login"));
    let audited: Vec<_> = logins.map(|record| (record.object.as_deref(), record.result)).collect();
    assert_eq!(
        audited,
        vec![(Some(id.as_str()), AuditOutcome::Done); 6],
        "each is in the trail, those by GET too"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_logins_are_indistinguishable_and_throttled() {
    let server = TestServer::new().await;
    let user = server.create_user(1, &[]).await;
    let other = server.create_user(2, &[]).await;
    let responses = [
        get(&server, "/login?email=nobody%40example.com&token=lsh_a_b").await,
        get(&server, &format!("/login?email=p1%40example.com&token={}", other.token)).await,
        get(&server, "/login?email=p1%40example.com&token=").await,
        post(&server, json!({"phone": "18300000001", "token": ""})).await,
        post(&server, json!({"phone": "18300000099", "password": ""})).await,
    ];
    let msg = "unknown account or wrong password or token";
    for (place, answer) in responses.iter().enumerate() {
        assert_eq!(answer.code(), 401, "{place}: {}", answer.text);
        assert_eq!(
            answer.json(),
            json!({"msg": msg, "status": false, "code": "wrong_credentials"}),
            "{place}"
        );
        assert!(answer.headers.get(SET_COOKIE).is_none(), "{place}");
    }
    for wrong in [
        "/login",
        "/login?token=x",
        "/login?email=a%40b.c",
        "/login?email=a%40b.c&phone=1&token=x",
        "/login?email=a%40b.c&token=x&password=y",
        "/login?email=a%40b.c&token=x&validPeriod=3",
    ] {
        assert_eq!(get(&server, wrong).await.code(), 400, "{wrong}");
    }
    assert_eq!(post(&server, json!({"email": "a@b.c", "token": "x", "password": "y"})).await.code(), 400);
    let mut last = None;
    for _ in 0..6 {
        last = Some(post(&server, json!({"name": user.id.as_str(), "token": "lsh_a_b"})).await);
    }
    let last = last.unwrap();
    assert_eq!((last.code(), last.json()["code"].as_str()), (429, Some("throttled")), "{}", last.text);
    assert!(last.headers.contains_key("retry-after"));
}

#[tokio::test(flavor = "multi_thread")]
async fn cross_site_login_opens_no_session() {
    let server = TestServer::new().await;
    let user = server.create_user(1, &[]).await;
    let path = format!("/login?email=p1%40example.com&token={}", user.token);
    for (site, opens) in [("cross-site", false), ("same-origin", true), ("none", true)] {
        let mut login_request = request(Method::GET, &path, &TestCredential::Anonymous, None);
        login_request.headers_mut().insert("sec-fetch-site", site.parse().unwrap());
        let response = server.send(login_request).await;
        assert_eq!((response.code(), response.headers.contains_key(SET_COOKIE)), (200, opens), "{site}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn login_by_get_is_refused_when_query_tokens_are_disabled() {
    let settings = api::HttpSettings {
        trusted_proxy: false,
        tls: false,
        embedded: true,
        token_parameter: false,
        hosts: Vec::new(),
        version: "test",
    };
    let server = TestServer::with_settings(settings).await;
    let user = server.create_user(1, &[]).await;
    let by_get = get(&server, &format!("/login?email=p1%40example.com&token={}", user.token)).await;
    assert_eq!((by_get.code(), by_get.json()["code"].as_str()), (400, Some("invalid")), "{}", by_get.text);
    assert_eq!(post(&server, json!({"email": "p1@example.com", "token": user.token})).await.code(), 200);
}
