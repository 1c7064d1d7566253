//! The garbage collector: owners and their dependents.
//!
//! An object without remaining owners is deleted. Foreground deletion waits for the
//! blocking dependents; orphaning removes the owner from its dependents first. A reference names its owner by
//! kind and name in the dependent's namespace (or the cluster), and by uid: an object with that name but another uid
//! is not the owner.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::queue::{Controller, Next};
use super::{
    Context, Failure, Preconditions, Propagation, drop_from, has_finalizer, replace, replacement, settled,
};
use crate::store::{Event, EventKind, Key, Object};

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// Interval for retrying a reference to a kind that is not served.
const UNKNOWN_KIND: Duration = Duration::from_secs(30);

/// The state of an owner reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Solid,
    Dangling,
    /// The owner is being deleted in the foreground.
    Waiting,
    /// The kind is currently not served.
    Unknown,
    /// A cluster-scoped object cannot have a namespaced owner; such a reference is ignored.
    Impossible,
}

/// The properties of a dependent that a decision needs.
#[derive(Clone, Copy, Debug)]
struct Dependent {
    blocks: bool,
    /// It is itself being deleted in the foreground.
    waiting: bool,
}

#[derive(Debug, Default)]
struct Observed {
    deleting: bool,
    foreground: bool,
    orphan: bool,
    owners: Vec<(String, Owner)>,
    dependents: Vec<Dependent>,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Rest,
    /// Reconcile again later.
    Wait,
    DropFinalizer(&'static str),
    /// Remove the reference to this object from its dependents, then the finalizer.
    OrphanDependents,
    DropOwners(Vec<String>),
    Delete(Propagation),
    /// Its owner waits for it, and one of its own dependents waits too: a cycle. Unblock the owner, then delete.
    UnblockAndDelete,
}

/// Chooses the next step. Pure: no I/O, no clock.
fn decide(seen: &Observed) -> Step {
    if seen.deleting {
        return match seen {
            Observed { orphan: true, .. } => Step::OrphanDependents,
            Observed { foreground: true, dependents, .. } if !dependents.iter().any(|d| d.blocks) => {
                Step::DropFinalizer(FOREGROUND)
            }
            _ => Step::Rest,
        };
    }
    let count = |wanted| seen.owners.iter().filter(|(_, owner)| *owner == wanted).count();
    if seen.owners.is_empty() || count(Owner::Impossible) > 0 {
        return Step::Rest;
    }
    if count(Owner::Unknown) > 0 {
        return Step::Wait;
    }
    let (solid, waiting) = (count(Owner::Solid), count(Owner::Waiting));
    if solid == seen.owners.len() {
        return Step::Rest;
    }
    if solid > 0 {
        let gone = seen.owners.iter().filter(|(_, owner)| *owner != Owner::Solid);
        return Step::DropOwners(gone.map(|(uid, _)| uid.clone()).collect());
    }
    if waiting > 0 && !seen.dependents.is_empty() {
        let circle = seen.dependents.iter().any(|d| d.waiting);
        return if circle { Step::UnblockAndDelete } else { Step::Delete(Propagation::Foreground) };
    }
    Step::Delete(match seen {
        Observed { orphan: true, .. } => Propagation::Orphan,
        Observed { foreground: true, .. } => Propagation::Foreground,
        _ => Propagation::Background,
    })
}

pub(super) struct Gc;

impl Controller for Gc {
    fn everything(&self, context: &Context) -> Vec<Key> {
        let mut keys = Vec::new();
        for storage in context.store.storages() {
            let objects = context.store.list(&storage, None).objects;
            let concerned = objects.iter().filter(|o| o.deleting || !o.owners.is_empty());
            keys.extend(concerned.map(|o| Key::new(&storage, &o.namespace, &o.name)));
        }
        keys
    }

