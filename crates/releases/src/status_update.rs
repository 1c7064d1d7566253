//! Status updates of a release, from the observations and actions of a reconcile. Pure: no I/O, no clock.
//!
//! Invariants: a reconcile that observes no change builds the same status, which is then not written. Each change of state has one
//! sequence number and one transition.

use std::time::Duration;

use domain::ErrorKind;
use domain::clock::saturating_add;
use domain::release::ReleaseState;
use domain::release::retry::RetryDecision;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_types::HelmReleaseStatus;
use kube_types::conditions::{self, ConditionUpdate, MAX_TRANSITIONS, Transition};
use kube_types::release::InventoryEntry;
use kube_types::release::conditions::{DEPLOYED, DRIFTED, OUT_OF_BAND, READY, STALLED, UNINSTALL_BLOCKED};
use kube_types::release::status::{
    self, CurrentOperation, HelmState, OperationRecord, ResolvedChart, ResourceSummary,
};

/// A successful deployment.
#[derive(Clone, Debug)]
pub(crate) struct DeployedRevision {
    pub version: i64,
    /// MD5 of the values.
    pub hash: String,
    pub spec_hash: String,
    pub chart: ResolvedChart,
    pub helm: HelmState,
    pub inventory: Vec<InventoryEntry>,
    /// Objects of administrators, if an operation with that option determined them.
    pub administered: Option<Vec<InventoryEntry>>,
    pub rollback_of: Option<i64>,
    pub by: String,
    /// Whether this is the first deployment.
    pub is_first: bool,
}

/// A failure as users of the release may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatusFailure {
    pub kind: ErrorKind,
    /// The reason of the condition, for programs.
    pub reason: &'static str,
    pub message: String,
}

/// Readiness of the objects of a deployed release.
#[derive(Clone, Debug)]
pub(crate) struct ReadinessReport {
    pub resources: ResourceSummary,
    /// Objects whose readiness cannot be determined, and why. They count as ready.
    pub unknown_readiness: Vec<String>,
    /// Whether the time limit for readiness has passed.
    pub is_late: bool,
    pub is_paused: bool,
    /// The newer revision that another client created.
    pub foreign_revision: Option<i64>,
    /// Differences from the deployed manifest. `None` if drift was not checked.
    pub drift: Option<String>,
}

/// Builder of a release status.
pub(crate) struct StatusUpdate {
    status: HelmReleaseStatus,
    generation: Option<i64>,
    now: Timestamp,
}

impl StatusUpdate {
    pub fn new(before: Option<&HelmReleaseStatus>, generation: Option<i64>, now: Timestamp) -> Self {
        let mut status = before.cloned().unwrap_or_default();
        // Interruptions of a new generation count from zero, unless this generation is the one in preparation.
        if status.observed_generation != generation && status.preparing != generation {
            status.interruptions = 0;
        }
        status.preparing = None;
        status.observed_generation = generation;
        Self { status, generation, now }
    }

    pub fn build(self) -> HelmReleaseStatus {
        self.status
    }

    /// Resets attempts and retries.
    pub fn reset_retries(mut self) -> Self {
        self.reset_attempts();
        self
    }

    /// An operation was started.
    pub fn started(mut self, state: ReleaseState, kind: &str, id: &str, deadline: Timestamp) -> Self {
        self.count_interruption();
        self.status.operation = Some(CurrentOperation {
            id: id.to_owned(),
            kind: kind.to_owned(),
            started_at: Time(self.now),
            deadline: Time(deadline),
        });
        self.transition(state, "Started", "");
        self.set_condition(READY, false, "Progressing", state.description());
        self.set_condition(STALLED, false, "Progressing", "");
        self
    }

    /// An operation succeeded.
    pub fn deployed(mut self, what: DeployedRevision) -> Self {
        let DeployedRevision {
            version,
            hash,
            spec_hash,
            chart,
            helm,
            mut inventory,
            administered,
            rollback_of,
            by,
            is_first: first,
        } = what;
        inventory.truncate(status::MAX_INVENTORY);
        let revision = helm.revision;
        let state = if first { ReleaseState::Created } else { ReleaseState::Upgraded };
        self.add_history(OperationRecord {
            version,
            helm_revision: revision,
            state: state.to_string(),
            message: String::new(),
            deploy_time: Time(self.now),
            by,
            rollback_of,
        });
        let status = &mut self.status;
        (status.version, status.hash, status.spec_hash) = (version, hash, spec_hash);
        (status.chart, status.helm, status.inventory) = (Some(chart), Some(helm), inventory);
        if let Some(administered) = administered {
            status.administered = administered;
        }
        status.last_deployed = Some(Time(self.now));
        self.reset_attempts();
        self.transition(state, "Deployed", "");
        self.set_condition(DEPLOYED, true, "Deployed", &format!("revision {revision} is deployed"));
        self.set_condition(STALLED, false, "Deployed", "");
        self
    }

