//! Executes a plan: pods first, then the status, then the pods' finalizers, then the final condition.

#![warn(clippy::arithmetic_side_effects)]

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::observe::{
    INDEX_ANNOTATION, INDEX_FAILURES_ANNOTATION, INDEX_IGNORED_ANNOTATION, JobObservation,
    TRACKING_FINALIZER, annotated_failures, failure_effect, is_tracked, to_count,
};
use super::plan::{JobPlan, JobPodAction, conclude, count_untracked};
use super::policy::FailureEffect;
use super::view::{Job, JobStatus};
use crate::control::bounded::{join_bounded, try_join_bounded};
use crate::control::events::InvolvedObject;
use crate::control::view::Pod;
use crate::control::workloads::pods::{self, Owner, PODS};
use crate::control::{
    Component, Context, ObjectPart, Preconditions, Propagation, ReconcileError, has_finalizer,
    ignore_not_found_or_conflict, remove_from_list,
};
use crate::error::{ApiError, Result};
use crate::store::{Key, Object};

const COMPONENT: &str = "job-controller";
/// Maximum length of a prefix for generated names.
const MAX_PREFIX_LEN: usize = 58;
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

pub fn pod_owner(object: &Object) -> Owner<'_> {
    Owner { api_version: "batch/v1", kind: "Job", object }
}

fn involved_object(object: &Object) -> InvolvedObject {
    InvolvedObject::new("batch/v1", "Job", object)
}

/// The pods of `look` are views of `pods`. Returns the error that prevented the creation of a pod, if any.
pub async fn execute_plan(
    context: &Context,
    object: &Arc<Object>,
    pods: &[Arc<Object>],
    observation: &JobObservation<'_>,
    plan: &JobPlan,
) -> Result<Option<ApiError>, ReconcileError> {
    let mut status = plan.status.clone();
    let mut refused = None;
    match &plan.action {
        JobPodAction::Nothing => {}
        JobPodAction::Create(wanted) => {
            let (made, refusal) = create(context, object, observation, wanted).await;
            status.active = status.active.saturating_sub(to_count(wanted.len().saturating_sub(made)));
            refused = refusal;
        }
        JobPodAction::DeleteExcess(places) => {
            try_join_bounded(places.iter().map(|at| remove_tracking_finalizer(context, &pods[*at]))).await?;
            remove(context, object, pods, places).await?;
        }
        JobPodAction::DeleteRemaining(places) => remove(context, object, pods, places).await?,
    }
    let mut written = object.clone();
    if status != observation.job.status {
        written = write(context, &written, &status).await?;
    }
    if let Some(turned) = plan.suspension_event {
        let message = if turned == "Suspended" { "Job suspended" } else { "Job resumed" };
        context.events.normal(COMPONENT, involved_object(object), turned, message);
    }
    try_join_bounded(plan.untrack.iter().map(|at| remove_tracking_finalizer(context, &pods[*at]))).await?;

    let before = status.clone();
    let freed: HashSet<&str> = plan.untrack.iter().map(|at| pods[*at].uid.as_ref()).collect();
    count_untracked(&mut status, |uid| !freed.contains(uid));
    let verdict = plan.outcome.as_ref();
    let ended = verdict.filter(|verdict| conclude(&mut status, verdict, context.clock.now()));
    if status != before {
        write(context, &written, &status).await?;
    }
    if let Some(verdict) = ended {
        let events = &context.events;
        if verdict.is_success {
            if observation.job.spec.completions.is_some_and(|wanted| status.succeeded > wanted) {
                let message = "Too many succeeded pods running after completion count reached";
                events.warning(COMPONENT, involved_object(object), "TooManySucceededPods", message);
            }
            events.normal(COMPONENT, involved_object(object), "Completed", "Job completed");
        } else {
            events.warning(
                COMPONENT,
                involved_object(object),
                known_reason(&verdict.reason),
                verdict.message.clone(),
            );
        }
    }
    Ok(refused)
}

/// The known reasons for Events; any client may have written a condition's reason.
fn known_reason(text: &str) -> &'static str {
    let known = [
        "BackoffLimitExceeded",
        "DeadlineExceeded",
        "PodFailurePolicy",
        "MaxFailedIndexesExceeded",
        "FailedIndexes",
    ];
    known.into_iter().find(|reason| *reason == text).unwrap_or("Failed")
}

async fn write(
    context: &Context,
    object: &Object,
    status: &JobStatus,
) -> Result<Arc<Object>, ReconcileError> {
    let mut document = object.value();
    document["status"] = serde_json::to_value(status).expect("a status is plain data");
    Ok(context.client.update(Component::ControllerManager, ObjectPart::Status, document).await?)
}

/// Removes the tracking finalizer of a pod; retries on conflict.
pub async fn remove_tracking_finalizer(context: &Context, pod: &Object) -> Result<(), ReconcileError> {
    loop {
        let current = context.store.get(PODS, &pod.namespace, &pod.name).filter(|found| found.uid == pod.uid);
        let Some(mut value) = current.map(|pod| pod.value()) else { return Ok(()) };
        if !has_finalizer(&value, TRACKING_FINALIZER) {
            return Ok(());
        }
        remove_from_list(&mut value["metadata"], "finalizers", |finalizer| finalizer == TRACKING_FINALIZER);
        match context.client.update(Component::ControllerManager, ObjectPart::Main, value).await {
            Err(error) if error.code == 409 => {}
            answer => return Ok(ignore_not_found_or_conflict(answer.map(drop))?),
        }
    }
}

