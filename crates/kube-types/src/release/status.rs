//! Status of a release.

use domain::names::OPTIONAL_SUBDOMAIN_PATTERN;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_false;
use crate::conditions::Transition;

/// Pattern of chart names from chart metadata; may be empty.
const CHART_NAME_PATTERN: &str = r"^([A-Za-z0-9][-._~!$&'()*+,;=:@A-Za-z0-9]*)?$";

/// Maximum number of objects listed as not ready.
pub const MAX_NOT_READY: usize = 20;
/// Maximum number of objects outside the namespace in the inventory.
pub const MAX_INVENTORY: usize = 200;
/// Maximum number of objects written with an administrator's rights.
pub const MAX_ADMINISTERED: usize = 200;
/// Maximum number of recorded revisions made by the platform.
pub const MAX_REVISIONS: usize = 100;
/// Number of recorded operations.
pub const MAX_DEPLOY_STATUS: usize = 10;
/// Maximum length of a message in characters.
pub const MAX_MESSAGE_LEN: usize = 2048;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmReleaseStatus {
    /// State of the release, such as `active`, `degraded` or `failed`.
    pub state: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// `spec.version` of the last deployment.
    #[serde(skip_serializing_if = "is_zero")]
    pub version: i64,
    /// MD5 of the values.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hash: String,
    /// SHA-256 over chart digest, values and options of the last deployment.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub spec_hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update: Option<Time>,
    /// Time of the last successful operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_deployed: Option<Time>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<ResolvedChart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceSummary>,
    /// Operation in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<CurrentOperation>,
    /// Revisions made by the platform whose Helm records still exist. The content of all other records is untrusted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<RevisionRecord>,
    /// Objects outside the release's namespace, recorded so that they are deleted with the release.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inventory: Vec<InventoryEntry>,
    /// Objects written with a platform administrator's permissions (`asAdministrator`), because the release's own
    /// identity may not write them. Operations without that option do not change them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub administered: Vec<InventoryEntry>,
    /// Recent operations, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deploy_status: Vec<OperationRecord>,
    /// Number of failed attempts at the current desired state.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempts: i64,
    /// Desired state of the failed attempts, as `HASH/VERSION`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub attempted_hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_retry_time: Option<Time>,
    /// Number of consecutive operations that were started but never finished, because the server stopped or aborted
    /// them.
    #[serde(skip_serializing_if = "is_zero")]
    pub interruptions: i64,
    /// Generation whose chart and values are being fetched and parsed, before an operation begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preparing: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Sequence number of the last transition.
    pub sequence: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transitions: Vec<Transition>,
}

/// State of the newest Helm record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmState {
    pub revision: i64,
    /// Id of the platform's operation that created the record, or of the one it was copied from. Revision numbers
    /// restart after an uninstallation; this id does not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operation: String,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_deployed: Option<Time>,
}

/// Helm record created by the platform.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevisionRecord {
    pub revision: i64,
    /// `spec.version` of the revision; for a rollback, that of the restored revision.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub version: i64,
    /// SHA-256 over the record's chart, values, manifest and hooks.
    pub digest: String,
    /// Identity that rendered and applied the revision.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Whether the revision was created with the option `asAdministrator`: an administrator determined all of its
    /// content.
    #[serde(default, skip_serializing_if = "is_false")]
    pub as_administrator: bool,
    /// JSON pointers of the sensitive values; an empty pointer means all values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitive: Vec<String>,
}

/// Chart that the source and version were resolved to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedChart {
    #[schemars(length(max = 250), regex(pattern = CHART_NAME_PATTERN))]
    pub name: String,
    pub version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// Digest of the archive: `sha256:` and 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// `HelmPackage` that stores the chart.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253), regex(pattern = OPTIONAL_SUBDOMAIN_PATTERN))]
    pub package: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSummary {
    pub total: i64,
    pub ready: i64,
    /// Objects that are not ready, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub not_ready: Vec<UnreadyObject>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnreadyObject {
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CurrentOperation {
    pub id: String,
    pub kind: String,
    pub started_at: Time,
    pub deadline: Time,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct InventoryEntry {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

/// Finished operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationRecord {
    pub version: i64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub helm_revision: i64,
    pub state: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    pub deploy_time: Time,
    /// User who requested the operation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Version whose chart and values the operation restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_of: Option<i64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}
