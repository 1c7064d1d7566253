//! The subresource `eviction`: deletes a pod only if its disruption budget allows it.
//!
//! See also: the disruption controller (`crate::control::disruption`).

#![warn(clippy::arithmetic_side_effects)]

use std::sync::Arc;

use serde_json::{Value, json};

use super::body::decode_as;
use super::update::modify;
use super::{DeletionOptions, ResourceRequest, ResourceResponse, controller_client, delete};
use crate::clock::rfc3339;
use crate::control::disruption::{self, BUDGETS, DisruptionBudget};
use crate::control::view::Pod;
use crate::control::{Component, ObjectPart};
use crate::error::{ApiError, Result};
use crate::selector::LabelSelector;
use crate::store::Object;

/// Maximum number of attempts after conflicts.
const MAX_EVICTION_ATTEMPTS: usize = 20;
/// Evictions are refused while a budget has this many unconfirmed ones in `disruptedPods`.
const MAX_DISRUPTED_PODS: usize = 2000;
const REJECTED_MESSAGE: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Result of checking an eviction against the pod and its budget.
#[derive(Debug, PartialEq)]
enum EvictionDecision {
    /// Deletes without using the budget. If `if_unchanged`, only the observed version of the pod may be deleted.
    Delete {
        if_unchanged: bool,
    },
    /// Uses one disruption of the budget.
    UseBudget,
    Reject(Box<ApiError>),
}

/// Deletes a pod if the disruption budgets allow it.
pub async fn evict(call: &ResourceRequest) -> Result<ResourceResponse> {
    let eviction = decode_as(call, "policy.Eviction")?;
    if eviction["metadata"]["name"] != call.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let given = &eviction["deleteOptions"];
    let options = DeletionOptions {
        uid: given["preconditions"]["uid"].as_str().map(str::to_owned),
        version: given["preconditions"]["resourceVersion"].as_str().map(str::to_owned),
        grace_seconds: given["gracePeriodSeconds"].as_i64(),
        propagation: None,
        dry_run: call.query.is_dry_run() || given["dryRun"].as_array().is_some_and(|d| !d.is_empty()),
    };
    crate::admission::nodes::check_eviction(&call.user, &call.get_live()?.value())?;
    for _ in 0..MAX_EVICTION_ATTEMPTS {
        let pod = call.get_live()?;
        let budget = budget_of(call, &pod)?;
        let version =
            match decide(&pod.view(), budget.as_deref().map(Object::view::<DisruptionBudget>).as_deref()) {
                EvictionDecision::Reject(refusal) => return Err(*refusal),
                EvictionDecision::Delete { if_unchanged: as_seen } => as_seen.then_some(pod.version),
                EvictionDecision::UseBudget => {
                    let spent = match &budget {
                        Some(budget) if !options.dry_run => use_disruption(call, budget, &pod.name).await,
                        _ => Ok(()),
                    };
                    match spent {
                        Err(error) if error.code == 409 => continue,
                        spent => spent?,
                    }
                    None
                }
            };
        let lenient = options.version.is_none() && version.is_some();
        let mut options = options.clone();
        options.version = options.version.or(version.map(|version| version.to_string()));
        match remove(call, options).await {
            // The pod has changed since it was read, and may be healthy now.
            Err(error) if error.code == 409 && lenient => {}
            removed => return removed.map(|()| success()),
        }
    }
    Err(ApiError::too_many_requests(REJECTED_MESSAGE, 10))
}

fn success() -> ResourceResponse {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    ResourceResponse::OtherKind(201, status)
}

/// Sets the `DisruptionTarget` condition on the pod, then deletes it.
async fn remove(call: &ResourceRequest, mut options: DeletionOptions) -> Result<()> {
    if !options.dry_run {
        let marked = modify(call, |live| {
            check_preconditions(live, &options)?;
            Ok(with_disruption_target(live, &rfc3339(call.cluster.clock().now())))
        });
        if let ResourceResponse::Stored(_, pod) = marked.await?
            && options.version.is_some()
        {
            options.version = Some(pod.version.to_string());
        }
    }
    delete::remove(&call.for_main_resource(""), &options).await.map(drop)
}

/// Checks the preconditions. The messages name the kind where others name the resource.
fn check_preconditions(live: &Value, options: &DeletionOptions) -> Result<()> {
    let (uid, version) = (&live["metadata"]["uid"], &live["metadata"]["resourceVersion"]);
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let differs = |what: &str, meant: &str, found: &Value, why: &str| {
        let found = text(found);
        let words = format!(
            "the {what} in the precondition ({meant}) does not match the {what} in record ({found}). The object might have been {why}"
        );
        Err(ApiError::conflict("", "Pod", name, words))
    };
    match (&options.uid, &options.version) {
        (Some(meant), _) if *uid != **meant => differs("UID", meant, uid, "deleted and then recreated"),
        (_, Some(meant)) if *version != **meant => differs("ResourceVersion", meant, version, "modified"),
        _ => Ok(()),
    }
}