async fn remove(
    context: &Context,
    job: &Object,
    pods: &[Arc<Object>],
    indexes: &[usize],
) -> Result<(), ReconcileError> {
    let removals = indexes.iter().map(|at| async {
        let pod = &pods[*at];
        let key = Key::new(&PODS.into(), &pod.namespace, &pod.name);
        let preconditions = Preconditions { uid: &pod.uid, version: None };
        match context.client.delete(&key, preconditions, Propagation::Background).await {
            Ok(()) => {
                let message = format!("Deleted pod: {}", pod.name);
                context.events.normal(COMPONENT, involved_object(job), "SuccessfulDelete", message);
                Ok(())
            }
            Err(error) if matches!(error.code, 404 | 409) => Ok(()),
            Err(error) => {
                let message = format!("Error deleting: {error}");
                context.events.warning(COMPONENT, involved_object(job), "FailedDelete", message);
                Err(error)
            }
        }
    });
    Ok(try_join_bounded(removals).await?)
}

/// Creates pods in batches that double, so that a refusal is not repeated hundreds of times.
/// Returns the number of created pods, and the error that stopped it.
async fn create(
    context: &Context,
    job: &Object,
    look: &JobObservation<'_>,
    wanted: &[Option<i64>],
) -> (usize, Option<ApiError>) {
    let (mut made, mut size, mut rest) = (0_usize, 1_usize, wanted);
    while !rest.is_empty() {
        let (now, later) = rest.split_at(size.min(rest.len()));
        let creations = now.iter().map(|index| {
            let pod = new_pod(job, look, *index);
            context.client.create(Component::ControllerManager, pod)
        });
        let mut refusal = None;
        for answer in join_bounded(creations).await {
            match answer {
                Ok(pod) => {
                    made = made.saturating_add(1);
                    let message = format!("Created pod: {}", pod.name);
                    context.events.normal(COMPONENT, involved_object(job), "SuccessfulCreate", message);
                }
                Err(error) => {
                    if !error.is_namespace_terminating() {
                        let message = format!("Error creating: {error}");
                        context.events.warning(COMPONENT, involved_object(job), "FailedCreate", message);
                    }
                    refusal = Some(error);
                }
            }
        }
        if refusal.is_some() {
            // A terminating namespace deletes the Job as well.
            return (made, refusal.filter(|error| !error.is_namespace_terminating()));
        }
        (rest, size) = (later, size.saturating_mul(2));
    }
    (made, None)
}

fn new_pod(object: &Object, look: &JobObservation<'_>, index: Option<i64>) -> Value {
    let mut pod = pods::from_template(&pod_owner(object), &look.job.spec.template);
    if !has_finalizer(&pod, TRACKING_FINALIZER) {
        pods::add_to(&mut pod["metadata"]["finalizers"], TRACKING_FINALIZER.into());
    }
    let Some(index) = index else {
        pod["metadata"]["generateName"] = pods::name_prefix(&object.name).into();
        return pod;
    };
    let suffix = format!("-{index}-");
    let room = MAX_PREFIX_LEN.saturating_sub(suffix.len());
    pod["metadata"]["generateName"] = format!("{:.room$}{suffix}", object.name).into();
    pod["metadata"]["annotations"][INDEX_ANNOTATION] = index.to_string().into();
    pod["metadata"]["labels"][INDEX_ANNOTATION] = index.to_string().into();
    pod["spec"]["hostname"] = format!("{}-{index}", object.name).into();
    for list in ["initContainers", "containers"] {
        pod["spec"][list].as_array_mut().into_iter().flatten().for_each(set_index_variable);
    }
    if look.job.spec.backoff_limit_per_index.is_some() {
        let last = look.indexes.as_ref().and_then(|indexes| indexes.last_failed.get(&index));
        let (failures, ignored) = last.map_or((0, 0), |at| successor_failures(look.job, &look.pods[*at]));
        pod["metadata"]["annotations"][INDEX_FAILURES_ANNOTATION] = failures.to_string().into();
        if ignored > 0 {
            pod["metadata"]["annotations"][INDEX_IGNORED_ANNOTATION] = ignored.to_string().into();
        }
    }
    pod
}

/// The failure counts for the successor of a failed pod: counted and ignored ones.
fn successor_failures(job: &Job, pod: &Pod) -> (i64, i64) {
    let (failures, ignored) = (
        annotated_failures(pod, INDEX_FAILURES_ANNOTATION),
        annotated_failures(pod, INDEX_IGNORED_ANNOTATION),
    );
    match failure_effect(job, pod) {
        FailureEffect::Ignore => (failures, ignored.saturating_add(1)),
        _ => (failures.saturating_add(1), ignored),
    }
}

/// Adds the environment variable with the pod's completion index.
fn set_index_variable(container: &mut Value) {
    let mut variables = container["env"].as_array().into_iter().flatten();
    if !variables.any(|variable| variable["name"] == INDEX_VARIABLE) {
        let source = json!({"fieldRef": {"fieldPath": format!("metadata.labels['{INDEX_ANNOTATION}']")}});
        pods::add_to(&mut container["env"], json!({"name": INDEX_VARIABLE, "valueFrom": source}));
    }
}

/// Whether a pod still has the tracking finalizer although no Job counts it.
pub fn is_orphaned_tracked_pod(context: &Context, pod: &Pod) -> bool {
    if !is_tracked(pod) {
        return false;
    }
    let Some(manager) = pod.metadata.controller() else { return true };
    if (manager.api_version.as_str(), manager.kind.as_str()) != ("batch/v1", "Job") {
        return false;
    }
    let job = context.store.get(super::JOBS, &pod.metadata.namespace, &manager.name);
    let job = job.filter(|job| *job.uid == *manager.uid).map(|job| job.view::<Job>());
    job.is_none_or(|job| !job.is_managed_externally() && job.finished_condition().is_some())
}
