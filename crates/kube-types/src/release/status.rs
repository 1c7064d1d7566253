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
    /// A word of `domain::release::State`.
    pub state: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The `spec.version` that was deployed last.
    #[serde(skip_serializing_if = "is_zero")]
    pub version: i64,
    /// The md5 of the values.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hash: String,
    /// The SHA-256 over chart digest, values and options of what was deployed last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub spec_hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update: Option<Time>,
    /// When an operation last succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_deployed: Option<Time>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<ResolvedChart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceSummary>,
    /// What is being done now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<CurrentOperation>,
    /// The revisions that the platform made and that Helm keeps. The content of any other record is not trusted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<RevisionRecord>,
    /// Objects outside the release's namespace, which nothing else would remove.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inventory: Vec<InventoryEntry>,
    /// Objects that an administrator of the platform wrote (`asAdministrator`), because the release's own identity may not.
    /// Operations without that option leave them alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub administered: Vec<InventoryEntry>,
    /// The last operations, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deploy_status: Vec<OperationRecord>,
    /// How often what is wanted now was tried in vain.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempts: i64,
    /// What was tried in vain: its hash, a slash, and its version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub attempted_hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_retry_time: Option<Time>,
    /// Operations in a row that began and never ended, because the server stopped or gave up in the middle.
    #[serde(skip_serializing_if = "is_zero")]
    pub interruptions: i64,
    /// The generation whose chart and values are being fetched and read, before an operation begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preparing: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Grows with each change of state.
    pub sequence: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transitions: Vec<Transition>,
}

/// What Helm's newest record says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmState {
    pub revision: i64,
    /// Which operation of ours made it, or what it was copied from: numbers of revisions begin anew after an uninstallation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operation: String,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_deployed: Option<Time>,
}

/// What is known of a Helm record that the platform made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevisionRecord {
    pub revision: i64,
    /// The `spec.version` that it was made of; of a rollback, that of the revision it restores.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub version: i64,
    /// SHA-256 over chart, values, manifest and hooks of the record.
    pub digest: String,
    /// The identity that it was rendered and applied as.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// It was made with the option `asAdministrator`: all of its content was stated by an administrator.
    #[serde(default, skip_serializing_if = "is_false")]
    pub as_administrator: bool,
    /// Which of its values are sensitive, as JSON pointers; the empty one is all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitive: Vec<String>,
}

/// The chart that the source and the version led to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedChart {
    #[schemars(length(max = 250), regex(pattern = CHART_NAME_PATTERN))]
    pub name: String,
    pub version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// `sha256:` and 64 digits, of the archive.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// The `HelmPackage` that keeps it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253), regex(pattern = OPTIONAL_SUBDOMAIN_PATTERN))]
    pub package: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSummary {
    pub total: i64,
    pub ready: i64,
    /// The first that are not.
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

/// One operation that ended.
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
    /// Who asked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// The version whose chart and values it went back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_of: Option<i64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}
