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
    doc = "Somebody asks for an application",
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
    validation = Rule::new("self.version >= oldSelf.version").message("a version never goes back"),
    validation = Rule::new("self.version > oldSelf.version || (self.chart == oldSelf.chart && has(self.valuesRef) == has(oldSelf.valuesRef) && (!has(self.valuesRef) || self.valuesRef == oldSelf.valuesRef))").message("another chart or other values need a higher version"),
    validation = Rule::new("!has(self.asAdministrator) || self.asAdministrator.version == self.version").message("asAdministrator is for one version")
)]
#[serde(rename_all = "camelCase")]
pub struct HelmRequestSpec {
    #[schemars(length(min = 1, max = 53), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("a release keeps its name"))]
    pub release_name: String,
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_PATTERN))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("a release stays in its workspace"))]
    pub workspace: String,
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_PATTERN))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("a release stays on its cluster"))]
    pub cluster: String,
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_PATTERN))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("a release stays in its namespace"))]
    pub namespace: String,
    /// Where the chart was asked from.
    pub source: ReleaseSource,
    /// What that led to when it was asked: it does not move by itself.
    pub chart: ResolvedChart,
    /// The values of this version, in a Secret of the system's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values_ref: Option<ValuesSecretRef>,
    /// Grows with each change of what is to be deployed.
    #[schemars(range(min = 1))]
    pub version: i64,
    /// The version whose chart and values this one has again.
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
    /// The administrator of the platform whose rights this version may use until it is deployed.
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

/// The person whose rights the release has: their groups are looked up each time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunAs {
    /// The person's id. Empty: the namespace's deployer, for what was taken from a Helm record that is not trusted.
    #[schemars(length(max = 63), regex(pattern = OPTIONAL_LABEL_PATTERN))]
    pub user: String,
    /// The UID of the person's account: another under the same id is somebody else.
    pub uid: String,
    /// The scope of the API token by which chart or values were changed; the release never does more. Empty: not limited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub scope: Vec<String>,
}

/// An administrator's permission to use their rights for exactly one version of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdministratorGrant {
    /// The administrator's id.
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_PATTERN))]
    pub user: String,
    /// The UID of the administrator's account.
    pub uid: String,
    /// The version of the request that it holds for.
    pub version: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmRequestStatus {
    /// A word of `domain::release::State`, as the release has it.
    pub state: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The version that was deployed last.
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
    /// Grows with each change of state.
    pub sequence: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transitions: Vec<Transition>,
}

/// The release that was made for a request.
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
