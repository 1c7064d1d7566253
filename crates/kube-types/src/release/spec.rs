//! Types used inside the spec of a release; a request uses the same types.

use std::collections::BTreeMap;

use domain::names::{KEY_PATTERN, LABEL_PATTERN, NAME_PATTERN, SUBDOMAIN_PATTERN};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_false;

/// Pattern of kinds.
const KIND_PATTERN: &str = r"^[A-Za-z][A-Za-z0-9]*$";
/// Pattern of UIDs.
const UID_PATTERN: &str = r"^[-A-Za-z0-9]*$";

/// Source of a chart: exactly one of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = Rule::new("[has(self.repo), has(self.oci), has(self.__package__)].filter(given, given).size() == 1").message("exactly one of repo, oci and package must be set")
)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseSource {
    /// Name of a `HelmRepo`; `chartName` and `chartVersion` select the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN_PATTERN))]
    pub repo: Option<String>,
    /// Chart in a registry: `oci://HOST/PATH`, `oci://HOST/PATH:TAG` or `oci://HOST/PATH@sha256:...`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 7, max = 1024), regex(pattern = r"^oci://"))]
    pub oci: Option<String>,
    /// Name of a `HelmPackage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN_PATTERN))]
    pub package: Option<String>,
}

/// Secret with values, and the key in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValuesSecretRef {
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN_PATTERN))]
    pub name: String,
    /// Key in the object's data [default: `values.yaml`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = KEY_PATTERN))]
    pub key: Option<String>,
}

/// ConfigMap or Secret with values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValuesReference {
    pub kind: ValuesKind,
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN_PATTERN))]
    pub name: String,
    /// Key in the object's data [default: `values.yaml`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = KEY_PATTERN))]
    pub values_key: Option<String>,
    /// Path of the value to set, in the syntax of `--set`. If unset, the content is YAML and merged into the values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 250))]
    pub target_path: Option<String>,
    /// Do not fail if the object or the key does not exist.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ValuesKind {
    ConfigMap,
    Secret,
}

/// Release of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseDependency {
    #[schemars(length(min = 1, max = 53), regex(pattern = LABEL_PATTERN))]
    pub name: String,
}

/// Detection and correction of changes to objects by other clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriftDetection {
    #[serde(default)]
    pub mode: DriftMode,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ignore: Vec<DriftIgnore>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DriftMode {
    /// Drift is corrected.
    Enabled,
    /// Drift is reported.
    Warn,
    #[default]
    Disabled,
}

/// Fields whose changes are not drift.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriftIgnore {
    /// JSON pointers of the fields.
    #[schemars(length(min = 1, max = 64))]
    pub paths: Vec<String>,
    /// Objects that the rule applies to [default: all].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<ObjectSelector>,
}

/// Selects the objects that match all given fields. Names and kinds are anchored regular expressions, as in kustomize.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSelector {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotation_selector: Option<String>,
}

/// Change to rendered objects: a strategic merge patch, or a list of JSON patch operations, as YAML or JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestPatch {
    #[schemars(length(min = 1, max = 65536))]
    pub patch: String,
    /// Objects to patch [default: the object named by the strategic merge patch].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<ObjectSelector>,
}

/// Override for one workload of the release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleOverride {
    #[schemars(length(min = 1, max = 63), regex(pattern = KIND_PATTERN))]
    pub kind: String,
    #[schemars(length(min = 1, max = 253), regex(pattern = NAME_PATTERN))]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub replicas: Option<i64>,
    /// Container that `resources` applies to [default: the first].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_PATTERN))]
    pub container: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<RoleResources>,
    /// Scales the workload to zero.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stopped: bool,
}

/// Resources, as in a container's `resources`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoleResources {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
}

/// Options of operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one switch")]
pub struct ReleaseOptions {
    /// Timeout of an operation, and of the wait for its objects to become ready: `1s` to `1h` [default: `5m`].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 32),
        regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"),
        extend("x-kubernetes-validations" = [{
            "rule": "duration(self) >= duration('1s') && duration(self) <= duration('1h')",
            "message": "timeout must be 1s to 1h",
        }])
    )]
    pub timeout: Option<String>,
    /// Wait until all objects are ready, and fail the operation if they are not ready in time. If unset, the operation
    /// ends without waiting, and readiness is reported in the state afterwards.
    #[serde(skip_serializing_if = "is_false")]
    pub wait: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub wait_for_jobs: bool,
    /// Roll back a failed upgrade and uninstall a failed installation. Implies `wait`.
    #[serde(skip_serializing_if = "is_false")]
    pub atomic: bool,
    #[serde(rename = "skipCRDs", skip_serializing_if = "is_false")]
    pub skip_crds: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub disable_hooks: bool,
    /// Delete and recreate objects that cannot be updated.
    #[serde(skip_serializing_if = "is_false")]
    pub force: bool,
    /// Delete objects that a failed upgrade created.
    #[serde(skip_serializing_if = "is_false")]
    pub cleanup_on_fail: bool,
    /// Take ownership of existing objects that belong to no release.
    #[serde(skip_serializing_if = "is_false")]
    pub take_ownership: bool,
    /// Revert changes that other clients, such as the helm command, make to the release.
    #[serde(skip_serializing_if = "is_false")]
    pub enforce: bool,
    /// Maximum number of revisions to keep [default: 10].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub max_history: Option<i64>,
}

impl ReleaseOptions {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Handling of failed operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remediation {
    /// Maximum number of retries of a failed operation; -1: unlimited, including permanent errors, which are otherwise
    /// not retried. If unset, an operation is attempted at most five times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1, max = 100))]
    pub retries: Option<i64>,
    /// Action after a failed upgrade, before it is retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RemediationStrategy>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RemediationStrategy {
    /// Roll back to the last deployed revision.
    Rollback,
    /// Uninstall the release; the next attempt installs it.
    Uninstall,
}

/// Handling of a release's objects when the release is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    #[default]
    Uninstall,
    /// Objects and Helm records are kept.
    Orphan,
}

impl DeletionPolicy {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Reference to the HelmRequest of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestRef {
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN_PATTERN))]
    pub name: String,
    #[schemars(length(max = 253), regex(pattern = UID_PATTERN))]
    pub uid: String,
}
