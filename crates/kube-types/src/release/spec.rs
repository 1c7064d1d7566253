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

/// Where a chart is: exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = Rule::new("[has(self.repo), has(self.oci), has(self.__package__)].filter(given, given).size() == 1").message("a source is exactly one of repo, oci and package")
)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseSource {
    /// The `HelmRepo` that has it; `chartName` and `chartVersion` say which chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN_PATTERN))]
    pub repo: Option<String>,
    /// A chart in a registry: `oci://HOST/PATH`, `oci://HOST/PATH:TAG` or `oci://HOST/PATH@sha256:...`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 7, max = 1024), regex(pattern = r"^oci://"))]
    pub oci: Option<String>,
    /// The `HelmPackage` that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN_PATTERN))]
    pub package: Option<String>,
}

/// A Secret, and what is meant in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValuesSecretRef {
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN_PATTERN))]
    pub name: String,
    /// Without it `values.yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = KEY_PATTERN))]
    pub key: Option<String>,
}

/// Values in another object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValuesReference {
    pub kind: ValuesKind,
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN_PATTERN))]
    pub name: String,
    /// Without it `values.yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = KEY_PATTERN))]
    pub values_key: Option<String>,
    /// The place in the values that gets the text, in the words of `--set`; without it the text is YAML and laid over all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 250))]
    pub target_path: Option<String>,
    /// It may be missing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ValuesKind {
    ConfigMap,
    Secret,
}

/// A release of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseDependency {
    #[schemars(length(min = 1, max = 53), regex(pattern = LABEL_PATTERN))]
    pub name: String,
}

/// What to do about objects that somebody else changed.
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
    /// It is corrected.
    Enabled,
    /// It is told.
    Warn,
    #[default]
    Disabled,
}

/// Fields that others may change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriftIgnore {
    /// JSON pointers.
    #[schemars(length(min = 1, max = 64))]
    pub paths: Vec<String>,
    /// In which objects; without it in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<ObjectSelector>,
}

/// Which objects are meant: those that fit all that is said. Names and kinds are anchored patterns, as in kustomize.
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

/// A change to rendered objects: a strategic merge patch, or a list of JSON patch operations, as YAML or JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestPatch {
    #[schemars(length(min = 1, max = 65536))]
    pub patch: String,
    /// Without it, the object that a strategic merge patch names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<ObjectSelector>,
}

/// What is different for one workload of the release.
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
    /// Of which container; without it of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_PATTERN))]
    pub container: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<RoleResources>,
    /// None of its pods run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stopped: bool,
}

/// In the words of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoleResources {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
}

/// How operations are done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one switch")]
pub struct ReleaseOptions {
    /// How long an operation may take, and how long its objects may take to become ready: `1s` to `1h`; without it `5m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 32),
        regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"),
        extend("x-kubernetes-validations" = [{
            "rule": "duration(self) >= duration('1s') && duration(self) <= duration('1h')",
            "message": "a timeout is 1s to 1h",
        }])
    )]
    pub timeout: Option<String>,
    /// An operation ends only when all its objects are ready, and fails if they are not in time. Without it they are
    /// watched afterwards, and the state says how they stand.
    #[serde(skip_serializing_if = "is_false")]
    pub wait: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub wait_for_jobs: bool,
    /// What fails is undone. Waits.
    #[serde(skip_serializing_if = "is_false")]
    pub atomic: bool,
    #[serde(rename = "skipCRDs", skip_serializing_if = "is_false")]
    pub skip_crds: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub disable_hooks: bool,
    /// Objects that cannot be changed are made anew.
    #[serde(skip_serializing_if = "is_false")]
    pub force: bool,
    /// What a failed upgrade made is removed.
    #[serde(skip_serializing_if = "is_false")]
    pub cleanup_on_fail: bool,
    /// Objects that are there already and belong to nobody are taken over.
    #[serde(skip_serializing_if = "is_false")]
    pub take_ownership: bool,
    /// What others did to the release is undone.
    #[serde(skip_serializing_if = "is_false")]
    pub enforce: bool,
    /// How many revisions are kept; without it 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub max_history: Option<i64>,
}

impl ReleaseOptions {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What to do when an operation fails.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remediation {
    /// How often one that failed is tried again; without it five times, and only where that can help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1, max = 100))]
    pub retries: Option<i64>,
    /// What is done about a failed upgrade before it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RemediationStrategy>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RemediationStrategy {
    /// Back to the last revision that was deployed.
    Rollback,
    /// Off the cluster; the next attempt installs it.
    Uninstall,
}

/// What becomes of the objects of a release that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    #[default]
    Uninstall,
    /// They stay, and so does Helm's record.
    Orphan,
}

impl DeletionPolicy {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The request that a release belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestRef {
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN_PATTERN))]
    pub name: String,
    #[schemars(length(max = 253), regex(pattern = UID_PATTERN))]
    pub uid: String,
}
