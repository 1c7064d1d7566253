//! `HelmRequest`, cluster-scoped, of KubeSphere's design: the release that a user requests. The API writes it, and
//! the controller derives a `HelmRelease` from it.
//!
//! Invariants: only the platform writes it, after Kubernetes has authorised the user, so it may name the identity
//! that the release acts as ([`RunAs`]). The values are in Secrets of the system namespace, one per version.
//!
//! See also: [`crate::release`].

use domain::names::{LABEL_PATTERN, OPTIONAL_LABEL_PATTERN};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Transition;
use crate::release::is_false;
use crate::release::spec::{
    DeletionPolicy, DriftDetection, ManifestPatch, ReleaseOptions, ReleaseSource, Remediation, RoleOverride,
    ValuesSecretRef,
};
use crate::release::status::{OperationRecord, ResolvedChart, ResourceSummary};

#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "longshore.dev",
    version = "v1alpha1",
    kind = "HelmRequest",
    plural = "helmrequests",
    shortname = "hreq",
    category = "longshore",
    status = "HelmRequestStatus",
    derive = "PartialEq",
    doc = "Release requested by a user",
    printcolumn(name = "Release", type_ = "string", json_path = ".spec.releaseName"),
    printcolumn(name = "Workspace", type_ = "string", json_path = ".spec.workspace"),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.cluster"),
    printcolumn(name = "Namespace", type_ = "string", json_path = ".spec.namespace"),
    printcolumn(name = "Chart", type_ = "string", json_path = ".spec.chart.name"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.chart.version"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("self.version >= oldSelf.version").message("version must not decrease"),
    validation = Rule::new("self.version > oldSelf.version || (self.chart == oldSelf.chart && has(self.valuesRef) == has(oldSelf.valuesRef) && (!has(self.valuesRef) || self.valuesRef == oldSelf.valuesRef))").message("a changed chart or changed values require a higher version"),
    validation = Rule::new("!has(self.asAdministrator) || self.asAdministrator.version == self.version").message("asAdministrator.version must equal version")
)]
#[serde(rename_all = "camelCase")]
pub struct HelmRequestSpec {
    #[schemars(length(min = 1, max = 53), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("releaseName is immutable"))]
    pub release_name: String,
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_PATTERN))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("workspace is immutable"))]
    pub workspace: String,
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_PATTERN))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("cluster is immutable"))]
    pub cluster: String,
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_PATTERN))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("namespace is immutable"))]
    pub namespace: String,
    /// Requested source of the chart.
    pub source: ReleaseSource,
    /// Chart that the source was resolved to at the time of the request; it is not resolved again.
    pub chart: ResolvedChart,
    /// Secret with the values of this version, in the platform's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values_ref: Option<ValuesSecretRef>,
    /// Version of the desired state; incremented with each change.
    #[schemars(range(min = 1))]
    pub version: i64,
    /// Version whose chart and values this version restores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_of: Option<i64>,
    #[serde(default, skip_serializing_if = "ReleaseOptions::is_default")]
    pub options: ReleaseOptions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<Remediation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_detection: Option<DriftDetection>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub patches: Vec<ManifestPatch>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub roles: Vec<RoleOverride>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    pub run_as: RunAs,
    /// Platform administrator whose permissions this version may use until it is deployed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_administrator: Option<AdministratorGrant>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
    #[serde(default, skip_serializing_if = "DeletionPolicy::is_default")]
    pub deletion_policy: DeletionPolicy,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub description: String,
}

/// User whose permissions the release has. The user's groups are looked up at each reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunAs {
    /// User id. Empty: the namespace's `longshore-deployer`, for content from an untrusted Helm record.
    #[schemars(length(max = 63), regex(pattern = OPTIONAL_LABEL_PATTERN))]
    pub user: String,
    /// UID of the user's account, which identifies it if the id is reused.
    pub uid: String,
    /// Scopes of the API token that changed the chart or values; they limit the release's permissions. Empty: not
    /// limited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub scope: Vec<String>,
}

/// Grant of an administrator's permissions for exactly one version of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdministratorGrant {
    /// User id of the administrator.
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_PATTERN))]
    pub user: String,
    /// UID of the administrator's account.
    pub uid: String,
    /// Version of the request that the grant is for.
    pub version: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmRequestStatus {
    /// State of the release, such as `active`, `degraded` or `failed`.
    pub state: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Version of the last deployment.
    pub version: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleaseRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceSummary>,
    pub attempts: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_retry_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_deployed: Option<Time>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deploy_status: Vec<OperationRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Sequence number of the last transition.
    pub sequence: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transitions: Vec<Transition>,
}

/// Release created for a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseRef {
    pub cluster: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    #[serde(default)]
    pub helm_revision: i64,
}

/// Condition types of a request.
pub mod conditions {
    /// The `HelmRelease` was written.
    pub const DISPATCHED: &str = "Dispatched";
    pub const CLUSTER_REACHABLE: &str = "ClusterReachable";
    pub const DEPLOYED: &str = "Deployed";
    pub const READY: &str = "Ready";
    pub const STALLED: &str = "Stalled";
}
