//! Decisions of an autoscaler without metrics. Pure: no I/O, no clock.
//!
//! It keeps the target within `minReplicas` and `maxReplicas`. Every metric fails, with the messages of a cluster
//! without metrics server.

#![warn(clippy::arithmetic_side_effects)]

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::control::view::{Condition, Meta};
use crate::go;

/// Interval between reconciles; the first one is this long after the creation.
pub const SYNC_INTERVAL: SignedDuration = SignedDuration::from_secs(15);

const ABLE_TO_SCALE: &str = "AbleToScale";
const SCALING_ACTIVE: &str = "ScalingActive";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Autoscaler {
    pub metadata: Meta,
    pub spec: AutoscalerSpec,
    pub status: AutoscalerStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AutoscalerSpec {
    pub scale_target_ref: ScaleTargetRef,
    pub min_replicas: Option<i64>,
    pub max_replicas: i64,
    pub metrics: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScaleTargetRef {
    pub api_version: String,
    pub kind: String,
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AutoscalerStatus {
    #[serde(skip_serializing_if = "is_zero")]
    pub current_replicas: i64,
    pub desired_replicas: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Timestamp>,
    pub current_metrics: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl AutoscalerStatus {
    pub fn set_condition(
        &mut self,
        kind: &str,
        holds: bool,
        reason: &str,
        message: impl Into<String>,
        now: Timestamp,
    ) {
        let at = self.conditions.iter().position(|condition| condition.r#type == kind);
        let at = at.unwrap_or_else(|| {
            self.conditions.push(Condition { r#type: kind.to_owned(), ..Condition::default() });
            self.conditions.len().saturating_sub(1)
        });
        let (condition, status) = (&mut self.conditions[at], if holds { "True" } else { "False" });
        if condition.status != status {
            condition.last_transition_time = Some(now);
        }
        status.clone_into(&mut condition.status);
        reason.clone_into(&mut condition.reason);
        condition.message = message.into();
    }
}

/// The new number of replicas, and the reason.
#[derive(Debug, PartialEq, Eq)]
pub struct Rescale {
    pub from: i64,
    pub to: i64,
    pub reason: &'static str,
}

#[derive(Debug, Default)]
pub struct AutoscalerPlan {
    pub status: AutoscalerStatus,
    /// Reason and message of warning Events.
    pub warnings: Vec<(&'static str, String)>,
    pub rescale: Option<Rescale>,
}

impl AutoscalerPlan {
    fn warn(&mut self, reason: &'static str, message: impl Into<String>) {
        self.warnings.push((reason, message.into()));
    }
}

/// `found` is the target's Scale, or the error message. `rivals` are all autoscalers, by namespace and name, of
/// the same pods, if there are several.
pub fn decide(
    hpa: &Autoscaler,
    found: &Result<Value, String>,
    rivals: &[String],
    now: Timestamp,
) -> AutoscalerPlan {
    let mut plan = AutoscalerPlan { status: hpa.status.clone(), ..AutoscalerPlan::default() };
    let scale = match found {
        Ok(scale) => scale,
        Err(why) => {
            let message = format!("the HPA controller was unable to get the target's current scale: {why}");
            plan.status.set_condition(ABLE_TO_SCALE, false, "FailedGetScale", message, now);
            plan.warn("FailedGetScale", why);
            return plan;
        }
    };
    let message = "the HPA controller was able to get the target's current scale";
    plan.status.set_condition(ABLE_TO_SCALE, true, "SucceededGetScale", message, now);
    let current = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    let (least, most) = (hpa.spec.min_replicas.unwrap_or(1), hpa.spec.max_replicas);
    plan.status.current_replicas = current;
    plan.status.current_metrics = None;
    if current == 0 {
        plan.status.desired_replicas = 0;
        let message = "scaling is disabled since the replica count of the target is zero";
        plan.status.set_condition(SCALING_ACTIVE, false, "ScalingDisabled", message, now);
    } else if current > most {
        let why = "Current number of replicas above Spec.MaxReplicas";
        plan.rescale = Some(Rescale { from: current, to: most, reason: why });
    } else if current < least {
        let why = "Current number of replicas below Spec.MinReplicas";
        plan.rescale = Some(Rescale { from: current, to: least, reason: why });
    } else {
        set_metric_conditions(&mut plan, hpa, scale, rivals, now);
    }
    plan
}

/// Sets the conditions for the metrics, all of which are missing.
fn set_metric_conditions(
    plan: &mut AutoscalerPlan,
    hpa: &Autoscaler,
    scale: &Value,
    rivals: &[String],
    now: Timestamp,
) {
    let selector = scale["status"]["selector"].as_str().unwrap_or_default();
    if selector.is_empty() {
        let message = "the HPA target's scale is missing a selector";
        plan.status.set_condition(SCALING_ACTIVE, false, "InvalidSelector", message, now);
        plan.warn("SelectorRequired", "selector is required");
        return plan.warn("FailedComputeMetricsReplicas", "selector is required");
    }
    if !rivals.is_empty() {
        let names = rivals.join(" ");
        let message = format!("pods by selector {selector} are controlled by multiple HPAs: [{names}]");
        plan.status.set_condition(SCALING_ACTIVE, false, "AmbiguousSelector", message.clone(), now);
        plan.warn("AmbiguousSelector", message.clone());
        return plan.warn("FailedComputeMetricsReplicas", message);
    }
    let count = hpa.spec.metrics.len();
    // Nothing is known of each metric, not even its type.
    plan.status.current_metrics = Some(vec![json!({"type": ""}); count]);
    let missing: Vec<_> = hpa
        .spec
        .metrics
        .iter()
        .filter_map(|metric| missing_metric(metric, &hpa.metadata.namespace))
        .collect();
    for metric in &missing {
        plan.warn(metric.reason, metric.message.clone());
    }
    if let Some(first) = missing.first() {
        let message = format!("the HPA was unable to compute the replica count: {}", first.message);
        plan.status.set_condition(SCALING_ACTIVE, false, first.reason, message, now);
        let message = format!(
            "invalid metrics ({count} invalid out of {count}), first error is: {}",
            first.condition_message
        );
        plan.warn("FailedComputeMetricsReplicas", message);
    }
}

/// A missing metric: the reason, the message, and the message with the failed operation.
struct MissingMetric {
    reason: &'static str,
    message: String,
    condition_message: String,
}

fn missing_metric(metric: &Value, namespace: &str) -> Option<MissingMetric> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let custom = "unable to fetch metrics from custom metrics API: \
        no custom metrics API (custom.metrics.k8s.io) registered";
    let unserved = |kind: &str, what: &str| {
        let served = "the server could not find the requested resource";
        format!("unable to fetch metrics from {kind} metrics API: {served} (get {what}.metrics.k8s.io)")
    };
    let resource = |source: &Value| {
        let name = text(&source["name"]);
        let what = if source["target"]["averageValue"].is_null() { "utilization" } else { "usage" };
        let why = unserved("resource", "pods");
        format!("failed to get {name} {what}: unable to get metrics for resource {name}: {why}")
    };
    Some(match metric["type"].as_str()? {
        "Resource" => {
            let source = &metric["resource"];
            let why = resource(source);
            let full = format!("failed to get {} resource metric value: {why}", text(&source["name"]));
            MissingMetric { reason: "FailedGetResourceMetric", message: why, condition_message: full }
        }
        "ContainerResource" => {
            let source = &metric["containerResource"];
            let why = resource(source);
            let full = format!("failed to get {} container metric value: {why}", text(&source["container"]));
            MissingMetric {
                reason: "FailedGetContainerResourceMetric",
                message: why,
                condition_message: full,
            }
        }
        "Pods" => {
            let why = format!("unable to get metric {}: {custom}", text(&metric["pods"]["metric"]["name"]));
            let full = format!("failed to get pods metric value: {why}");
            MissingMetric { reason: "FailedGetPodsMetric", message: why, condition_message: full }
        }
        "Object" => {
            let (source, of) = (&metric["object"], &metric["object"]["describedObject"]);
            let (name, kind, object) =
                (text(&source["metric"]["name"]), text(&of["kind"]), text(&of["name"]));
            let why = format!("unable to get metric {name}: {kind} on {namespace} {object}/{custom}");
            let per_pod = source["target"]["type"] == "AverageValue";
            let step = if per_pod { format!("failed to get {name} object metric: ") } else { String::new() };
            let full = format!("failed to get object metric value: {step}{why}");
            MissingMetric { reason: "FailedGetObjectMetric", message: why, condition_message: full }
        }
        "External" => {
            let source = &metric["external"];
            let name = text(&source["metric"]["name"]);
            let selector = &source["metric"]["selector"];
            let chosen = if selector.is_null() { "nil".to_owned() } else { go::label_selector(selector) };
            let why = unserved("external", &format!("{name}.external"));
            let why = format!("unable to get external metric {namespace}/{name}/{chosen}: {why}");
            let per_pod = !source["target"]["averageValue"].is_null();
            let step =
                if per_pod { format!("{name} external metric") } else { format!("external metric {name}") };
            let full = format!("failed to get {name} external metric value: failed to get {step}: {why}");
            MissingMetric { reason: "FailedGetExternalMetric", message: why, condition_message: full }
        }
        _ => return None,
    })
}
