//! The condition of objects whose reconciles keep failing: with an error, a deadline or a panic.
//!
//! Failures with a known cause (chart, hook, quota) are in the status already. All others are reported here; the queue retries them with
//! backoff.
//!
//! Invariants:
//! - Between two successes the condition is written once, because each write of an object makes it due again.
//! - A condition `Stalled` with another reason stays: the release gave up, and the message says why.

use std::collections::HashMap;
use std::hash::Hash;

use chart_store::error::tenant_message;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::PostParams;
use kube_access::queue::Action;
use kube_types::conditions::{ConditionUpdate, Transition, find_condition, set_conditions};
use kube_types::release::conditions::STALLED;
use kube_types::{HelmRelease, HelmRequest};
use parking_lot::Mutex;

use super::{CONFLICT_REQUEUE, ReleaseController};
use crate::error::{ErrorContext, ReconcileError};
use crate::key::ReleaseKey;
use crate::requests::STALE_CACHE_REQUEUE;

/// Consecutive failures after which the condition is written.
const THRESHOLD: u32 = 5;
/// The reason of the condition.
pub(crate) const REASON: &str = "ReconcileFailed";

/// Consecutive failures of each key. Only keys that fail have an entry.
pub(crate) struct ReconcileFailures<K>(Mutex<HashMap<K, u32>>);

impl<K> Default for ReconcileFailures<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq + Clone> ReconcileFailures<K> {
    /// Counts a failure. Returns whether the condition must be written.
    fn add(&self, key: &K) -> bool {
        let mut counts = self.0.lock();
        let count = counts.entry(key.clone()).or_default();
        *count = count.saturating_add(1);
        *count == THRESHOLD
    }

    /// Makes the next failure write the condition again.
    fn retry_write(&self, key: &K) {
        if let Some(count) = self.0.lock().get_mut(key) {
            *count = THRESHOLD.saturating_sub(1);
        }
    }

    fn reset(&self, key: &K) {
        self.0.lock().remove(key);
    }
}

/// The outcome of one reconcile.
#[derive(Clone, Copy)]
pub(crate) enum ReconcileOutcome<'a> {
    Succeeded,
    /// It ended early because its cache was stale. It says nothing about failures.
    Deferred,
    Failed(&'a ReconcileError),
    Panicked,
}

impl<'a> ReconcileOutcome<'a> {
    pub fn from_result(done: &'a Result<Action, ReconcileError>) -> Self {
        match done {
            Ok(Action::RequeueAfter(delay)) if [STALE_CACHE_REQUEUE, CONFLICT_REQUEUE].contains(delay) => {
                Self::Deferred
            }
            Ok(_) => Self::Succeeded,
            Err(error) => Self::Failed(error),
        }
    }

    /// The message for tenants; `None` after a success. Errors of the platform's own calls may name its identity, so only their reason is
    /// given.
    fn message(self) -> Option<String> {
        let why = match self {
            Self::Succeeded | Self::Deferred => return None,
            Self::Failed(ReconcileError::Api { cause, .. }) => tenant_message(cause).to_owned(),
            Self::Failed(error @ ReconcileError::DeadlineExceeded(_)) => error.to_string(),
            Self::Failed(_) | Self::Panicked => "internal error; see the server log".to_owned(),
        };
        Some(format!("{THRESHOLD} consecutive reconciles failed; retrying with backoff: {why}"))
    }
}

/// The parts of a status with conditions.
struct ConditionFields<'s> {
    conditions: &'s mut Vec<Condition>,
    sequence: &'s mut i64,
    transitions: &'s mut Vec<Transition>,
}

impl ConditionFields<'_> {
    /// Sets the condition of an object whose reconciles fail, or clears it without a `failure`.
    fn set(self, failure: Option<&str>, generation: Option<i64>, now: Timestamp) {
        let finding = ConditionUpdate {
            condition_type: STALLED,
            is_true: failure.is_some(),
            reason: if failure.is_some() { REASON } else { "Reconciled" },
            message: failure.unwrap_or_default().to_owned(),
        };
        set_conditions(self.conditions, self.sequence, self.transitions, &[finding], generation, now);
    }
}

