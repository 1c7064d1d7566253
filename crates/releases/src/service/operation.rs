//! Progress of operations: each version of a request is one operation.
//!
//! Nothing is stored for it: it is derived from the request and its release.

use domain::Actor;
use domain::ids::truncate_for_error;
use domain::names::check_subdomain;
use domain::release::ReleaseState;
use domain::roles::Capability;
use jiff::Timestamp;
use kube::ResourceExt;
use kube_types::conditions::is_condition_true;
use kube_types::release::conditions::STALLED;
use kube_types::{HelmRelease, HelmRequest};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;

use super::{Error, HOST_CLUSTER};
use crate::Releases;
use crate::requests::release_spec;

/// Operation on a release.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Operation")]
pub struct OperationView {
    pub id: String,
    /// Kind of operation: install, upgrade, rollback or uninstall.
    pub act: &'static str,
    /// Cluster, namespace and name of the release.
    pub target: String,
    pub state: OperationPhase,
    pub steps: Vec<StepView>,
    #[schemars(with = "Option<String>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// User who requested the operation.
    pub by: String,
    /// Always false: operations cannot be cancelled. An operation superseded by another one gets the state `cancelled`.
    pub cancellable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "OperationState")]
pub enum OperationPhase {
    Queued,
    Running,
    Done,
    Failed,
    Cancelled,
}

impl OperationPhase {
    /// Whether the phase is final.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "OperationStep")]
pub struct StepView {
    /// Step: accepted, dispatched, deployed, ready; or removed.
    pub name: &'static str,
    pub state: OperationPhase,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    #[schemars(with = "Option<String>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// The id of the operation for the current version of a request.
pub fn operation_id(request: &HelmRequest) -> String {
    format!("{}.{}", request.name_any(), request.spec.version)
}

impl Releases {
    /// The progress of an operation, if the caller may see its release.
    pub async fn operation(&self, actor: &Actor, id: &str) -> Result<OperationView, Error> {
        let unknown = || Error::OperationNotFound(truncate_for_error(id));
        let (name, version) = id.rsplit_once('.').ok_or_else(unknown)?;
        let version = version.parse().map_err(|_| unknown())?;
        check_subdomain(name).map_err(|_| unknown())?;
        let request = match self.inner().requests.get(name) {
            Some(request) if request.spec.version >= version => HelmRequest::clone(&request),
            // The watch may not have delivered a new request yet.
            _ => self.request_api().get_opt(name).await?.ok_or_else(unknown)?,
        };
        let seen = self.authorized_workspace(actor, Capability::ReadReleases, &request.spec.namespace);
        seen.map_err(|_| unknown())?;
        if !self.is_current(&request) || !(1..=request.spec.version).contains(&version) {
            return Err(unknown());
        }
        let release =
            self.inner().releases.get_namespaced(&request.spec.namespace, &request.spec.release_name);
        let release = release.filter(|release| release_spec::is_owned_by(release, &request));
        Ok(operation_view(&request, release.as_deref(), version))
    }

