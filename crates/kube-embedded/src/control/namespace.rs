//! The namespace controller: deletes the content of terminating namespaces, and creates the default objects of active ones.
//!
//! The content of a terminating namespace is deleted, pods before the rest; its conditions report what
//! remains and why. When it is empty, the finalizer `kubernetes` is removed, and with it the namespace. An
//! active namespace always has the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt`.
//!
//! Invariant: a namespace is removed only after a list without content.
//! See also: `crate::admission` rejects new content of a terminating namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::bounded::MAX_CONCURRENT_WRITES;
use super::metadata::MetadataParser;
use super::queue::{Action, Controller};
use super::{
    Component, Context, Preconditions, Propagation, ReconcileError, ignore_not_found_or_conflict,
    is_removable, remove_from_list, replace, set_condition,
};
use crate::clock::rfc3339;
use crate::store::{Event, Key, Object};

const NAMESPACES: &str = "namespaces";
const PODS: &str = "pods";
const SERVICE_ACCOUNTS: &str = "serviceaccounts";
const DEFAULT_SERVICE_ACCOUNT: &str = "default";
const CONFIG_MAPS: &str = "configmaps";
const ROOT_CA_CONFIG_MAP: &str = "kube-root-ca.crt";
const ROOT_CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using \
    internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
    guaranteed across distributions of Kubernetes clusters.";
/// This controller's entry in `spec.finalizers`.
const FINALIZER: &str = "kubernetes";

/// Maximum delay between the deletion request and the removal of an empty namespace (times are whole seconds). Clients
/// still observe it as terminating, and concurrent creates fail because it is terminating, not because it does not exist.
/// Kubernetes waits for five seconds.
const MAX_TERMINATION_DELAY: SignedDuration = SignedDuration::from_secs(2);

