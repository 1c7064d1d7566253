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
    doc = "Namespaces shared by members with roles",
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
    /// Display name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub display_name: String,
    /// User id of the owner of a personal workspace; empty for a shared workspace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 11), regex(pattern = OPTIONAL_LABEL_PATTERN))]
    pub owner: String,
    #[serde(default)]
    #[schemars(length(max = 500))]
    pub members: Vec<Member>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500))]
    pub invitations: Vec<Invitation>,
    /// Namespaces of the workspace. The first has the workspace's name; the names of others begin with it and a dash.
    #[schemars(length(min = 1, max = 50))]
    pub namespaces: Vec<WorkspaceNamespace>,
    /// Total quota of the namespaces, with the resource names of ResourceQuota. The first namespace gets the amounts
    /// that no other namespace has as a share.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quota: BTreeMap<String, String>,
    /// Features that are refused in workspaces by default and that a platform administrator allows in this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    pub allow: Vec<Allowance>,
    /// Clusters with the workspace's namespaces; `host` is the cluster that the platform runs on.
    #[schemars(length(min = 1, max = 100))]
    pub clusters: Vec<String>,
}

/// Feature that is refused in workspaces unless allowed. The platform labels the namespaces; admission policies read
/// the label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Allowance {
    /// System PriorityClasses (`system-*`).
    #[serde(rename = "systemPriorityClasses")]
    SystemPriorityClasses,
    /// Host ports (`hostPort`).
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
    /// User id.
    #[schemars(length(max = 63), regex(pattern = LABEL_PATTERN))]
    pub user: String,
    pub role: String,
}

/// Pending invitation. The invitee is stored as a digest, so that the list does not reveal the existence of accounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Invitation {
    /// SHA-256 of the normalised e-mail address, phone number or id, in hexadecimal.
    pub to: String,
    pub role: String,
    /// User id of the inviter.
    pub by: String,
    pub expires: Time,
    /// SHA-256 of the one-time code that accepts the invitation, in hexadecimal; absent if `to` is an id. Addresses and
    /// numbers are not verified, so an invitation to one requires its code.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub code_hash: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceNamespace {
    #[schemars(length(max = 63), regex(pattern = LABEL_PATTERN))]
    pub name: String,
    /// Share of the workspace's quota.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub share: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkspaceStatus {
    /// Namespaces that the platform created, by UID. It never deletes other namespaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<OwnedNamespace>,
    pub members: i64,
    /// User ids of the members who had access to the ServiceAccount `longshore-deployer` since it was last recreated.
    /// When one of them leaves, or may only read from then on, it is recreated in all namespaces, which invalidates its
    /// tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 500))]
    pub deployers: Option<Vec<String>>,
    /// Value of the annotation `longshore.dev/member-left` when the ServiceAccount was last recreated.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub member_left: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Sequence number of the last transition.
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
    /// Share of the workspace's quota. A terminating namespace keeps it until it is gone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub share: BTreeMap<String, String>,
}

/// Condition types of a workspace, in the order in which they become true.
pub mod conditions {
    pub const NAMESPACES_READY: &str = "NamespacesReady";
    pub const ACCESS_READY: &str = "AccessReady";
    pub const READY: &str = "Ready";
}
