//! Inventory: the objects that a release may have in the cluster according to its records, and the revisions that can
//! be pruned. Pure: no I/O, no clock.

use std::collections::BTreeSet;

use kube_apply::{Object, ObjectId, ParseError};

use super::history::{self, RevisionStatus};
use crate::record::Record;

/// Objects of all given records, without duplicates. The first record with an object wins.
pub fn unique_objects<'r>(
    records: impl IntoIterator<Item = &'r Record>,
    namespace: &str,
) -> Result<Vec<Object>, ParseError> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for record in records {
        let objects = Object::parse_all(&record.manifest)?;
        all.extend(objects.into_iter().filter(|object| seen.insert(namespaced_id(object, namespace))));
    }
    Ok(all)
}

/// Id of an object when it is applied to that namespace.
pub fn namespaced_id(object: &Object, namespace: &str) -> ObjectId {
    let id = object.id();
    ObjectId { namespace: Some(id.namespace.unwrap_or_else(|| namespace.to_owned())), ..id }
}

/// Revisions to prune so that one more fits into `max`. 0 means unlimited.
///
/// The newest deployed revision stays, as in Helm. A failed revision also stays if it has objects that no other kept
/// revision records: uninstallation must find them.
pub fn prunable_revisions(
    history: &[RevisionStatus],
    max: usize,
    ids: impl Fn(i64) -> BTreeSet<ObjectId>,
) -> Vec<i64> {
    let Some(room) = max.checked_sub(1) else { return Vec::new() };
    let deployed = history::newest_deployed(history);
    let mut standing: Vec<i64> =
        history::revisions_with_objects(history).iter().map(|(revision, _)| *revision).collect();
    let mut gone = Vec::new();
    for &(revision, _) in history {
        if history.len().saturating_sub(gone.len()) <= room {
            break;
        }
        if Some(revision) == deployed {
            continue;
        }
        if let Some(at) = standing.iter().position(|&standing| standing == revision) {
            let others = standing.iter().filter(|&&other| other != revision);
            let remembered: BTreeSet<ObjectId> = others.flat_map(|&other| ids(other)).collect();
            if !ids(revision).is_subset(&remembered) {
                continue;
            }
            standing.remove(at);
        }
        gone.push(revision);
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Status::{self, *};

    fn record(names: &[&str]) -> Record {
        let manifest = names.iter().map(|name| {
            format!(
                "---\n# Source: c/{name}.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"
            )
        });
        Record { manifest: manifest.collect(), ..Record::default() }
    }

    #[test]
    fn objects_are_unique_and_the_first_record_wins() {
        let mut second = record(&["b", "c"]);
        second
            .manifest
            .push_str("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: here}\n");
        let all = unique_objects([&record(&["a", "b"]), &second], "here").unwrap();
        let names: Vec<_> = all.iter().map(|object| object.id().to_string()).collect();
        assert_eq!(names, ["ConfigMap a", "ConfigMap b", "ConfigMap c"]);
    }

    /// Runs [`prunable_revisions`] on a history in which each letter is an object of that revision.
    fn pruned(history: &[(Status, &str)], max: usize) -> Vec<i64> {
        let entries: Vec<RevisionStatus> = (1..).zip(history.iter().map(|(status, _)| *status)).collect();
        let ids = |revision: i64| {
            let (_, letters) = history[usize::try_from(revision).unwrap() - 1];
            let names: Vec<String> = letters.chars().map(String::from).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            unique_objects([&record(&names)], "here")
                .unwrap()
                .iter()
                .map(|object| namespaced_id(object, "here"))
                .collect()
        };
        prunable_revisions(&entries, max, ids)
    }

    #[test]
    fn pruning_keeps_deployed_and_needed_revisions() {
        let long = [(Superseded, "a"), (Superseded, "a"), (Deployed, "a")];
        assert_eq!(pruned(&long, 0), [0; 0]);
        assert_eq!(pruned(&long, 4), [0; 0]);
        assert_eq!(pruned(&long, 3), [1]);
        assert_eq!(pruned(&long, 2), [1, 2]);
        assert_eq!(pruned(&long, 1), [1, 2], "the deployed one stays");
        let failing = [(Deployed, "ab"), (Failed, "ab"), (Failed, "abc"), (Failed, "abc"), (Failed, "d")];
        assert_eq!(pruned(&failing, 3), [2, 3], "one of those with c stays, and the one with d");
        assert_eq!(pruned(&[(Failed, "a"), (Failed, "b")], 1), [0; 0]);
    }
}
