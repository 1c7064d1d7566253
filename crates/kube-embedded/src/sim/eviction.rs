//! Taint eviction: deletes pods that do not tolerate the `NoExecute` taints of their node, at once or when
//! `tolerationSeconds` have passed.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::{NODES, PODS, key_of, pods_on};
use crate::clock::rfc3339;
use crate::control::events::About;
use crate::control::queue::{Controller, Next};
use crate::control::view::{Node, Pod, Taint, Toleration};
use crate::control::{Component, Context, Failure, Part, Preconditions, Propagation, set_condition, settled};
use crate::store::{Event, EventKind, Key, Object};

const COMPONENT: &str = "taint-eviction-controller";

/// How long a pod may stay on its node.
#[derive(Debug, PartialEq, Eq)]
enum Stay {
    Forever,
    /// Seconds since the pod was first observed on the node with these taints.
    For(i64),
}

/// Returns how long a pod with these tolerations may stay on a node with these taints. Every taint must be tolerated. Pure: no I/O, no
/// clock.
fn decide(tolerations: &[Toleration], taints: &[&Taint]) -> Stay {
    let mut stay = Stay::Forever;
    for taint in taints {
        let mut tolerating = tolerations.iter().filter(|toleration| toleration.tolerates(taint)).peekable();
        if tolerating.peek().is_none() {
            return Stay::For(0);
        }
        for seconds in tolerating.filter_map(|toleration| toleration.toleration_seconds) {
            let seconds = seconds.max(0);
            stay = match stay {
                Stay::For(known) if known <= seconds => Stay::For(known),
                _ => Stay::For(seconds),
            };
        }
    }
    stay
}

fn driving(node: &Node) -> Vec<&Taint> {
    node.spec.taints.iter().filter(|taint| taint.effect == "NoExecute").collect()
}

/// Records when the toleration time of each pod began. After a restart the time begins anew, as in a real cluster.
#[derive(Default)]
pub(super) struct Evictions {
    since: Mutex<HashMap<Key, (Box<str>, Timestamp)>>,
}

impl Controller for Evictions {
    fn everything(&self, context: &Context) -> Vec<Key> {
        let nodes = context.store.list(NODES, None).objects;
        let driving = nodes.iter().filter(|node| !driving(&node.view::<Node>()).is_empty());
        driving.flat_map(|node| pods_on(context, &node.name)).map(|pod| key_of(PODS, &pod)).collect()
    }

    fn touched(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        match storage.as_ref() {
            NODES => {
                let drives = |node: &Object| {
                    driving(&node.view::<Node>()).iter().map(|taint| (*taint).clone()).collect::<Vec<_>>()
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
                if node.is_some_and(|node| !driving(&node.view::<Node>()).is_empty()) {
                    keys.push(key);
                }
            }
            _ => {}
        }
    }

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        let Some(pod) = context.store.get(PODS, &key.namespace, &key.name) else { return Ok(Next::Rest) };
        let view = pod.view::<Pod>();
        let node = context.store.get(NODES, "", &view.spec.node_name).map(|node| node.view::<Node>());
        let taints = node.as_deref().map(driving).unwrap_or_default();
        let stay = decide(&view.spec.tolerations, &taints);
        let Stay::For(seconds) = stay else {
            self.since.lock().remove(key);
            return Ok(Next::Rest);
        };
        if pod.deleting {
            return Ok(Next::Rest);
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
            return Ok(Next::At(until));
        }
        evict(context, key, &pod).await?;
        Ok(Next::Rest)
    }
}

async fn evict(context: &Context, key: &Key, pod: &Object) -> Result<(), Failure> {
    let mut value = pod.value();
    let words = ("True", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
    set_condition(&mut value, "DisruptionTarget", words, &rfc3339(context.clock.now()));
    let message = format!("Marking for deletion Pod {}/{}", pod.namespace, pod.name);
    context.events.normal(COMPONENT, About::new("v1", "Pod", pod), "TaintManagerEviction", message);
    let pod = context.actor.update(Component::ControllerManager, Part::Status, value).await?;
    let gone = Preconditions { uid: &pod.uid, version: None };
    settled(context.actor.delete(key, gone, Propagation::Background).await)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_toleration_counts_and_every_taint_must_be_tolerated() {
        let taint = |key: &str| Taint { key: key.into(), effect: "NoExecute".into(), ..Taint::default() };
        let toleration = |key: &str, toleration_seconds| Toleration {
            key: key.into(),
            operator: "Exists".into(),
            toleration_seconds,
            ..Toleration::default()
        };
        let (a, b) = (taint("a"), taint("b"));
        let table = [
            (vec![], vec![], Stay::Forever),
            (vec![], vec![&a], Stay::For(0)),
            (vec![toleration("a", None)], vec![&a], Stay::Forever),
            (vec![toleration("a", None)], vec![&a, &b], Stay::For(0)),
            (vec![toleration("a", Some(300)), toleration("", Some(20))], vec![&a], Stay::For(20)),
            (vec![toleration("a", Some(-5)), toleration("b", Some(9))], vec![&a, &b], Stay::For(0)),
        ];
        for (tolerations, taints, stay) in table {
            assert_eq!(decide(&tolerations, &taints), stay, "{tolerations:?} {taints:?}");
        }
    }
}
