//! The finalizer controller of custom resource definitions: deletes the instances of a definition that is being deleted.
//!
//! A definition has [`FINALIZER`] from its creation (`crate::crd`). When it is deleted, its instances
//! are deleted first, the condition `Terminating` reports the progress, and then the finalizer is removed.
//!
//! Its names are free afterwards, and other definitions that waited for them can have them.
//!
//! Invariant: a definition is removed only after a list without instances.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::Value;

use super::bounded::MAX_CONCURRENT_WRITES;
use super::queue::{Action, Controller};
use super::{
    Context, Preconditions, Propagation, ReconcileError, has_finalizer, ignore_not_found_or_conflict,
    remove_from_list, replace, set_condition,
};
use crate::clock::rfc3339;
use crate::crd::status;
use crate::error::ApiError;
use crate::store::{Event, EventKind, Key};

pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Status, reason and message of the condition `Terminating`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TerminatingCondition(&'static str, &'static str, String);

impl TerminatingCondition {
    fn in_progress() -> Self {
        Self("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress".to_owned())
    }
    fn failed(why: &str) -> Self {
        Self("True", "InstanceDeletionFailed", format!("could not issue all deletes: {why}"))
    }
    fn completed() -> Self {
        Self("False", "InstanceDeletionCompleted", "removed all instances".to_owned())
    }
    fn never_established() -> Self {
        Self("False", "NeverEstablished", "resource was never established".to_owned())
    }
}

#[derive(Debug, PartialEq, Eq)]
enum CrdAction {
    Nothing,
    /// Set the condition that the deletion has begun.
    SetTerminating,
    DeleteInstances,
    /// Remove the finalizer and set this condition.
    Finish(TerminatingCondition),
}

/// Chooses the next step. Pure: no I/O, no clock.
fn decide(definition: &Value, instances: usize) -> CrdAction {
    let deleting = !definition["metadata"]["deletionTimestamp"].is_null();
    if !deleting || !has_finalizer(definition, FINALIZER) {
        return CrdAction::Nothing;
    }
    let condition = |kind: &str| {
        let mut all = definition["status"]["conditions"].as_array().into_iter().flatten();
        all.find(|condition| condition["type"] == kind).is_some_and(|condition| condition["status"] == "True")
    };
    match (condition("Established"), instances) {
        // A definition that was never established should have no instances; if it has, they are deleted.
        (false, 0) => CrdAction::Finish(TerminatingCondition::never_established()),
        _ if !condition("Terminating") || is_pending(definition) => CrdAction::SetTerminating,
        (_, 0) => CrdAction::Finish(TerminatingCondition::completed()),
        _ => CrdAction::DeleteInstances,
    }
}

/// Whether the condition is still the one that the API set at the delete request.
fn is_pending(definition: &Value) -> bool {
    let mut conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["reason"] == "InstanceDeletionPending")
}

/// Sets the condition `Terminating`; returns whether anything changed.
fn set_terminating_condition(
    definition: &mut Value,
    TerminatingCondition(status, reason, message): &TerminatingCondition,
    now: &str,
) -> bool {
    set_condition(definition, "Terminating", (status, reason, message), now)
}

pub(super) struct CustomResources;

