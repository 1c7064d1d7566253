//! The OpenAPI document.

use std::collections::BTreeSet;

use api::openapi::build_document;
use api::routes;
use axum::http::header::ACCEPT;
use axum::http::{HeaderValue, Method};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::test_server::{TestCredential, TestResponse, TestServer, request};

#[test]
fn the_description_of_the_api() {
    insta::assert_json_snapshot!(build_document(&routes::table()));
}

/// Collects all `$ref` targets in the document.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(target)) = map.get("$ref") {
                found.insert(target.clone());
            }
            map.values().for_each(|inner| references(inner, found));
        }
        Value::Array(list) => list.iter().for_each(|inner| references(inner, found)),
        _ => {}
    }
}

#[test]
fn nothing_that_it_points_to_is_missing_and_no_operation_has_two_names() {
    let document = build_document(&routes::table());
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 20, "{found:?}");
    for target in found {
        let place = target.strip_prefix('#').unwrap();
        assert!(document.pointer(place).is_some(), "{target} points nowhere");
    }
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
    let ids: Vec<_> = operations.map(|operation| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), routes::table().len());
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
}

/// The policy of a page names the digest of its style sheet, and allows nothing else.
fn assert_allows_only_its_style(page: &TestResponse) {
    let style = page.text.split("<style>").nth(1).and_then(|rest| rest.split("</style>").next()).unwrap();
    let digest = BASE64_STANDARD.encode(Sha256::digest(style));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    assert_eq!(page.headers["content-security-policy"], policy);
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
}

#[tokio::test(flavor = "multi_thread")]
async fn root_answers_browsers_with_a_page_and_programs_with_404() {
    let house = TestServer::new().await;
    let send = async |accept: Option<&'static str>| {
        let mut request = request(Method::GET, "/", &TestCredential::Anonymous, None);
        request.headers_mut().extend(accept.map(|accept| (ACCEPT, HeaderValue::from_static(accept))));
        house.send(request).await
    };
    let page = send(Some("text/html,application/xhtml+xml,*/*;q=0.8")).await;
    assert_eq!(page.code(), 200);
    assert_allows_only_its_style(&page);
    assert_eq!(page.headers["vary"], "accept");
    let version = format!("version {}", house.api.settings.version);
    for part in [version.as_str(), "href=\"/docs\"", "href=\"/openapi.json\"", "longshore kubeconfig --user"]
    {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    for accept in [None, Some("*/*"), Some("application/json")] {
        let answer = send(accept).await;
        assert_eq!((answer.code(), answer.json()["status"].as_u64()), (404, Some(404)), "{accept:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_served_to_everybody() {
    let house = TestServer::new().await;
    let document = house.send(request(Method::GET, "/openapi.json", &TestCredential::Anonymous, None)).await;
    assert_eq!(document.json()["openapi"], "3.1.0");
    let page = house.send(request(Method::GET, "/docs", &TestCredential::Anonymous, None)).await;
    assert!(page.code() == 200 && page.text.contains("/api/longshore/v1/workspaces/{workspace}"));
    assert_allows_only_its_style(&page);
    assert_eq!(
        house.send(request(Method::GET, "/healthz", &TestCredential::Anonymous, None)).await.code(),
        200
    );
    assert_eq!(
        house.send(request(Method::GET, "/readyz", &TestCredential::Anonymous, None)).await.code(),
        200
    );
    house.api.readiness.add_check("store", || Err("not yet".to_owned()));
    let unready = house.send(request(Method::GET, "/readyz", &TestCredential::Anonymous, None)).await;
    assert!(unready.code() == 503 && unready.text.contains("[-]store failed: not yet"), "{}", unready.text);
}
