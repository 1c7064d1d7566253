//! The release as callers see it.

use domain::release::ReleaseState;
use domain::status::StatusView;
use helm_release::{Record, Status};
use jiff::Timestamp;
use kube::ResourceExt;
use kube_types::release::status::{OperationRecord, ResolvedChart, ResourceSummary, UnreadyObject};
use kube_types::{HelmRelease, HelmRequest};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::index::row::status_category;

/// Release, in a list or as a single object.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseView {
    pub cluster: String,
    pub namespace: String,
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub workspace: String,
    pub chart: ChartView,
    /// Version of the last request.
    pub version: i64,
    /// Version of the last deployment.
    pub deployed_version: i64,
    /// Helm revision.
    pub revision: i64,
    /// Status category, common to all kinds of objects: good, moving, attention, bad, resting, unknown or none.
    pub status: &'static str,
    /// State of the release, such as `active` or `degraded`.
    pub state: String,
    /// Desired state: running, stopped or not-installed.
    #[schemars(with = "String")]
    pub expect: domain::status::ExpectedStatus,
    /// Last observed state.
    #[schemars(with = "String")]
    pub realtime: domain::status::RealtimeStatus,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Whether retries have stopped until the release is changed.
    pub stalled: bool,
    pub objects: i64,
    pub ready: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_ready: Vec<NotReadyView>,
    pub paused: bool,
    pub suspended: bool,
    /// User of the last request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    #[schemars(with = "Option<String>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    #[schemars(with = "Option<String>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<Timestamp>,
    #[schemars(with = "Option<String>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployed: Option<Timestamp>,
    /// Sequence number of the last state transition.
    pub sequence: i64,
    /// Version of the desired state, for `If-Match`.
    pub v: String,
    pub made_by: ManagedBy,
    /// Operation id of the last request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operation: String,
}

/// Manager of a release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ManagedBy {
    /// Requested through the platform.
    #[default]
    Request,
    /// A `HelmRelease` that is written directly, without a request.
    Hand,
    /// The helm command line. The release can be adopted.
    Helm,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Chart")]
pub struct ChartView {
    pub name: String,
    pub version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "NotReady")]
pub struct NotReadyView {
    pub kind: String,
    pub name: String,
    pub reason: String,
}

/// Helm revision.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Revision")]
pub struct RevisionView {
    pub revision: i64,
    pub status: String,
    pub description: String,
    pub chart: ChartView,
    #[schemars(with = "Option<String>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<Timestamp>,
    /// Version of the request that created the revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
}

/// Values of a release, with sensitive values masked.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ReleaseValues")]
pub struct ValuesView {
    pub revision: i64,
    pub values: Value,
}

impl ChartView {
    pub fn from_record(record: &Record) -> Self {
        let head = record.chart.metadata();
        Self { name: head.name, version: head.version, app_version: head.app_version, digest: String::new() }
    }
}

impl From<&ResolvedChart> for ChartView {
    fn from(chart: &ResolvedChart) -> Self {
        Self {
            name: chart.name.clone(),
            version: chart.version.clone(),
            app_version: chart.app_version.clone(),
            digest: chart.digest.clone(),
        }
    }
}

/// The state of a release together with the latest version of its request. The state belongs to an older spec until the release has
/// reconciled the latest.
pub(crate) fn release_state(release: &HelmRelease, request: Option<&HelmRequest>) -> ReleaseState {
    let Some(status) = &release.status else { return ReleaseState::Pending };
    let state = status.state.parse().unwrap_or(ReleaseState::Pending);
    let Some(request) = request else { return state };
    let is_old = request.spec.version > release.spec.version
        || status.observed_generation != release.metadata.generation;
    state_for_spec(state, is_old, status.version, request)
}

/// Like [`release_state`], if there is no release yet.
pub(crate) fn request_state(request: &HelmRequest) -> ReleaseState {
    let Some(status) = &request.status else { return ReleaseState::Pending };
    let state = status.state.parse().unwrap_or(ReleaseState::Pending);
    let is_old = status.observed_generation != request.metadata.generation;
    state_for_spec(state, is_old, status.version, request)
}

