//! Changes of stored objects that can revoke the access of open streams.
//!
//! `crate::cluster` polls [`AccessWatch`] and notifies the streams, which then repeat authentication and authorization
//! (`crate::http::revalidate`).
//!
//! Invariant: a change is reported if it can end an access that `super::authn`, `super::node` or `super::rbac` granted. Created objects
//! only grant, and the status of pods and nodes is not read, so that a busy cluster does not check its streams all the time.

use std::sync::Arc;

use futures::FutureExt;

use super::authn::TokenSecret;
use super::rbac::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES};
use crate::control::view::Node;
use crate::store::{Event, EventKind, Object, Store, Watch};

/// The streams that a change can affect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessChange {
    /// Access of every user may be revoked.
    pub users: bool,
    /// Access of nodes, and by tokens that are bound to a pod or a node, may be revoked.
    pub nodes: bool,
}

impl AccessChange {
    pub const ALL: Self = Self { users: true, nodes: true };
    const NONE: Self = Self { users: false, nodes: false };
    const USERS: Self = Self { users: true, nodes: false };
    const NODES: Self = Self { users: false, nodes: true };

    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { users: self.users || other.users, nodes: self.nodes || other.nodes }
    }
}

/// Returns the affected access, given an object before and after a modification.
type AffectedBy = fn(&Object, &Object) -> AccessChange;

/// Storages that authentication and authorization read, with the access that a deletion and a modification affect.
#[rustfmt::skip]
const SOURCES: [(&str, AccessChange, AffectedBy); 10] = [
    (ROLES,                 AccessChange::USERS, |_, _| AccessChange::USERS),
    (ROLE_BINDINGS,         AccessChange::USERS, |_, _| AccessChange::USERS),
    (CLUSTER_ROLES,         AccessChange::USERS, |_, _| AccessChange::USERS),
    (CLUSTER_ROLE_BINDINGS, AccessChange::USERS, |_, _| AccessChange::USERS),
    // Tokens name the UID, which never changes.
    ("serviceaccounts",     AccessChange::USERS, |_, _| AccessChange::NONE),
    ("secrets",             AccessChange::USERS, modified_secret),
    // References of a pod are immutable.
    ("pods",                AccessChange::NODES, |_, _| AccessChange::NONE),
    ("persistentvolumes",   AccessChange::NODES, |_, _| AccessChange::NODES),
    ("nodes",               AccessChange::NODES, modified_node),
    ("namespaces",          AccessChange::NODES, modified_namespace),
];

/// Namespace and name of the ConfigMap that `super::node` reads.
const LEGACY_NODES: (&str, &str) = ("longshore-system", "node-names");

fn nodes_if(is_affected: bool) -> AccessChange {
    if is_affected { AccessChange::NODES } else { AccessChange::NONE }
}

fn modified_secret(before: &Object, after: &Object) -> AccessChange {
    // Not a cached view: Helm records are Secrets, too, and their history would be charged for it.
    let token = |secret: &Object| serde_json::from_slice::<TokenSecret>(&secret.bytes).ok();
    if before.is_deleting != after.is_deleting || token(before) != token(after) {
        AccessChange::USERS
    } else {
        AccessChange::NONE
    }
}

/// An annotation invalidates older certificates.
fn modified_node(before: &Object, after: &Object) -> AccessChange {
    let (before, after) = (before.view::<Node>(), after.view::<Node>());
    nodes_if(before.metadata.annotations != after.metadata.annotations)
}

/// Nodes of a tenant are admitted while its namespace is not terminating and has no label of a closed account.
fn modified_namespace(before: &Object, after: &Object) -> AccessChange {
    nodes_if(before.is_deleting != after.is_deleting || before.labels != after.labels)
}

/// Reads the changes of the store since the last call.
pub struct AccessWatch {
    /// In the order of [`SOURCES`].
    watches: [Watch; SOURCES.len()],
    /// The version of [`LEGACY_NODES`].
    legacy_nodes: Option<u64>,
}

impl AccessWatch {
    pub fn new(store: &Arc<Store>) -> Self {
        let watches = SOURCES.map(|(storage, ..)| watch_from_now(store, storage));
        Self { watches, legacy_nodes: legacy_nodes_version(store) }
    }

    /// Returns the access affected since the last call. Does not block.
    pub fn poll(&mut self, store: &Arc<Store>) -> AccessChange {
        let mut change = AccessChange::NONE;
        for (watch, (storage, deleted, modified)) in self.watches.iter_mut().zip(SOURCES) {
            // The future is ready if there are events, else pending.
            while let Some(events) = watch.next().now_or_never() {
                let Ok(events) = events else {
                    *watch = watch_from_now(store, storage);
                    change = change.or(AccessChange::ALL);
                    break;
                };
                let affected = events.iter().map(|event| affected_by(event, deleted, modified));
                change = affected.fold(change, AccessChange::or);
            }
        }
        let legacy_nodes = legacy_nodes_version(store);
        change = change.or(nodes_if(legacy_nodes != self.legacy_nodes));
        self.legacy_nodes = legacy_nodes;
        change
    }
}

