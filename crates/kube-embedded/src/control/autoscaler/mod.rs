//! The horizontal pod autoscaler controller in a cluster without metrics: it writes status and keeps targets within their limits.
//!
//! Each autoscaler is reconciled every fifteen seconds of the cluster's clock and written only when something has changed.

#![warn(clippy::arithmetic_side_effects)]

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use plan::{Autoscaler, PERIOD, Plan, Rescale, Status, decide};
use serde_json::Value;

use super::events::About;
use super::queue::{Controller, Next};
use super::{Component, Context, Failure, Part};
use crate::error::Result;
use crate::selector::Labels;
use crate::store::{Event, EventKind, Key, Object};

const AUTOSCALERS: &str = "horizontalpodautoscalers.autoscaling";
const PODS: &str = "pods";
const COMPONENT: &str = "horizontal-pod-autoscaler";

pub(super) struct Autoscalers;

impl Controller for Autoscalers {
    fn everything(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = AUTOSCALERS.into();
        let all = context.store.list(AUTOSCALERS, None).objects;
        all.iter().map(|hpa| Key::new(&storage, &hpa.namespace, &hpa.name)).collect()
    }

    fn touched(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        // All other changes are observed at the next reconcile.
        if storage.as_ref() == AUTOSCALERS && event.kind == EventKind::Added {
            keys.push(Key::new(storage, &event.object.namespace, &event.object.name));
        }
    }

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        let Some(object) = context.store.get(AUTOSCALERS, &key.namespace, &key.name) else {
            return Ok(Next::Rest);
        };
        let (hpa, now) = (object.view::<Autoscaler>(), context.clock.now());
        let first = hpa.metadata.creation_timestamp.unwrap_or(now).saturating_add(PERIOD).unwrap_or(now);
        if now < first {
            return Ok(Next::At(first));
        }
        let found = scale(context, &hpa, &object.namespace).await;
        let rivals = match &found {
            Ok(scale) => rivals(context, &object, scale).await,
            Err(_) => Vec::new(),
        };
        let Plan { mut status, warnings, rescale } = decide(&hpa, &found, &rivals, now);
        if let (Some(rescale), Ok(scale)) = (rescale, found) {
            carry_out(context, &object, &hpa, scale, &rescale, &mut status).await;
        }
        if status != hpa.status {
            let mut document = object.value();
            document["status"] = serde_json::to_value(&status).expect("a status is plain data");
            context.actor.update(Component::ControllerManager, Part::Status, document).await?;
        }
        for (reason, message) in warnings {
            context.events.warning(COMPONENT, about(&object), reason, message);
        }
        Ok(Next::At(now.saturating_add(PERIOD).unwrap_or(now)))
    }
}

fn about(object: &Object) -> About {
    About::new("autoscaling/v2", "HorizontalPodAutoscaler", object)
}

/// The kind of a target. Only the group of its apiVersion matters.
fn kind<'a>(context: &Context, hpa: &'a Autoscaler) -> (String, &'a str) {
    let target = &hpa.spec.scale_target_ref;
    let (api_version, kind) = (target.api_version.clone(), target.kind.as_str());
    let group = api_version.split_once('/').map(|(group, _)| group);
    match group.filter(|_| (context.kinds)(&api_version, kind).is_none()) {
        Some(group) => (format!("{group}/v1"), kind),
        None => (api_version, kind),
    }
}

/// Returns the Scale of the target, or the error message.
async fn scale(context: &Context, hpa: &Autoscaler, namespace: &str) -> Result<Value, String> {
    let (api_version, kind) = kind(context, hpa);
    if (context.kinds)(&api_version, kind).is_none() {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        return Err(format!("no matches for kind {kind:?} in group {group:?}"));
    }
    let place = (namespace, hpa.spec.scale_target_ref.name.as_str());
    context.actor.scale((&api_version, kind), place).await.map_err(|error| match error.reason {
        // The kind has no scale subresource.
        "" => "the server could not find the requested resource".to_owned(),
        _ => error.message,
    })
}

/// Returns all autoscalers of the pods of this one's target, if there are several.
async fn rivals(context: &Context, object: &Object, own: &Value) -> Vec<String> {
    let all = context.store.list(AUTOSCALERS, Some(&object.namespace)).objects;
    let mut names = Vec::new();
    for other in all.iter().filter(|other| other.uid != object.uid) {
        if let Ok(scale) = scale(context, &other.view(), &object.namespace).await
            && share_pods(context, &object.namespace, [own, &scale])
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

fn share_pods(context: &Context, namespace: &str, scales: [&Value; 2]) -> bool {
    let selector = |scale: &Value| {
        let text = scale["status"]["selector"].as_str().filter(|text| !text.is_empty());
        text.and_then(|text| Labels::parse(text).ok()).unwrap_or_else(Labels::nothing)
    };
    let selectors = scales.map(selector);
    let chosen = |pod: &Object| selectors.iter().all(|selector| selector.matches(|key| pod.label(key)));
    !context.store.select(PODS, Some(namespace), chosen).is_empty()
}

/// Scales the target and records an Event.
async fn carry_out(
    context: &Context,
    object: &Object,
    hpa: &Autoscaler,
    mut scale: Value,
    rescale: &Rescale,
    status: &mut Status,
) {
    let now = context.clock.now();
    let Rescale { to, why, .. } = rescale;
    scale["spec"]["replicas"] = (*to).into();
    let (api_version, kind) = kind(context, hpa);
    let place = (object.namespace.as_ref(), hpa.spec.scale_target_ref.name.as_str());
    match context.actor.rescale((&api_version, kind), place, scale).await {
        Ok(()) => {
            let message = format!("the HPA controller was able to update the target scale to {to}");
            status.set("AbleToScale", true, "SucceededRescale", message, now);
            status.desired_replicas = *to;
            status.last_scale_time = jiff::Timestamp::from_second(now.as_second()).ok();
            let message = format!("New size: {to}; reason: {why}");
            context.events.normal(COMPONENT, about(object), "SuccessfulRescale", message);
        }
        Err(error) => {
            let message = format!("the HPA controller was unable to update the target scale: {error}");
            status.set("AbleToScale", false, "FailedUpdateScale", message, now);
            let message = format!("New size: {to}; reason: {why}; error: {error}");
            context.events.warning(COMPONENT, about(object), "FailedRescale", message);
        }
    }
}