    /// An operation for the current spec failed.
    pub fn failed(
        mut self,
        failure: &StatusFailure,
        attempted: &str,
        then: RetryDecision,
        helm: Option<HelmState>,
    ) -> Self {
        let message = truncate_message(&failure.message);
        let status = &mut self.status;
        status.attempts =
            if status.attempted_hash == attempted { status.attempts.saturating_add(1) } else { 1 };
        attempted.clone_into(&mut status.attempted_hash);
        status.operation = None;
        status.interruptions = 0;
        if helm.is_some() {
            status.helm = helm;
        }
        status.next_retry_time = match then {
            RetryDecision::GiveUp => None,
            RetryDecision::RetryAfter(pause) => Some(Time(saturating_add(self.now, pause))),
        };
        self.transition(ReleaseState::Failed, failure.reason, &message);
        self.set_condition(READY, false, failure.reason, &message);
        match then {
            RetryDecision::GiveUp => self.set_condition(STALLED, true, failure.reason, &message),
            RetryDecision::RetryAfter(_) => self.set_condition(STALLED, false, "Retrying", ""),
        }
        if self.status.version == 0 {
            self.set_condition(DEPLOYED, false, failure.reason, &message);
        }
        self
    }

    /// Adds a failed operation to the history in the status.
    pub fn add_failure(mut self, version: i64, revision: i64, message: &str, by: &str) -> Self {
        self.add_history(OperationRecord {
            version,
            helm_revision: revision,
            state: ReleaseState::Failed.to_string(),
            message: truncate_message(message),
            deploy_time: Time(self.now),
            by: by.to_owned(),
            rollback_of: None,
        });
        self
    }

    /// Readiness of a deployed release.
    pub fn readiness(mut self, standing: ReadinessReport) -> Self {
        let ReadinessReport {
            mut resources,
            unknown_readiness: unknown,
            is_late: late,
            is_paused: paused,
            foreign_revision: foreign,
            drift,
        } = standing;
        resources.not_ready.truncate(status::MAX_NOT_READY);
        let ready = resources.ready == resources.total;
        let left = match resources.not_ready.first() {
            Some(first) => format!(
                "{} of {} objects are ready; {} {}: {}",
                resources.ready, resources.total, first.kind, first.name, first.reason
            ),
            None => String::new(),
        };
        let left = match unknown.first() {
            Some(first) => {
                let before = if left.is_empty() { left } else { left + "; " };
                format!("{before}the readiness of {} objects is unknown; {first}", unknown.len())
            }
            None => left,
        };
        let was_active = self.has_state(ReleaseState::Active) || self.has_state(ReleaseState::Degraded);
        let waits = if self.has_state(ReleaseState::Created) {
            ReleaseState::Created
        } else {
            ReleaseState::Upgraded
        };
        let (state, reason) = match (paused, ready) {
            (true, _) => (ReleaseState::Paused, "Paused"),
            (false, true) => (ReleaseState::Active, "Ready"),
            (false, false) if late || was_active => (ReleaseState::Degraded, "NotReady"),
            (false, false) => (waits, "Progressing"),
        };
        self.status.resources = Some(resources);
        self.transition(state, reason, &truncate_message(&left));
        let message = if left.is_empty() { state.description() } else { &left };
        self.set_condition(READY, ready && !paused, reason, message);
        if foreign.is_some() || self.has_condition(OUT_OF_BAND) {
            let message = foreign
                .map(|revision| format!("another client created revision {revision}"))
                .unwrap_or_default();
            self.set_condition(
                OUT_OF_BAND,
                foreign.is_some(),
                if foreign.is_some() { "Changed" } else { "OwnRevision" },
                &message,
            );
        }
        if let Some(drift) = drift.filter(|drift| !drift.is_empty() || self.has_condition(DRIFTED)) {
            self.set_condition(
                DRIFTED,
                !drift.is_empty(),
                if drift.is_empty() { "InSync" } else { "Changed" },
                &truncate_message(&drift),
            );
        }
        self
    }

    /// A new request version desires the same as the deployed one.
    pub fn version_recorded(mut self, version: i64) -> Self {
        self.status.version = version;
        self
    }

