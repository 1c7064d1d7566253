//! `User`: a user account. OpenYurt's kind, cluster-scoped, with all fields of its specification.
//!
//! Invariant of objects written by the platform: they contain no credentials. `token`, `kubeConfig` and
//! `nodeAddScript` are empty in storage and filled in the login response.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Transition;

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "user.openyurt.io",
    version = "v1alpha1",
    kind = "User",
    plural = "users",
    status = "UserStatus",
    derive = "PartialEq",
    doc = "The account of a person",
    printcolumn(name = "ID", type_ = "string", json_path = ".status.tenantID"),
    printcolumn(name = "Email", type_ = "string", json_path = ".spec.email"),
    printcolumn(name = "Organization", type_ = "string", json_path = ".spec.organization"),
    printcolumn(name = "ValidPeriod", type_ = "integer", json_path = ".spec.validPeriod"),
    printcolumn(name = "EffectiveTime", type_ = "date", json_path = ".status.effectiveTime"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
pub struct UserSpec {
    #[schemars(length(max = 320))]
    pub email: String,
    #[schemars(length(max = 32))]
    pub mobilephone: String,
    #[schemars(length(max = 512))]
    pub organization: String,
    /// Stays empty: the login token is told once and kept as a digest in a Secret.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 0))]
    pub token: String,
    /// Stays empty: composed at login.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 0))]
    pub node_add_script: String,
    /// Stays empty: composed at login.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 0))]
    pub kube_config: String,
    /// The first namespace of the personal workspace: the user's id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// In days; 0: without end.
    #[schemars(range(min = 0, max = 36500))]
    pub valid_period: i64,
    #[schemars(range(min = 0, max = 10000))]
    pub max_node_num: i64,
    /// Roles on the whole platform: admin, reviewer-business, reviewer-technical.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3))]
    pub platform_roles: Vec<String>,
    /// Nobody gets in with a disabled account; nothing of it is removed.
    #[serde(skip_serializing_if = "is_false")]
    pub disabled: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UserStatus {
    /// When namespace, bindings and ServiceAccount were ready for the first time; never moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effective_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire_time: Option<Time>,
    pub expired: bool,
    /// How many of the account's nodes there are.
    pub node_num: i64,
    /// The names of the account's nodes, and of those that are about to be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// What is known of each of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<JoinedNode>,
    /// The user's id, made once and never another's.
    #[serde(rename = "tenantID", skip_serializing_if = "String::is_empty")]
    pub tenant_id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Grows with each change of state.
    pub sequence: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transitions: Vec<Transition>,
}

/// A node that an account let in. Written before the node has a certificate, and by the platform alone: this is what makes a
/// node somebody's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinedNode {
    pub name: String,
    /// When it was let in.
    pub since: Time,
    /// The id of the token by which it was let in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token: String,
    /// The pool that it was let in for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// The UIDs of the requests for certificates that were granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<String>,
    /// The UID of the Node; empty before it has appeared.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Condition types of a user, in the order in which they become true.
pub mod conditions {
    pub const NAMESPACE_READY: &str = "NamespaceReady";
    pub const ACCESS_READY: &str = "AccessReady";
    pub const CREDENTIALS_ISSUED: &str = "CredentialsIssued";
    pub const READY: &str = "Ready";
    pub const EXPIRED: &str = "Expired";
    /// The account expires soon.
    pub const EXPIRING: &str = "Expiring";
}
