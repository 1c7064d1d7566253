//! `HelmRepo`: a chart repository, its URL and its credentials.
//!
//! Invariant of objects written by the platform: they contain no password and no key. Those are in the Secret named
//! by `credentialRef`, in the platform's own namespace, with the type `longshore.dev/repo-credentials` and the label
//! of the same workspace.

use domain::names::{OPTIONAL_LABEL_PATTERN, SUBDOMAIN_PATTERN};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Transition;

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "longshore.dev",
    version = "v1alpha1",
    kind = "HelmRepo",
    plural = "helmrepos",
    shortname = "hrepo",
    category = "longshore",
    status = "HelmRepoStatus",
    derive = "PartialEq",
    doc = "Chart repository",
    printcolumn(name = "Name", type_ = "string", json_path = ".spec.name"),
    printcolumn(name = "Workspace", type_ = "string", json_path = ".spec.workspace"),
    printcolumn(name = "URL", type_ = "string", json_path = ".spec.url"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Charts", type_ = "integer", json_path = ".status.totalCharts"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.workspace == oldSelf.workspace").message("workspace is immutable").field_path(".workspace")
)]
pub struct HelmRepoSpec {
    /// Display name, unique within the workspace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,
    /// Workspace that owns the repository; empty for a public repository.
    #[serde(default)]
    #[schemars(length(max = 63), regex(pattern = OPTIONAL_LABEL_PATTERN))]
    pub workspace: String,
    /// URL with scheme `http`, `https` or `oci`. It contains no user name or password.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^(https?|oci)://[^\s@/?#]+(/[^\s?#@]*)?$"))]
    pub url: String,
    /// Credentials that are not secret, and TLS settings.
    #[serde(default, skip_serializing_if = "HelmRepoCredential::is_empty")]
    pub credential: HelmRepoCredential,
    /// Secret with credentials: `username`, `password`, `token`, `ca.crt`, `tls.crt`, `tls.key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_ref: Option<CredentialRef>,
    /// Send the credentials to other hosts that the index refers to.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pass_credentials: bool,
    /// Use plain HTTP for a registry (`oci`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub description: String,
    /// Seconds between two synchronisations of the index; 0: only on demand. Not implemented yet.
    #[serde(default)]
    #[x_kube(
        validation = Rule::new("self == 0 || self >= 180").message("must be 0 or at least 180 seconds")
    )]
    #[schemars(range(min = 0, max = 604_800))]
    pub sync_period: i64,
    /// Index in base64. If set, no index is fetched.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub data: String,
    /// Changing this number requests a synchronisation of the index. Not implemented yet.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub version: i64,
    /// Disables fetching from the repository.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmRepoCredential {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub username: String,
    /// Always empty: stored in the Secret named by `credentialRef`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[x_kube(
        validation = Rule::new("self == ''").message("must be empty: store the password in the Secret named by credentialRef")
    )]
    #[schemars(length(max = 512))]
    pub password: String,
    /// Client certificate, PEM.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[x_kube(
        validation = Rule::new("self == '' || self.contains('-----BEGIN CERTIFICATE-----')").message("must be a PEM certificate, not a file name")
    )]
    #[schemars(length(max = 65536))]
    pub cert_file: String,
    /// Always empty: stored in the Secret named by `credentialRef`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[x_kube(
        validation = Rule::new("self == ''").message("must be empty: store the key in the Secret named by credentialRef")
    )]
    #[schemars(length(max = 65536))]
    pub key_file: String,
    /// CA certificates to trust, PEM.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[x_kube(
        validation = Rule::new("self == '' || self.contains('-----BEGIN CERTIFICATE-----')").message("must be PEM certificates, not a file name")
    )]
    #[schemars(length(max = 262_144))]
    pub ca_file: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub description: String,
    /// Skip verification of the server's certificate [default: false].
    #[serde(default, rename = "insecureSkipTLSVerify", skip_serializing_if = "is_false")]
    pub insecure_skip_tls_verify: bool,
}

impl HelmRepoCredential {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Reference to a Secret in the platform's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialRef {
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN_PATTERN))]
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmRepoStatus {
    /// `pending`, `syncing`, `successful`, `failed` or `suspended`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Recent synchronisations of the index, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub sync_state: Vec<HelmRepoSyncState>,
    pub total_charts: i64,
    pub total_chart_versions: i64,
    /// Last `spec.version` that was synchronised.
    pub version: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Sequence number of the last transition.
    pub sequence: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transitions: Vec<Transition>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmRepoSyncState {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub message: String,
    pub sync_time: Time,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
