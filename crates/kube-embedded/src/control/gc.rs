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

use super::metadata::MetadataParser;
use super::queue::{Action, Controller};
use super::{
    Context, Preconditions, Propagation, ReconcileError, build_change, has_finalizer,
    ignore_not_found_or_conflict, remove_from_list, replace,
};
use crate::store::{Event, EventKind, Key, Object};

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// Interval for retrying a reference to a kind that is not served.
const UNKNOWN_KIND_RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// The state of an owner reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
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
    blocks_owner_deletion: bool,
    /// It is itself being deleted in the foreground.
    is_waiting: bool,
}

#[derive(Debug, Default)]
struct GcObservation {
    is_deleting: bool,
    has_foreground_finalizer: bool,
    has_orphan_finalizer: bool,
    owners: Vec<(String, OwnerState)>,
    dependents: Vec<Dependent>,
}

#[derive(Debug, PartialEq, Eq)]
enum GcAction {
    Nothing,
    /// Reconcile again later.
    Requeue,
    RemoveFinalizer(&'static str),
    /// Remove the reference to this object from its dependents, then the finalizer.
    OrphanDependents,
    RemoveOwners(Vec<String>),
    Delete(Propagation),
    /// Its owner waits for it, and one of its own dependents waits too: a cycle. Unblock the owner, then delete.
    UnblockAndDelete,
}

/// Chooses the next step. Pure: no I/O, no clock.
fn decide(observed: &GcObservation) -> GcAction {
    if observed.is_deleting {
        return match observed {
            GcObservation { has_orphan_finalizer: true, .. } => GcAction::OrphanDependents,
            GcObservation { has_foreground_finalizer: true, dependents, .. }
                if !dependents.iter().any(|d| d.blocks_owner_deletion) =>
            {
                GcAction::RemoveFinalizer(FOREGROUND)
            }
            _ => GcAction::Nothing,
        };
    }
    let count = |wanted| observed.owners.iter().filter(|(_, owner)| *owner == wanted).count();
    if observed.owners.is_empty() || count(OwnerState::Impossible) > 0 {
        return GcAction::Nothing;
    }
    if count(OwnerState::Unknown) > 0 {
        return GcAction::Requeue;
    }
    let (solid, waiting) = (count(OwnerState::Solid), count(OwnerState::Waiting));
    if solid == observed.owners.len() {
        return GcAction::Nothing;
    }
    if solid > 0 {
        let gone = observed.owners.iter().filter(|(_, owner)| *owner != OwnerState::Solid);
        return GcAction::RemoveOwners(gone.map(|(uid, _)| uid.clone()).collect());
    }
    if waiting > 0 && !observed.dependents.is_empty() {
        let circle = observed.dependents.iter().any(|d| d.is_waiting);
        return if circle { GcAction::UnblockAndDelete } else { GcAction::Delete(Propagation::Foreground) };
    }
    GcAction::Delete(match observed {
        GcObservation { has_orphan_finalizer: true, .. } => Propagation::Orphan,
        GcObservation { has_foreground_finalizer: true, .. } => Propagation::Foreground,
        _ => Propagation::Background,
    })
}

pub(super) struct Gc;

impl Controller for Gc {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let mut keys = Vec::new();
        for storage in context.store.storages() {
            let objects = context.store.list(&storage, None).objects;
            let concerned = objects.iter().filter(|o| o.is_deleting || !o.owner_uids.is_empty());
            keys.extend(concerned.map(|o| Key::new(&storage, &o.namespace, &o.name)));
        }
        keys
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let Event { kind, object, previous, .. } = event;
        let own = || Key::new(storage, &object.namespace, &object.name);
        let dependents = || {
            let all = context.store.dependents(&object.uid).into_iter();
            all.map(|(storage, o)| Key::new(&storage, &o.namespace, &o.name)).collect::<Vec<_>>()
        };
        let starts_deleting = object.is_deleting && !previous.as_ref().is_some_and(|p| p.is_deleting);
        let new_owners = previous.as_ref().is_none_or(|p| p.owner_uids != object.owner_uids);
        if *kind == EventKind::Deleted || starts_deleting {
            keys.extend(dependents());
        }
        // A deleting object is reconciled after each change: its finalizers may have changed.
        if *kind != EventKind::Deleted
            && (object.is_deleting || (new_owners && !object.owner_uids.is_empty()))
        {
            keys.push(own());
        }
        // A waiting owner may continue when a dependent is deleted, leaves it, or no longer blocks it.
        let left = previous.as_ref().filter(|_| new_owners);
        for dependent in left.into_iter().chain([object]) {
            let owners = owner_references(dependent);
            let owners = owners.iter().filter_map(|owner| owner_key(context, &dependent.namespace, owner));
            keys.extend(owners.filter(|key| get(context, key).is_some_and(|owner| owner.is_deleting)));
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = get(context, key) else { return Ok(Action::AwaitChange) };
        let value = object.value();
        let step = decide(&observe(context, &object, &value).await);
        execute(context, key, &object, value, step).await
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
    if object.owner_uids.is_empty() {
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

fn owner_state(context: &Context, object: &Object, reference: &Value) -> OwnerState {
    let kind = (context.kinds)(text(reference, "apiVersion"), text(reference, "kind"));
    let Some((_, namespaced)) = kind else { return OwnerState::Unknown };
    if namespaced && object.namespace.is_empty() {
        return OwnerState::Impossible;
    }
    let owner = owner_key(context, &object.namespace, reference).and_then(|key| get(context, &key));
    match owner {
        Some(owner) if owner.uid.as_ref() == text(reference, "uid") => {
            let waiting = owner.is_deleting && has_finalizer(&owner.value(), FOREGROUND);
            if waiting { OwnerState::Waiting } else { OwnerState::Solid }
        }
        _ => OwnerState::Dangling,
    }
}

/// Returns the dependents that can have this object as owner: those in its namespace, or all for a cluster-scoped object.
fn dependents(context: &Context, object: &Object) -> Vec<(Key, Arc<Object>)> {
    let all = context.store.dependents(&object.uid).into_iter();
    all.filter(|(_, d)| object.namespace.is_empty() || d.namespace == object.namespace)
        .map(|(storage, d)| (Key::new(&storage, &d.namespace, &d.name), d))
        .collect()
}

/// Yields from time to time.
async fn observe(context: &Context, object: &Object, value: &Value) -> GcObservation {
    let (mut found, mut parser) = (Vec::new(), MetadataParser::default());
    for (_, dependent) in dependents(context, object) {
        let metadata = parser.parse(&dependent).await;
        found.push(Dependent {
            blocks_owner_deletion: metadata
                .owner_references()
                .iter()
                .any(|r| text(r, "uid") == object.uid.as_ref() && r["blockOwnerDeletion"] == true),
            is_waiting: dependent.is_deleting && metadata.finalizers().iter().any(|name| name == FOREGROUND),
        });
    }
    GcObservation {
        is_deleting: object.is_deleting,
        has_foreground_finalizer: has_finalizer(value, FOREGROUND),
        has_orphan_finalizer: has_finalizer(value, ORPHAN),
        owners: references(value)
            .map(|r| (text(r, "uid").to_owned(), owner_state(context, object, r)))
            .collect(),
        dependents: found,
    }
}

async fn execute(
    context: &Context,
    key: &Key,
    object: &Object,
    mut value: Value,
    step: GcAction,
) -> Result<Action, ReconcileError> {
    match step {
        GcAction::Nothing => {}
        GcAction::Requeue => return Ok(Action::RequeueAfter(UNKNOWN_KIND_RETRY_INTERVAL)),
        GcAction::RemoveFinalizer(name) => {
            remove_from_list(&mut value["metadata"], "finalizers", |finalizer| finalizer == name);
            replace(context, key, object, value).await?;
        }
        GcAction::OrphanDependents => {
            // In one transaction: a dependent never loses its owner while the owner still has others.
            let mut changes = Vec::new();
            for (key, dependent) in dependents(context, object) {
                let mut value = dependent.value();
                remove_from_list(&mut value["metadata"], "ownerReferences", |r| {
                    text(r, "uid") == object.uid.as_ref()
                });
                changes.push(build_change(&key, &dependent, value));
            }
            remove_from_list(&mut value["metadata"], "finalizers", |finalizer| finalizer == ORPHAN);
            changes.push(build_change(key, object, value));
            context.store.commit(changes).await?;
        }
        GcAction::RemoveOwners(uids) => {
            remove_from_list(&mut value["metadata"], "ownerReferences", |r| {
                uids.iter().any(|uid| uid == text(r, "uid"))
            });
            replace(context, key, object, value).await?;
        }
        GcAction::UnblockAndDelete => {
            let references = value["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten();
            for reference in references.filter(|r| r["blockOwnerDeletion"] == true) {
                reference["blockOwnerDeletion"] = false.into();
            }
            replace(context, key, object, value).await?;
            let preconditions = Preconditions { uid: &object.uid, version: None };
            ignore_not_found_or_conflict(
                context.client.delete(key, preconditions, Propagation::Foreground).await,
            )?;
        }
        GcAction::Delete(propagation) => {
            // With the resourceVersion: an owner reference may be added concurrently.
            let preconditions = Preconditions { uid: &object.uid, version: Some(object.version) };
            match context.client.delete(key, preconditions, propagation).await {
                Err(error) if error.code == 404 => {}
                other => other?,
            }
        }
    }
    Ok(Action::AwaitChange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decide_by_owners_and_dependents() {
        use OwnerState::{Dangling, Impossible, Solid, Unknown, Waiting};
        let seen = |owners: &[OwnerState], dependents: &[(bool, bool)]| GcObservation {
            owners: owners.iter().enumerate().map(|(at, owner)| (at.to_string(), *owner)).collect(),
            dependents: dependents
                .iter()
                .map(|&(blocks, waiting)| Dependent { blocks_owner_deletion: blocks, is_waiting: waiting })
                .collect(),
            ..GcObservation::default()
        };
        let background = GcAction::Delete(Propagation::Background);
        let table = [
            (seen(&[], &[]), GcAction::Nothing),
            (seen(&[Solid, Solid], &[]), GcAction::Nothing),
            (seen(&[Dangling], &[]), background),
            (
                seen(&[Dangling, Solid, Waiting], &[]),
                GcAction::RemoveOwners(vec!["0".to_owned(), "2".to_owned()]),
            ),
            (seen(&[Waiting], &[]), GcAction::Delete(Propagation::Background)),
            (seen(&[Waiting], &[(true, false)]), GcAction::Delete(Propagation::Foreground)),
            (seen(&[Waiting, Dangling], &[(true, true)]), GcAction::UnblockAndDelete),
            (seen(&[Dangling, Unknown], &[]), GcAction::Requeue),
            (seen(&[Impossible, Dangling], &[]), GcAction::Nothing),
            (
                GcObservation { has_orphan_finalizer: true, ..seen(&[Dangling], &[]) },
                GcAction::Delete(Propagation::Orphan),
            ),
            (
                GcObservation { has_foreground_finalizer: true, ..seen(&[Dangling], &[]) },
                GcAction::Delete(Propagation::Foreground),
            ),
            (GcObservation { is_deleting: true, ..seen(&[Dangling], &[]) }, GcAction::Nothing),
            (
                GcObservation {
                    is_deleting: true,
                    has_orphan_finalizer: true,
                    ..seen(&[], &[(true, false)])
                },
                GcAction::OrphanDependents,
            ),
            (
                GcObservation {
                    is_deleting: true,
                    has_foreground_finalizer: true,
                    ..seen(&[], &[(true, false)])
                },
                GcAction::Nothing,
            ),
            (
                GcObservation {
                    is_deleting: true,
                    has_foreground_finalizer: true,
                    ..seen(&[], &[(false, false)])
                },
                GcAction::RemoveFinalizer(FOREGROUND),
            ),
        ];
        for (seen, expected) in table {
            assert_eq!(decide(&seen), expected, "{seen:?}");
        }
    }
}
