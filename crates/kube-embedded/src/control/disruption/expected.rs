//! How many pods there should be, and how many of them healthy.

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
pub struct Expected {
    pub pods: i64,
    /// How many must be healthy.
    pub desired: i64,
    /// Among the pods are some that nobody manages.
    pub unmanaged: bool,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct Owned {
    metadata: Meta,
}

/// What a budget asks of these pods. Only a whole number of available pods can be asked of pods whose managers say
/// nothing of their number; otherwise an error says why there is none.
pub async fn count(context: &Context, spec: &BudgetSpec, pods: &[Arc<Object>]) -> Result<Expected, String> {
    if spec.max_unavailable.is_null()
        && let Some(desired) = spec.min_available.as_i64()
    {
        let pods = i64::try_from(pods.len()).unwrap_or(i64::MAX);
        return Ok(Expected { pods, desired, unmanaged: false });
    }
    if spec.max_unavailable.is_null() && spec.min_available.is_null() {
        return Ok(Expected::default());
    }
    let (pods, unmanaged) = scale(context, pods).await?;
    let desired = if spec.max_unavailable.is_null() {
        share(&spec.min_available, pods)
    } else {
        pods.saturating_sub(share(&spec.max_unavailable, pods)).max(0)
    };
    Ok(Expected { pods, desired, unmanaged })
}

/// A number, or a percentage of `whole`, rounded up.
fn share(value: &Value, whole: i64) -> i64 {
    let percentage = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    match percentage {
        Some(percentage) => (percentage.saturating_mul(whole)).saturating_add(99).div_euclid(100),
        None => value.as_i64().unwrap_or(0),
    }
}

/// The sum of what the managers of the pods ask for, and whether some have no manager.
async fn scale(context: &Context, pods: &[Arc<Object>]) -> Result<(i64, bool), String> {
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
        let manager = above(context, manager, &object.namespace).unwrap_or_else(|| manager.clone());
        let found = context
            .actor
            .scale((&manager.api_version, &manager.kind), (&object.namespace, &manager.name))
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

/// The Deployment that manages a `ReplicaSet`.
fn above(context: &Context, manager: &OwnerReference, namespace: &str) -> Option<OwnerReference> {
    if manager.kind != "ReplicaSet" || !manager.api_version.starts_with("apps/") {
        return None;
    }
    let set = context.store.get(REPLICA_SETS, namespace, &manager.name)?;
    let above = set.view::<Owned>().metadata.controller()?.clone();
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
    fn a_share_is_rounded_up() {
        for (value, whole, expected) in [
            (json!("30%"), 5, 2),
            (json!("0%"), 5, 0),
            (json!("100%"), 7, 7),
            (json!("1%"), 1, 1),
            (json!(3), 5, 3),
        ] {
            assert_eq!(share(&value, whole), expected, "{value} of {whole}");
        }
    }
}
