//! The endpoints controller: `Endpoints` objects of Services with a selector, for clients that do not read slices.

#![warn(clippy::arithmetic_side_effects)]

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::service::{self, Service};
use super::slices::{set_trigger_time, target_ref};
use super::subsets::{Address, Subset, repack, truncate};
use super::{ENDPOINTS, HEADLESS, SERVICES, is_terminating};
use crate::control::queue::{Action, Controller};
use crate::control::view::{Meta, Pod};
use crate::control::{
    Component, Context, ObjectPart, Preconditions, Propagation, ReconcileError, ignore_not_found_or_conflict,
};
use crate::store::{Event, EventKind, Key, Object};

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Annotation of an `Endpoints` object that is a leader election lock.
pub const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct EndpointsView {
    pub metadata: Meta,
    pub subsets: Vec<Subset>,
}

pub struct Endpoints;

impl Controller for Endpoints {
    /// Includes `Endpoints` whose Service was deleted while no controller ran.
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = SERVICES.into();
        let endpoints = context.store.list(ENDPOINTS, None).objects;
        let endpoints = endpoints
            .iter()
            .filter(|object| !object.view::<EndpointsView>().metadata.annotations.contains_key(LEADER));
        let mut keys = service::all_keys(context);
        keys.extend(endpoints.map(|object| Key::new(&storage, &object.namespace, &object.name)));
        keys
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        service::enqueue_affected(context, storage, event, keys);
        if storage.as_ref() == ENDPOINTS && event.kind == EventKind::Deleted {
            keys.push(Key::new(&SERVICES.into(), &event.object.namespace, &event.object.name));
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let current = context.store.get(ENDPOINTS, &key.namespace, &key.name);
        let Some(object) = context.store.get(SERVICES, &key.namespace, &key.name) else {
            if let Some(left) = current {
                let key = Key::new(&ENDPOINTS.into(), &key.namespace, &key.name);
                let preconditions = Preconditions { uid: &left.uid, version: None };
                ignore_not_found_or_conflict(
                    context.client.delete(&key, preconditions, Propagation::Background).await,
                )?;
            }
            return Ok(Action::AwaitChange);
        };
        let service = object.view::<Service>();
        if service.selects_pods() {
            let pods = service::selected_pods(context, &service);
            write(context, &service, &pods, current.as_deref()).await?;
        }
        Ok(Action::AwaitChange)
    }
}

fn subsets(service: &Service, pods: &[Arc<Object>]) -> Vec<Subset> {
    let tolerant = service.spec.publish_not_ready_addresses;
    let family = service.families()[0];
    let mut subsets = Vec::new();
    for object in pods {
        let pod = object.view::<Pod>();
        if !service::has_endpoint(&pod) || (pod.metadata.is_deleting() && !tolerant) {
            continue;
        }
        let Some(ip) = service::addresses(&pod, family).into_iter().next() else { continue };
        let address = Address {
            ip,
            hostname: if service.publishes_hostname_of(&pod) {
                pod.spec.hostname.clone()
            } else {
                String::new()
            },
            node_name: Some(pod.spec.node_name.clone()),
            target_ref: Some(target_ref(&pod)),
        };
        let ports = service.endpoint_ports(&pod);
        // Without ports only a headless Service has endpoints.
        if ports.is_empty() && !(service.spec.ports.is_empty() && service.is_headless()) {
            continue;
        }
        let mut subset = Subset { ports, ..Subset::default() };
        let list =
            if tolerant || pod.is_ready() { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        list.push(address);
        subsets.push(subset);
    }
    repack(subsets)
}

async fn write(
    context: &Context,
    service: &Service,
    pods: &[Arc<Object>],
    current: Option<&Object>,
) -> Result<(), ReconcileError> {
    let mut wanted = subsets(service, pods);
    let view = current.map(Object::view::<EndpointsView>);
    let trigger = trigger_time(service, pods, view.as_deref());
    let truncated = truncate(&mut wanted);
    let mut labels = service.metadata.labels.clone();
    labels.remove(HEADLESS);
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    if let Some(view) = &view {
        let mut known = view.metadata.labels.clone();
        known.remove(HEADLESS);
        let marked = view.metadata.annotations.contains_key(OVER_CAPACITY);
        if view.subsets == wanted && known == labels && marked == truncated {
            return Ok(());
        }
    }
    if service.is_headless() {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    let mut document = current.map_or_else(
        || {
            json!({"apiVersion": "v1", "kind": "Endpoints",
                "metadata": {"name": service.metadata.name, "namespace": service.metadata.namespace}})
        },
        Object::value,
    );
    document["metadata"]["labels"] = json!(labels);
    document["subsets"] = json!(wanted);
    remove_empty_port_names(&mut document["subsets"]);
    set_trigger_time(&mut document, trigger);
    match document["metadata"]["annotations"].as_object_mut() {
        _ if truncated => document["metadata"]["annotations"][OVER_CAPACITY] = "truncated".into(),
        Some(annotations) => _ = annotations.remove(OVER_CAPACITY),
        None => {}
    }
    let by = Component::ControllerManager;
    if current.is_some() {
        context.client.update(by, ObjectPart::Main, document).await?;
        return Ok(());
    }
    match context.client.create(by, document).await {
        Err(error) if !is_terminating(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Removes empty port names, which `Endpoints` omit.
fn remove_empty_port_names(subsets: &mut Value) {
    let subsets = subsets.as_array_mut().into_iter().flatten();
    let ports = subsets.filter_map(|subset| subset["ports"].as_array_mut()).flatten();
    for port in ports.filter_map(Value::as_object_mut) {
        if port.get("name").is_some_and(|name| name == "") {
            port.remove("name");
        }
    }
}

/// Returns the earliest change of a pod that the object does not contain yet; the creation of the Service if there is no object.
fn trigger_time(
    service: &Service,
    pods: &[Arc<Object>],
    current: Option<&EndpointsView>,
) -> Option<Timestamp> {
    let Some(current) = current else { return service.metadata.creation_timestamp };
    // Known targets, and whether each is ready.
    let mut known = HashSet::new();
    for subset in &current.subsets {
        for (list, ready) in [(&subset.addresses, true), (&subset.not_ready_addresses, false)] {
            let targets = list.iter().filter_map(|address| address.target_ref.as_ref());
            known.extend(targets.map(|target| (target.uid.as_str(), ready)));
        }
    }
    let known = |pod: &Pod| known.contains(&(pod.metadata.uid.as_str(), pod.is_ready()));
    let turned = pods.iter().map(|object| object.view::<Pod>()).filter(|pod| !known(pod));
    turned.filter_map(|pod| pod.condition("Ready")?.last_transition_time).min()
}
