//! The disruption controller: computes how many pods of each `PodDisruptionBudget` may be evicted.
//!
//! A budget's status has the expected pods (`expected`), the desired and current healthy pods, and the resulting number of
//! allowed disruptions. A pod whose eviction was allowed counts as disrupted until it is gone, or until
//! [`DELETION_TIMEOUT`] has passed.
//!
//! See also: the eviction subresource, which consumes allowed disruptions (`crate::verbs`).

mod expected;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::events::InvolvedObject;
use super::queue::{Action, Controller};
use super::view::{Condition, Meta, Pod};
use super::{Component, Context, ObjectPart, ReconcileError};
use crate::clock::rfc3339;
use crate::go;
use crate::selector::LabelSelector;
use crate::store::{Event, EventKind, Key, Object};
use expected::ExpectedPods;

pub(crate) const BUDGETS: &str = "poddisruptionbudgets.policy";
const PODS: &str = "pods";
pub(crate) const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
pub(crate) const SYNC_FAILED: &str = "SyncFailed";
/// Condition of a pod that is about to be evicted or deleted.
const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// An evicted pod that is still there after this time is no longer counted as disrupted.
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);
const COMPONENT: &str = "controllermanager";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DisruptionBudget {
    pub metadata: Meta,
    pub spec: BudgetSpec,
    pub status: BudgetStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct BudgetSpec {
    pub selector: Value,
    pub min_available: Value,
    pub max_unavailable: Value,
    pub unhealthy_pod_eviction_policy: String,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct BudgetStatus {
    pub observed_generation: i64,
    /// Evicted pods that still exist, with the time of the eviction.
    pub disrupted_pods: BTreeMap<String, Timestamp>,
    pub disruptions_allowed: i64,
    pub current_healthy: i64,
    pub desired_healthy: i64,
    pub expected_pods: i64,
    pub conditions: Vec<Condition>,
}

/// A key is a budget, or a pod with the condition [`DISRUPTION_TARGET`].
pub(super) struct Disruption;

impl Controller for Disruption {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let keys = |storage: &'static str, objects: Vec<Arc<Object>>| {
            let storage: Arc<str> = storage.into();
            objects.into_iter().map(move |object| Key::new(&storage, &object.namespace, &object.name))
        };
        let budgets = context.store.list(BUDGETS, None).objects;
        let mut pods = context.store.list(PODS, None).objects;
        pods.retain(|pod| stale_at(&pod.view()).is_some());
        keys(BUDGETS, budgets).chain(keys(PODS, pods)).collect()
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        if storage.as_ref() == BUDGETS {
            keys.push(Key::new(storage, &object.namespace, &object.name));
        } else if storage.as_ref() == PODS {
            if affects_budget_status(event) {
                let budgets: Arc<str> = BUDGETS.into();
                for budget in context.store.list(BUDGETS, Some(&object.namespace)).objects {
                    let before = event.previous.as_ref().is_some_and(|previous| covers(&budget, previous));
                    if before || covers(&budget, object) {
                        keys.push(Key::new(&budgets, &budget.namespace, &budget.name));
                    }
                }
            }
            if stale_at(&object.view()).is_some() {
                keys.push(Key::new(storage, &object.namespace, &object.name));
            }
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(&key.storage, &key.namespace, &key.name) else {
            return Ok(Action::AwaitChange);
        };
        if key.storage.as_ref() == PODS {
            return reset_disruption_target(context, &object).await;
        }
        let selector =
            LabelSelector::from_label_selector_object(&object.view::<DisruptionBudget>().spec.selector);
        let pods = match &selector {
            Ok(selector) => context
                .store
                .select(PODS, Some(&key.namespace), |pod| selector.matches(|label| pod.label(label))),
            Err(_) => Vec::new(),
        };
        let counted = match selector {
            Ok(_) => expected::expected_pods(context, &object.view::<DisruptionBudget>().spec, &pods).await,
            Err(error) => Err(error),
        };
        match counted {
            Ok(expected) => update_status(context, &object, &pods, expected).await,
            Err(why) => set_sync_failed(context, &object, &why).await,
        }
    }
}

fn covers(budget: &Object, pod: &Object) -> bool {
    let selector =
        LabelSelector::from_label_selector_object(&budget.view::<DisruptionBudget>().spec.selector);
    selector.is_ok_and(|selector| selector.matches(|key| pod.label(key)))
}

/// Whether a change of a pod can change a budget's status.
fn affects_budget_status(event: &Event) -> bool {
    let (EventKind::Modified, Some(previous)) = (event.kind, &event.previous) else { return true };
    let (was, is) = (previous.view::<Pod>(), event.object.view::<Pod>());
    previous.labels != event.object.labels
        || previous.owner_uids != event.object.owner_uids
        || was.is_ready() != is.is_ready()
        || was.metadata.is_deleting() != is.metadata.is_deleting()
}

/// Writes the status of a budget, if it has changed.
async fn update_status(
    context: &Context,
    object: &Object,
    pods: &[Arc<Object>],
    expected: ExpectedPods,
) -> Result<Action, ReconcileError> {
    let budget = object.view::<DisruptionBudget>();
    let now = context.clock.now();
    let views: Vec<_> = pods.iter().map(|pod| pod.view::<Pod>()).collect();
    let disrupted = pending_disruptions(&budget, &views, now);
    let healthy = count_healthy(&views, &disrupted);
    let next = disrupted
        .values()
        .min()
        .copied()
        .map_or(Action::AwaitChange, |since| Action::RequeueAt(disruption_deadline(since)));
    let allowed = if expected.pods <= 0 { 0 } else { healthy.saturating_sub(expected.desired).max(0) };
    let wanted = BudgetStatus {
        observed_generation: budget.metadata.generation,
        disrupted_pods: disrupted,
        disruptions_allowed: allowed,
        current_healthy: healthy,
        desired_healthy: expected.desired,
        expected_pods: expected.pods,
        conditions: budget.status.conditions.clone(),
    };
    if wanted == budget.status && has_current_condition(&budget.status) {
        return Ok(next);
    }
    record_events(context, object, pods, &wanted, &expected);
    let mut value = object.value();
    let status = &mut value["status"];
    let conditions = status["conditions"].take();
    *status = json!({
        "observedGeneration": wanted.observed_generation,
        "disruptionsAllowed": wanted.disruptions_allowed,
        "currentHealthy": wanted.current_healthy,
        "desiredHealthy": wanted.desired_healthy,
        "expectedPods": wanted.expected_pods,
        "conditions": conditions,
    });
    if !wanted.disrupted_pods.is_empty() {
        let times = wanted.disrupted_pods.iter().map(|(pod, since)| (pod.as_str(), rfc3339(*since)));
        status["disruptedPods"] = json!(times.collect::<BTreeMap<_, _>>());
    }
    set_disruption_allowed(&mut value, &rfc3339(now));
    context.client.update(Component::ControllerManager, ObjectPart::Status, value).await?;
    Ok(next)
}

/// Whether the condition matches the number of allowed disruptions.
fn has_current_condition(status: &BudgetStatus) -> bool {
    let (truth, reason) = allowed_condition(status.disruptions_allowed);
    let found = status.conditions.iter().find(|condition| condition.r#type == DISRUPTION_ALLOWED);
    found.is_some_and(|condition| condition.status == truth && condition.reason == reason)
}

fn allowed_condition(allowed: i64) -> (&'static str, &'static str) {
    if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") }
}

/// Sets the condition of a budget from its number of allowed disruptions.
pub(crate) fn set_disruption_allowed(budget: &mut Value, now: &str) {
    let (truth, reason) = allowed_condition(budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0));
    set_condition(budget, (truth, reason, ""), now);
}

fn set_condition(budget: &mut Value, (truth, reason, message): (&str, &str, &str), now: &str) {
    super::set_condition(budget, DISRUPTION_ALLOWED, (truth, reason, message), now);
    let observed = budget["status"]["observedGeneration"].as_i64().filter(|observed| *observed > 0);
    let conditions = budget["status"]["conditions"].as_array_mut().into_iter().flatten();
    for condition in conditions.filter(|condition| condition["type"] == DISRUPTION_ALLOWED) {
        if let Some(observed) = observed {
            condition["observedGeneration"] = observed.into();
        }
    }
}

/// The expected number of pods is unknown: allows no disruptions.
async fn set_sync_failed(context: &Context, object: &Object, why: &str) -> Result<Action, ReconcileError> {
    let mut value = object.value();
    let before = value.clone();
    value["status"]["disruptionsAllowed"] = 0.into();
    set_condition(&mut value, ("False", SYNC_FAILED, why), &rfc3339(context.clock.now()));
    for count in ["currentHealthy", "desiredHealthy", "expectedPods"] {
        if value["status"][count].is_null() {
            value["status"][count] = 0.into();
        }
    }
    if value != before {
        let message = format!("Failed to calculate the number of expected pods: {why}");
        let about = InvolvedObject::new("policy/v1", "PodDisruptionBudget", object);
        context.events.warning(COMPONENT, about, "CalculateExpectedPodCountFailed", message);
        context.client.update(Component::ControllerManager, ObjectPart::Status, value).await?;
    }
    Ok(Action::AwaitChange)
}

/// Records Events about a misconfigured budget, and about pods that were expected to be deleted.
fn record_events(
    context: &Context,
    object: &Object,
    pods: &[Arc<Object>],
    wanted: &BudgetStatus,
    expected: &ExpectedPods,
) {
    let about = || InvolvedObject::new("policy/v1", "PodDisruptionBudget", object);
    let budget = object.view::<DisruptionBudget>();
    if pods.is_empty() {
        context.events.normal(COMPONENT, about(), "NoPods", "No matching pods found");
    }
    if expected.unmanaged {
        let message = format!(
            "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, \
             the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To \
             account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
            go::label_selector(&budget.spec.selector)
        );
        context.events.warning(COMPONENT, about(), "UnmanagedPods", message);
    }
    let stayed = pods.iter().filter(|pod| {
        let was = budget.status.disrupted_pods.contains_key(pod.name.as_ref());
        was && !pod.is_deleting && !wanted.disrupted_pods.contains_key(pod.name.as_ref())
    });
    for pod in stayed {
        // Upstream's message repeats the namespace.
        let place = format!("{0}/{0}", object.namespace);
        let message = format!("Pod was expected by PDB {place} to be deleted but it wasn't");
        context.events.warning(COMPONENT, InvolvedObject::new("v1", "Pod", pod), "NotDeleted", message);
    }
}

fn disruption_deadline(since: Timestamp) -> Timestamp {
    since.saturating_add(DELETION_TIMEOUT).unwrap_or(Timestamp::MAX)
}

/// Returns the disrupted pods that may still be deleted.
fn pending_disruptions(
    budget: &DisruptionBudget,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> BTreeMap<String, Timestamp> {
    let since = |pod: &Arc<Pod>| {
        let since = *budget.status.disrupted_pods.get(&pod.metadata.name)?;
        (!pod.metadata.is_deleting() && disruption_deadline(since) > now)
            .then(|| (pod.metadata.name.clone(), since))
    };
    pods.iter().filter_map(since).collect()
}

fn count_healthy(pods: &[Arc<Pod>], disrupted: &BTreeMap<String, Timestamp>) -> i64 {
    let healthy = pods.iter().filter(|pod| {
        pod.is_ready() && !pod.metadata.is_deleting() && !disrupted.contains_key(&pod.metadata.name)
    });
    i64::try_from(healthy.count()).unwrap_or(i64::MAX)
}

/// Returns when the condition [`DISRUPTION_TARGET`] of a pod becomes stale.
fn stale_at(pod: &Pod) -> Option<Timestamp> {
    let target = pod.condition(DISRUPTION_TARGET)?;
    let waits = pod.is_active() && target.status == "True" && target.reason != "TerminationByKubelet";
    waits.then(|| disruption_deadline(target.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH)))
}

/// Resets the condition of a pod that was not deleted.
async fn reset_disruption_target(context: &Context, pod: &Object) -> Result<Action, ReconcileError> {
    let Some(at) = stale_at(&pod.view()) else { return Ok(Action::AwaitChange) };
    if at > context.clock.now() {
        return Ok(Action::RequeueAt(at));
    }
    let mut value = pod.value();
    let conditions = value["status"]["conditions"].as_array_mut().into_iter().flatten();
    for condition in conditions.filter(|condition| condition["type"] == DISRUPTION_TARGET) {
        *condition = json!({
            "type": DISRUPTION_TARGET, "status": "False", "lastProbeTime": null,
            "lastTransitionTime": rfc3339(context.clock.now()),
        });
    }
    context.client.update(Component::ControllerManager, ObjectPart::Status, value).await?;
    Ok(Action::AwaitChange)
}
