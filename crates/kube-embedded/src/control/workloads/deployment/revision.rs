//! Annotations of `ReplicaSets`: the revision, its history, and the desired and maximum replicas of the Deployment. Pure: no I/O, no clock.
//!
//! A set whose template is desired again becomes the newest revision, and its earlier revisions are
//! recorded.

use std::collections::BTreeMap;

use super::view::Deployment;
use crate::control::workloads::replicaset::view::ReplicaSet;

pub const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Maximum length of the revision history.
const MAX_HISTORY_LEN: usize = 2000;

/// Annotations of a Deployment that are not copied to its sets.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

pub type SetAnnotations = BTreeMap<String, String>;

pub fn desired(set: &ReplicaSet) -> Option<i64> {
    annotated_number(set, DESIRED)
}

pub fn max_replicas(set: &ReplicaSet) -> Option<i64> {
    annotated_number(set, MAX_REPLICAS)
}

fn annotated_number(set: &ReplicaSet, note: &str) -> Option<i64> {
    let digits = set.metadata.annotations.get(note)?;
    digits.parse::<i32>().ok().map(i64::from).filter(|count| *count >= 0 && !digits.starts_with('+'))
}

/// Records the desired and maximum replicas of the Deployment.
pub fn annotate_size(notes: &mut SetAnnotations, deployment: &Deployment) {
    notes.insert(DESIRED.to_owned(), deployment.spec.replicas.to_string());
    notes.insert(MAX_REPLICAS.to_owned(), deployment.max_replicas().to_string());
}

pub fn has_current_size(set: &ReplicaSet, deployment: &Deployment) -> bool {
    let noted = |note: &str, count: i64| set.metadata.annotations.get(note) == Some(&count.to_string());
    noted(DESIRED, deployment.spec.replicas) && noted(MAX_REPLICAS, deployment.max_replicas())
}

/// The revision of a set; 0 if the annotation is missing, `None` if it is not a number.
pub fn parse_revision(set: &ReplicaSet) -> Option<i64> {
    set.metadata.annotations.get(REVISION).map_or(Some(0), |text| text.parse().ok())
}

/// The revision after the highest revision of the old sets.
pub fn next_revision<'a>(old: impl Iterator<Item = &'a ReplicaSet>) -> i64 {
    old.filter_map(parse_revision).fold(0, i64::max).saturating_add(1)
}

/// The annotations of a new set with this revision.
pub fn initial_annotations(deployment: &Deployment, revision: i64) -> SetAnnotations {
    let mut notes = copied_annotations(deployment).collect::<SetAnnotations>();
    notes.insert(REVISION.to_owned(), revision.to_string());
    annotate_size(&mut notes, deployment);
    notes
}

/// The annotations that the set with the Deployment's template should have, if they differ; `revision` is the next one.
pub fn missing_annotations(
    deployment: &Deployment,
    set: &ReplicaSet,
    revision: i64,
) -> Option<SetAnnotations> {
    let before = &set.metadata.annotations;
    let is = parse_revision(set)?;
    let mut notes = before.clone();
    notes.extend(copied_annotations(deployment));
    if is < revision {
        notes.insert(REVISION.to_owned(), revision.to_string());
        if let Some(was) = before.get(REVISION) {
            let history = before.get(HISTORY).map_or("", String::as_str);
            notes.insert(HISTORY.to_owned(), append_revision(history, was));
        }
    }
    (notes != *before).then_some(notes)
}

fn copied_annotations(deployment: &Deployment) -> impl Iterator<Item = (String, String)> {
    let notes = deployment.metadata.annotations.iter().filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
    notes.map(|(key, value)| (key.clone(), value.clone()))
}

/// Appends a revision to a history; the oldest ones are dropped.
fn append_revision(history: &str, revision: &str) -> String {
    let mut kept = history;
    while !kept.is_empty() && kept.len() + 1 + revision.len() > MAX_HISTORY_LEN {
        kept = kept.split_once(',').map_or("", |(_, rest)| rest);
    }
    if kept.is_empty() { revision.to_owned() } else { format!("{kept},{revision}") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(annotations: &Value) -> ReplicaSet {
        serde_json::from_value(json!({"metadata": {"annotations": annotations}})).unwrap()
    }

    fn deployment(annotations: &Value) -> Deployment {
        let strategy =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
        let spec = json!({"replicas": 2, "strategy": strategy});
        serde_json::from_value(json!({"metadata": {"annotations": annotations}, "spec": spec})).unwrap()
    }

    #[test]
    fn set_copies_annotations_of_deployment() {
        let asked =
            deployment(&json!({"kubernetes.io/change-cause": "why", REVISION: "7", NOT_COPIED[0]: "{}"}));
        let expected =
            json!({"kubernetes.io/change-cause": "why", REVISION: "1", DESIRED: "2", MAX_REPLICAS: "3"});
        assert_eq!(json!(initial_annotations(&asked, 1)), expected);
    }

    #[test]
    fn reused_set_records_its_revision_history() {
        let asked = deployment(&json!({"a": "new"}));
        let notes =
            |annotations: Value, next: i64| json!(missing_annotations(&asked, &set(&annotations), next));
        assert_eq!(notes(json!({"a": "new", REVISION: "1"}), 1), Value::Null);
        assert_eq!(notes(json!({"a": "old", REVISION: "5"}), 2), json!({"a": "new", REVISION: "5"}));
        assert_eq!(notes(json!({REVISION: "1"}), 3), json!({"a": "new", REVISION: "3", HISTORY: "1"}),);
        assert_eq!(
            notes(json!({REVISION: "3", HISTORY: "1"}), 5),
            json!({"a": "new", REVISION: "5", HISTORY: "1,3"}),
        );
        assert_eq!(notes(json!({}), 2), json!({"a": "new", REVISION: "2"}));
        assert_eq!(notes(json!({REVISION: "x"}), 2), Value::Null, "what is no number is left alone");
        let long = append_revision(&["1234"; 400].join(","), "5678");
        assert_eq!((long.len(), long.ends_with("1234,5678")), (400 * 5 - 1, true), "the oldest made room");
    }

    #[test]
    fn the_next_revision_follows_the_highest() {
        let sets = [set(&json!({REVISION: "2"})), set(&json!({REVISION: "x"})), set(&json!({}))];
        assert_eq!((next_revision(sets.iter()), next_revision([].into_iter())), (3, 1));
        assert_eq!(desired(&set(&json!({DESIRED: "4"}))), Some(4));
        assert_eq!(desired(&set(&json!({DESIRED: "-4"}))), None);
    }
}
