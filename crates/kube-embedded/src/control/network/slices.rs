//! The endpoint slice controller: `EndpointSlices` of Services with a selector.

#![warn(clippy::arithmetic_side_effects)]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::plan::{PortGroup, SliceContent, SliceWrite, plan};
use super::service::{self, Service};
use super::slice::{
    Endpoint, EndpointConditions, EndpointHints, NamedHint, Port, Slice, TargetRef, sorted_ports,
};
use super::{HEADLESS, NODES, SERVICES, SLICES, TRIGGER_TIME, is_terminating};
use crate::clock::rfc3339;
use crate::control::events::InvolvedObject;
use crate::control::queue::{Action, Controller};
use crate::control::view::Pod;
use crate::control::workloads::pods::Owner;
use crate::control::{
    Component, Context, ObjectPart, Preconditions, Propagation, ReconcileError, ignore_not_found_or_conflict,
};
use crate::store::{Event, Key, Object};

pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGER: &str = "endpointslice-controller.k8s.io";
const ZONE: &str = "topology.kubernetes.io/zone";

pub struct EndpointSlices;

impl Controller for EndpointSlices {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        service::all_keys(context)
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        service::enqueue_affected(context, storage, event, keys);
        if storage.as_ref() == SLICES {
            for slice in [Some(&event.object), event.previous.as_ref()].into_iter().flatten() {
                if slice.label(MANAGED_BY) == Some(MANAGER)
                    && let Some(name) = slice.label(SERVICE_NAME)
                {
                    keys.push(Key::new(&SERVICES.into(), &slice.namespace, name));
                }
            }
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(SERVICES, &key.namespace, &key.name) else {
            return Ok(Action::AwaitChange);
        };
        let service = object.view::<Service>();
        if !service.selects_pods() {
            return Ok(Action::AwaitChange);
        }
        let slices = managed_slices(context, &service.metadata.namespace, &service.metadata.name, MANAGER);
        let families = service.families();
        let (fitting, others): (Vec<_>, Vec<_>) = slices.into_iter().partition(|slice| {
            slice.owner_uids.contains(&object.uid)
                && families.contains(&slice.view::<Slice>().address_type.as_str())
        });
        let pods = service::selected_pods(context, &service);
        let trigger = trigger_time(&service, &pods, &fitting);
        for family in families {
            let existing: Vec<_> =
                fitting.iter().filter(|slice| slice.view::<Slice>().address_type == family).collect();
            let (groups, strangers) = groups(context, &service, &pods, family);
            let views: Vec<_> = existing.iter().map(|slice| slice.view::<Slice>()).collect();
            let steps = plan(groups, &views, |slice| is_stale(slice, &service));
            for step in steps {
                execute(context, &object, &service, family, (step, trigger), &existing).await?;
            }
            record_omitted_pods(context, &object, &strangers);
        }
        for slice in others {
            remove(context, &slice).await?;
        }
        Ok(Action::AwaitChange)
    }
}

/// Returns the slices that `manager` maintains for a Service.
pub fn managed_slices(context: &Context, namespace: &str, service: &str, manager: &str) -> Vec<Arc<Object>> {
    context.store.select(SLICES, Some(namespace), |slice| {
        !slice.is_deleting
            && slice.label(SERVICE_NAME) == Some(service)
            && slice.label(MANAGED_BY) == Some(manager)
    })
}

pub async fn remove(context: &Context, slice: &Object) -> Result<(), ReconcileError> {
    let key = Key::new(&SLICES.into(), &slice.namespace, &slice.name);
    let preconditions = Preconditions { uid: &slice.uid, version: None };
    Ok(ignore_not_found_or_conflict(
        context.client.delete(&key, preconditions, Propagation::Background).await,
    )?)
}