    fn touched(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let Event { kind, object, previous, .. } = event;
        let own = || Key::new(storage, &object.namespace, &object.name);
        let dependents = || {
            let all = context.store.dependents(&object.uid).into_iter();
            all.map(|(storage, o)| Key::new(&storage, &o.namespace, &o.name)).collect::<Vec<_>>()
        };
        let starts_deleting = object.deleting && !previous.as_ref().is_some_and(|p| p.deleting);
        let new_owners = previous.as_ref().is_none_or(|p| p.owners != object.owners);
        if *kind == EventKind::Deleted || starts_deleting {
            keys.extend(dependents());
        }
        // A deleting object is reconciled after each change: its finalizers may have changed.
        if *kind != EventKind::Deleted && (object.deleting || (new_owners && !object.owners.is_empty())) {
            keys.push(own());
        }
        // A waiting owner may continue when a dependent is deleted, leaves it, or no longer blocks it.
        let left = previous.as_ref().filter(|_| new_owners);
        for dependent in left.into_iter().chain([object]) {
            let owners = owner_references(dependent);
            let owners = owners.iter().filter_map(|owner| owner_key(context, &dependent.namespace, owner));
            keys.extend(owners.filter(|key| get(context, key).is_some_and(|owner| owner.deleting)));
        }
    }

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        let Some(object) = get(context, key) else { return Ok(Next::Rest) };
        let value = object.value();
        let step = decide(&observe(context, &object, &value));
        act(context, key, &object, value, step).await
    }
}

fn get(context: &Context, key: &Key) -> Option<Arc<Object>> {
    context.store.get(&key.storage, &key.namespace, &key.name)
}

