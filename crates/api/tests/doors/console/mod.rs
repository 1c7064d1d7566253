//! The API of the OpenYurt console, as its clients find it.

mod login;
mod register;
mod tree;

use axum::http::Method;
use serde_json::Value;

use crate::house::{Answer, House, Key, request};

/// To a path at the root.
pub async fn send(house: &House, method: Method, path: &str, key: &Key, body: Option<Value>) -> Answer {
    house.send(request(method, path, key, body)).await
}
