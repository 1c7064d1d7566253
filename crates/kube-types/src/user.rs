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
    doc = "User account",
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
    /// Always empty: the login token is shown once and stored as a digest in a Secret.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 0))]
    pub token: String,
    /// Always empty: generated at login.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 0))]
    pub node_add_script: String,
    /// Always empty: generated at login.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 0))]
    pub kube_config: String,
    /// First namespace of the personal workspace, which is named by the user's id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Validity of the account in days; 0: unlimited.
    #[schemars(range(min = 0, max = 36500))]
    pub valid_period: i64,
    #[schemars(range(min = 0, max = 10000))]
    pub max_node_num: i64,
    /// Platform roles: admin, reviewer-business, reviewer-technical.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3))]
    pub platform_roles: Vec<String>,
    /// Disables the account without deleting its data.
    #[serde(skip_serializing_if = "is_false")]
    pub disabled: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UserStatus {
    /// Time at which namespace, bindings and ServiceAccount were first ready; never changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effective_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire_time: Option<Time>,
    pub expired: bool,
    /// Number of the account's existing nodes.
    pub node_num: i64,
    /// Names of the account's nodes, including nodes that are still joining.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Details of each of the account's nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<JoinedNode>,
    /// User id, generated once and never reused.
    #[serde(rename = "tenantID", skip_serializing_if = "String::is_empty")]
    pub tenant_id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Sequence number of the last transition.
    pub sequence: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transitions: Vec<Transition>,
}

/// Node that joined with an account's token. This record determines the owner of the node. Only the platform writes it,
/// before the node has a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinedNode {
    pub name: String,
    /// Time at which the node was admitted.
    pub since: Time,
    /// Id of the join token.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token: String,
    /// Node pool of the join token.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// UIDs of the approved certificate signing requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<String>,
    /// UID of the Node; empty until it exists.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
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
