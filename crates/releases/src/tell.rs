//! Status updates of a release, from what a reconcile observed and did. Pure: no I/O, no clock.
//!
//! Invariants: a reconcile that observes no change builds the same status, which is then not written. Each change of state has one
//! sequence number and one transition.

use std::time::Duration;

use domain::Kind;
use domain::clock::after;
use domain::release::State;
use domain::release::retry::Then;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_types::HelmReleaseStatus;
use kube_types::progress::{self, Finding, KEPT, Transition};
use kube_types::release::InventoryEntry;
use kube_types::release::conditions::{DEPLOYED, DRIFTED, OUT_OF_BAND, READY, STALLED, UNINSTALL_BLOCKED};
use kube_types::release::status::{self, Deployed, HelmState, Operation, ResolvedChart, Resources};

/// A successful deployment.
#[derive(Clone, Debug)]
pub(crate) struct Deployment {
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
    pub first: bool,
}

/// A failure as users of the release may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub kind: Kind,
    /// The reason of the condition, for programs.
    pub reason: &'static str,
    pub message: String,
}

/// Readiness of the objects of a deployed release.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub resources: Resources,
    /// Objects whose readiness cannot be determined, and why. They count as ready.
    pub unknown: Vec<String>,
    /// Whether the time limit for readiness has passed.
    pub late: bool,
    pub paused: bool,
    /// The newer revision that another client created.
    pub foreign: Option<i64>,
    /// Differences from the deployed manifest. `None` if drift was not checked.
    pub drift: Option<String>,
}

/// Builder of a release status.
pub(crate) struct Telling {
    status: HelmReleaseStatus,
    generation: Option<i64>,
    now: Timestamp,
}

impl Telling {
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

    pub fn done(self) -> HelmReleaseStatus {
        self.status
    }

    /// Resets attempts and retries.
    pub fn afresh(mut self) -> Self {
        self.settle();
        self
    }

    /// An operation was started.
    pub fn started(mut self, state: State, kind: &str, id: &str, deadline: Timestamp) -> Self {
        self.count_interruption();
        self.status.operation = Some(Operation {
            id: id.to_owned(),
            kind: kind.to_owned(),
            started_at: Time(self.now),
            deadline: Time(deadline),
        });
        self.turn(state, "Started", "");
        self.find(READY, false, "Progressing", state.means());
        self.find(STALLED, false, "Progressing", "");
        self
    }