/// The conditions of a terminating namespace: type, then reason and message without error.
#[rustfmt::skip]
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (CONTENT_FAILURE, "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    (CONTENT_REMAINING, "ContentRemoved", "All content successfully removed"),
    (FINALIZERS_REMAINING, "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];
const CONTENT_FAILURE: &str = "NamespaceDeletionContentFailure";
const CONTENT_REMAINING: &str = "NamespaceContentRemaining";
const FINALIZERS_REMAINING: &str = "NamespaceFinalizersRemaining";

/// The remaining content of a namespace.
#[derive(Debug, Default)]
struct RemainingContent {
    /// Number of objects per `<plural>.<group>`.
    resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
    /// Errors of deletes.
    errors: Vec<String>,
}

impl RemainingContent {
    /// Type, reason and message of each condition with an error.
    fn error_conditions(&self) -> Vec<(&'static str, &'static str, String)> {
        let list = |parts: Vec<String>| parts.join(", ");
        let mut troubles = Vec::new();
        if !self.errors.is_empty() {
            let (count, mut errors) = (self.errors.len(), self.errors.clone());
            errors.sort();
            let message = format!("Failed to delete all resource types, {count} remaining: {}", list(errors));
            troubles.push((CONTENT_FAILURE, "ContentDeletionFailed", message));
        }
        if !self.resources.is_empty() {
            let parts = self.resources.iter().map(|(what, n)| format!("{what} has {n} resource instances"));
            let message = format!("Some resources are remaining: {}", list(parts.collect()));
            troubles.push((CONTENT_REMAINING, "SomeResourcesRemain", message));
        }
        if !self.finalizers.is_empty() {
            let parts = self.finalizers.iter().map(|(what, n)| format!("{what} in {n} resource instances"));
            let message =
                format!("Some content in the namespace has finalizers remaining: {}", list(parts.collect()));
            troubles.push((FINALIZERS_REMAINING, "SomeFinalizersRemain", message));
        }
        troubles
    }
}

/// Sets the conditions of a namespace; returns whether any changed. Pure: no I/O, no clock.
fn set_conditions(namespace: &mut Value, remains: &RemainingContent, now: &str) -> bool {
    let troubles = remains.error_conditions();
    let mut changed = namespace["status"]["phase"] != "Terminating";
    namespace["status"]["phase"] = "Terminating".into();
    for (kind, reason, message) in CONDITIONS {
        let trouble = troubles.iter().find(|trouble| trouble.0 == kind);
        let condition =
            trouble.map_or(("False", reason, message), |(_, reason, message)| ("True", *reason, message));
        changed |= set_condition(namespace, kind, condition, now);
    }
    changed
}

/// The name of a storage in conditions: `configmaps.`, `deployments.apps`.
fn resource(storage: &str) -> String {
    if storage.contains('.') { storage.to_owned() } else { format!("{storage}.") }
}

pub(super) struct Namespaces;

impl Controller for Namespaces {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = NAMESPACES.into();
        let all = context.store.list(NAMESPACES, None).objects;
        all.iter().map(|namespace| Key::new(&storage, "", &namespace.name)).collect()
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        if storage.as_ref() == NAMESPACES {
            return keys.push(Key::new(storage, "", &object.name));
        }
        if object.namespace.is_empty() {
            return;
        }
        let furniture = matches!(
            (storage.as_ref(), object.name.as_ref()),
            (SERVICE_ACCOUNTS, DEFAULT_SERVICE_ACCOUNT) | (CONFIG_MAPS, ROOT_CA_CONFIG_MAP)
        );
        let of_terminating = || {
            context
                .store
                .get(NAMESPACES, "", &object.namespace)
                .is_some_and(|namespace| namespace.is_deleting)
        };
        if furniture || of_terminating() {
            keys.push(Key::new(&NAMESPACES.into(), "", &object.namespace));
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(namespace) = context.store.get(NAMESPACES, "", &key.name) else {
            return Ok(Action::AwaitChange);
        };
        if namespace.is_deleting {
            return terminate(context, key, &namespace).await;
        }
        create_default_objects(context, &key.name).await?;
        Ok(Action::AwaitChange)
    }
}

/// Returns all objects of a namespace; only the pods while there are any.
fn content(context: &Context, namespace: &str) -> Vec<(Arc<str>, Arc<Object>)> {
    let of = |storage: &Arc<str>| {
        let objects = context.store.list(storage, Some(namespace)).objects;
        objects.into_iter().map(|object| (storage.clone(), object)).collect::<Vec<_>>()
    };
    let pods = of(&PODS.into());
    if pods.is_empty() { context.store.storages().iter().flat_map(of).collect() } else { pods }
}

async fn terminate(context: &Context, key: &Key, namespace: &Arc<Object>) -> Result<Action, ReconcileError> {
    let errors = loop {
        let found = content(context, &key.name);
        let errors = delete_all(context, &found).await;
        let left = content(context, &key.name);
        // The pods are gone: continue with the rest.
        let moved_on = found.iter().any(|(storage, _)| storage.as_ref() == PODS)
            && left.iter().any(|(storage, _)| storage.as_ref() != PODS);
        if !moved_on {
            break errors;
        }
    };
    let remains = count_remaining(&content(context, &key.name), errors).await;
    let mut value = namespace.value();
    if set_conditions(&mut value, &remains, &rfc3339(context.clock.now())) {
        // This write triggers another reconcile, which continues from here.
        replace(context, key, namespace, value).await?;
        return Ok(Action::AwaitChange);
    }
    if remains.resources.is_empty() {
        let deleted = value["metadata"]["deletionTimestamp"].as_str().and_then(|at| at.parse().ok());
        let due = deleted.map(|at: Timestamp| at.saturating_add(MAX_TERMINATION_DELAY).unwrap_or(at));
        if let Some(due) = due.filter(|due| *due > context.clock.now()) {
            return Ok(Action::RequeueAt(due));
        }
        remove_from_list(&mut value["spec"], "finalizers", |finalizer| finalizer == FINALIZER);
        if is_removable(&value) || value != namespace.value() {
            replace(context, key, namespace, value).await?;
        }
    } else if !remains.errors.is_empty() {
        // A retry may succeed without any change: return an error to be called again.
        return Err(ReconcileError::Api(crate::error::ApiError::internal(remains.errors.join(", "))));
    }
    Ok(Action::AwaitChange)
}

/// Counts the remaining content of a namespace. Yields after each MiB of parsed objects.
async fn count_remaining(content: &[(Arc<str>, Arc<Object>)], errors: Vec<String>) -> RemainingContent {
    let mut remains = RemainingContent { errors, ..RemainingContent::default() };
    let mut parser = MetadataParser::default();
    for (storage, object) in content {
        *remains.resources.entry(resource(storage)).or_default() += 1;
        for finalizer in parser.parse(object).await.finalizers() {
            *remains.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }
    remains
}

/// Maximum number of errors named in a condition; the others are only counted.
const MAX_ERRORS: usize = 10;

/// Deletes all objects that are not being deleted yet, a bounded number at a time; returns the errors.
async fn delete_all(context: &Context, found: &[(Arc<str>, Arc<Object>)]) -> Vec<String> {
    let alive: Vec<&(Arc<str>, Arc<Object>)> =
        found.iter().filter(|(_, object)| !object.is_deleting).collect();
    let (mut errors, mut others) = (BTreeSet::new(), 0_usize);
    for some in alive.chunks(MAX_CONCURRENT_WRITES) {
        let deletes = some.iter().map(|(storage, object)| async {
            let key = Key::new(storage, &object.namespace, &object.name);
            let preconditions = Preconditions { uid: &object.uid, version: None };
            ignore_not_found_or_conflict(
                context.client.delete(&key, preconditions, Propagation::Background).await,
            )
        });
        for error in join_all(deletes).await.into_iter().filter_map(Result::err) {
            if errors.len() < MAX_ERRORS || errors.contains(&error.message) {
                errors.insert(error.message);
            } else {
                others += 1;
            }
        }
    }
    let mut errors: Vec<String> = errors.into_iter().collect();
    if others > 0 {
        errors.push(format!("{others} more"));
    }
    errors
}

async fn create_default_objects(context: &Context, namespace: &str) -> Result<(), ReconcileError> {
    if context.store.get(SERVICE_ACCOUNTS, namespace, DEFAULT_SERVICE_ACCOUNT).is_none() {
        create(
            context,
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": DEFAULT_SERVICE_ACCOUNT, "namespace": namespace},
            }),
        )
        .await?;
    }
    let data = json!({"ca.crt": context.pki.ca_pem()});
    let Some(found) = context.store.get(CONFIG_MAPS, namespace, ROOT_CA_CONFIG_MAP) else {
        return create(
            context,
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "name": ROOT_CA_CONFIG_MAP, "namespace": namespace,
                    "annotations": {"kubernetes.io/description": ROOT_CA_DESCRIPTION},
                },
                "data": data,
            }),
        )
        .await;
    };
    let mut value = found.value();
    if !found.is_deleting && value["data"] != data {
        value["data"] = data;
        let key = Key::new(&CONFIG_MAPS.into(), namespace, ROOT_CA_CONFIG_MAP);
        replace(context, &key, &found, value).await?;
    }
    Ok(())
}