impl Controller for CustomResources {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = DEFINITIONS.into();
        let all = context.store.list(DEFINITIONS, None).objects;
        all.iter().filter(|d| d.is_deleting).map(|d| Key::new(&storage, "", &d.name)).collect()
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        if storage.as_ref() == DEFINITIONS {
            if event.object.is_deleting {
                keys.push(Key::new(storage, "", &event.object.name));
            }
            if event.kind == EventKind::Deleted {
                // Other definitions may wait for its names.
                let all = context.store.list(DEFINITIONS, None).objects;
                let waiting = all.iter().filter(|other| !status::has_accepted_names(&other.value()));
                keys.extend(waiting.map(|other| Key::new(storage, "", &other.name)));
            }
        } else if storage.contains('.')
            // A definition's name is the storage of its instances.
            && context.store.get(DEFINITIONS, "", storage).is_some_and(|definition| definition.is_deleting)
        {
            keys.push(Key::new(&DEFINITIONS.into(), "", storage));
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(definition) = context.store.get(DEFINITIONS, "", &key.name) else {
            return Ok(Action::AwaitChange);
        };
        let mut value = definition.value();
        let now = rfc3339(context.clock.now());
        match decide(&value, context.store.count(&key.name, None)) {
            CrdAction::Nothing => {
                let others = context.store.list(DEFINITIONS, None).objects;
                let others: Vec<Value> = others.iter().map(|other| other.value()).collect();
                let before = value.clone();
                status::set_names_and_conditions(&mut value, &others, context.clock.now());
                if value != before {
                    replace(context, key, &definition, value).await?;
                }
            }
            CrdAction::SetTerminating => {
                set_terminating_condition(&mut value, &TerminatingCondition::in_progress(), &now);
                replace(context, key, &definition, value).await?;
            }
            CrdAction::DeleteInstances => {
                if let Err(error) = delete_instances(context, &key.name.as_ref().into(), &now).await {
                    if set_terminating_condition(
                        &mut value,
                        &TerminatingCondition::failed(&error.message),
                        &now,
                    ) {
                        replace(context, key, &definition, value).await?;
                    }
                    return Err(error.into());
                }
            }
            CrdAction::Finish(terminating) => {
                set_terminating_condition(&mut value, &terminating, &now);
                remove_from_list(&mut value["metadata"], "finalizers", |finalizer| finalizer == FINALIZER);
                replace(context, key, &definition, value).await?;
            }
        }
        Ok(Action::AwaitChange)
    }
}

async fn delete_instances(context: &Context, storage: &Arc<str>, now: &str) -> Result<(), ApiError> {
    let instances = context.store.list(storage, None).objects;
    let mut first = Ok(());
    for some in instances.chunks(MAX_CONCURRENT_WRITES) {
        let deletes = some.iter().filter(|instance| !instance.is_deleting).map(|instance| async {
            let key = Key::new(storage, &instance.namespace, &instance.name);
            let preconditions = Preconditions { uid: &instance.uid, version: None };
            match context.client.delete(&key, preconditions, Propagation::Background).await {
                // No version is served, so the API has no route for the instances.
                Err(error) if error.code == 404 => set_deletion_timestamp(context, &key, now).await,
                other => ignore_not_found_or_conflict(other),
            }
        });
        first = first.and(join_all(deletes).await.into_iter().collect());
    }
    first
}

/// Marks an instance for deletion without the API, if it still exists.
async fn set_deletion_timestamp(context: &Context, key: &Key, now: &str) -> Result<(), ApiError> {
    let Some(instance) = context.store.get(&key.storage, &key.namespace, &key.name) else { return Ok(()) };
    let mut value = instance.value();
    value["metadata"]["deletionTimestamp"] = now.into();
    value["metadata"]["deletionGracePeriodSeconds"] = 0.into();
    replace(context, key, &instance, value).await.map_err(|error| ApiError::unavailable(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn crd_deletion_sets_condition_then_deletes_instances_then_removes_finalizer() {
        let definition = |deleting: bool, established: &str, terminating: &str| {
            json!({
                "metadata": {
                    "finalizers": [FINALIZER],
                    "deletionTimestamp": deleting.then_some("2026-01-02T03:04:05Z"),
                },
                "status": {"conditions": [
                    {"type": "Established", "status": established},
                    {"type": "Terminating", "status": terminating},
                ]},
            })
        };
        let table = [
            (definition(false, "True", "False"), 3, CrdAction::Nothing),
            (definition(true, "True", "False"), 3, CrdAction::SetTerminating),
            (definition(true, "True", "True"), 3, CrdAction::DeleteInstances),
            (definition(true, "True", "True"), 0, CrdAction::Finish(TerminatingCondition::completed())),
            (
                definition(true, "False", "False"),
                0,
                CrdAction::Finish(TerminatingCondition::never_established()),
            ),
            (json!({"metadata": {"deletionTimestamp": "t", "finalizers": ["other"]}}), 3, CrdAction::Nothing),
        ];
        for (definition, instances, expected) in table {
            assert_eq!(decide(&definition, instances), expected, "{definition}");
        }
        let mut value = definition(true, "True", "False");
        assert!(set_terminating_condition(&mut value, &TerminatingCondition::in_progress(), "t1"));
        assert!(!set_terminating_condition(&mut value, &TerminatingCondition::in_progress(), "t2"));
        assert_eq!(value["status"]["conditions"][1]["lastTransitionTime"], "t1");
    }
}
