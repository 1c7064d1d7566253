//! The horizontal pod autoscaler controller in a cluster without metrics: it writes status and keeps targets within their limits.
//!
//! Each autoscaler is reconciled every fifteen seconds of the cluster's clock and written only when something has changed.

#![warn(clippy::arithmetic_side_effects)]

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use plan::{Autoscaler, AutoscalerPlan, AutoscalerStatus, Rescale, SYNC_INTERVAL, decide};
use serde_json::Value;

use super::events::InvolvedObject;
use super::queue::{Action, Controller};
use super::{Component, Context, ObjectPart, ReconcileError};
use crate::error::Result;
use crate::selector::LabelSelector;
use crate::store::{Event, EventKind, Key, Object};

const AUTOSCALERS: &str = "horizontalpodautoscalers.autoscaling";
const PODS: &str = "pods";
const COMPONENT: &str = "horizontal-pod-autoscaler";

pub(super) struct Autoscalers;

impl Controller for Autoscalers {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = AUTOSCALERS.into();
        let all = context.store.list(AUTOSCALERS, None).objects;
        all.iter().map(|hpa| Key::new(&storage, &hpa.namespace, &hpa.name)).collect()
    }

    fn keys_for_event(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        // All other changes are observed at the next reconcile.
        if storage.as_ref() == AUTOSCALERS && event.kind == EventKind::Added {
            keys.push(Key::new(storage, &event.object.namespace, &event.object.name));
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(AUTOSCALERS, &key.namespace, &key.name) else {
            return Ok(Action::AwaitChange);
        };
        let (hpa, now) = (object.view::<Autoscaler>(), context.clock.now());
        let first =
            hpa.metadata.creation_timestamp.unwrap_or(now).saturating_add(SYNC_INTERVAL).unwrap_or(now);
        if now < first {
            return Ok(Action::RequeueAt(first));
        }
        let found = get_scale(context, &hpa, &object.namespace).await;
        let rivals = match &found {
            Ok(scale) => conflicting_autoscalers(context, &object, scale).await,
            Err(_) => Vec::new(),
        };
        let AutoscalerPlan { mut status, warnings, rescale } = decide(&hpa, &found, &rivals, now);
        if let (Some(rescale), Ok(scale)) = (rescale, found) {
            execute_rescale(context, &object, &hpa, scale, &rescale, &mut status).await;
        }
        if status != hpa.status {
            let mut document = object.value();
            document["status"] = serde_json::to_value(&status).expect("a status is plain data");
            context.client.update(Component::ControllerManager, ObjectPart::Status, document).await?;
        }
        for (reason, message) in warnings {
            context.events.warning(COMPONENT, involved_object(&object), reason, message);
        }
        Ok(Action::RequeueAt(now.saturating_add(SYNC_INTERVAL).unwrap_or(now)))
    }
}

fn involved_object(object: &Object) -> InvolvedObject {
    InvolvedObject::new("autoscaling/v2", "HorizontalPodAutoscaler", object)
}

/// The kind of a target. Only the group of its apiVersion matters.
fn target_kind<'a>(context: &Context, hpa: &'a Autoscaler) -> (String, &'a str) {
    let target = &hpa.spec.scale_target_ref;
    let (api_version, kind) = (target.api_version.clone(), target.kind.as_str());
    let group = api_version.split_once('/').map(|(group, _)| group);
    match group.filter(|_| (context.kinds)(&api_version, kind).is_none()) {
        Some(group) => (format!("{group}/v1"), kind),
        None => (api_version, kind),
    }
}

/// Returns the Scale of the target, or the error message.
async fn get_scale(context: &Context, hpa: &Autoscaler, namespace: &str) -> Result<Value, String> {
    let (api_version, kind) = target_kind(context, hpa);
    if (context.kinds)(&api_version, kind).is_none() {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        return Err(format!("no matches for kind {kind:?} in group {group:?}"));
    }
    let place = (namespace, hpa.spec.scale_target_ref.name.as_str());
    context.client.get_scale((&api_version, kind), place).await.map_err(|error| match error.reason {
        // The kind has no scale subresource.
        "" => "the server could not find the requested resource".to_owned(),
        _ => error.message,
    })
}

/// Returns all autoscalers whose targets share pods with this target, if there are several.
async fn conflicting_autoscalers(context: &Context, object: &Object, own: &Value) -> Vec<String> {
    let all = context.store.list(AUTOSCALERS, Some(&object.namespace)).objects;
    let mut names = Vec::new();
    for other in all.iter().filter(|other| other.uid != object.uid) {
        if let Ok(scale) = get_scale(context, &other.view(), &object.namespace).await
            && targets_share_pods(context, &object.namespace, [own, &scale])
        {
            names.push(format!("{}/{}", other.namespace, other.name));
        }
    }
    if !names.is_empty() {
        names.push(format!("{}/{}", object.namespace, object.name));
        names.sort();
    }
    names
}

fn targets_share_pods(context: &Context, namespace: &str, scales: [&Value; 2]) -> bool {
    let selector = |scale: &Value| {
        let text = scale["status"]["selector"].as_str().filter(|text| !text.is_empty());
        text.and_then(|text| LabelSelector::parse(text).ok()).unwrap_or_else(LabelSelector::nothing)
    };
    let selectors = scales.map(selector);
    let chosen = |pod: &Object| selectors.iter().all(|selector| selector.matches(|key| pod.label(key)));
    !context.store.select(PODS, Some(namespace), chosen).is_empty()
}

/// Scales the target and records an Event.
async fn execute_rescale(
    context: &Context,
    object: &Object,
    hpa: &Autoscaler,
    mut scale: Value,
    rescale: &Rescale,
    status: &mut AutoscalerStatus,
) {
    let now = context.clock.now();
    let Rescale { to, reason: why, .. } = rescale;
    scale["spec"]["replicas"] = (*to).into();
    let (api_version, kind) = target_kind(context, hpa);
    let place = (object.namespace.as_ref(), hpa.spec.scale_target_ref.name.as_str());
    match context.client.update_scale((&api_version, kind), place, scale).await {
        Ok(()) => {
            let message = format!("the HPA controller was able to update the target scale to {to}");
            status.set_condition("AbleToScale", true, "SucceededRescale", message, now);
            status.desired_replicas = *to;
            status.last_scale_time = jiff::Timestamp::from_second(now.as_second()).ok();
            let message = format!("New size: {to}; reason: {why}");
            context.events.normal(COMPONENT, involved_object(object), "SuccessfulRescale", message);
        }
        Err(error) => {
            let message = format!("the HPA controller was unable to update the target scale: {error}");
            status.set_condition("AbleToScale", false, "FailedUpdateScale", message, now);
            let message = format!("New size: {to}; reason: {why}; error: {error}");
            context.events.warning(COMPONENT, involved_object(object), "FailedRescale", message);
        }
    }
}
