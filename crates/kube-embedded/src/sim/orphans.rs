//! Pod garbage collection: deletes pods whose node no longer exists, after a delay.

#![warn(clippy::arithmetic_side_effects)]

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::{NODES, PODS, pods_on};
use crate::clock::rfc3339;
use crate::control::queue::{Controller, Next};
use crate::control::view::Pod;
use crate::control::{Component, Context, Failure, Part, set_condition, settled};
use crate::store::{Event, EventKind, Key, Object};

/// Delay before the deletion: a node may come back under the same name.
const PATIENCE: SignedDuration = SignedDuration::from_secs(40);

/// Records since when each node is missing. After a restart the time begins anew, as in a real cluster.
#[derive(Default)]
pub(super) struct Orphans {
    missed: Mutex<HashMap<Key, Timestamp>>,
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
    fn everything(&self, context: &Context) -> Vec<Key> {
        let pods = context.store.list(PODS, None).objects;
        pods.iter().filter_map(|pod| missing_node(context, pod)).collect()
    }

    fn touched(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        match storage.as_ref() {
            NODES if event.kind != EventKind::Modified => keys.push(node_key(&event.object.name)),
            PODS if event.kind != EventKind::Deleted => keys.extend(missing_node(context, &event.object)),
            _ => {}
        }
    }

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        if context.store.get(NODES, "", &key.name).is_some() {
            self.missed.lock().remove(key);
            return Ok(Next::Rest);
        }
        let now = context.clock.now();
        let since = *self.missed.lock().entry(key.clone()).or_insert(now);
        let due = since.checked_add(PATIENCE).unwrap_or(Timestamp::MAX);
        if now < due {
            return Ok(Next::At(due));
        }
        for pod in pods_on(context, &key.name) {
            remove(context, &pod).await?;
        }
        self.missed.lock().remove(key);
        Ok(Next::Rest)
    }
}

async fn remove(context: &Context, pod: &Object) -> Result<(), Failure> {
    let key = Key::new(&PODS.into(), &pod.namespace, &pod.name);
    if !pod.view::<Pod>().is_finished() {
        let mut value = pod.value();
        value["status"]["phase"] = "Failed".into();
        let words = ("True", "DeletionByPodGC", "PodGC: node no longer exists");
        set_condition(&mut value, "DisruptionTarget", words, &rfc3339(context.clock.now()));
        context.actor.update(Component::ControllerManager, Part::Status, value).await?;
    }
    settled(context.actor.delete_now(&key, &pod.uid).await)?;
    Ok(())
}
