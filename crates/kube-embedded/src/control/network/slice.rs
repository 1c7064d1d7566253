//! A typed `EndpointSlice`.

#![warn(clippy::arithmetic_side_effects)]

use serde::{Deserialize, Serialize};

use super::port_order;
use crate::control::view::Meta;

/// A stored slice. Empty lists are written as `null`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Slice {
    pub metadata: Meta,
    pub address_type: String,
    pub ports: Option<Vec<Port>>,
    pub endpoints: Option<Vec<Endpoint>>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq, Hash)]
#[serde(default, rename_all = "camelCase")]
pub struct Port {
    pub name: Option<String>,
    pub protocol: Option<String>,
    #[serde(rename = "port")]
    pub number: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Endpoint {
    pub addresses: Vec<String>,
    pub conditions: EndpointConditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<EndpointHints>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default)]
pub struct EndpointConditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// The target of an endpoint: a pod, or the object that a client named in an `Endpoints` object.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct TargetRef {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,
}

/// Topology hints: zones that should use the endpoint.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointHints {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_zones: Vec<NamedHint>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_nodes: Vec<NamedHint>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default)]
pub struct NamedHint {
    pub name: String,
}

impl Endpoint {
    /// The identity of an endpoint across updates; everything else may change.
    pub fn identity(&self) -> (Vec<String>, String, String, String) {
        let target = self.target_ref.clone().unwrap_or_default();
        (self.addresses.clone(), self.hostname.clone().unwrap_or_default(), target.namespace, target.name)
    }
}

/// Sorts ports as Kubernetes does; the result also identifies a set of ports.
pub fn sorted_ports(mut ports: Vec<Port>) -> Vec<Port> {
    ports.sort_by_cached_key(port_order::slice_port_key);
    ports
}
