//! Node Leases: the heartbeats of simulated kubelets.
//!
//! All of them are renewed together before they expire, in one small transaction. A real kubelet renews four times
//! as often to survive lost messages. Here none is lost, and an idle cluster should write little.

#![warn(clippy::arithmetic_side_effects)]

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{NODES, is_alive};
use crate::clock::rfc3339_micro;
use crate::control::queue::{Action, Controller};
use crate::control::view::Node;
use crate::control::{Component, Context, ReconcileError};
use crate::store::{Change, Event, EventKind, Expect, Key, Object, Op};

const LEASES: &str = "leases.coordination.k8s.io";
const NAMESPACE: &str = "kube-node-lease";
const LEASE_DURATION_SECONDS: i64 = 40;
const RENEW_INTERVAL: SignedDuration = SignedDuration::from_secs(30);

pub(in crate::sim) struct Leases;

/// The one key for all node Leases: they are renewed together.
fn all_leases() -> Key {
    Key::new(&LEASES.into(), NAMESPACE, "")
}

fn get_lease(context: &Context, node: &str) -> Option<Arc<Object>> {
    context.store.get(LEASES, NAMESPACE, node)
}

/// Whether the event is the first heartbeat of a node.
pub(super) fn is_first_heartbeat(storage: &Arc<str>, event: &Event) -> bool {
    storage.as_ref() == LEASES
        && event.kind == EventKind::Added
        && event.object.namespace.as_ref() == NAMESPACE
}

fn renewed_at(lease: &Value) -> Option<Timestamp> {
    lease["spec"]["renewTime"].as_str()?.parse().ok()
}

/// Returns when the Lease of a node expires unless it is renewed.
pub(super) fn expires_at(context: &Context, node: &str) -> Option<Timestamp> {
    let renewed = renewed_at(&get_lease(context, node)?.value())?;
    renewed.checked_add(SignedDuration::from_secs(LEASE_DURATION_SECONDS)).ok()
}

impl Controller for Leases {
    fn initial_keys(&self, _: &Context) -> Vec<Key> {
        vec![all_leases()]
    }

    fn keys_for_event(&self, _: &Context, storage: &Arc<str>, _: &Event, keys: &mut Vec<Key>) {
        if storage.as_ref() == NODES && keys.is_empty() {
            keys.push(all_leases());
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let now = context.clock.now();
        let mut leases = Vec::new();
        for node in context.store.list(NODES, None).objects {
            if !is_alive(&node.view::<Node>()) {
                continue;
            }
            leases.push(match get_lease(context, &node.name) {
                None => context.client.create(Component::Kubelet, new_lease(&node, now)).await?,
                Some(lease) => lease,
            });
        }
        let values: Vec<Value> = leases.iter().map(|lease| lease.value()).collect();
        // A time in the future is not from this controller: it must not stop the renewals.
        let past = |value| renewed_at(value).filter(|at| *at <= now).unwrap_or(Timestamp::UNIX_EPOCH);
        let renewed = values.iter().map(past);
        let Some(oldest) = renewed.min() else { return Ok(Action::AwaitChange) };
        let due = saturating_add(oldest);
        if due > now {
            return Ok(Action::RequeueAt(due));
        }
        let renewals = leases.iter().zip(values).map(|(lease, mut value)| {
            value["spec"]["renewTime"] = rfc3339_micro(now).into();
            let expect = Expect::Version(lease.version);
            Change { key: Key::new(&key.storage, NAMESPACE, &lease.name), expect, op: Op::Put(value) }
        });
        context.store.commit(renewals.collect()).await?;
        Ok(Action::RequeueAt(saturating_add(now)))
    }
}

fn saturating_add(at: Timestamp) -> Timestamp {
    at.checked_add(RENEW_INTERVAL).unwrap_or(Timestamp::MAX)
}

fn new_lease(node: &Object, now: Timestamp) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": node.name, "namespace": NAMESPACE, "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}]},
        "spec": {"holderIdentity": node.name, "leaseDurationSeconds": LEASE_DURATION_SECONDS, "renewTime": rfc3339_micro(now)},
    })
}
