//! Taint eviction: deletes pods that do not tolerate the `NoExecute` taints of their node, at once or when
//! `tolerationSeconds` have passed.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::{NODES, PODS, key_of, pods_on};
use crate::clock::rfc3339;
use crate::control::events::InvolvedObject;
use crate::control::queue::{Action, Controller};
use crate::control::view::{Node, Pod, Taint, Toleration};
use crate::control::{
    Component, Context, ObjectPart, Preconditions, Propagation, ReconcileError, ignore_not_found_or_conflict,
    set_condition,
};
use crate::store::{Event, EventKind, Key, Object};

const COMPONENT: &str = "taint-eviction-controller";

/// How long a pod may stay on its node.
#[derive(Debug, PartialEq, Eq)]
enum TolerationTime {
    Forever,
    /// Seconds since the pod was first observed on the node with these taints.
    Seconds(i64),
}

/// Returns how long a pod with these tolerations may stay on a node with these taints. Every taint must be tolerated. Pure: no I/O, no
/// clock.
fn decide(tolerations: &[Toleration], taints: &[&Taint]) -> TolerationTime {
    let mut stay = TolerationTime::Forever;
    for taint in taints {
        let mut tolerating = tolerations.iter().filter(|toleration| toleration.tolerates(taint)).peekable();
        if tolerating.peek().is_none() {
            return TolerationTime::Seconds(0);
        }
        for seconds in tolerating.filter_map(|toleration| toleration.toleration_seconds) {
            let seconds = seconds.max(0);
            stay = match stay {
                TolerationTime::Seconds(known) if known <= seconds => TolerationTime::Seconds(known),
                _ => TolerationTime::Seconds(seconds),
            };
        }
    }
    stay
}

fn no_execute_taints(node: &Node) -> Vec<&Taint> {
    node.spec.taints.iter().filter(|taint| taint.effect == "NoExecute").collect()
}

/// Records when the toleration time of each pod began. After a restart the time begins anew, as in a real cluster.
#[derive(Default)]
pub(super) struct Evictions {
    since: Mutex<HashMap<Key, (Box<str>, Timestamp)>>,
}

impl Controller for Evictions {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let nodes = context.store.list(NODES, None).objects;
        let driving = nodes.iter().filter(|node| !no_execute_taints(&node.view::<Node>()).is_empty());
        driving.flat_map(|node| pods_on(context, &node.name)).map(|pod| key_of(PODS, &pod)).collect()
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        match storage.as_ref() {
            NODES => {
                let drives = |node: &Object| {
                    no_execute_taints(&node.view::<Node>())
                        .iter()
                        .map(|taint| (*taint).clone())
                        .collect::<Vec<_>>()
                };
                let before = event.previous.as_deref().map(drives).unwrap_or_default();
                if drives(&event.object) != before {
                    keys.extend(pods_on(context, &event.object.name).iter().map(|pod| key_of(PODS, pod)));
                }
            }
            PODS => {
                let key = key_of(PODS, &event.object);
                if event.kind == EventKind::Deleted {
                    self.since.lock().remove(&key);
                    return;
                }
                let node = context.store.get(NODES, "", &event.object.view::<Pod>().spec.node_name);
                if node.is_some_and(|node| !no_execute_taints(&node.view::<Node>()).is_empty()) {
                    keys.push(key);
                }
            }
            _ => {}
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(pod) = context.store.get(PODS, &key.namespace, &key.name) else {
            return Ok(Action::AwaitChange);
        };
        let view = pod.view::<Pod>();
        let node = context.store.get(NODES, "", &view.spec.node_name).map(|node| node.view::<Node>());
        let taints = node.as_deref().map(no_execute_taints).unwrap_or_default();
        let stay = decide(&view.spec.tolerations, &taints);
        let TolerationTime::Seconds(seconds) = stay else {
            self.since.lock().remove(key);
            return Ok(Action::AwaitChange);
        };
        if pod.is_deleting {
            return Ok(Action::AwaitChange);
        }
        let now = context.clock.now();
        let since = {
            let mut since = self.since.lock();
            let begun = since.entry(key.clone()).or_insert_with(|| (pod.uid.clone(), now));
            if begun.0 != pod.uid {
                *begun = (pod.uid.clone(), now);
            }
            begun.1
        };
        let until = since.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
        if now < until {
            return Ok(Action::RequeueAt(until));
        }
        evict(context, key, &pod).await?;
        Ok(Action::AwaitChange)
    }
}

async fn evict(context: &Context, key: &Key, pod: &Object) -> Result<(), ReconcileError> {
    let mut value = pod.value();
    let words = ("True", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
    set_condition(&mut value, "DisruptionTarget", words, &rfc3339(context.clock.now()));
    let message = format!("Marking for deletion Pod {}/{}", pod.namespace, pod.name);
    context.events.normal(COMPONENT, InvolvedObject::new("v1", "Pod", pod), "TaintManagerEviction", message);
    let pod = context.client.update(Component::ControllerManager, ObjectPart::Status, value).await?;
    let gone = Preconditions { uid: &pod.uid, version: None };
    ignore_not_found_or_conflict(context.client.delete(key, gone, Propagation::Background).await)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eviction_uses_shortest_toleration_and_requires_all_taints_tolerated() {
        let taint = |key: &str| Taint { key: key.into(), effect: "NoExecute".into(), ..Taint::default() };
        let toleration = |key: &str, toleration_seconds| Toleration {
            key: key.into(),
            operator: "Exists".into(),
            toleration_seconds,
            ..Toleration::default()
        };
        let (a, b) = (taint("a"), taint("b"));
        let table = [
            (vec![], vec![], TolerationTime::Forever),
            (vec![], vec![&a], TolerationTime::Seconds(0)),
            (vec![toleration("a", None)], vec![&a], TolerationTime::Forever),
            (vec![toleration("a", None)], vec![&a, &b], TolerationTime::Seconds(0)),
            (
                vec![toleration("a", Some(300)), toleration("", Some(20))],
                vec![&a],
                TolerationTime::Seconds(20),
            ),
            (
                vec![toleration("a", Some(-5)), toleration("b", Some(9))],
                vec![&a, &b],
                TolerationTime::Seconds(0),
            ),
        ];
        for (tolerations, taints, stay) in table {
            assert_eq!(decide(&tolerations, &taints), stay, "{tolerations:?} {taints:?}");
        }
    }
}
