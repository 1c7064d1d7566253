//! What the pods of objects print.
//!
//! Which pods are meant follows from the objects: a Pod by its name, those of a workload by its selector ([`Pods`]). Their lines
//! come one at a time ([`follow`]), none longer than [`lines::LONGEST`].
//!
//! Always true: nothing is read before somebody asks for the next line, so that whoever is slow makes nothing grow.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::object::Object;

pub mod follow;
pub mod lines;

pub use follow::{Following, Heard, Source, Wish};

/// Pods that belong together: one by its name, or all with the same labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pods {
    pub namespace: String,
    pub name: Option<String>,
    /// A selector; empty where the name says all.
    pub labels: String,
}

/// The pods of these objects. `namespace` is where those are that name none.
pub fn pods_of(objects: &[Object], namespace: &str) -> BTreeSet<Pods> {
    objects.iter().filter_map(|object| pods(object, namespace)).collect()
}

fn pods(object: &Object, namespace: &str) -> Option<Pods> {
    let namespace = object.namespace().unwrap_or(namespace).to_owned();
    if object.kind() == "Pod" {
        return Some(Pods { namespace, name: Some(object.name().to_owned()), labels: String::new() });
    }
    let spec = &object.value()["spec"];
    // Budgets have selectors, too, and no pods of their own.
    if !spec["template"].is_object() {
        return None;
    }
    let labels = match object.kind() {
        // Nobody writes the selector of one.
        "Job" => format!("batch.kubernetes.io/job-name={}", object.name()),
        "ReplicationController" => of_labels(&spec["selector"]),
        _ => selector(&spec["selector"]),
    };
    // Without a selector all pods of the namespace would be meant.
    (!labels.is_empty()).then_some(Pods { namespace, name: None, labels })
}

/// A selector as a query says it; empty where it says nothing.
pub fn selector(selector: &Value) -> String {
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
    let labels = Some(of_labels(&selector["matchLabels"])).filter(|labels| !labels.is_empty());
    labels.into_iter().chain(expressions).collect::<Vec<_>>().join(",")
}

fn of_labels(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
    let pairs = labels.filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)));
    pairs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
