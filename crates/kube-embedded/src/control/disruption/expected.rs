//! Expected and desired healthy pods of a disruption budget.

#![warn(clippy::arithmetic_side_effects)]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::BudgetSpec;
use crate::control::Context;
use crate::control::view::{Meta, OwnerReference, Pod};
use crate::store::Object;

const REPLICA_SETS: &str = "replicasets.apps";

#[derive(Debug, Default, PartialEq, Eq)]
pub struct ExpectedPods {
    pub pods: i64,
    /// Number of pods that must be healthy.
    pub desired: i64,
    /// Some of the pods have no controller.
    pub unmanaged: bool,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct OwnedObject {
    metadata: Meta,
}

/// Computes how many of these pods a budget expects and requires. If a controller of the pods has no scale, only an absolute
/// `minAvailable` works; otherwise the error is the message.
pub async fn expected_pods(
    context: &Context,
    spec: &BudgetSpec,
    pods: &[Arc<Object>],
) -> Result<ExpectedPods, String> {
    if spec.max_unavailable.is_null()
        && let Some(desired) = spec.min_available.as_i64()
    {
        let pods = i64::try_from(pods.len()).unwrap_or(i64::MAX);
        return Ok(ExpectedPods { pods, desired, unmanaged: false });
    }
    if spec.max_unavailable.is_null() && spec.min_available.is_null() {
        return Ok(ExpectedPods::default());
    }
    let (pods, unmanaged) = total_replicas(context, pods).await?;
    let desired = if spec.max_unavailable.is_null() {
        scaled_value(&spec.min_available, pods)
    } else {
        pods.saturating_sub(scaled_value(&spec.max_unavailable, pods)).max(0)
    };
    Ok(ExpectedPods { pods, desired, unmanaged })
}

/// An integer, or a percentage of `total`, rounded up.
fn scaled_value(value: &Value, total: i64) -> i64 {
    let percentage = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    match percentage {
        Some(percentage) => (percentage.saturating_mul(total)).saturating_add(99).div_euclid(100),
        None => value.as_i64().unwrap_or(0),
    }
}

/// Returns the sum of the replicas of the pods' controllers, and whether some pods have no controller.
async fn total_replicas(context: &Context, pods: &[Arc<Object>]) -> Result<(i64, bool), String> {
    let mut asked: HashMap<String, i64> = HashMap::new();
    let mut seen: HashSet<String> = HashSet::new();
    let mut unmanaged = false;
    for object in pods {
        let pod = object.view::<Pod>();
        let Some(manager) = pod.metadata.controller() else {
            unmanaged = true;
            continue;
        };
        if !seen.insert(manager.uid.clone()) {
            continue;
        }
        let manager =
            owning_deployment(context, manager, &object.namespace).unwrap_or_else(|| manager.clone());
        let found = context
            .client
            .get_scale((&manager.api_version, &manager.kind), (&object.namespace, &manager.name))
            .await;
        let replicas = match found {
            Ok(scale) if scale["metadata"]["uid"] == *manager.uid => {
                scale["spec"]["replicas"].as_i64().unwrap_or(0)
            }
            Err(error) if error.reason != "NotFound" => return Err(error.message),
            _ => return Err(format!("found no controllers for pod {:?}", pod.metadata.name)),
        };
        asked.insert(manager.uid, replicas);
    }
    Ok((asked.values().sum(), unmanaged))
}

/// Returns the Deployment that manages a `ReplicaSet`.
fn owning_deployment(context: &Context, manager: &OwnerReference, namespace: &str) -> Option<OwnerReference> {
    if manager.kind != "ReplicaSet" || !manager.api_version.starts_with("apps/") {
        return None;
    }
    let set = context.store.get(REPLICA_SETS, namespace, &manager.name)?;
    let above = set.view::<OwnedObject>().metadata.controller()?.clone();
    let deployment = context.store.get("deployments.apps", namespace, &above.name)?;
    let is_it = *set.uid == *manager.uid
        && above.kind == "Deployment"
        && above.api_version.starts_with("apps/")
        && *deployment.uid == *above.uid;
    is_it.then_some(above)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scaled_value_rounds_percentages_up() {
        for (value, whole, expected) in [
            (json!("30%"), 5, 2),
            (json!("0%"), 5, 0),
            (json!("100%"), 7, 7),
            (json!("1%"), 1, 1),
            (json!(3), 5, 3),
        ] {
            assert_eq!(scaled_value(&value, whole), expected, "{value} of {whole}");
        }
    }
}
