//! `ServiceCIDRs`: the ranges of cluster IPs.
//!
//! The default range is `kubernetes`; it is created again when it is deleted. A range that is being deleted keeps its finalizer while
//! one of its addresses is in use, unless another range contains the address too.
//!
//! See also: `crate::admission::services` allocates cluster IPs, all from the first range. Further ranges are
//! stored and get a status, but no address is allocated from them.

#![warn(clippy::arithmetic_side_effects)]

use std::sync::Arc;

use serde_json::{Value, json};

use super::cluster_ips::ADDRESSES;
use crate::bootstrap;
use crate::clock::rfc3339;
use crate::control::queue::{Action, Controller};
use crate::control::{
    Component, Context, ObjectPart, ReconcileError, has_finalizer, remove_from_list, set_condition,
};
use crate::rules::network::ip::{self, Cidr};
use crate::store::{Event, EventKind, Key};

const RANGES: &str = "servicecidrs.networking.k8s.io";
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const READY: (&str, &str, &str) = ("True", "", "Kubernetes Service CIDR is ready");
const IN_USE: (&str, &str, &str) = (
    "False",
    "Terminating",
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
);

pub struct Ranges;

/// The next step of a range.
#[derive(Debug, PartialEq, Eq)]
enum ServiceCidrAction {
    Nothing,
    AddFinalizer,
    SetCondition(&'static (&'static str, &'static str, &'static str)),
    RemoveFinalizer,
}

impl Controller for Ranges {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = RANGES.into();
        let ranges = context.store.list(RANGES, None).objects;
        ranges.iter().map(|range| Key::new(&storage, "", &range.name)).collect()
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        if storage.as_ref() == RANGES {
            keys.push(Key::new(storage, "", &event.object.name));
        }
        // The last address may have been released, or another range may contain it now.
        let (added, deleted) = (event.kind == EventKind::Added, event.kind == EventKind::Deleted);
        if (storage.as_ref() == ADDRESSES && deleted) || (storage.as_ref() == RANGES && added) {
            keys.extend(self.initial_keys(context));
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(RANGES, "", &key.name) else {
            if *key.name == *bootstrap::SERVICE_CIDR_NAME {
                context.client.create(Component::ApiServer, bootstrap::default_service_cidr()).await?;
            }
            return Ok(Action::AwaitChange);
        };
        let mut range = object.value();
        let now = rfc3339(context.clock.now());
        let part = match decide(&range, || is_used(context, &range)) {
            ServiceCidrAction::Nothing => return Ok(Action::AwaitChange),
            ServiceCidrAction::AddFinalizer => {
                let finalizers = &mut range["metadata"]["finalizers"];
                match finalizers.as_array_mut() {
                    Some(list) => list.push(FINALIZER.into()),
                    None => *finalizers = json!([FINALIZER]),
                }
                ObjectPart::Main
            }
            ServiceCidrAction::SetCondition(condition) => {
                set_condition(&mut range, "Ready", *condition, &now);
                ObjectPart::Status
            }
            ServiceCidrAction::RemoveFinalizer => {
                remove_from_list(&mut range["metadata"], "finalizers", |finalizer| finalizer == FINALIZER);
                ObjectPart::Main
            }
        };
        context.client.update(Component::ControllerManager, part, range).await?;
        Ok(Action::AwaitChange)
    }
}

fn decide(range: &Value, is_used: impl FnOnce() -> bool) -> ServiceCidrAction {
    let is = |condition: &(&str, &str, &str)| {
        let conditions = range["status"]["conditions"].as_array().into_iter().flatten();
        conditions.filter(|found| found["type"] == "Ready").any(|found| found["status"] == condition.0)
    };
    let (protected, deleting) =
        (has_finalizer(range, FINALIZER), !range["metadata"]["deletionTimestamp"].is_null());
    match (deleting, protected) {
        (false, false) => ServiceCidrAction::AddFinalizer,
        (false, true) if is(&READY) => ServiceCidrAction::Nothing,
        (false, true) => ServiceCidrAction::SetCondition(&READY),
        (true, true) if !is_used() => ServiceCidrAction::RemoveFinalizer,
        (true, true) if !is(&IN_USE) => ServiceCidrAction::SetCondition(&IN_USE),
        (true, _) => ServiceCidrAction::Nothing,
    }
}

fn parse_ranges(document: &Value) -> Vec<Cidr> {
    let texts = document["spec"]["cidrs"].as_array().into_iter().flatten();
    texts.filter_map(|text| Cidr::parse(text.as_str()?)).collect()
}

/// Whether an address of this range is in use and in no other remaining range.
fn is_used(context: &Context, range: &Value) -> bool {
    let others = context
        .store
        .select(RANGES, None, |other| !other.is_deleting && range["metadata"]["name"] != *other.name);
    let others: Vec<Cidr> = others.iter().flat_map(|other| parse_ranges(&other.value())).collect();
    let own = parse_ranges(range);
    let addresses = context.store.list(ADDRESSES, None).objects;
    let mut addresses = addresses.iter().filter_map(|address| ip::parse(&address.name));
    addresses.any(|address| {
        own.iter().any(|range| range.contains(address)) && !others.iter().any(|other| other.contains(address))
    })
}