/// Creates a slice, unless its namespace is terminating.
pub async fn create(context: &Context, document: Value) -> Result<(), ReconcileError> {
    match context.client.create(Component::ControllerManager, document).await {
        Err(error) if !is_terminating(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Returns the endpoints of a Service by their ports, and the pods that are omitted because their node does not exist.
fn groups(
    context: &Context,
    service: &Service,
    pods: &[Arc<Object>],
    family: &str,
) -> (Vec<PortGroup>, Vec<(String, String)>) {
    // Few sets of ports, in the order of their first occurrence.
    let mut groups: Vec<(Vec<Port>, Vec<Endpoint>)> = Vec::new();
    let mut places: HashMap<Vec<Port>, usize> = HashMap::new();
    let mut strangers = Vec::new();
    for object in pods {
        let pod = object.view::<Pod>();
        if !service::has_endpoint(&pod) {
            continue;
        }
        let ports = service.endpoint_ports(&pod);
        let at = *places.entry(ports.clone()).or_insert_with(|| {
            groups.push((ports, Vec::new()));
            groups.len().saturating_sub(1)
        });
        let node = context.store.get(NODES, "", &pod.spec.node_name);
        if node.is_none() && !service.spec.publish_not_ready_addresses {
            strangers.push((pod.metadata.name.clone(), pod.spec.node_name.clone()));
            continue;
        }
        let zone = node.as_ref().and_then(|node| node.label(ZONE));
        let endpoint = endpoint(service, &pod, zone, family);
        if !endpoint.addresses.is_empty() {
            groups[at].1.push(endpoint);
        }
    }
    let groups =
        groups.into_iter().map(|(ports, endpoints)| PortGroup { ports: sorted_ports(ports), endpoints });
    (groups.collect(), strangers)
}

fn endpoint(service: &Service, pod: &Pod, zone: Option<&str>, family: &str) -> Endpoint {
    let (serving, terminating) = (pod.is_ready(), pod.metadata.is_deleting());
    let ready = service.spec.publish_not_ready_addresses || (serving && !terminating);
    let node = &pod.spec.node_name;
    let name = |name: &str| vec![NamedHint { name: name.to_owned() }];
    let zone = zone.filter(|zone| !zone.is_empty());
    let hints = EndpointHints {
        for_zones: zone.map(name).unwrap_or_default(),
        for_nodes: match service.spec.traffic_distribution.as_str() {
            "PreferSameNode" if !node.is_empty() => name(node),
            _ => Vec::new(),
        },
    };
    let hinted = !service.spec.traffic_distribution.is_empty() && ready && hints != EndpointHints::default();
    Endpoint {
        addresses: service::addresses(pod, family),
        conditions: EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        },
        hostname: service.publishes_hostname_of(pod).then(|| pod.spec.hostname.clone()),
        target_ref: Some(target_ref(pod)),
        node_name: Some(node.clone()).filter(|node| !node.is_empty()),
        zone: zone.map(str::to_owned),
        hints: hinted.then_some(hints),
    }
}

pub fn target_ref(pod: &Pod) -> TargetRef {
    TargetRef {
        kind: "Pod".to_owned(),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..TargetRef::default()
    }
}

/// Returns the earliest change of a pod that the slices do not contain yet; the creation of the Service if there are no slices.
fn trigger_time(service: &Service, pods: &[Arc<Object>], slices: &[Arc<Object>]) -> Option<Timestamp> {
    if slices.is_empty() {
        return service.metadata.creation_timestamp;
    }
    let views: Vec<_> = slices.iter().map(|slice| slice.view::<Slice>()).collect();
    let known: BTreeMap<&str, Option<bool>> = views
        .iter()
        .flat_map(|slice| slice.endpoints.iter().flatten())
        .filter_map(|endpoint| {
            Some((endpoint.target_ref.as_ref()?.uid.as_str(), endpoint.conditions.serving))
        })
        .collect();
    let turned = pods.iter().filter_map(|object| {
        let pod = object.view::<Pod>();
        let is_new = known.get(&*object.uid) != Some(&Some(pod.is_ready()));
        pod.condition("Ready").filter(|_| is_new)?.last_transition_time
    });
    turned.min()
}

/// The labels of a slice: the labels of the Service, and the labels by which the slice is found.
fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = own_labels(&service.metadata.labels);
    if service.is_headless() {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(SERVICE_NAME.to_owned(), service.metadata.name.clone());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

fn own_labels(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut own = labels.clone();
    own.retain(|key, _| ![HEADLESS, SERVICE_NAME, MANAGED_BY].contains(&key.as_str()));
    own
}

fn is_stale(slice: &Slice, service: &Service) -> bool {
    own_labels(&slice.metadata.labels) != own_labels(&service.metadata.labels)
}

async fn execute(
    context: &Context,
    object: &Object,
    service: &Service,
    family: &str,
    (step, trigger): (SliceWrite, Option<Timestamp>),
    existing: &[&Arc<Object>],
) -> Result<(), ReconcileError> {
    match step {
        SliceWrite::Delete(at) => remove(context, existing[at]).await,
        // The slices of a deleted Service are deleted with it.
        SliceWrite::Create(_) if object.is_deleting => Ok(()),
        SliceWrite::Create(wanted) => {
            let owner = Owner { api_version: "v1", kind: "Service", object };
            let mut document = json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {
                    "generateName": format!("{}-", service.metadata.name),
                    "namespace": service.metadata.namespace,
                    "ownerReferences": [owner.reference()],
                },
                "addressType": family,
            });
            set_content(&mut document, service, &wanted, trigger);
            create(context, document).await
        }
        SliceWrite::Update(at, wanted) => {
            let mut document = existing[at].value();
            set_content(&mut document, service, &wanted, trigger);
            context.client.update(Component::ControllerManager, ObjectPart::Main, document).await?;
            Ok(())
        }
    }
}

fn set_content(document: &mut Value, service: &Service, content: &SliceContent, trigger: Option<Timestamp>) {
    document["metadata"]["labels"] = json!(labels(service));
    document["ports"] = null_if_empty(&content.ports);
    document["endpoints"] = null_if_empty(&content.endpoints);
    set_trigger_time(document, trigger);
}

/// An empty list is written as `null`.
fn null_if_empty(list: &[impl serde::Serialize]) -> Value {
    if list.is_empty() { Value::Null } else { json!(list) }
}

pub fn set_trigger_time(document: &mut Value, trigger: Option<Timestamp>) {
    let annotations = &mut document["metadata"]["annotations"];
    match (trigger, annotations.as_object_mut()) {
        (Some(at), _) => annotations[TRIGGER_TIME] = rfc3339(at).into(),
        (None, Some(annotations)) => _ = annotations.remove(TRIGGER_TIME),
        (None, None) => {}
    }
}

/// Records an Event about the omitted pods. They are reconciled again when their node appears.
fn record_omitted_pods(context: &Context, service: &Object, strangers: &[(String, String)]) {
    let place = format!("{}/{}", service.namespace, service.name);
    let causes: Vec<String> = strangers
        .iter()
        .map(|(pod, node)| format!("skipping Pod {pod} for Service {place}: Node {node} Not Found"))
        .collect();
    let cause = match causes.as_slice() {
        [] => return,
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    context.events.warning(
        "endpoint-slice-controller",
        InvolvedObject::new("v1", "Service", service),
        "FailedToUpdateEndpointSlices",
        format!("Error updating Endpoint Slices for Service {place}: {cause}"),
    );
}