fn with_disruption_target(live: &Value, now: &str) -> Value {
    let mut pod = live.clone();
    let mut wanted = json!({
        "type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
    });
    let conditions = &mut pod["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let list = conditions.as_array_mut().expect("it was made a list");
    match list.iter_mut().find(|condition| condition["type"] == wanted["type"]) {
        None => list.push(wanted),
        Some(found) => {
            if found["status"] == wanted["status"] {
                wanted["lastTransitionTime"] = found["lastTransitionTime"].clone();
            }
            *found = wanted;
        }
    }
    pod
}

/// Returns the budget that covers the pod, unless the pod is exempt.
fn budget_of(call: &ResourceRequest, pod: &Object) -> Result<Option<Arc<Object>>> {
    if is_exempt(&pod.view()) {
        return Ok(None);
    }
    let budgets = call.cluster.store().list(BUDGETS, Some(&call.namespace)).objects;
    let covers = |budget: &Arc<Object>| {
        let selector =
            LabelSelector::from_label_selector_object(&budget.view::<DisruptionBudget>().spec.selector);
        selector.is_ok_and(|selector| selector.matches(|key| pod.label(key)))
    };
    let mut covering = budgets.into_iter().filter(covers);
    let first = covering.next();
    if covering.next().is_some() {
        let words = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(ApiError::new(500, "", words));
    }
    Ok(first)
}

/// Finished, pending and terminating pods use no budget.
fn is_exempt(pod: &Pod) -> bool {
    pod.is_finished() || pod.status.phase == "Pending" || pod.metadata.is_deleting()
}

fn decide(pod: &Pod, budget: Option<&DisruptionBudget>) -> EvictionDecision {
    if is_exempt(pod) {
        // A pending pod might become healthy in the meantime.
        return EvictionDecision::Delete { if_unchanged: !pod.is_finished() && !pod.metadata.is_deleting() };
    }
    let Some(budget) = budget else { return EvictionDecision::Delete { if_unchanged: false } };
    let (name, status) = (&budget.metadata.name, &budget.status);
    if !pod.is_ready() {
        let always = budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow";
        let healthy = status.current_healthy >= status.desired_healthy && status.desired_healthy > 0;
        if always || healthy {
            return EvictionDecision::Delete { if_unchanged: true };
        }
    }
    let cause = |error: ApiError, words: &str| {
        EvictionDecision::Reject(Box::new(error.with_cause("DisruptionBudget", words, "")))
    };
    let forbidden = |why: &str| {
        EvictionDecision::Reject(Box::new(ApiError::forbidden("policy", "poddisruptionbudget", name, why)))
    };
    if status.observed_generation < budget.metadata.generation {
        let words = format!("The disruption budget {name} is still being processed by the server.");
        return cause(ApiError::too_many_requests(REJECTED_MESSAGE, 10), &words);
    }
    match status.disruptions_allowed {
        ..0 => forbidden("pdb disruptions allowed is negative"),
        _ if status.disrupted_pods.len() > MAX_DISRUPTED_PODS => {
            forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller")
        }
        0 => cause(ApiError::new(429, "TooManyRequests", REJECTED_MESSAGE), &budget_message(budget)),
        1.. => EvictionDecision::UseBudget,
    }
}

/// Explains why a budget allows no disruption.
fn budget_message(budget: &DisruptionBudget) -> String {
    let (name, status) = (&budget.metadata.name, &budget.status);
    let condition =
        status.conditions.iter().find(|condition| condition.r#type == disruption::DISRUPTION_ALLOWED);
    let failed_condition =
        condition.filter(|condition| condition.status == "False" && !condition.message.is_empty());
    let nothing = format!("The disruption budget {name} does not allow evicting pods currently");
    match failed_condition {
        Some(told) if told.reason == disruption::SYNC_FAILED => {
            format!("{nothing} because it failed sync: {}", told.message)
        }
        _ if status.current_healthy <= status.desired_healthy => format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            status.desired_healthy, status.current_healthy
        ),
        Some(told) => format!("{nothing} ({}): {}", told.reason, told.message),
        None => nothing,
    }
}

/// Uses one disruption and records the pod in `disruptedPods`. A 409 means that the budget has changed.
async fn use_disruption(call: &ResourceRequest, budget: &Object, pod: &str) -> Result<()> {
    let mut value = budget.value();
    let now = rfc3339(call.cluster.clock().now());
    let left = value["status"]["disruptionsAllowed"].as_i64().unwrap_or(0).saturating_sub(1);
    value["status"]["disruptionsAllowed"] = left.into();
    if left == 0 {
        disruption::set_disruption_allowed(&mut value, &now);
    }
    if !value["status"]["disruptedPods"].is_object() {
        value["status"]["disruptedPods"] = json!({});
    }
    value["status"]["disruptedPods"][pod] = now.into();
    controller_client::replace_document(&call.cluster, Component::ApiServer, ObjectPart::Status, &value)
        .await
        .map(drop)
}
