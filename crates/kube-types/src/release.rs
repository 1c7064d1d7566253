//! `HelmRelease`, namespaced, of KubeSphere's design: one Helm release on one cluster, with the same name as its Helm
//! records.
//!
//! Fields from KubeSphere's specification keep their meaning. Added fields are spelled as in Flux's
//! `helm.toolkit.fluxcd.io/v2` if Flux has them.
//!
//! Invariant: the spec cannot name a user to act as. With [`HelmReleaseSpec::request_ref`] the release acts as the
//! user of the request, and only the platform can write it. Without, it acts as a ServiceAccount of its own
//! namespace.
//!
//! Modules: types of the spec ([`spec`]) and the status ([`status`]). See also: [`crate::request`].

pub mod spec;
pub mod status;

use domain::names::{NAME_PATTERN, SUBDOMAIN_PATTERN};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use spec::{
    DeletionPolicy, DriftDetection, DriftIgnore, DriftMode, ManifestPatch, ObjectSelector, ReleaseDependency,
    ReleaseOptions, ReleaseSource, Remediation, RemediationStrategy, RequestRef, RoleOverride, ValuesKind,
    ValuesReference, ValuesSecretRef,
};
pub use status::{
    CurrentOperation, HelmReleaseStatus, HelmState, InventoryEntry, OperationRecord, ResolvedChart,
    ResourceSummary, RevisionRecord, UnreadyObject,
};

#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "longshore.dev",
    version = "v1alpha1",
    kind = "HelmRelease",
    plural = "helmreleases",
    shortname = "hrls",
    category = "longshore",
    namespaced,
    status = "HelmReleaseStatus",
    derive = "PartialEq",
    doc = "Helm release on one cluster",
    validation = Rule::new("self.spec.name == self.metadata.name").message("spec.name must equal metadata.name"),
    printcolumn(name = "Chart", type_ = "string", json_path = ".status.chart.name"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.chart.version"),
    printcolumn(name = "Revision", type_ = "integer", json_path = ".status.helm.revision"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("has(self.source) || has(self.applicationId) || has(self.requestRef)").message("a release requires a source: a repository, an OCI reference or a package"),
    validation = Rule::new("has(self.requestRef) == has(oldSelf.requestRef)").message("requestRef determines the release's identity and cannot be added or removed")
)]
#[serde(rename_all = "camelCase")]
pub struct HelmReleaseSpec {
    /// Name of the release; must equal the name of the object.
    #[schemars(length(min = 1, max = 53), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Increment to repeat the operation without changing the spec. Changes of the spec take effect without it.
    #[serde(default = "first")]
    #[schemars(range(min = 1))]
    pub version: i64,
    /// User who requested the release. Informational; not used for authorisation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub username: String,
    /// Values: YAML in base64.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 700_000))]
    pub values: String,
    /// Name of the chart in the repository. For an OCI reference or a package, the chart's name must match if set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 250), regex(pattern = CHART_PATTERN))]
    pub chart_name: String,
    /// Chart version or version range; empty: the latest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub chart_version: String,
    /// Informational; the chart's own `appVersion` is in the status.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub chart_app_version: String,
    /// Application in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = NAME_PATTERN))]
    pub application_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = NAME_PATTERN))]
    pub application_version_id: Option<String>,

    /// Source of the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ReleaseSource>,
    /// Inline values; they take precedence over all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub values_object: Option<Map<String, Value>>,
    /// Secret with values, in the release's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values_ref: Option<ValuesSecretRef>,
    /// ConfigMaps and Secrets with values, in the release's namespace. Later entries take precedence over earlier ones,
    /// and the other sources of values over these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub values_from: Vec<ValuesReference>,
    /// Interval of full reconciliation, for example `10m`, at least `30s`. If unset, the release is reconciled on
    /// changes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("duration(self) >= duration('30s')").message("interval must be at least 30s"))]
    #[schemars(length(max = 32), regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"))]
    pub interval: Option<String>,
    /// Releases of the same namespace that must be ready before this one is installed or upgraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub depends_on: Vec<ReleaseDependency>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_detection: Option<DriftDetection>,
    #[serde(default, skip_serializing_if = "ReleaseOptions::is_default")]
    pub options: ReleaseOptions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<Remediation>,
    /// Changes to the rendered objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub patches: Vec<ManifestPatch>,
    /// Overrides for single workloads, kept across upgrades.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub roles: Vec<RoleOverride>,
    /// Scales the workloads to zero; volumes and Services are kept.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// Suspends reconciliation.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
    #[serde(default, skip_serializing_if = "DeletionPolicy::is_default")]
    pub deletion_policy: DeletionPolicy,
    /// ServiceAccount of the release's namespace that the release acts as [default: `longshore-deployer`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN_PATTERN))]
    pub service_account_name: Option<String>,
    /// HelmRequest that this release belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("requestRef is immutable"))]
    pub request_ref: Option<RequestRef>,
}

/// Pattern of chart names: text without URL separators and control characters.
const CHART_PATTERN: &str = r"^[^/?#%\x00-\x20\x7f]*$";

/// Default ServiceAccount of a release without a request.
pub const DEPLOYER: &str = "longshore-deployer";

fn first() -> i64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
pub(crate) fn is_false(value: &bool) -> bool {
    !value
}

fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Condition types of a release.
pub mod conditions {
    /// The last operation ended with a deployed record.
    pub const DEPLOYED: &str = "Deployed";
    /// Deployed, and all objects are ready.
    pub const READY: &str = "Ready";
    /// No further attempt is made until the spec changes.
    pub const STALLED: &str = "Stalled";
    /// Another client, such as the helm command line, changed the release since the last operation.
    pub const OUT_OF_BAND: &str = "OutOfBandChange";
    /// Objects on the cluster differ from the deployed revision.
    pub const DRIFTED: &str = "Drifted";
    /// The release cannot be uninstalled; the message gives the reason.
    pub const UNINSTALL_BLOCKED: &str = "UninstallBlocked";
}
