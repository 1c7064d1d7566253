//! `Workspace`: namespaces shared by users, with a role for each member.

use std::collections::BTreeMap;

use domain::names::{LABEL_PATTERN, OPTIONAL_LABEL_PATTERN};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Transition;

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "longshore.dev",
    version = "v1alpha1",
    kind = "Workspace",
    plural = "workspaces",
    shortname = "ws",
    category = "longshore",
    status = "WorkspaceStatus",
    derive = "PartialEq",
    doc = "What people share: namespaces, and who has which role in them",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Namespaces", type_ = "string", json_path = ".status.namespaces[*].name"),
    printcolumn(name = "Members", type_ = "integer", json_path = ".status.members"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceSpec {
    /// What people call it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub display_name: String,
    /// The person whose personal workspace it is; empty for one that people share.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 11), regex(pattern = OPTIONAL_LABEL_PATTERN))]
    pub owner: String,
    #[serde(default)]
    #[schemars(length(max = 500))]
    pub members: Vec<Member>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500))]
    pub invitations: Vec<Invitation>,
    /// The first has the workspace's name; each further one begins with it and a dash.
    #[schemars(length(min = 1, max = 50))]
    pub namespaces: Vec<WorkspaceNamespace>,
    /// What all its namespaces may use together, in ResourceQuota's words. What is not shared out is the first namespace's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quota: BTreeMap<String, String>,
    /// What an administrator of the platform allows in it although it is refused in workspaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    pub allow: Vec<Allowance>,
    /// Where it lives; `host` is the cluster that the platform runs on.
    #[schemars(length(min = 1, max = 100))]
    pub clusters: Vec<String>,
}

/// What is refused in workspaces unless it is allowed. The platform labels the namespaces with it; policies read the label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Allowance {
    /// `PriorityClasses` of the system (`system-*`).
    #[serde(rename = "systemPriorityClasses")]
    SystemPriorityClasses,
    /// Ports of nodes (`hostPort`).
    #[serde(rename = "hostPorts")]
    HostPorts,
    /// Services with `externalIPs`.
    #[serde(rename = "externalIPs")]
    ExternalIps,
    /// Services with `loadBalancerIP` or `loadBalancerSourceRanges`.
    #[serde(rename = "loadBalancerAddresses")]
    LoadBalancerAddresses,
    /// NetworkPolicies that admit traffic from or to other workspaces, the system or all addresses.
    #[serde(rename = "openNetworkPolicies")]
    OpenNetworkPolicies,
}

impl Allowance {
    pub const ALL: [Self; 5] = [
        Self::SystemPriorityClasses,
        Self::HostPorts,
        Self::ExternalIps,
        Self::LoadBalancerAddresses,
        Self::OpenNetworkPolicies,
    ];

    /// Label of the workspace's namespaces that grants this exception.
    pub fn label(self) -> &'static str {
        match self {
            Self::SystemPriorityClasses => "allow.longshore.dev/system-priority-classes",
            Self::HostPorts => "allow.longshore.dev/host-ports",
            Self::ExternalIps => "allow.longshore.dev/external-ips",
            Self::LoadBalancerAddresses => "allow.longshore.dev/load-balancer-addresses",
            Self::OpenNetworkPolicies => "allow.longshore.dev/open-network-policies",
        }
    }

    /// The value in `Workspace.spec.allow`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SystemPriorityClasses => "systemPriorityClasses",
            Self::HostPorts => "hostPorts",
            Self::ExternalIps => "externalIPs",
            Self::LoadBalancerAddresses => "loadBalancerAddresses",
            Self::OpenNetworkPolicies => "openNetworkPolicies",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// The person's id.
    #[schemars(length(max = 63), regex(pattern = LABEL_PATTERN))]
    pub user: String,
    pub role: String,
}

/// Somebody was asked to join. Kept by a digest, so that nobody learns from it who has an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Invitation {
    /// SHA-256 of the normalised e-mail address, phone number or id, in hexadecimal.
    pub to: String,
    pub role: String,
    /// The id of whoever asked.
    pub by: String,
    pub expires: Time,
    /// SHA-256 of the one-time code by which it is accepted, in hexadecimal; absent where `to` is an id. Addresses and numbers
    /// are not verified, so an invitation to one is accepted by its code alone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub code_hash: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceNamespace {
    #[schemars(length(max = 63), regex(pattern = LABEL_PATTERN))]
    pub name: String,
    /// Its share of the workspace's quota.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub share: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkspaceStatus {
    /// What was made, by UID: nothing else is ever removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<OwnedNamespace>,
    pub members: i64,
    /// Ids of the members who could use the ServiceAccount `longshore-deployer` since it was last recreated. When one of
    /// them leaves, or may only read from then on, it is recreated in all namespaces, so that its tokens end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 500))]
    pub deployers: Option<Vec<String>>,
    /// The annotation `longshore.dev/member-left` for which it was last recreated.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub member_left: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Grows with each change of state.
    pub sequence: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transitions: Vec<Transition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnedNamespace {
    pub name: String,
    pub uid: String,
    pub cluster: String,
    /// Its share of the workspace's quota. One that is being removed keeps it until it is gone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub share: BTreeMap<String, String>,
}

/// Condition types of a workspace, in the order in which they become true.
pub mod conditions {
    pub const NAMESPACES_READY: &str = "NamespacesReady";
    pub const ACCESS_READY: &str = "AccessReady";
    pub const READY: &str = "Ready";
}