    /// An operation of the platform was found unfinished.
    pub fn interrupted(mut self) -> Self {
        self.count_interruption();
        self
    }

    /// An operation ended before it changed anything.
    pub fn cancelled(mut self) -> Self {
        self.status.operation = None;
        self
    }

    /// Operations keep being interrupted. The next attempt is after `pause` or when the spec changes.
    pub fn crash_looped(mut self, attempted: &str, pause: Duration) -> Self {
        self.status.operation = None;
        self.status.interruptions = self.status.interruptions.saturating_add(1);
        let message = format!(
            "{} consecutive operations were interrupted; next attempt in {} s, or when the spec changes",
            self.status.interruptions,
            pause.as_secs()
        );
        let status = &mut self.status;
        status.attempts = status.attempts.saturating_add(1);
        attempted.clone_into(&mut status.attempted_hash);
        status.next_retry_time = Some(Time(saturating_add(self.now, pause)));
        self.transition(ReleaseState::Failed, "CrashLoop", &message);
        self.set_condition(READY, false, "CrashLoop", &message);
        self.set_condition(STALLED, true, "CrashLoop", &message);
        self
    }

    /// The release is suspended.
    pub fn suspended(mut self) -> Self {
        self.status.operation = None;
        self.transition(ReleaseState::Suspended, "Suspended", "");
        self
    }

    /// The release cannot start yet.
    pub fn waiting(mut self, reason: &'static str, message: &str) -> Self {
        if self.status.version == 0 && self.status.state.is_empty() {
            self.transition(ReleaseState::Pending, reason, message);
        }
        message.clone_into(&mut self.status.message);
        self.set_condition(READY, false, reason, message);
        self
    }

    /// Uninstalling failed and will be retried.
    pub fn uninstall_failed(mut self, failure: &StatusFailure, blocked: bool, next: Timestamp) -> Self {
        let message = truncate_message(&failure.message);
        self.status.operation = None;
        self.status.attempts = self.status.attempts.saturating_add(1);
        self.status.next_retry_time = Some(Time(next));
        self.transition(ReleaseState::Deleting, failure.reason, &message);
        self.set_condition(READY, false, failure.reason, &message);
        if blocked {
            self.set_condition(UNINSTALL_BLOCKED, true, failure.reason, &message);
        }
        self
    }

    /// Counts an interruption if the status still has an operation.
    fn count_interruption(&mut self) {
        if self.status.operation.take().is_some() {
            self.status.interruptions = self.status.interruptions.saturating_add(1);
        }
    }

    fn reset_attempts(&mut self) {
        let status = &mut self.status;
        status.interruptions = 0;
        status.operation = None;
        status.attempts = 0;
        status.attempted_hash.clear();
        status.next_retry_time = None;
    }

    fn has_state(&self, state: ReleaseState) -> bool {
        self.status.state == state.as_str()
    }

    fn has_condition(&self, condition: &str) -> bool {
        conditions::find_condition(&self.status.conditions, condition).is_some()
    }

    fn add_history(&mut self, entry: OperationRecord) {
        self.status.deploy_status.insert(0, entry);
        self.status.deploy_status.truncate(status::MAX_DEPLOY_STATUS);
    }

    fn transition(&mut self, state: ReleaseState, reason: &str, message: &str) {
        let status = &mut self.status;
        if status.state != state.as_str() {
            status.sequence = status.sequence.saturating_add(1);
            status.transitions.push(Transition {
                sequence: status.sequence,
                time: Time(self.now),
                from: std::mem::replace(&mut status.state, state.to_string()),
                to: state.to_string(),
                reason: reason.to_owned(),
            });
            let surplus = status.transitions.len().saturating_sub(MAX_TRANSITIONS);
            status.transitions.drain(..surplus);
            status.last_update = Some(Time(self.now));
        }
        message.clone_into(&mut status.message);
    }

    fn set_condition(&mut self, kind: &'static str, holds: bool, reason: &'static str, message: &str) {
        let finding =
            ConditionUpdate { condition_type: kind, is_true: holds, reason, message: message.to_owned() };
        let HelmReleaseStatus { conditions, sequence, transitions, .. } = &mut self.status;
        conditions::set_conditions(conditions, sequence, transitions, &[finding], self.generation, self.now);
    }
}

/// Truncates a message to the maximum length in a status.
fn truncate_message(text: &str) -> String {
    match text.char_indices().nth(status::MAX_MESSAGE_LEN - 1) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
