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

use crate::house::{Answer, House, Key, request};

/// Routes that list or summarise objects.
pub const LISTS: &[&str] = &[
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
pub async fn with_roles(house: House) -> House {
    house.world.apply(tenancy::manifests::manifests()).await;
    house
}

/// Sends a request to a path at the root.
pub async fn send(house: &House, method: Method, path: &str, key: &Key, body: Option<Value>) -> Answer {
    house.send(request(method, path, key, body)).await
}
