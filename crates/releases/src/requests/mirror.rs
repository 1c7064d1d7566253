//! The status of a request, derived from its release. Pure: no I/O, no clock.
//!
//! Invariant: a reconcile that observes no change builds the same status, which is then not written.

use std::sync::Arc;

use domain::release::State;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;
use kube_types::progress::{self, Finding, KEPT, Transition};
use kube_types::request::ReleaseRef;
use kube_types::request::conditions::{DEPLOYED, DISPATCHED, READY, STALLED};
use kube_types::{HelmRelease, HelmReleaseStatus, HelmRequest, HelmRequestStatus};

use crate::acts::view;

/// The result of dispatching a request.
#[derive(Debug)]
pub(crate) enum Found {
    Ours(Arc<HelmRelease>),
    /// Another owner's release has the name.
    Taken(String),
    /// Kubernetes rejected the release.
    Refused(String),
}

pub(crate) fn status(request: &HelmRequest, found: &Found, now: Timestamp) -> HelmRequestStatus {
    let mut status = request.status.clone().unwrap_or_default();
    status.observed_generation = request.metadata.generation;
    let release = match found {
        Found::Ours(release) => release,
        Found::Taken(name) => {
            let message = format!("the name `{name}` is in use in this namespace by another release");
            return refused(request, status, "NameInUse", &message, true, now);
        }
        Found::Refused(message) => return refused(request, status, "Refused", message, false, now),
    };
    let seen = release.status.clone().unwrap_or_default();
    copy(&mut status, request, release, &seen);
    // Without a status the release is being dispatched; otherwise the state is the one that the API reports.
    let state = if seen.state.is_empty() { State::Dispatching } else { view::state(release, Some(request)) };
    turn(&mut status, state, reason_of(&seen), &seen.message, now);
    find(&mut status, request, now, DISPATCHED, true, "Dispatched", "");
    for kind in [DEPLOYED, READY, STALLED] {
        if let Some(condition) = progress::condition(&seen.conditions, kind) {
            mirror(&mut status, request, now, kind, condition);
        }
    }
    status
}

/// The status of a request whose release is being deleted.
pub(crate) fn leaving(request: &HelmRequest, release: &HelmRelease, now: Timestamp) -> HelmRequestStatus {
    let mut status = request.status.clone().unwrap_or_default();
    status.observed_generation = request.metadata.generation;
    let seen = release.status.clone().unwrap_or_default();
    copy(&mut status, request, release, &seen);
    turn(&mut status, State::Deleting, "Deleted", &seen.message, now);
    status
}

fn copy(
    status: &mut HelmRequestStatus,
    request: &HelmRequest,
    release: &HelmRelease,
    seen: &HelmReleaseStatus,
) {
    status.version = seen.version;
    status.hash.clone_from(&seen.hash);
    status.resources.clone_from(&seen.resources);
    status.attempts = seen.attempts;
    status.next_retry_time.clone_from(&seen.next_retry_time);
    status.last_deployed.clone_from(&seen.last_deployed);
    status.deploy_status.clone_from(&seen.deploy_status);
    status.release = Some(ReleaseRef {
        cluster: request.spec.cluster.clone(),
        namespace: request.spec.namespace.clone(),
        name: release.name_any(),
        uid: release.uid().unwrap_or_default(),
        helm_revision: seen.helm.as_ref().map_or(0, |helm| helm.revision),
    });
}

fn refused(
    request: &HelmRequest,
    mut status: HelmRequestStatus,
    reason: &'static str,
    message: &str,
    for_good: bool,
    now: Timestamp,
) -> HelmRequestStatus {
    turn(&mut status, State::Failed, reason, message, now);
    find(&mut status, request, now, DISPATCHED, false, reason, message);
    find(&mut status, request, now, READY, false, reason, message);
    find(&mut status, request, now, STALLED, for_good, reason, message);
    status
}

/// The reason of the release's `Ready` condition.
fn reason_of(seen: &HelmReleaseStatus) -> &str {
    progress::condition(&seen.conditions, READY).map_or("Dispatched", |condition| condition.reason.as_str())
}

fn turn(status: &mut HelmRequestStatus, state: State, reason: &str, message: &str, now: Timestamp) {
    if status.state != state.as_str() {
        status.sequence = status.sequence.saturating_add(1);
        status.transitions.push(Transition {
            sequence: status.sequence,
            time: Time(now),
            from: std::mem::replace(&mut status.state, state.to_string()),
            to: state.to_string(),
            reason: reason.to_owned(),
        });
        let surplus = status.transitions.len().saturating_sub(KEPT);
        status.transitions.drain(..surplus);
        status.last_update = Some(Time(now));
    }
    message.clone_into(&mut status.message);
}

fn find(
    status: &mut HelmRequestStatus,
    request: &HelmRequest,
    now: Timestamp,
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: &str,
) {
    let finding = Finding { kind, holds, reason, message: message.to_owned() };
    let HelmRequestStatus { conditions, sequence, transitions, .. } = status;
    progress::enter(conditions, sequence, transitions, &[finding], request.metadata.generation, now);
}

/// Copies a condition of the release.
fn mirror(
    status: &mut HelmRequestStatus,
    request: &HelmRequest,
    now: Timestamp,
    kind: &'static str,
    theirs: &Condition,
) {
    find(status, request, now, kind, theirs.status == "True", "Release", &theirs.message);
    // The reason is the release's own, which is not among our static ones.
    if let Some(condition) = status.conditions.iter_mut().find(|condition| condition.type_ == kind) {
        condition.reason.clone_from(&theirs.reason);
    }
}
