//! Logs of the pods of objects.
//!
//! Pods are selected from objects: a Pod by its name, the pods of a workload by its selector ([`PodSelector`]). Lines are
//! read one at a time ([`follow`]), each at most [`lines::MAX_LINE_LEN`] bytes long.
//!
//! Invariant: input is read only when the caller requests the next line, so a slow caller does not grow memory.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::object::Object;

pub mod follow;
pub mod lines;

pub use follow::{LogEvent, LogFollower, LogOptions, LogSource};

/// Selects one pod by name or several by labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodSelector {
    pub namespace: String,
    pub name: Option<String>,
    /// Label selector; empty if `name` is set.
    pub labels: String,
}

/// Pods of these objects. `namespace` applies to objects without one.
pub fn pod_selectors(objects: &[Object], namespace: &str) -> BTreeSet<PodSelector> {
    objects.iter().filter_map(|object| pod_selector(object, namespace)).collect()
}

fn pod_selector(object: &Object, namespace: &str) -> Option<PodSelector> {
    let namespace = object.namespace().unwrap_or(namespace).to_owned();
    if object.kind() == "Pod" {
        return Some(PodSelector { namespace, name: Some(object.name().to_owned()), labels: String::new() });
    }
    let spec = &object.value()["spec"];
    // Kinds such as `PodDisruptionBudget` have selectors but no pods of their own.
    if !spec["template"].is_object() {
        return None;
    }
    let labels = match object.kind() {
        // Manifests of Jobs contain no selector.
        "Job" => format!("batch.kubernetes.io/job-name={}", object.name()),
        "ReplicationController" => format_labels(&spec["selector"]),
        _ => format_selector(&spec["selector"]),
    };
    // An empty selector would match all pods of the namespace.
    (!labels.is_empty()).then_some(PodSelector { namespace, name: None, labels })
}

/// Formats a selector for a list request; empty if it has no requirements.
pub fn format_selector(selector: &Value) -> String {
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    let expressions = expressions.filter_map(|expression| {
        let key = expression["key"].as_str()?;
        let values = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let values = values.collect::<Vec<_>>().join(",");
        match expression["operator"].as_str()? {
            "In" => Some(format!("{key} in ({values})")),
            "NotIn" => Some(format!("{key} notin ({values})")),
            "Exists" => Some(key.to_owned()),
            "DoesNotExist" => Some(format!("!{key}")),
            _ => None,
        }
    });
    let labels = Some(format_labels(&selector["matchLabels"])).filter(|labels| !labels.is_empty());
    labels.into_iter().chain(expressions).collect::<Vec<_>>().join(",")
}

fn format_labels(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
    let pairs = labels.filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)));
    pairs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
