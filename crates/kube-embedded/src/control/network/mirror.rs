//! The endpoint slice mirroring controller: slices for `Endpoints` of Services without selector.

#![warn(clippy::arithmetic_side_effects)]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Value, json};

use super::endpoints::{EndpointsView, LEADER};
use super::service::{self, Service};
use super::slice::{Endpoint, EndpointConditions, Port, Slice, sorted_ports};
use super::slices::{MANAGED_BY, SERVICE_NAME, create, managed_slices, remove};
use super::subsets::{Address, MAX_ADDRESSES, repack};
use super::{ENDPOINTS, SERVICES, SLICES, TRIGGER_TIME};
use crate::control::events::InvolvedObject;
use crate::control::queue::{Action, Controller};
use crate::control::workloads::pods::Owner;
use crate::control::{Component, Context, ObjectPart, ReconcileError};
use crate::rules::network::ip;
use crate::store::{Event, EventKind, Key, Object};

const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const COMPONENT: &str = "endpoint-slice-mirroring-controller";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

pub struct Mirror;

/// The desired content of one slice: addresses of one family with one set of ports.
type MirroredContent = (&'static str, Vec<Port>, Vec<Endpoint>);

impl Controller for Mirror {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = ENDPOINTS.into();
        let endpoints = context.store.list(ENDPOINTS, None).objects;
        endpoints.iter().map(|object| Key::new(&storage, &object.namespace, &object.name)).collect()
    }

    fn keys_for_event(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        let endpoints = |name: &str| Key::new(&ENDPOINTS.into(), &object.namespace, name);
        match storage.as_ref() {
            ENDPOINTS => keys.push(endpoints(&object.name)),
            SERVICES => {
                let lacks_selector = |service: &Object| service.view::<Service>().spec.selector.is_empty();
                let before = event.previous.as_deref().is_some_and(lacks_selector);
                if event.kind != EventKind::Modified || lacks_selector(object) != before {
                    keys.push(endpoints(&object.name));
                }
            }
            SLICES => {
                for slice in [Some(object), event.previous.as_ref()].into_iter().flatten() {
                    if slice.label(MANAGED_BY) == Some(MANAGER)
                        && let Some(name) = slice.label(SERVICE_NAME)
                    {
                        keys.push(endpoints(name));
                    }
                }
            }
            _ => {}
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let existing = managed_slices(context, &key.namespace, &key.name, MANAGER);
        let Some(object) = get_mirror_source(context, key) else {
            for slice in existing {
                remove(context, &slice).await?;
            }
            return Ok(Action::AwaitChange);
        };
        let endpoints = object.view::<EndpointsView>();
        let mut spare: Vec<Arc<Object>> = existing;
        let mut missing = Vec::new();
        for wanted in desired_slices(context, &object, &endpoints) {
            let (family, ports, _) = &wanted;
            let of_it = |slice: &Arc<Object>| {
                let view = slice.view::<Slice>();
                view.address_type == *family && sorted_ports(view.ports.clone().unwrap_or_default()) == *ports
            };
            match spare.iter().position(of_it) {
                Some(at) => update(context, &object, &endpoints, wanted, &spare.remove(at)).await?,
                None => missing.push(wanted),
            }
        }
        // Reuse slices that would be deleted.
        for wanted in missing {
            let of_family = |slice: &Arc<Object>| slice.view::<Slice>().address_type == wanted.0;
            match spare.iter().position(of_family) {
                Some(at) => update(context, &object, &endpoints, wanted, &spare.remove(at)).await?,
                None if object.is_deleting => {}
                None => create(context, document(&object, &endpoints, wanted)).await?,
            }
        }
        for slice in spare {
            remove(context, &slice).await?;
        }
        Ok(Action::AwaitChange)
    }
}

/// Returns the object if it is to be mirrored: its Service has no selector, and mirroring is not disabled.
fn get_mirror_source(context: &Context, key: &Key) -> Option<Arc<Object>> {
    let object = context.store.get(ENDPOINTS, &key.namespace, &key.name)?;
    let service = context.store.get(SERVICES, &key.namespace, &key.name)?;
    let wanted = object.label(SKIP) != Some("true")
        && !object.view::<EndpointsView>().metadata.annotations.contains_key(LEADER)
        && service.view::<Service>().spec.selector.is_empty();
    wanted.then_some(object)
}

fn desired_slices(context: &Context, object: &Object, endpoints: &EndpointsView) -> Vec<MirroredContent> {
    let mut wanted: HashMap<(&'static str, Vec<Port>), Vec<Endpoint>> = HashMap::new();
    let (mut invalid, mut skipped) = (0_usize, 0_usize);
    for subset in repack(endpoints.subsets.clone()) {
        let ports = sorted_ports(subset.ports);
        let mut added = 0_usize;
        let ready = subset.addresses.into_iter().map(|address| (address, true));
        for (address, ready) in ready.chain(subset.not_ready_addresses.into_iter().map(|a| (a, false))) {
            match ip::parse(&address.ip) {
                _ if added == MAX_ADDRESSES => skipped = skipped.saturating_add(1),
                None => invalid = invalid.saturating_add(1),
                Some(ip) => {
                    let list = wanted.entry((service::ip_family(ip), ports.clone())).or_default();
                    list.push(endpoint(ip::canonical(ip), address, ready));
                    added = added.saturating_add(1);
                }
            }
        }
    }
    let about = || InvolvedObject::new("v1", "Endpoints", object);
    if invalid > 0 {
        let message = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
        context.events.warning(COMPONENT, about(), "InvalidIPAddress", message);
    }
    if skipped > 0 {
        let message = format!(
            "A max of {MAX_ADDRESSES} addresses can be mirrored to EndpointSlices per Endpoints subset. {} addresses were skipped",
            skipped.saturating_add(invalid)
        );
        context.events.warning(COMPONENT, about(), "TooManyAddressesToMirror", message);
    }
    wanted.into_iter().map(|((family, ports), endpoints)| (family, ports, endpoints)).collect()
}

fn endpoint(ip: String, address: Address, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![ip],
        conditions: EndpointConditions { ready: Some(ready), ..EndpointConditions::default() },
        hostname: Some(address.hostname).filter(|name| !name.is_empty()),
        target_ref: address.target_ref,
        node_name: address.node_name,
        ..Endpoint::default()
    }
}

fn labels(endpoints: &EndpointsView) -> BTreeMap<String, String> {
    let mut labels = endpoints.metadata.labels.clone();
    labels.insert(SERVICE_NAME.to_owned(), endpoints.metadata.name.clone());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

fn annotations(endpoints: &EndpointsView) -> BTreeMap<String, String> {
    let mut annotations = endpoints.metadata.annotations.clone();
    annotations.retain(|key, _| ![TRIGGER_TIME, LAST_APPLIED].contains(&key.as_str()));
    annotations
}

fn document(object: &Object, endpoints: &EndpointsView, (family, ports, list): MirroredContent) -> Value {
    let owner = Owner { api_version: "v1", kind: "Endpoints", object };
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "generateName": format!("{}-", object.name), "namespace": object.namespace,
            "ownerReferences": [owner.reference()],
            "labels": labels(endpoints), "annotations": annotations(endpoints),
        },
        "addressType": family, "ports": ports, "endpoints": list,
    })
}

async fn update(
    context: &Context,
    object: &Object,
    endpoints: &EndpointsView,
    wanted: MirroredContent,
    slice: &Object,
) -> Result<(), ReconcileError> {
    let view = slice.view::<Slice>();
    let same = view.endpoints.as_ref() == Some(&wanted.2)
        && sorted_ports(view.ports.clone().unwrap_or_default()) == wanted.1
        && view.metadata.labels == labels(endpoints)
        && view.metadata.annotations == annotations(endpoints)
        && slice.owner_uids.contains(&object.uid);
    if same {
        return Ok(());
    }
    let mut document = document(object, endpoints, wanted);
    for part in ["name", "generateName", "uid", "resourceVersion"] {
        document["metadata"][part] = slice.value()["metadata"][part].clone();
    }
    context.client.update(Component::ControllerManager, ObjectPart::Main, document).await?;
    Ok(())
}