fn references(value: &Value) -> impl Iterator<Item = &Value> {
    value["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

/// Parses only the owner references.
fn owner_references(object: &Object) -> Vec<Value> {
    #[derive(Deserialize)]
    struct Document {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        owner_references: Vec<Value>,
    }
    if object.owners.is_empty() {
        return Vec::new();
    }
    let parsed = serde_json::from_slice(&object.bytes);
    parsed.map_or_else(|_| Vec::new(), |document: Document| document.metadata.owner_references)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Returns the key of the owner of a dependent in `namespace`.
fn owner_key(context: &Context, namespace: &str, reference: &Value) -> Option<Key> {
    let (storage, namespaced) = (context.kinds)(text(reference, "apiVersion"), text(reference, "kind"))?;
    Some(Key::new(&storage, if namespaced { namespace } else { "" }, text(reference, "name")))
}

fn stand(context: &Context, object: &Object, reference: &Value) -> Owner {
    let kind = (context.kinds)(text(reference, "apiVersion"), text(reference, "kind"));
    let Some((_, namespaced)) = kind else { return Owner::Unknown };
    if namespaced && object.namespace.is_empty() {
        return Owner::Impossible;
    }
    let owner = owner_key(context, &object.namespace, reference).and_then(|key| get(context, &key));
    match owner {
        Some(owner) if owner.uid.as_ref() == text(reference, "uid") => {
            let waiting = owner.deleting && has_finalizer(&owner.value(), FOREGROUND);
            if waiting { Owner::Waiting } else { Owner::Solid }
        }
        _ => Owner::Dangling,
    }
}

/// Returns the dependents that can have this object as owner: those in its namespace, or all for a cluster-scoped object.
fn dependents(context: &Context, object: &Object) -> Vec<(Key, Arc<Object>)> {
    let all = context.store.dependents(&object.uid).into_iter();
    all.filter(|(_, d)| object.namespace.is_empty() || d.namespace == object.namespace)
        .map(|(storage, d)| (Key::new(&storage, &d.namespace, &d.name), d))
        .collect()
}

fn observe(context: &Context, object: &Object, value: &Value) -> Observed {
    let dependent = |(_, d): (Key, Arc<Object>)| {
        let value = d.value();
        let blocks = references(&value)
            .any(|r| text(r, "uid") == object.uid.as_ref() && r["blockOwnerDeletion"] == true);
        Dependent { blocks, waiting: d.deleting && has_finalizer(&value, FOREGROUND) }
    };
    Observed {
        deleting: object.deleting,
        foreground: has_finalizer(value, FOREGROUND),
        orphan: has_finalizer(value, ORPHAN),
        owners: references(value).map(|r| (text(r, "uid").to_owned(), stand(context, object, r))).collect(),
        dependents: dependents(context, object).into_iter().map(dependent).collect(),
    }
}

async fn act(
    context: &Context,
    key: &Key,
    object: &Object,
    mut value: Value,
    step: Step,
) -> Result<Next, Failure> {
    match step {
        Step::Rest => {}
        Step::Wait => return Ok(Next::After(UNKNOWN_KIND)),
        Step::DropFinalizer(name) => {
            drop_from(&mut value["metadata"], "finalizers", |finalizer| finalizer == name);
            replace(context, key, object, value).await?;
        }
        Step::OrphanDependents => {
            // In one transaction: a dependent never loses its owner while the owner still has others.
            let mut changes = Vec::new();
            for (key, dependent) in dependents(context, object) {
                let mut value = dependent.value();
                drop_from(&mut value["metadata"], "ownerReferences", |r| {
                    text(r, "uid") == object.uid.as_ref()
                });
                changes.push(replacement(&key, &dependent, value));
            }
            drop_from(&mut value["metadata"], "finalizers", |finalizer| finalizer == ORPHAN);
            changes.push(replacement(key, object, value));
            context.store.commit(changes).await?;
        }
        Step::DropOwners(uids) => {
            drop_from(&mut value["metadata"], "ownerReferences", |r| {
                uids.iter().any(|uid| uid == text(r, "uid"))
            });
            replace(context, key, object, value).await?;
        }
        Step::UnblockAndDelete => {
            let references = value["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten();
            for reference in references.filter(|r| r["blockOwnerDeletion"] == true) {
                reference["blockOwnerDeletion"] = false.into();
            }
            replace(context, key, object, value).await?;
            let preconditions = Preconditions { uid: &object.uid, version: None };
            settled(context.actor.delete(key, preconditions, Propagation::Foreground).await)?;
        }
        Step::Delete(propagation) => {
            // With the resourceVersion: an owner reference may be added concurrently.
            let preconditions = Preconditions { uid: &object.uid, version: Some(object.version) };
            match context.actor.delete(key, preconditions, propagation).await {
                Err(error) if error.code == 404 => {}
                other => other?,
            }
        }
    }
    Ok(Next::Rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_of_an_object_by_its_owners_and_dependents() {
        use Owner::{Dangling, Impossible, Solid, Unknown, Waiting};
        let seen = |owners: &[Owner], dependents: &[(bool, bool)]| Observed {
            owners: owners.iter().enumerate().map(|(at, owner)| (at.to_string(), *owner)).collect(),
            dependents: dependents.iter().map(|&(blocks, waiting)| Dependent { blocks, waiting }).collect(),
            ..Observed::default()
        };
        let background = Step::Delete(Propagation::Background);
        let table = [
            (seen(&[], &[]), Step::Rest),
            (seen(&[Solid, Solid], &[]), Step::Rest),
            (seen(&[Dangling], &[]), background),
            (seen(&[Dangling, Solid, Waiting], &[]), Step::DropOwners(vec!["0".to_owned(), "2".to_owned()])),
            (seen(&[Waiting], &[]), Step::Delete(Propagation::Background)),
            (seen(&[Waiting], &[(true, false)]), Step::Delete(Propagation::Foreground)),
            (seen(&[Waiting, Dangling], &[(true, true)]), Step::UnblockAndDelete),
            (seen(&[Dangling, Unknown], &[]), Step::Wait),
            (seen(&[Impossible, Dangling], &[]), Step::Rest),
            (Observed { orphan: true, ..seen(&[Dangling], &[]) }, Step::Delete(Propagation::Orphan)),
            (Observed { foreground: true, ..seen(&[Dangling], &[]) }, Step::Delete(Propagation::Foreground)),
            (Observed { deleting: true, ..seen(&[Dangling], &[]) }, Step::Rest),
            (
                Observed { deleting: true, orphan: true, ..seen(&[], &[(true, false)]) },
                Step::OrphanDependents,
            ),
            (Observed { deleting: true, foreground: true, ..seen(&[], &[(true, false)]) }, Step::Rest),
            (
                Observed { deleting: true, foreground: true, ..seen(&[], &[(false, false)]) },
                Step::DropFinalizer(FOREGROUND),
            ),
        ];
        for (seen, expected) in table {
            assert_eq!(decide(&seen), expected, "{seen:?}");
        }
    }
}
