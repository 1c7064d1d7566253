//! Pod garbage collection: deletes pods whose node no longer exists, after a delay.

#![warn(clippy::arithmetic_side_effects)]

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::{NODES, PODS, pods_on};
use crate::clock::rfc3339;
use crate::control::queue::{Action, Controller};
use crate::control::view::Pod;
use crate::control::{
    Component, Context, ObjectPart, ReconcileError, ignore_not_found_or_conflict, set_condition,
};
use crate::store::{Event, EventKind, Key, Object};

/// Delay before the deletion: a node may come back under the same name.
const DELETION_DELAY: SignedDuration = SignedDuration::from_secs(40);

/// Records since when each node is missing. After a restart the time begins anew, as in a real cluster.
#[derive(Default)]
pub(super) struct Orphans {
    missing_since: Mutex<HashMap<Key, Timestamp>>,
}

fn node_key(name: &str) -> Key {
    Key::new(&NODES.into(), "", name)
}

/// Returns the node that a pod names, if it does not exist.
fn missing_node(context: &Context, pod: &Object) -> Option<Key> {
    let pod = pod.view::<Pod>();
    let name = &pod.spec.node_name;
    (!name.is_empty() && context.store.get(NODES, "", name).is_none()).then(|| node_key(name))
}

impl Controller for Orphans {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let pods = context.store.list(PODS, None).objects;
        pods.iter().filter_map(|pod| missing_node(context, pod)).collect()
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        match storage.as_ref() {
            NODES if event.kind != EventKind::Modified => keys.push(node_key(&event.object.name)),
            PODS if event.kind != EventKind::Deleted => keys.extend(missing_node(context, &event.object)),
            _ => {}
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        if context.store.get(NODES, "", &key.name).is_some() {
            self.missing_since.lock().remove(key);
            return Ok(Action::AwaitChange);
        }
        let now = context.clock.now();
        let since = *self.missing_since.lock().entry(key.clone()).or_insert(now);
        let due = since.checked_add(DELETION_DELAY).unwrap_or(Timestamp::MAX);
        if now < due {
            return Ok(Action::RequeueAt(due));
        }
        for pod in pods_on(context, &key.name) {
            remove(context, &pod).await?;
        }
        self.missing_since.lock().remove(key);
        Ok(Action::AwaitChange)
    }
}

async fn remove(context: &Context, pod: &Object) -> Result<(), ReconcileError> {
    let key = Key::new(&PODS.into(), &pod.namespace, &pod.name);
    if !pod.view::<Pod>().is_finished() {
        let mut value = pod.value();
        value["status"]["phase"] = "Failed".into();
        let words = ("True", "DeletionByPodGC", "PodGC: node no longer exists");
        set_condition(&mut value, "DisruptionTarget", words, &rfc3339(context.clock.now()));
        context.client.update(Component::ControllerManager, ObjectPart::Status, value).await?;
    }
    ignore_not_found_or_conflict(context.client.delete_immediately(&key, &pod.uid).await)?;
    Ok(())
}
