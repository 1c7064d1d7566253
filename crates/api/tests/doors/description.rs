//! The OpenAPI document.

use std::collections::BTreeSet;

use api::openapi::build_document;
use api::routes;
use axum::http::Method;
use serde_json::Value;

use crate::test_server::{TestCredential, TestServer, request};

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

#[tokio::test(flavor = "multi_thread")]
async fn it_is_served_to_everybody() {
    let house = TestServer::new().await;
    let document = house.send(request(Method::GET, "/openapi.json", &TestCredential::Anonymous, None)).await;
    assert_eq!(document.json()["openapi"], "3.1.0");
    let page = house.send(request(Method::GET, "/docs", &TestCredential::Anonymous, None)).await;
    assert!(page.code() == 200 && page.text.contains("/api/longshore/v1/workspaces/{workspace}"));
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
