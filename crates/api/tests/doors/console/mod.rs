//! The API of the OpenYurt console as its clients use it.

mod identity;
mod login;
mod namespaces;
mod pools;
mod register;
mod seed;
mod tree;

use axum::http::Method;
use serde_json::Value;

use crate::test_server::{TestCredential, TestResponse, TestServer, request};

/// Routes that list or summarise objects.
pub const LIST_PATHS: &[&str] = &[
    "/clusterOverview",
    "/clusterEvents",
    "/nodes",
    "/nodepools",
    "/deployments",
    "/statefulsets",
    "/daemonsets",
    "/jobs",
    "/cronjobs",
    "/pods",
];

/// With the manifests applied, whose roles let users read events in their own namespaces.
pub async fn with_roles(house: TestServer) -> TestServer {
    house.world.apply(tenancy::manifests::manifests()).await;
    house
}

/// Sends a request to a path at the root.
pub async fn send(
    house: &TestServer,
    method: Method,
    path: &str,
    key: &TestCredential,
    body: Option<Value>,
) -> TestResponse {
    house.send(request(method, path, key, body)).await
}
