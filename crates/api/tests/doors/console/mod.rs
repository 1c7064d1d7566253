//! The API of the OpenYurt console, as its clients find it.

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

/// Every route that says what there is.
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

/// With the roles that an administrator applies, by which Kubernetes lets people read their own events.
pub async fn with_roles(house: House) -> House {
    house.world.apply(tenancy::manifests::manifests()).await;
    house
}

/// To a path at the root.
pub async fn send(house: &House, method: Method, path: &str, key: &Key, body: Option<Value>) -> Answer {
    house.send(request(method, path, key, body)).await
}
