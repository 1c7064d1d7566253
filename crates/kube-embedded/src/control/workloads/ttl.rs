//! The TTL-after-finished controller: deletes finished Jobs after `ttlSecondsAfterFinished`.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::job::JOBS;
use super::job::view::Job;
use crate::control::queue::{Action, Controller};
use crate::control::{Context, Preconditions, Propagation, ReconcileError, ignore_not_found_or_conflict};
use crate::store::{Event, EventKind, Key};

pub(super) struct EndedJobs;

/// When a Job is to be deleted, if at all.
fn expires_at(job: &Job) -> Option<Timestamp> {
    let seconds = job.spec.ttl_seconds_after_finished.filter(|_| !job.metadata.is_deleting())?;
    job.finished_condition()?.last_transition_time?.checked_add(SignedDuration::from_secs(seconds)).ok()
}

impl Controller for EndedJobs {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = JOBS.into();
        let jobs = context.store.list(JOBS, None).objects;
        let ended = jobs.iter().filter(|job| expires_at(&job.view()).is_some());
        ended.map(|job| Key::new(&storage, &job.namespace, &job.name)).collect()
    }

    fn keys_for_event(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let asks = |job: &Job| job.spec.ttl_seconds_after_finished.is_some();
        if storage.as_ref() == JOBS && event.kind != EventKind::Deleted && asks(&event.object.view()) {
            keys.push(Key::new(storage, &event.object.namespace, &event.object.name));
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(job) = context.store.get(JOBS, &key.namespace, &key.name) else {
            return Ok(Action::AwaitChange);
        };
        match expires_at(&job.view()) {
            None => Ok(Action::AwaitChange),
            Some(at) if context.clock.now() < at => Ok(Action::RequeueAt(at)),
            Some(_) => {
                let preconditions = Preconditions { uid: &job.uid, version: None };
                ignore_not_found_or_conflict(
                    context.client.delete(key, preconditions, Propagation::Foreground).await,
                )?;
                Ok(Action::AwaitChange)
            }
        }
    }
}