async fn create(context: &Context, document: Value) -> Result<(), ReconcileError> {
    match context.client.create(Component::ControllerManager, document).await {
        // Another client was faster, or the namespace is terminating: both trigger another reconcile.
        Err(error) if matches!(error.code, 403 | 404 | 409) => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::super::metadata::YIELD_BYTES;
    use super::*;

    #[tokio::test]
    async fn large_remaining_objects_are_counted_in_parts() {
        let object = |n: usize| {
            let metadata = json!({"name": format!("m{n}"), "namespace": "n", "finalizers": ["a.example/b"]});
            let object =
                Object::new(json!({"metadata": metadata, "data": {"a": "x".repeat(YIELD_BYTES)}}), 1);
            (Arc::<str>::from("configmaps"), Arc::new(object))
        };
        let content: Vec<_> = (0..3).map(object).collect();
        assert!(count_remaining(&content, Vec::new()).now_or_never().is_none(), "it does not yield");
        let remains = count_remaining(&content, Vec::new()).await;
        assert_eq!((remains.resources["configmaps."], remains.finalizers["a.example/b"]), (3, 3));
    }

    #[test]
    fn conditions_say_what_remains_and_keep_their_time_until_they_turn() {
        let mut namespace = json!({"metadata": {"name": "n"}, "status": {"phase": "Active"}});
        let mut remains = RemainingContent::default();
        remains.resources.extend([("configmaps.".to_owned(), 1), ("deployments.apps".to_owned(), 2)]);
        remains.finalizers.insert("a.example/b".to_owned(), 3);
        assert!(set_conditions(&mut namespace, &remains, "t1"));
        assert!(!set_conditions(&mut namespace, &remains, "t2"), "nothing changed");
        remains.errors.push("no".to_owned());
        assert!(set_conditions(&mut namespace, &remains, "t3"));
        assert!(set_conditions(
            &mut namespace,
            &RemainingContent { errors: vec!["no".to_owned()], ..RemainingContent::default() },
            "t4"
        ));
        let shown: Vec<_> = namespace["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| {
                ["type", "status", "reason", "message", "lastTransitionTime"]
                    .map(|k| c[k].as_str().unwrap())
                    .join("|")
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r"
        NamespaceDeletionDiscoveryFailure|False|ResourcesDiscovered|All resources successfully discovered|t1
        NamespaceDeletionGroupVersionParsingFailure|False|ParsedGroupVersions|All legacy kube types successfully parsed|t1
        NamespaceDeletionContentFailure|True|ContentDeletionFailed|Failed to delete all resource types, 1 remaining: no|t3
        NamespaceContentRemaining|False|ContentRemoved|All content successfully removed|t4
        NamespaceFinalizersRemaining|False|ContentHasNoFinalizers|All content-preserving finalizers finished|t4
        ");
        assert_eq!(
            RemainingContent { resources: remains.resources, ..RemainingContent::default() }
                .error_conditions()[0]
                .2,
            "Some resources are remaining: configmaps. has 1 resource instances, deployments.apps has 2 resource instances"
        );
        assert_eq!(namespace["status"]["phase"], "Terminating");
    }
}
