//! Conditions of objects whose reconciles keep failing: with an error, a deadline or a panic.
//!
//! A failure that a reconcile can attribute (a chart, a hook, a quota) is in the status already. This is for the others, which would
//! otherwise be in the log only. The queue retries them with backoff.
//!
//! Invariant: between two successes a condition is written once, because each write of an object makes it due again.

use std::collections::HashMap;
use std::hash::Hash;

use chart_store::error::tenant_message;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::PostParams;
use kube_access::queue::Action;
use kube_types::conditions::{ConditionUpdate, Transition, find_condition, set_conditions};
use kube_types::release::conditions::{READY, STALLED};
use kube_types::{HelmRelease, HelmRequest};
use parking_lot::Mutex;

use super::ReleaseController;
use crate::error::{ErrorContext, ReconcileError};
use crate::key::ReleaseKey;

/// Failures in a row after which the conditions are written.
const THRESHOLD: u32 = 5;
/// The reason of the conditions.
pub(crate) const REASON: &str = "ReconcileFailed";

/// Consecutive failures of each key. Only keys that fail have an entry.
pub(crate) struct ReconcileFailures<K>(Mutex<HashMap<K, u32>>);

impl<K> Default for ReconcileFailures<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq + Clone> ReconcileFailures<K> {
    /// Counts a failure. Returns whether the conditions are to be written.
    fn add(&self, key: &K) -> bool {
        let mut counts = self.0.lock();
        let count = counts.entry(key.clone()).or_default();
        *count = count.saturating_add(1);
        *count == THRESHOLD
    }

    /// The conditions could not be written: the next failure tries again.
    fn write_again(&self, key: &K) {
        if let Some(count) = self.0.lock().get_mut(key) {
            *count = THRESHOLD.saturating_sub(1);
        }
    }

    fn reset(&self, key: &K) {
        self.0.lock().remove(key);
    }
}

/// The end of one reconcile.
#[derive(Clone, Copy)]
pub(crate) enum ReconcileEnd<'a> {
    Succeeded,
    Failed(&'a ReconcileError),
    Panicked,
}

impl<'a> ReconcileEnd<'a> {
    pub fn from_result(done: &'a Result<Action, ReconcileError>) -> Self {
        match done {
            Ok(_) => Self::Succeeded,
            Err(error) => Self::Failed(error),
        }
    }

    /// The message for tenants; `None` after a success. Errors of the platform's own calls may name its identity, so only their reason is
    /// given.
    fn message(self) -> Option<String> {
        let why = match self {
            Self::Succeeded => return None,
            Self::Failed(ReconcileError::Api { cause, .. }) => tenant_message(cause).to_owned(),
            Self::Failed(error @ ReconcileError::DeadlineExceeded(_)) => error.to_string(),
            Self::Failed(_) | Self::Panicked => {
                "an internal error; the log of the server has the details".to_owned()
            }
        };
        Some(format!(
            "{THRESHOLD} reconciles in a row failed; further ones follow with increasing delays: {why}"
        ))
    }
}

/// The parts of a status with conditions.
struct ConditionFields<'s> {
    conditions: &'s mut Vec<Condition>,
    sequence: &'s mut i64,
    transitions: &'s mut Vec<Transition>,
    message: &'s mut String,
}

impl ConditionFields<'_> {
    /// Writes the conditions of an object whose reconciles fail, or clears them without a `failure`.
    fn set(self, failure: Option<&str>, generation: Option<i64>, now: Timestamp) {
        let update = |condition_type, is_true, reason, message: &str| ConditionUpdate {
            condition_type,
            is_true,
            reason,
            message: message.to_owned(),
        };
        let findings = match failure {
            Some(why) => {
                why.clone_into(self.message);
                vec![update(READY, false, REASON, why), update(STALLED, true, REASON, why)]
            }
            // `Ready` is written by each reconcile that succeeds.
            None => vec![update(STALLED, false, "Reconciled", "")],
        };
        set_conditions(self.conditions, self.sequence, self.transitions, &findings, generation, now);
    }
}

fn is_marked(conditions: &[Condition]) -> bool {
    let stalled = find_condition(conditions, STALLED);
    stalled.is_some_and(|stalled| stalled.status == "True" && stalled.reason == REASON)
}

impl ReleaseController {
    /// Counts the failed reconciles of a release, and writes or clears its conditions.
    pub(crate) async fn record_release_end(&self, key: &ReleaseKey, end: ReconcileEnd<'_>) {
        let failure = end.message();
        let Some(release) = self.releases.get_namespaced(&key.namespace, &key.name) else {
            return self.release_failures.reset(key);
        };
        let writes = if failure.is_some() {
            self.release_failures.add(key)
        } else {
            self.release_failures.reset(key);
            release.status.as_ref().is_some_and(|status| is_marked(&status.conditions))
        };
        if writes && let Err(error) = self.mark_release(key, &release, failure.as_deref()).await {
            tracing::debug!(release = %key, %error, "cannot write the conditions of failing reconciles");
            self.release_failures.write_again(key);
        }
    }

    async fn mark_release(
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
            message: &mut status.message,
        };
        fields.set(failure, release.metadata.generation, self.clock.now());
        let api = self.release_api(&key.namespace);
        let written = api.replace_status(&key.name, &PostParams::default(), &release).await;
        let written = written.context(|| format!("write the status of release `{key}`"))?;
        self.release_expectations.record_write(key.clone(), written.metadata.resource_version.as_deref());
        Ok(())
    }

    /// Counts the failed reconciles of a request, and writes or clears its conditions.
    pub(crate) async fn record_request_end(&self, name: &str, end: ReconcileEnd<'_>) {
        let (key, failure) = (name.to_owned(), end.message());
        let Some(request) = self.requests.get(name) else { return self.request_failures.reset(&key) };
        let writes = if failure.is_some() {
            self.request_failures.add(&key)
        } else {
            self.request_failures.reset(&key);
            request.status.as_ref().is_some_and(|status| is_marked(&status.conditions))
        };
        if writes && let Err(error) = self.mark_request(name, &request, failure.as_deref()).await {
            tracing::debug!(request = name, %error, "cannot write the conditions of failing reconciles");
            self.request_failures.write_again(&key);
        }
    }

    async fn mark_request(
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
            message: &mut status.message,
        };
        fields.set(failure, request.metadata.generation, self.clock.now());
        let written = self.request_api().replace_status(name, &PostParams::default(), &request).await;
        let written = written.context(|| format!("write the status of request `{name}`"))?;
        self.request_expectations.record_write(name.to_owned(), written.metadata.resource_version.as_deref());
        Ok(())
    }
}
