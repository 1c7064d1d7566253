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
    doc = "A repository of charts",
    printcolumn(name = "Name", type_ = "string", json_path = ".spec.name"),
    printcolumn(name = "Workspace", type_ = "string", json_path = ".spec.workspace"),
    printcolumn(name = "URL", type_ = "string", json_path = ".spec.url"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Charts", type_ = "integer", json_path = ".status.totalCharts"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.workspace == oldSelf.workspace").message("a repository stays with its workspace").field_path(".workspace")
)]
pub struct HelmRepoSpec {
    /// What people call it; no two of a workspace have the same.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,
    /// Whose it is; empty: everybody's.
    #[serde(default)]
    #[schemars(length(max = 63), regex(pattern = OPTIONAL_LABEL_PATTERN))]
    pub workspace: String,
    /// `http`, `https` or `oci`. Nobody's name and password are in it.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^(https?|oci)://[^\s@/?#]+(/[^\s?#@]*)?$"))]
    pub url: String,
    /// How one is let in, but for what is secret.
    #[serde(default, skip_serializing_if = "HelmRepoCredential::is_empty")]
    pub credential: HelmRepoCredential,
    /// The Secret with what is secret: `username`, `password`, `token`, `ca.crt`, `tls.crt`, `tls.key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_ref: Option<CredentialRef>,
    /// Send the credentials also where the index leads to another place.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pass_credentials: bool,
    /// Speak to a registry (`oci`) without TLS.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub description: String,
    /// Seconds between two looks at the index; 0: only when asked.
    #[serde(default)]
    #[x_kube(
        validation = Rule::new("self == 0 || self >= 180").message("0, or 180 seconds and more")
    )]
    #[schemars(range(min = 0, max = 604_800))]
    pub sync_period: i64,
    /// An index by hand, as base64: where there is one, none is fetched.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub data: String,
    /// Another number asks for a look at the index now.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub version: i64,
    /// Nothing is fetched from it for as long as this holds.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmRepoCredential {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub username: String,
    /// Stays empty: it belongs into the Secret.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[x_kube(
        validation = Rule::new("self == ''").message("a password belongs into the Secret that credentialRef names")
    )]
    #[schemars(length(max = 512))]
    pub password: String,
    /// The certificate by which one is known, as PEM.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[x_kube(
        validation = Rule::new("self == '' || self.contains('-----BEGIN CERTIFICATE-----')").message("a certificate as PEM, not the name of a file")
    )]
    #[schemars(length(max = 65536))]
    pub cert_file: String,
    /// Stays empty: it belongs into the Secret.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[x_kube(
        validation = Rule::new("self == ''").message("a key belongs into the Secret that credentialRef names")
    )]
    #[schemars(length(max = 65536))]
    pub key_file: String,
    /// Those whose certificates are believed, as PEM.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[x_kube(
        validation = Rule::new("self == '' || self.contains('-----BEGIN CERTIFICATE-----')").message("certificates as PEM, not the name of a file")
    )]
    #[schemars(length(max = 262_144))]
    pub ca_file: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub description: String,
    /// Believe any certificate; not so where nothing is said.
    #[serde(default, rename = "insecureSkipTLSVerify", skip_serializing_if = "is_false")]
    pub insecure_skip_tls_verify: bool,
}

impl HelmRepoCredential {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A Secret in the platform's own namespace.
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
    /// The last looks at the index, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub sync_state: Vec<HelmRepoSyncState>,
    pub total_charts: i64,
    pub total_chart_versions: i64,
    /// The last `spec.version` that was heeded.
    pub version: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Grows with each change of state.
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
