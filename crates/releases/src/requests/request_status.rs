//! The status of a request, derived from its release. Pure: no I/O, no clock.
//!
//! Invariant: a reconcile that observes no change builds the same status, which is then not written.

use std::sync::Arc;

use domain::release::ReleaseState;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;
use kube_types::conditions::{self, ConditionUpdate, MAX_TRANSITIONS, Transition};
use kube_types::request::ReleaseRef;
use kube_types::request::conditions::{DEPLOYED, DISPATCHED, READY, STALLED};
use kube_types::{HelmRelease, HelmReleaseStatus, HelmRequest, HelmRequestStatus};

use crate::service::view;

/// The result of dispatching a request.
#[derive(Debug)]
pub(crate) enum DispatchResult {
    Owned(Arc<HelmRelease>),
    /// Another owner's release has the name.
    NameInUse(String),
    /// Kubernetes rejected the release.
    Rejected(String),
}

pub(crate) fn request_status(
    request: &HelmRequest,
    found: &DispatchResult,
    now: Timestamp,
) -> HelmRequestStatus {
    let mut status = request.status.clone().unwrap_or_default();
    status.observed_generation = request.metadata.generation;
    let release = match found {
        DispatchResult::Owned(release) => release,
        DispatchResult::NameInUse(name) => {
            let message = format!("the name `{name}` is already used by another release in this namespace");
            return rejected_status(request, status, "NameInUse", &message, true, now);
        }
        DispatchResult::Rejected(message) => {
            return rejected_status(request, status, "Refused", message, false, now);
        }
    };
    let seen = release.status.clone().unwrap_or_default();
    copy_release_status(&mut status, request, release, &seen);
    // Without a status the release is being dispatched; otherwise the state is the one that the API reports.
    let state = if seen.state.is_empty() {
        ReleaseState::Dispatching
    } else {
        view::release_state(release, Some(request))
    };
    transition(&mut status, state, ready_reason(&seen), &seen.message, now);
    set_condition(&mut status, request, now, DISPATCHED, true, "Dispatched", "");
    for kind in [DEPLOYED, READY, STALLED] {
        if let Some(condition) = conditions::find_condition(&seen.conditions, kind) {
            copy_condition(&mut status, request, now, kind, condition);
        }
    }
    status
}

/// The status of a request whose release is being deleted.
pub(crate) fn deleting_status(
    request: &HelmRequest,
    release: &HelmRelease,
    now: Timestamp,
) -> HelmRequestStatus {
    let mut status = request.status.clone().unwrap_or_default();
    status.observed_generation = request.metadata.generation;
    let seen = release.status.clone().unwrap_or_default();
    copy_release_status(&mut status, request, release, &seen);
    transition(&mut status, ReleaseState::Deleting, "Deleted", &seen.message, now);
    status
}

fn copy_release_status(
    status: &mut HelmRequestStatus,
    request: &HelmRequest,
    release: &HelmRelease,
    release_status: &HelmReleaseStatus,
) {
    status.version = release_status.version;
    status.hash.clone_from(&release_status.hash);
    status.resources.clone_from(&release_status.resources);
    status.attempts = release_status.attempts;
    status.next_retry_time.clone_from(&release_status.next_retry_time);
    status.last_deployed.clone_from(&release_status.last_deployed);
    status.deploy_status.clone_from(&release_status.deploy_status);
    status.release = Some(ReleaseRef {
        cluster: request.spec.cluster.clone(),
        namespace: request.spec.namespace.clone(),
        name: release.name_any(),
        uid: release.uid().unwrap_or_default(),
        helm_revision: release_status.helm.as_ref().map_or(0, |helm| helm.revision),
    });
}

fn rejected_status(
    request: &HelmRequest,
    mut status: HelmRequestStatus,
    reason: &'static str,
    message: &str,
    is_stalled: bool,
    now: Timestamp,
) -> HelmRequestStatus {
    transition(&mut status, ReleaseState::Failed, reason, message, now);
    set_condition(&mut status, request, now, DISPATCHED, false, reason, message);
    set_condition(&mut status, request, now, READY, false, reason, message);
    set_condition(&mut status, request, now, STALLED, is_stalled, reason, message);
    status
}

/// The reason of the release's `Ready` condition.
fn ready_reason(seen: &HelmReleaseStatus) -> &str {
    conditions::find_condition(&seen.conditions, READY)
        .map_or("Dispatched", |condition| condition.reason.as_str())
}

fn transition(
    status: &mut HelmRequestStatus,
    state: ReleaseState,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    if status.state != state.as_str() {
        status.sequence = status.sequence.saturating_add(1);
        status.transitions.push(Transition {
            sequence: status.sequence,
            time: Time(now),
            from: std::mem::replace(&mut status.state, state.to_string()),
            to: state.to_string(),
            reason: reason.to_owned(),
        });
        let surplus = status.transitions.len().saturating_sub(MAX_TRANSITIONS);
        status.transitions.drain(..surplus);
        status.last_update = Some(Time(now));
    }
    message.clone_into(&mut status.message);
}

fn set_condition(
    status: &mut HelmRequestStatus,
    request: &HelmRequest,
    now: Timestamp,
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: &str,
) {
    let finding =
        ConditionUpdate { condition_type: kind, is_true: holds, reason, message: message.to_owned() };
    let HelmRequestStatus { conditions, sequence, transitions, .. } = status;
    conditions::set_conditions(
        conditions,
        sequence,
        transitions,
        &[finding],
        request.metadata.generation,
        now,
    );
}

/// Copies a condition of the release.
fn copy_condition(
    status: &mut HelmRequestStatus,
    request: &HelmRequest,
    now: Timestamp,
    kind: &'static str,
    theirs: &Condition,
) {
    set_condition(status, request, now, kind, theirs.status == "True", "Release", &theirs.message);
    // The reason is the release's own, which is not among our static ones.
    if let Some(condition) = status.conditions.iter_mut().find(|condition| condition.type_ == kind) {
        condition.reason.clone_from(&theirs.reason);
    }
}
