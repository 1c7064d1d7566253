//! Credentials on the console's routes: their sources, their order, and tokens in the query.

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, COOKIE, REFERRER_POLICY};
use axum::http::{Method, Request};
use serde_json::json;

use super::{LISTS, send, with_roles};
use crate::house::{Answer, House, Key, Person, ROOT, request};

async fn ask(house: &House, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut asked = request(Method::GET, path, &Key::Nothing, None);
    for (name, value) in headers {
        let name = axum::http::HeaderName::from_bytes(name.as_bytes()).unwrap();
        asked.headers_mut().append(name, value.parse().unwrap());
    }
    house.send(asked).await
}

type Headers<'h> = &'h [(&'h str, &'h str)];

#[tokio::test(flavor = "multi_thread")]
async fn the_first_that_is_shown_counts() {
    let house = House::new().await;
    let person = house.person(1, &[]).await;
    let Person { token, .. } = &person;
    let Key::Session { cookie, csrf } = house.sign_in(person.id.as_str(), token).await else {
        unreachable!()
    };
    let (bearer, bad) = (format!("Bearer {token}"), "Bearer lsh_aaaaaaaaaa_no");
    let (header, auth) = (AUTHORIZATION.as_str(), "x-auth-token");
    let with_token = format!("/nodes?token={token}");
    let rows: &[(&str, Headers<'_>, u16)] = &[
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
        let answer = ask(&house, path, headers).await;
        assert_eq!(answer.code(), *expected, "{path} {headers:?}: {}", answer.text);
        if *expected == 401 {
            let told = answer.json();
            assert_eq!((&told["status"], told.as_object().unwrap().len()), (&json!(false), 3), "{told}");
        }
    }
    // The platform's own routes accept neither.
    assert_eq!(ask(&house, &format!("{ROOT}/session"), &[(auth, token)]).await.code(), 401);
    assert_eq!(ask(&house, &format!("{ROOT}/session?token={token}"), &[]).await.code(), 401);

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
    let session = |csrf: &str| Key::Session { cookie: cookie.clone(), csrf: csrf.to_owned() };
    let body = || Some(json!({"enabled": true}));
    let forged = send(&house, Method::PUT, "/nodes/none/autonomy", &session("x"), body()).await;
    assert_eq!((forged.code(), forged.json()["status"].as_bool()), (403, Some(false)), "{}", forged.text);
    assert_eq!(send(&house, Method::PUT, "/nodes/none/autonomy", &session(&csrf), body()).await.code(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_in_the_query_is_taken_and_warned_of_and_can_be_switched_off() {
    let house = with_roles(House::new().await).await;
    let person = house.person(1, &[]).await;
    for path in LISTS {
        for (token, code) in [(person.token.as_str(), 200), ("lsh_aaaaaaaaaa_no", 401)] {
            let answer = ask(&house, &format!("{path}?token={token}"), &[]).await;
            assert_eq!(answer.code(), code, "{path}: {}", answer.text);
            assert_eq!(answer.headers[CACHE_CONTROL], "no-store", "{path}");
            assert_eq!(answer.headers[REFERRER_POLICY], "no-referrer", "{path}");
            assert!(answer.headers["deprecation"].to_str().unwrap().starts_with('@'), "{path}");
        }
        let better = send(&house, Method::GET, path, &person.key(), None).await;
        assert!(better.code() == 200 && !better.headers.contains_key("deprecation"), "{path}");
    }
    drop(house);
    let settings = api::Settings {
        trusted_proxy: false,
        tls: false,
        embedded: true,
        token_parameter: false,
        hosts: Vec::new(),
        version: "test",
    };
    let house = with_roles(House::with(settings).await).await;
    let person = house.person(1, &[]).await;
    for path in LISTS {
        let answer = ask(&house, &format!("{path}?token={}", person.token), &[]).await;
        assert_eq!((answer.code(), answer.json()["code"].as_str()), (401, Some("token_parameter")), "{path}");
        assert_eq!(send(&house, Method::GET, path, &person.key(), None).await.code(), 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_looked_at_costs_no_call() {
    let house = House::new().await;
    let person = house.person(1, &[]).await;
    let paths = ["/clusterOverview", "/nodes", "/nodepools", "/deployments", "/pods"];
    // The first use of a token is recorded in the cluster.
    send(&house, Method::GET, "/nodes", &person.key(), None).await;
    let before = house.fault.calls();
    for _ in 0..40 {
        for path in paths {
            assert_eq!(send(&house, Method::GET, path, &person.key(), None).await.code(), 200, "{path}");
        }
    }
    let calls = house.fault.calls() - before;
    assert!(calls < 20, "200 requests cost {calls} calls");
}