/// `deployed` is the deployed version, or zero.
fn state_for_spec(state: ReleaseState, is_old: bool, deployed: i64, request: &HelmRequest) -> ReleaseState {
    // A suspended release is not reconciled, whatever its request says.
    if !is_old || request.spec.suspend {
        return state;
    }
    state.with_unobserved_spec(deployed > 0, request.spec.rollback_of.is_some())
}

impl ReleaseView {
    /// A view of a `HelmRelease` and its request.
    pub fn from_release(release: &HelmRelease, request: Option<&HelmRequest>) -> Self {
        let status = release.status.clone().unwrap_or_default();
        let state = release_state(release, request);
        let StatusView { expect, realtime } = state.status_view(release.spec.paused);
        let ResourceSummary { total, ready, not_ready } = status.resources.unwrap_or_default();
        let chart = status.chart.as_ref().or(request.map(|request| &request.spec.chart));
        let timestamp =
            |time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| time.map(|time| time.0);
        Self {
            cluster: super::HOST_CLUSTER.to_owned(),
            namespace: release.namespace().unwrap_or_default(),
            name: release.name_any(),
            workspace: request.map(|request| request.spec.workspace.clone()).unwrap_or_default(),
            chart: chart.map(ChartView::from).unwrap_or_default(),
            version: request.map_or(release.spec.version, |request| request.spec.version),
            deployed_version: status.version,
            revision: status.helm.map_or(0, |helm| helm.revision),
            status: state.category().as_str(),
            state: state.to_string(),
            expect,
            realtime,
            message: status.message,
            stalled: kube_types::conditions::is_condition_true(
                &status.conditions,
                kube_types::release::conditions::STALLED,
            ),
            objects: total,
            ready,
            not_ready: not_ready.into_iter().map(NotReadyView::from).collect(),
            paused: release.spec.paused,
            suspended: release.spec.suspend,
            by: last_deployed_by(&status.deploy_status, release),
            created: timestamp(release.metadata.creation_timestamp.as_ref()),
            updated: timestamp(status.last_update.as_ref()),
            deployed: timestamp(status.last_deployed.as_ref()),
            sequence: status.sequence,
            v: request.map_or_else(|| etag(release), etag),
            made_by: if release.spec.request_ref.is_some() { ManagedBy::Request } else { ManagedBy::Hand },
            operation: request.map(super::operation::operation_id).unwrap_or_default(),
        }
    }

    /// A view of a release that exists only in Helm's records.
    pub fn from_record(record: &Record) -> Self {
        let status = record.info.status;
        let state = match status {
            Status::Failed => ReleaseState::Failed,
            Status::Deployed => ReleaseState::Active,
            _ => ReleaseState::Unknown,
        };
        let StatusView { expect, realtime } = state.status_view(false);
        Self {
            cluster: super::HOST_CLUSTER.to_owned(),
            namespace: record.namespace.clone(),
            name: record.name.clone(),
            workspace: String::new(),
            chart: ChartView::from_record(record),
            version: 0,
            deployed_version: 0,
            revision: record.version,
            status: status_category(status).as_str(),
            state: status.as_str().to_owned(),
            expect,
            realtime,
            message: String::new(),
            stalled: false,
            objects: 0,
            ready: 0,
            not_ready: Vec::new(),
            paused: false,
            suspended: false,
            by: String::new(),
            created: record.info.first_deployed.timestamp(),
            updated: record.info.last_deployed.timestamp(),
            deployed: record.info.last_deployed.timestamp(),
            sequence: 0,
            v: format!("r{}", record.version),
            made_by: ManagedBy::Helm,
            operation: String::new(),
        }
    }

    /// A view of a request whose release does not exist or is not up to date.
    pub fn from_request(request: &HelmRequest) -> Self {
        let release = crate::requests::release_spec::build_release(request);
        let mut view = Self::from_release(&release, Some(request));
        let status = request.status.clone().unwrap_or_default();
        view.set_state(request_state(request));
        view.message = status.message;
        view.by.clone_from(&request.spec.run_as.user);
        view.created = request.metadata.creation_timestamp.as_ref().map(|time| time.0);
        view.deployed_version = status.version;
        view.revision = status.release.map_or(0, |release| release.helm_revision);
        view.sequence = status.sequence;
        view
    }
}

