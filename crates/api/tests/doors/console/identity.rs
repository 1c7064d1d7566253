//! Credentials on the console's routes: their sources, their order, and tokens in the query.

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, COOKIE, REFERRER_POLICY};
use axum::http::{Method, Request};
use serde_json::json;

use super::{LIST_PATHS, send, with_roles};
use crate::test_server::{ROOT, TestCredential, TestResponse, TestServer, TestUser, request};

async fn get_with_headers(house: &TestServer, path: &str, headers: &[(&str, &str)]) -> TestResponse {
    let mut asked = request(Method::GET, path, &TestCredential::Anonymous, None);
    for (name, value) in headers {
        let name = axum::http::HeaderName::from_bytes(name.as_bytes()).unwrap();
        asked.headers_mut().append(name, value.parse().unwrap());
    }
    house.send(asked).await
}

type HeaderPairs<'h> = &'h [(&'h str, &'h str)];

#[tokio::test(flavor = "multi_thread")]
async fn console_credentials_follow_precedence() {
    let house = TestServer::new().await;
    let person = house.create_user(1, &[]).await;
    let TestUser { token, .. } = &person;
    let TestCredential::Session { cookie, csrf } = house.sign_in(person.id.as_str(), token).await else {
        unreachable!()
    };
    let (bearer, bad) = (format!("Bearer {token}"), "Bearer lsh_aaaaaaaaaa_no");
    let (header, auth) = (AUTHORIZATION.as_str(), "x-auth-token");
    let with_token = format!("/nodes?token={token}");
    let rows: &[(&str, HeaderPairs<'_>, u16)] = &[
        ("/nodes", &[], 401),
        ("/nodes", &[(header, &bearer)], 200),
        ("/nodes", &[(COOKIE.as_str(), &cookie)], 200),
        ("/nodes", &[(auth, token)], 200),
        (&with_token, &[], 200),
        // An invalid credential of higher precedence is not skipped.
        (&with_token, &[(header, bad)], 401),
        (&with_token, &[(COOKIE.as_str(), "longshore_session=x")], 401),
        (&with_token, &[(auth, "lsh_aaaaaaaaaa_no")], 401),
        (&with_token, &[(auth, "")], 401),
        ("/nodes", &[(auth, token), (COOKIE.as_str(), "longshore_session=x")], 401),
        // A valid credential of higher precedence is sufficient.
        ("/nodes?token=no", &[(header, &bearer)], 200),
        ("/nodes?token=no", &[(auth, token)], 200),
        ("/nodes?token=", &[], 401),
        ("/nodes?token=lsh_aaaaaaaaaa_no", &[], 401),
    ];
    for (path, headers, expected) in rows {
        let answer = get_with_headers(&house, path, headers).await;
        assert_eq!(answer.code(), *expected, "{path} {headers:?}: {}", answer.text);
        if *expected == 401 {
            let told = answer.json();
            assert_eq!((&told["status"], told.as_object().unwrap().len()), (&json!(false), 3), "{told}");
        }
    }
    // The platform's own routes accept neither.
    assert_eq!(get_with_headers(&house, &format!("{ROOT}/session"), &[(auth, token)]).await.code(), 401);
    assert_eq!(get_with_headers(&house, &format!("{ROOT}/session?token={token}"), &[]).await.code(), 401);

    let change = |kind: &str, body: String| {
        let asked = Request::put("/nodes/none/autonomy").header(CONTENT_TYPE, kind);
        asked.body(Body::from(body)).unwrap()
    };
    let json_body = |token: &str| json!({"enabled": true, "token": token}).to_string();
    let (json_kind, form_kind) = ("application/json", "application/x-www-form-urlencoded");
    let sent = [
        (change(json_kind, json_body(token)), 404),
        (change(json_kind, json_body("no")), 401),
        (change(json_kind, json!({"enabled": true}).to_string()), 401),
        (change(form_kind, format!("enabled=true&token={token}")), 404),
        (change("text/plain", json_body(token)), 401),
    ];
    for (place, (asked, expected)) in sent.into_iter().enumerate() {
        let answer = house.send(asked).await;
        assert_eq!(answer.code(), expected, "{place}: {}", answer.text);
    }
    let session = |csrf: &str| TestCredential::Session { cookie: cookie.clone(), csrf: csrf.to_owned() };
    let body = || Some(json!({"enabled": true}));
    let forged = send(&house, Method::PUT, "/nodes/none/autonomy", &session("x"), body()).await;
    assert_eq!((forged.code(), forged.json()["status"].as_bool()), (403, Some(false)), "{}", forged.text);
    assert_eq!(send(&house, Method::PUT, "/nodes/none/autonomy", &session(&csrf), body()).await.code(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn query_token_is_deprecated_and_can_be_disabled() {
    let house = with_roles(TestServer::new().await).await;
    let person = house.create_user(1, &[]).await;
    for path in LIST_PATHS {
        for (token, code) in [(person.token.as_str(), 200), ("lsh_aaaaaaaaaa_no", 401)] {
            let answer = get_with_headers(&house, &format!("{path}?token={token}"), &[]).await;
            assert_eq!(answer.code(), code, "{path}: {}", answer.text);
            assert_eq!(answer.headers[CACHE_CONTROL], "no-store", "{path}");
            assert_eq!(answer.headers[REFERRER_POLICY], "no-referrer", "{path}");
            assert!(answer.headers["deprecation"].to_str().unwrap().starts_with('@'), "{path}");
        }
        let better = send(&house, Method::GET, path, &person.credential(), None).await;
        assert!(better.code() == 200 && !better.headers.contains_key("deprecation"), "{path}");
    }
    drop(house);
    let settings = api::HttpSettings {
        trusted_proxy: false,
        tls: false,
        embedded: true,
        token_parameter: false,
        hosts: Vec::new(),
        version: "test",
    };
    let house = with_roles(TestServer::with_settings(settings).await).await;
    let person = house.create_user(1, &[]).await;
    for path in LIST_PATHS {
        let answer = get_with_headers(&house, &format!("{path}?token={}", person.token), &[]).await;
        assert_eq!((answer.code(), answer.json()["code"].as_str()), (401, Some("token_parameter")), "{path}");
        assert_eq!(send(&house, Method::GET, path, &person.credential(), None).await.code(), 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn console_reads_are_served_from_cache() {
    let house = TestServer::new().await;
    let person = house.create_user(1, &[]).await;
    let paths = ["/clusterOverview", "/nodes", "/nodepools", "/deployments", "/pods"];
    // The first use of a token is recorded in the cluster.
    send(&house, Method::GET, "/nodes", &person.credential(), None).await;
    let before = house.fault.calls();
    for _ in 0..40 {
        for path in paths {
            assert_eq!(
                send(&house, Method::GET, path, &person.credential(), None).await.code(),
                200,
                "{path}"
            );
        }
    }
    let calls = house.fault.calls() - before;
    assert!(calls < 20, "200 requests cost {calls} calls");
}