fn affected_by(event: &Event, deleted: AccessChange, modified: AffectedBy) -> AccessChange {
    match (event.kind, &event.previous) {
        (EventKind::Added, _) => AccessChange::NONE,
        (EventKind::Modified, Some(previous)) => modified(previous, &event.object),
        (EventKind::Deleted | EventKind::Modified, _) => deleted,
    }
}

fn watch_from_now(store: &Arc<Store>, storage: &str) -> Watch {
    store.list_and_watch(storage, None).1
}

fn legacy_nodes_version(store: &Store) -> Option<u64> {
    store.get("configmaps", LEGACY_NODES.0, LEGACY_NODES.1).map(|object| object.version)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::store_object;
    use super::*;
    use crate::store::{Change, Expect, Key, Op};

    fn object(name: &str, metadata: Value, rest: Value) -> Value {
        let mut object = rest;
        object["metadata"] = metadata;
        object["metadata"]["name"] = name.into();
        object
    }

    async fn delete(store: &Store, storage: &str, name: &str) {
        let expect = Expect::Version(store.get(storage, "", name).unwrap().version);
        let change = Change { key: Key::new(&storage.into(), "", name), expect, op: Op::Delete };
        store.commit(vec![change]).await.unwrap();
    }

    #[tokio::test]
    async fn access_changes_when_what_authentication_and_authorization_read_is_modified() {
        let (none, users, nodes) = (AccessChange::NONE, AccessChange::USERS, AccessChange::NODES);
        let store = Store::in_memory();
        let mut watch = AccessWatch::new(&store);
        let closed = json!({"labels": {"longshore.dev/account-closed": "true"}});
        let terminating = json!({"deletionTimestamp": "2026-01-02T03:04:05Z"});
        let reissued =
            json!({"annotations": {"longshore.dev/certificates-not-before": "2026-01-02T03:04:05Z"}});
        let plain = || json!({});
        let table = [
            ("namespaces", "a", plain(), plain(), none),
            ("namespaces", "a", plain(), json!({"status": {"phase": "Active"}}), none),
            ("namespaces", "a", closed.clone(), plain(), nodes),
            ("namespaces", "a", closed, json!({"status": {"phase": "Terminating"}}), none),
            ("namespaces", "b", plain(), plain(), none),
            ("namespaces", "b", terminating.clone(), plain(), nodes),
            ("nodes", "n", plain(), plain(), none),
            ("nodes", "n", plain(), json!({"status": {"conditions": [{"type": "Ready"}]}}), none),
            ("nodes", "n", reissued, plain(), nodes),
            ("leases.coordination.k8s.io", "n", plain(), plain(), none),
            ("leases.coordination.k8s.io", "n", plain(), json!({"spec": {"renewTime": "x"}}), none),
            ("pods", "p", plain(), plain(), none),
            ("pods", "p", plain(), json!({"status": {"phase": "Running"}}), none),
            ("persistentvolumes", "v", plain(), plain(), none),
            ("persistentvolumes", "v", plain(), json!({"spec": {"claimRef": {"name": "c"}}}), nodes),
            ("serviceaccounts", "s", plain(), plain(), none),
            ("serviceaccounts", "s", plain(), json!({"secrets": [{"name": "t"}]}), none),
            ("secrets", "helm", plain(), json!({"data": {"release": "x"}}), none),
            (
                "secrets",
                "helm",
                json!({"labels": {"status": "superseded"}}),
                json!({"data": {"release": "y"}}),
                none,
            ),
            ("secrets", "t", plain(), json!({"data": {"token": "x"}}), none),
            ("secrets", "t", plain(), json!({"data": {"token": "y"}}), users),
            ("secrets", "t", terminating, json!({"data": {"token": "y"}}), users),
            (ROLES, "r", plain(), plain(), none),
            (ROLES, "r", plain(), json!({"rules": []}), users),
        ];
        for (storage, name, metadata, rest, expected) in table {
            let (shown, object) = (format!("{storage} {metadata} {rest}"), object(name, metadata, rest));
            store_object(&store, storage, object).await;
            assert_eq!(watch.poll(&store), expected, "{shown}");
        }
        for (storage, name, expected) in [
            ("namespaces", "a", nodes),
            ("nodes", "n", nodes),
            ("leases.coordination.k8s.io", "n", none),
            ("pods", "p", nodes),
            ("persistentvolumes", "v", nodes),
            ("serviceaccounts", "s", users),
            ("secrets", "helm", users),
            (ROLES, "r", users),
        ] {
            delete(&store, storage, name).await;
            assert_eq!(watch.poll(&store), expected, "deletion in {storage}");
        }
    }

    #[tokio::test]
    async fn access_changes_with_the_record_of_older_nodes_and_after_missed_history() {
        let store = Store::in_memory();
        let mut watch = AccessWatch::new(&store);
        super::super::node::tests::record_older_node(&store, "edge").await;
        assert_eq!(watch.poll(&store), AccessChange::NODES);
        assert_eq!(watch.poll(&store), AccessChange::NONE);
        store_object(&store, "pods", object("p", json!({}), json!({}))).await;
        store.compact();
        assert_eq!(watch.poll(&store), AccessChange::ALL);
        assert_eq!(watch.poll(&store), AccessChange::NONE);
    }
}
