//! The Job controller: runs pods to completion.
//!
//! A reconcile observes (`observe`), decides (`plan`: more pods, fewer, or the end) and executes (`execute`). `view` is the Job as
//! read; decisions use `indexes`, `policy` and `backoff`.
//!
//! Invariant: the end of a pod is recorded in the Job's status before its finalizer is removed.
//! See also: `crate::sim` (how pods terminate), `crate::rules` (selector and labels of a Job), `super::ttl` (deletion of finished Jobs).

#![warn(clippy::arithmetic_side_effects)]

mod backoff;
mod execute;
mod indexes;
mod observe;
mod plan;
mod policy;
#[cfg(test)]
mod tests;
pub(super) mod view;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use backoff::Backoff;
use observe::{JobObservation, TRACKING_FINALIZER};
use view::Job;

use super::pods::{self, PODS};
use crate::control::queue::{Action, Controller};
use crate::control::view::Pod;
use crate::control::{Context, ReconcileError};
use crate::selector::LabelSelector;
use crate::store::{Event, EventKind, Key, Object};

pub(super) const JOBS: &str = "jobs.batch";

/// Backoff by the uid of a Job. If it is lost, it is derived from the existing pods.
#[derive(Default)]
pub(super) struct Jobs {
    backoffs: Mutex<HashMap<Box<str>, Backoff>>,
}

impl Controller for Jobs {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        // Pods that are not being deleted yet are reconciled when they are.
        let leaving = context.store.select(PODS, None, |pod| pod.is_deleting);
        let jobs = context.store.list(JOBS, None).objects;
        keys(JOBS, &jobs).chain(keys(PODS, &leaving)).collect()
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        match storage.as_ref() {
            JOBS => {
                keys.push(Key::new(storage, &object.namespace, &object.name));
                let ended =
                    event.kind == EventKind::Deleted || object.view::<Job>().finished_condition().is_some();
                if ended {
                    self.backoffs.lock().remove(&object.uid);
                    let pods = context.store.dependents(&object.uid).into_iter();
                    let pods = pods.filter(|(storage, _)| storage.as_ref() == PODS);
                    keys.extend(pods.map(|(storage, pod)| Key::new(&storage, &pod.namespace, &pod.name)));
                }
            }
            PODS => {
                let jobs: Arc<str> = JOBS.into();
                let versions = [Some(object), event.previous.as_ref()];
                let managers = versions.map(|pod| pod.and_then(|pod| owning_job(pod)));
                keys.extend(managers.iter().flatten().map(|name| Key::new(&jobs, &object.namespace, name)));
                if event.kind == EventKind::Deleted {
                    return;
                }
                let pod = object.view::<Pod>();
                if execute::is_orphaned_tracked_pod(context, &pod) {
                    keys.push(Key::new(storage, &object.namespace, &object.name));
                }
                if pod.metadata.controller().is_none() && !object.is_deleting && !object.labels.is_empty() {
                    let suitors = context.store.list(JOBS, Some(&object.namespace)).objects;
                    let suitors = suitors.iter().filter(|job| selects(job, object));
                    keys.extend(suitors.map(|job| Key::new(&jobs, &job.namespace, &job.name)));
                }
            }
            _ => {}
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(&key.storage, &key.namespace, &key.name) else {
            return Ok(Action::AwaitChange);
        };
        if key.storage.as_ref() == PODS {
            if execute::is_orphaned_tracked_pod(context, &object.view()) {
                execute::remove_tracking_finalizer(context, &object).await?;
            }
            return Ok(Action::AwaitChange);
        }
        let job = object.view::<Job>();
        if job.is_managed_externally() || job.finished_condition().is_some() {
            return Ok(Action::AwaitChange);
        }
        let pods =
            pods::claim_tracked(context, &execute::pod_owner(&object), &selector(&job), TRACKING_FINALIZER)
                .await?;
        let views: Vec<Arc<Pod>> = pods.iter().map(|pod| pod.view()).collect();
        let remembered = self.backoffs.lock().get(&object.uid).copied();
        let look = JobObservation::new(&job, &views, remembered, context.clock.now());
        let plan = plan::decide(&look);
        let refused = execute::execute_plan(context, &object, &pods, &look, &plan).await?;
        self.backoffs.lock().insert(object.uid.clone(), plan.backoff);
        refused
            .map_or(Ok(Action::AwaitChange.or_at(plan.requeue_at, look.now)), |refusal| Err(refusal.into()))
    }
}

fn keys(storage: &str, objects: &[Arc<Object>]) -> impl Iterator<Item = Key> {
    let storage: Arc<str> = storage.into();
    objects.iter().map(move |object| Key::new(&storage, &object.namespace, &object.name))
}

/// The name of the Job that manages a pod.
fn owning_job(pod: &Object) -> Option<String> {
    let pod = pod.view::<Pod>();
    pod.metadata.controller().filter(|manager| manager.kind == "Job").map(|manager| manager.name.clone())
}

fn selector(job: &Job) -> LabelSelector {
    LabelSelector::from_label_selector_object(&job.spec.selector).unwrap_or_else(|_| LabelSelector::nothing())
}

fn selects(job: &Object, pod: &Object) -> bool {
    let job = job.view::<Job>();
    job.finished_condition().is_none() && selector(&job).matches(|key| pod.label(key))
}