    /// A counter that changes with every event of any release.
    pub fn watch_changes(&self) -> watch::Receiver<u64> {
        self.inner().index.watch_changes()
    }
}

fn operation_view(request: &HelmRequest, release: Option<&HelmRelease>, version: i64) -> OperationView {
    let leaving = request.metadata.deletion_timestamp.as_ref();
    let current = version == request.spec.version;
    let status = release.and_then(|release| release.status.as_ref());
    let ended = status.and_then(|status| status.deploy_status.iter().find(|done| done.version == version));
    let act = match (leaving, request.spec.rollback_of, version) {
        (Some(_), ..) if current => "uninstall",
        (_, _, 1) => "install",
        (_, Some(_), _) if current => "rollback",
        _ if ended.is_some_and(|done| done.rollback_of.is_some()) => "rollback",
        _ => "upgrade",
    };
    let steps = match leaving {
        Some(_) if current => vec![removal_step(release)],
        _ => operation_steps(request, release, version),
    };
    let state = overall_phase(&steps, current);
    OperationView {
        id: format!("{}.{version}", request.name_any()),
        act,
        target: format!("{HOST_CLUSTER}/{}/{}", request.spec.namespace, request.spec.release_name),
        state,
        steps,
        deadline: status
            .and_then(|status| status.operation.as_ref())
            .filter(|_| current)
            .map(|operation| operation.deadline.0),
        by: ended.map_or(&request.spec.run_as.user, |done| &done.by).clone(),
        cancellable: false,
    }
}

/// The overall state of the steps.
fn overall_phase(steps: &[StepView], current: bool) -> OperationPhase {
    let is = |phase: OperationPhase| steps.iter().any(|step| step.state == phase);
    if is(OperationPhase::Failed) {
        OperationPhase::Failed
    } else if steps.iter().all(|step| step.state == OperationPhase::Done) {
        OperationPhase::Done
    } else if !current {
        OperationPhase::Cancelled
    } else if is(OperationPhase::Running) {
        OperationPhase::Running
    } else {
        OperationPhase::Queued
    }
}

fn operation_steps(request: &HelmRequest, release: Option<&HelmRelease>, version: i64) -> Vec<StepView> {
    let step = |name, state| StepView { name, state, note: String::new(), at: None };
    let mut steps = vec![step("accepted", OperationPhase::Done)];
    let current_status =
        request.status.as_ref().filter(|told| told.observed_generation == request.metadata.generation);
    let dispatched = release.is_some_and(|release| release.spec.version >= version);
    steps.push(
        match current_status.filter(|told| !dispatched && told.state == ReleaseState::Failed.as_str()) {
            Some(told) => {
                StepView { note: told.message.clone(), ..step("dispatched", OperationPhase::Failed) }
            }
            None => {
                step("dispatched", if dispatched { OperationPhase::Done } else { OperationPhase::Queued })
            }
        },
    );
    let Some(release) = release else {
        steps.extend([step("deployed", OperationPhase::Queued), step("ready", OperationPhase::Queued)]);
        return steps;
    };
    let status = release.status.clone().unwrap_or_default();
    // The status belongs to this version only if the release has it and was reconciled since.
    let is_reconciled =
        release.spec.version == version && status.observed_generation == release.metadata.generation;
    let stalled = is_condition_true(&status.conditions, STALLED);
    let ended = status.deploy_status.iter().find(|done| done.version == version);
    let failed = ended.is_some_and(|done| done.state == ReleaseState::Failed.as_str());
    let at = ended.map(|done| done.deploy_time.0);
    let deployed = (ended.is_some() && !failed) || (is_reconciled && status.version == version);
    let phase = match () {
        () if deployed => OperationPhase::Done,
        () if is_reconciled && stalled => OperationPhase::Failed,
        () if is_reconciled && (status.operation.is_some() || status.attempts > 0) => OperationPhase::Running,
        () if failed && !is_reconciled => OperationPhase::Failed,
        () => OperationPhase::Queued,
    };
    let note = match ended {
        Some(done) if failed => done.message.clone(),
        _ if is_reconciled && !deployed => status.message.clone(),
        _ => String::new(),
    };
    steps.push(StepView { name: "deployed", state: phase, note, at });
    let ready = match status.state.parse() {
        _ if !deployed => OperationPhase::Queued,
        // A later version replaced it; whether it would have become ready is unknown.
        _ if !is_reconciled => OperationPhase::Done,
        Ok(ReleaseState::Active | ReleaseState::Paused) => OperationPhase::Done,
        // The state is still `suspended` until the resumed release is reconciled.
        Ok(ReleaseState::Suspended) if release.spec.suspend => OperationPhase::Done,
        Ok(ReleaseState::Degraded | ReleaseState::Failed) => OperationPhase::Failed,
        _ => OperationPhase::Running,
    };
    let note = if is_reconciled && deployed && ready != OperationPhase::Done {
        status.message
    } else {
        String::new()
    };
    steps.push(StepView { name: "ready", state: ready, note, at: None });
    steps
}

fn removal_step(release: Option<&HelmRelease>) -> StepView {
    let status = release.and_then(|release| release.status.as_ref());
    let note = status.map(|status| status.message.clone()).unwrap_or_default();
    StepView { name: "removed", state: OperationPhase::Running, note, at: None }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use serde_json::{Value, json};

    use super::*;

    fn request(version: i64, extra: Value) -> HelmRequest {
        let mut request = json!({
            "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRequest",
            "metadata": {"name": "req-a", "uid": "u", "generation": version},
            "spec": {
                "releaseName": "web", "workspace": "shop", "cluster": "host", "namespace": "shop",
                "source": {"package": "p"}, "chart": {"name": "web", "version": "1.0.0"}, "version": version,
                "runAs": {"user": "u1", "uid": "uid-1"},
            },
        });
        merge(&mut request, extra);
        serde_json::from_value(request).unwrap()
    }

    fn merge(into: &mut Value, from: Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (key, value) in from {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from,
        }
    }

    /// A release at that version, reconciled since.
    fn release(version: i64, status: Value) -> HelmRelease {
        let mut release = json!({
            "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease",
            "metadata": {"name": "web", "namespace": "shop", "generation": version},
            "spec": {"name": "web", "version": version},
            "status": {"observedGeneration": version},
        });
        merge(&mut release["status"], status);
        serde_json::from_value(release).unwrap()
    }

    #[test]
    fn every_step_on_the_way() {
        let time = "2026-01-02T03:04:05Z";
        let done = |version: i64, state: &str| json!({"version": version, "state": state, "message": "no luck", "deployTime": time});
        let running = json!({"id": "o", "kind": "install", "startedAt": time, "deadline": time});
        let stalled = json!([{"type": "Stalled", "status": "True", "reason": "x", "message": "", "lastTransitionTime": time}]);
        let refused = json!({"status": {"state": "failed", "message": "quota", "observedGeneration": 1, "version": 0, "attempts": 0, "sequence": 1}});
        let cases = vec![
            ("asked for", request(1, json!({})), None, 1),
            ("refused", request(1, refused), None, 1),
            ("not begun", request(1, json!({})), Some(release(1, json!({"state": "pending"}))), 1),
            (
                "begun",
                request(1, json!({})),
                Some(release(1, json!({"state": "creating", "operation": running}))),
                1,
            ),
            (
                "deployed",
                request(1, json!({})),
                Some(release(
                    1,
                    json!({"state": "created", "version": 1, "message": "0 of 1", "deployStatus": [done(1, "created")]}),
                )),
                1,
            ),
            (
                "ready",
                request(1, json!({})),
                Some(release(
                    1,
                    json!({"state": "active", "version": 1, "deployStatus": [done(1, "created")]}),
                )),
                1,
            ),
            (
                "late",
                request(1, json!({})),
                Some(release(
                    1,
                    json!({"state": "degraded", "version": 1, "message": "crashes", "deployStatus": [done(1, "created")]}),
                )),
                1,
            ),
            (
                "tried again",
                request(1, json!({})),
                Some(release(
                    1,
                    json!({"state": "failed", "message": "no luck", "attempts": 1, "deployStatus": [done(1, "failed")]}),
                )),
                1,
            ),
            (
                "given up",
                request(1, json!({})),
                Some(release(
                    1,
                    json!({"state": "failed", "message": "no luck", "attempts": 5, "conditions": stalled, "deployStatus": [done(1, "failed")]}),
                )),
                1,
            ),
            (
                "the one before",
                request(2, json!({})),
                Some(release(
                    2,
                    json!({"state": "upgrading", "version": 1, "operation": running, "deployStatus": [done(1, "created")]}),
                )),
                1,
            ),
            (
                "overtaken",
                request(3, json!({})),
                Some(release(
                    3,
                    json!({"state": "active", "version": 3, "deployStatus": [done(3, "upgraded"), done(1, "created")]}),
                )),
                2,
            ),
            (
                "back",
                request(2, json!({"spec": {"rollbackOf": 1}})),
                Some(release(2, json!({"state": "active", "version": 2}))),
                2,
            ),
            (
                "not seen yet",
                request(2, json!({})),
                Some(release(1, json!({"state": "active", "version": 1}))),
                2,
            ),
            (
                "leaving",
                request(1, json!({"metadata": {"deletionTimestamp": time}})),
                Some(release(1, json!({"state": "deleting"}))),
                1,
            ),
        ];
        let mut picture = String::new();
        for (what, request, release, version) in cases {
            let seen = operation_view(&request, release.as_ref(), version);
            let steps: Vec<String> = seen
                .steps
                .iter()
                .map(|step| {
                    let note = if step.note.is_empty() { String::new() } else { format!(" ({})", step.note) };
                    format!("{} {:?}{note}", step.name, step.state)
                })
                .collect();
            writeln!(picture, "{what}: {} {:?}\n  {}", seen.act, seen.state, steps.join(", ")).unwrap();
        }
        insta::assert_snapshot!(picture);
    }
}