/// Whether the condition must be written after this outcome, given the conditions in the cache.
fn must_write<K: Hash + Eq + Clone>(
    failures: &ReconcileFailures<K>,
    key: &K,
    outcome: ReconcileOutcome<'_>,
    conditions: &[Condition],
) -> bool {
    let stalled = find_condition(conditions, STALLED).filter(|stalled| stalled.status == "True");
    match outcome {
        ReconcileOutcome::Deferred => false,
        ReconcileOutcome::Succeeded => {
            failures.reset(key);
            stalled.is_some_and(|stalled| stalled.reason == REASON)
        }
        ReconcileOutcome::Failed(_) | ReconcileOutcome::Panicked => failures.add(key) && stalled.is_none(),
    }
}

impl ReleaseController {
    /// Counts the failed reconciles of a release, and sets or clears its condition. An error means that the condition was not cleared.
    pub(crate) async fn record_release_outcome(
        &self,
        key: &ReleaseKey,
        outcome: ReconcileOutcome<'_>,
    ) -> Result<(), ReconcileError> {
        let Some(release) = self.releases.get_namespaced(&key.namespace, &key.name) else {
            self.release_failures.reset(key);
            return Ok(());
        };
        let conditions = release.status.as_ref().map(|status| status.conditions.as_slice());
        if !must_write(&self.release_failures, key, outcome, conditions.unwrap_or_default()) {
            return Ok(());
        }
        let failure = outcome.message();
        let written = self.write_release_condition(key, &release, failure.as_deref()).await;
        if let (Err(error), Some(_)) = (&written, &failure) {
            tracing::warn!(release = %key, %error, "cannot write the condition of failing reconciles");
            self.release_failures.retry_write(key);
            return Ok(());
        }
        written
    }

    async fn write_release_condition(
        &self,
        key: &ReleaseKey,
        release: &HelmRelease,
        failure: Option<&str>,
    ) -> Result<(), ReconcileError> {
        let mut release = release.clone();
        let status = release.status.get_or_insert_default();
        let fields = ConditionFields {
            conditions: &mut status.conditions,
            sequence: &mut status.sequence,
            transitions: &mut status.transitions,
        };
        fields.set(failure, release.metadata.generation, self.clock.now());
        let api = self.release_api(&key.namespace);
        let written = api.replace_status(&key.name, &PostParams::default(), &release).await;
        let written = written.context(|| format!("write the status of release `{key}`"))?;
        self.release_expectations.record_write(key.clone(), written.metadata.resource_version.as_deref());
        Ok(())
    }

    /// Like [`Self::record_release_outcome`], for a request.
    pub(crate) async fn record_request_outcome(
        &self,
        name: &str,
        outcome: ReconcileOutcome<'_>,
    ) -> Result<(), ReconcileError> {
        let key = name.to_owned();
        let Some(request) = self.requests.get(name) else {
            self.request_failures.reset(&key);
            return Ok(());
        };
        let conditions = request.status.as_ref().map(|status| status.conditions.as_slice());
        if !must_write(&self.request_failures, &key, outcome, conditions.unwrap_or_default()) {
            return Ok(());
        }
        let failure = outcome.message();
        let written = self.write_request_condition(name, &request, failure.as_deref()).await;
        if let (Err(error), Some(_)) = (&written, &failure) {
            tracing::warn!(request = name, %error, "cannot write the condition of failing reconciles");
            self.request_failures.retry_write(&key);
            return Ok(());
        }
        written
    }

    async fn write_request_condition(
        &self,
        name: &str,
        request: &HelmRequest,
        failure: Option<&str>,
    ) -> Result<(), ReconcileError> {
        let mut request = request.clone();
        let status = request.status.get_or_insert_default();
        let fields = ConditionFields {
            conditions: &mut status.conditions,
            sequence: &mut status.sequence,
            transitions: &mut status.transitions,
        };
        fields.set(failure, request.metadata.generation, self.clock.now());
        let written = self.request_api().replace_status(name, &PostParams::default(), &request).await;
        let written = written.context(|| format!("write the status of request `{name}`"))?;
        self.request_expectations.record_write(name.to_owned(), written.metadata.resource_version.as_deref());
        Ok(())
    }
}