impl ReleaseView {
    /// A view of a request that was just deleted.
    pub fn from_deleted_request(request: &HelmRequest) -> Self {
        let mut view = Self::from_request(request);
        view.set_state(ReleaseState::Deleting);
        view
    }

    fn set_state(&mut self, state: ReleaseState) {
        let StatusView { expect, realtime } = state.status_view(self.paused);
        (self.expect, self.realtime) = (expect, realtime);
        (self.state, self.status) = (state.to_string(), state.category().as_str());
    }
}

/// An entity tag: it changes with the spec and not with the state. A recreated object of the same name has another one.
pub(crate) fn etag<K: ResourceExt>(object: &K) -> String {
    let uid: String =
        object.uid().unwrap_or_default().chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    format!("{uid}{}", object.meta().generation.unwrap_or_default())
}

fn last_deployed_by(deployed: &[OperationRecord], release: &HelmRelease) -> String {
    let last = deployed.first().map(|deployed| deployed.by.clone());
    last.filter(|by| !by.is_empty()).unwrap_or_else(|| release.spec.username.clone())
}

impl From<UnreadyObject> for NotReadyView {
    fn from(object: UnreadyObject) -> Self {
        let UnreadyObject { kind, namespace: _, name, reason } = object;
        Self { kind, name, reason }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Desired version, version of the release, its generation, its observed generation, deployed version, state, whether the request is
    /// suspended; and the expected state.
    type Case = (i64, i64, i64, i64, i64, &'static str, bool, ReleaseState);

    #[test]
    fn state_of_older_spec_is_not_reported_for_newer_version() {
        #[rustfmt::skip]
        let cases: [Case; 12] = [
            (1, 1, 1, 1, 1, "active",    false, ReleaseState::Active),
            (2, 1, 1, 1, 1, "active",    false, ReleaseState::Upgrading),
            (2, 2, 2, 1, 1, "active",    false, ReleaseState::Upgrading),
            (2, 2, 2, 2, 1, "failed",    false, ReleaseState::Failed),
            (3, 2, 2, 2, 1, "failed",    false, ReleaseState::Upgrading),
            (2, 1, 1, 1, 0, "failed",    false, ReleaseState::Creating),
            (2, 1, 1, 1, 0, "creating",  false, ReleaseState::Creating),
            (2, 1, 1, 1, 1, "deleting",  false, ReleaseState::Deleting),
            (2, 1, 1, 1, 1, "",          false, ReleaseState::Pending),
            (2, 1, 1, 1, 1, "active",    true,  ReleaseState::Active),
            (3, 2, 2, 2, 1, "suspended", true,  ReleaseState::Suspended),
            (3, 2, 2, 2, 1, "suspended", false, ReleaseState::Upgrading),
        ];
        for case @ (asked, version, generation, looked, deployed, says, suspend, told) in cases {
            let release: HelmRelease = serde_json::from_value(json!({
                "metadata": {"name": "web", "generation": generation},
                "spec": {"name": "web", "version": version, "source": {"package": "pkg-a"}},
                "status": {"state": says, "version": deployed, "observedGeneration": looked},
            }))
            .unwrap();
            let request: HelmRequest = serde_json::from_value(json!({
                "metadata": {"name": "r"},
                "spec": {
                    "version": asked, "suspend": suspend, "workspace": "w", "namespace": "w", "releaseName": "web", "cluster": "host",
                    "runAs": {"user": "u", "uid": "1"}, "source": {"package": "pkg-a"},
                    "chart": {"name": "web", "version": "1.0.0", "digest": "sha256:a"},
                },
            }))
            .unwrap();
            assert_eq!(release_state(&release, Some(&request)), told, "{case:?}");
            let alone = says.parse().unwrap_or(ReleaseState::Pending);
            assert_eq!(release_state(&release, None), alone, "{case:?}");
        }
    }
}