    /// An operation succeeded.
    pub fn deployed(mut self, what: Deployment) -> Self {
        let Deployment {
            version,
            hash,
            spec_hash,
            chart,
            helm,
            mut inventory,
            administered,
            rollback_of,
            by,
            first,
        } = what;
        inventory.truncate(status::INVENTORY);
        let revision = helm.revision;
        let state = if first { State::Created } else { State::Upgraded };
        self.remember(Deployed {
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
        self.settle();
        self.turn(state, "Deployed", "");
        self.find(DEPLOYED, true, "Deployed", &format!("revision {revision} is deployed"));
        self.find(STALLED, false, "Deployed", "");
        self
    }

    /// An operation for the current spec failed.
    pub fn failed(mut self, failure: &Failure, attempted: &str, then: Then, helm: Option<HelmState>) -> Self {
        let message = cut(&failure.message);
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
            Then::GiveUp => None,
            Then::TryAgain(pause) => Some(Time(after(self.now, pause))),
        };
        self.turn(State::Failed, failure.reason, &message);
        self.find(READY, false, failure.reason, &message);
        match then {
            Then::GiveUp => self.find(STALLED, true, failure.reason, &message),
            Then::TryAgain(_) => self.find(STALLED, false, "Retrying", ""),
        }
        if self.status.version == 0 {
            self.find(DEPLOYED, false, failure.reason, &message);
        }
        self
    }

    /// Adds a failed operation to the history in the status.
    pub fn remember_failure(mut self, version: i64, revision: i64, message: &str, by: &str) -> Self {
        self.remember(Deployed {
            version,
            helm_revision: revision,
            state: State::Failed.to_string(),
            message: cut(message),
            deploy_time: Time(self.now),
            by: by.to_owned(),
            rollback_of: None,
        });
        self
    }

    /// Readiness of a deployed release.
    pub fn stands(mut self, standing: Standing) -> Self {
        let Standing { mut resources, unknown, late, paused, foreign, drift } = standing;
        resources.not_ready.truncate(status::NOT_READY);
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
                format!(
                    "{before}of {} objects it is not known whether they are ready; {first}",
                    unknown.len()
                )
            }
            None => left,
        };
        let was_active = self.is(State::Active) || self.is(State::Degraded);
        let waits = if self.is(State::Created) { State::Created } else { State::Upgraded };
        let (state, reason) = match (paused, ready) {
            (true, _) => (State::Paused, "Paused"),
            (false, true) => (State::Active, "Ready"),
            (false, false) if late || was_active => (State::Degraded, "NotReady"),
            (false, false) => (waits, "Progressing"),
        };
        self.status.resources = Some(resources);
        self.turn(state, reason, &cut(&left));
        let message = if left.is_empty() { state.means() } else { &left };
        self.find(READY, ready && !paused, reason, message);
        if foreign.is_some() || self.has(OUT_OF_BAND) {
            let message =
                foreign.map(|revision| format!("somebody else made revision {revision}")).unwrap_or_default();
            self.find(
                OUT_OF_BAND,
                foreign.is_some(),
                if foreign.is_some() { "Changed" } else { "OwnRevision" },
                &message,
            );
        }
        if let Some(drift) = drift.filter(|drift| !drift.is_empty() || self.has(DRIFTED)) {
            self.find(
                DRIFTED,
                !drift.is_empty(),
                if drift.is_empty() { "InSync" } else { "Changed" },
                &cut(&drift),
            );
        }
        self
    }

    /// A new request version desires the same as the deployed one.
    pub fn version_entered(mut self, version: i64) -> Self {
        self.status.version = version;
        self
    }

    /// An operation of the platform was found unfinished.
    pub fn interrupted(mut self) -> Self {
        self.count_interruption();
        self
    }

    /// An operation ended before it changed anything.
    pub fn withdrawn(mut self) -> Self {
        self.status.operation = None;
        self
    }

    /// Operations keep being interrupted. The next attempt is after `pause` or when the spec changes.
    pub fn crash_looped(mut self, attempted: &str, pause: Duration) -> Self {
        self.status.operation = None;
        self.status.interruptions = self.status.interruptions.saturating_add(1);
        let message = format!(
            "{} operations in a row were interrupted; the next attempt is in {} s, or when the spec changes",
            self.status.interruptions,
            pause.as_secs()
        );
        let status = &mut self.status;
        status.attempts = status.attempts.saturating_add(1);
        attempted.clone_into(&mut status.attempted_hash);
        status.next_retry_time = Some(Time(after(self.now, pause)));
        self.turn(State::Failed, "CrashLoop", &message);
        self.find(READY, false, "CrashLoop", &message);
        self.find(STALLED, true, "CrashLoop", &message);
        self
    }

    /// The release is suspended.
    pub fn suspended(mut self) -> Self {
        self.status.operation = None;
        self.turn(State::Suspended, "Suspended", "");
        self
    }

    /// The release cannot start yet.
    pub fn waits(mut self, reason: &'static str, message: &str) -> Self {
        if self.status.version == 0 && self.status.state.is_empty() {
            self.turn(State::Pending, reason, message);
        }
        message.clone_into(&mut self.status.message);
        self.find(READY, false, reason, message);
        self
    }

    /// Uninstalling failed and will be retried.
    pub fn not_removed(mut self, failure: &Failure, blocked: bool, next: Timestamp) -> Self {
        let message = cut(&failure.message);
        self.status.operation = None;
        self.status.attempts = self.status.attempts.saturating_add(1);
        self.status.next_retry_time = Some(Time(next));
        self.turn(State::Deleting, failure.reason, &message);
        self.find(READY, false, failure.reason, &message);
        if blocked {
            self.find(UNINSTALL_BLOCKED, true, failure.reason, &message);
        }
        self
    }

    /// Counts an interruption if the status still has an operation.
    fn count_interruption(&mut self) {
        if self.status.operation.take().is_some() {
            self.status.interruptions = self.status.interruptions.saturating_add(1);
        }
    }

    fn settle(&mut self) {
        let status = &mut self.status;
        status.interruptions = 0;
        status.operation = None;
        status.attempts = 0;
        status.attempted_hash.clear();
        status.next_retry_time = None;
    }

    fn is(&self, state: State) -> bool {
        self.status.state == state.as_str()
    }

    fn has(&self, condition: &str) -> bool {
        progress::condition(&self.status.conditions, condition).is_some()
    }

    fn remember(&mut self, entry: Deployed) {
        self.status.deploy_status.insert(0, entry);
        self.status.deploy_status.truncate(status::DEPLOYED);
    }

    fn turn(&mut self, state: State, reason: &str, message: &str) {
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
            let surplus = status.transitions.len().saturating_sub(KEPT);
            status.transitions.drain(..surplus);
            status.last_update = Some(Time(self.now));
        }
        message.clone_into(&mut status.message);
    }

    fn find(&mut self, kind: &'static str, holds: bool, reason: &'static str, message: &str) {
        let finding = Finding { kind, holds, reason, message: message.to_owned() };
        let HelmReleaseStatus { conditions, sequence, transitions, .. } = &mut self.status;
        progress::enter(conditions, sequence, transitions, &[finding], self.generation, self.now);
    }
}

/// Truncates a message to the maximum length in a status.
fn cut(text: &str) -> String {
    match text.char_indices().nth(status::MESSAGE - 1) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
