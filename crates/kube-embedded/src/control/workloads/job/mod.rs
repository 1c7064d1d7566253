//! The Job controller: runs pods to completion.
//!
//! A reconcile observes (`look`), decides (`plan`: more pods, fewer, or the end) and executes (`act`). `view` is the Job as
//! read; decisions use `indexes`, `policy` and `backoff`.
//!
//! Invariant: the end of a pod is recorded in the Job's status before its finalizer is removed.
//! See also: `crate::sim` (how pods terminate), `crate::rules` (selector and labels of a Job), `super::ttl` (deletion of finished Jobs).

#![warn(clippy::arithmetic_side_effects)]

mod act;
mod backoff;
mod indexes;
mod look;
mod plan;
mod policy;
#[cfg(test)]
mod tests;
pub(super) mod view;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use backoff::Backoff;
use look::{Look, TRACKER};
use view::Job;

use super::pods::{self, PODS};
use crate::control::queue::{Controller, Next};
use crate::control::view::Pod;
use crate::control::{Context, Failure};
use crate::selector::Labels;
use crate::store::{Event, EventKind, Key, Object};

pub(super) const JOBS: &str = "jobs.batch";

/// Backoff by the uid of a Job. If it is lost, it is derived from the existing pods.
#[derive(Default)]
pub(super) struct Jobs {
    failures: Mutex<HashMap<Box<str>, Backoff>>,
}

impl Controller for Jobs {
    fn everything(&self, context: &Context) -> Vec<Key> {
        // Pods that are not being deleted yet are reconciled when they are.
        let leaving = context.store.select(PODS, None, |pod| pod.deleting);
        let jobs = context.store.list(JOBS, None).objects;
        keys(JOBS, &jobs).chain(keys(PODS, &leaving)).collect()
    }

    fn touched(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        match storage.as_ref() {
            JOBS => {
                keys.push(Key::new(storage, &object.namespace, &object.name));
                let ended = event.kind == EventKind::Deleted || object.view::<Job>().outcome().is_some();
                if ended {
                    self.failures.lock().remove(&object.uid);
                    let pods = context.store.dependents(&object.uid).into_iter();
                    let pods = pods.filter(|(storage, _)| storage.as_ref() == PODS);
                    keys.extend(pods.map(|(storage, pod)| Key::new(&storage, &pod.namespace, &pod.name)));
                }
            }
            PODS => {
                let jobs: Arc<str> = JOBS.into();
                let versions = [Some(object), event.previous.as_ref()];
                let managers = versions.map(|pod| pod.and_then(|pod| manager(pod)));
                keys.extend(managers.iter().flatten().map(|name| Key::new(&jobs, &object.namespace, name)));
                if event.kind == EventKind::Deleted {
                    return;
                }
                let pod = object.view::<Pod>();
                if act::is_forgotten(context, &pod) {
                    keys.push(Key::new(storage, &object.namespace, &object.name));
                }
                if pod.metadata.controller().is_none() && !object.deleting && !object.labels.is_empty() {
                    let suitors = context.store.list(JOBS, Some(&object.namespace)).objects;
                    let suitors = suitors.iter().filter(|job| selects(job, object));
                    keys.extend(suitors.map(|job| Key::new(&jobs, &job.namespace, &job.name)));
                }
            }
            _ => {}
        }
    }

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        let Some(object) = context.store.get(&key.storage, &key.namespace, &key.name) else {
            return Ok(Next::Rest);
        };
        if key.storage.as_ref() == PODS {
            if act::is_forgotten(context, &object.view()) {
                act::untrack(context, &object).await?;
            }
            return Ok(Next::Rest);
        }
        let job = object.view::<Job>();
        if job.is_foreign() || job.outcome().is_some() {
            return Ok(Next::Rest);
        }
        let pods = pods::claim_tracked(context, &act::owner(&object), &selector(&job), TRACKER).await?;
        let views: Vec<Arc<Pod>> = pods.iter().map(|pod| pod.view()).collect();
        let remembered = self.failures.lock().get(&object.uid).copied();
        let look = Look::new(&job, &views, remembered, context.clock.now());
        let plan = plan::decide(&look);
        let refused = act::carry_out(context, &object, &pods, &look, &plan).await?;
        self.failures.lock().insert(object.uid.clone(), plan.backoff);
        refused.map_or(Ok(Next::Rest.or_at(plan.again, look.now)), |refusal| Err(refusal.into()))
    }
}

fn keys(storage: &str, objects: &[Arc<Object>]) -> impl Iterator<Item = Key> {
    let storage: Arc<str> = storage.into();
    objects.iter().map(move |object| Key::new(&storage, &object.namespace, &object.name))
}

/// The name of the Job that manages a pod.
fn manager(pod: &Object) -> Option<String> {
    let pod = pod.view::<Pod>();
    pod.metadata.controller().filter(|manager| manager.kind == "Job").map(|manager| manager.name.clone())
}

fn selector(job: &Job) -> Labels {
    Labels::from_object(&job.spec.selector).unwrap_or_else(|_| Labels::nothing())
}

fn selects(job: &Object, pod: &Object) -> bool {
    let job = job.view::<Job>();
    job.outcome().is_none() && selector(&job).matches(|key| pod.label(key))
}
