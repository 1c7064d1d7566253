//! A Service as the endpoint controllers read it: the pods that it selects, and their ports.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::slice::Port;
use super::{NODES, PODS, SERVICES};
use crate::control::Context;
use crate::control::view::{Container, Meta, Pod};
use crate::rules::network::ip;
use crate::store::{Event, EventKind, Key, Object};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Service {
    pub metadata: Meta,
    pub spec: ServiceSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSpec {
    pub r#type: String,
    pub selector: BTreeMap<String, String>,
    #[serde(rename = "clusterIP")]
    pub cluster_ip: String,
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: Vec<String>,
    pub ip_families: Vec<String>,
    pub ports: Vec<ServicePort>,
    pub publish_not_ready_addresses: bool,
    pub traffic_distribution: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServicePort {
    pub name: String,
    pub protocol: String,
    pub app_protocol: Option<String>,
    /// A port number, or the name of a container port.
    pub target_port: Value,
}

impl Service {
    /// Whether endpoints are made from pods. Endpoints of a Service without selector are written by clients.
    pub fn selects_pods(&self) -> bool {
        self.spec.r#type != "ExternalName" && !self.spec.selector.is_empty()
    }

    pub fn selects(&self, pod: &Object) -> bool {
        !self.spec.selector.is_empty()
            && self.spec.selector.iter().all(|(key, value)| pod.label(key) == Some(value))
    }

    pub fn is_headless(&self) -> bool {
        matches!(self.spec.cluster_ip.as_str(), "" | "None")
    }

    /// `IPv4`, `IPv6` or both.
    pub fn families(&self) -> Vec<&str> {
        let named: Vec<&str> = self.spec.ip_families.iter().map(String::as_str).collect();
        if named.is_empty() { vec!["IPv4"] } else { named }
    }

    /// Whether the pod's host name is published under this Service.
    pub fn publishes_hostname_of(&self, pod: &Pod) -> bool {
        !pod.spec.hostname.is_empty() && pod.spec.subdomain == self.metadata.name
    }

    /// Returns the ports of a pod for this Service, without named ports that the pod does not have.
    pub fn endpoint_ports(&self, pod: &Pod) -> Vec<Port> {
        let named = container_ports(pod);
        let ports = self.spec.ports.iter().take(MAX_PORTS).filter_map(|port| {
            Some(Port {
                name: Some(port.name.clone()),
                protocol: Some(port.protocol.clone()),
                number: Some(target_port(&named, port)?),
                app_protocol: port.app_protocol.clone(),
            })
        });
        ports.collect()
    }
}

/// Maximum number of ports of one Service for which endpoints are made.
const MAX_PORTS: usize = 1_000;

/// The ports of a pod's containers by name and protocol; the first of equal ones.
fn container_ports(pod: &Pod) -> HashMap<(&str, &str), i64> {
    let stays = |container: &&Container| container.restart_policy == "Always";
    let containers = pod.spec.containers.iter().chain(pod.spec.init_containers.iter().filter(stays));
    let mut found = HashMap::new();
    for port in containers.flat_map(|container| &container.ports).filter(|port| !port.name.is_empty()) {
        found.entry((port.name.as_str(), port.protocol.as_str())).or_insert(port.container_port);
    }
    found
}

fn target_port(named: &HashMap<(&str, &str), i64>, wanted: &ServicePort) -> Option<i64> {
    let Some(name) = wanted.target_port.as_str() else { return wanted.target_port.as_i64() };
    named.get(&(name, wanted.protocol.as_str())).copied()
}

/// The addresses of a pod of one family, formatted as in Go.
pub fn addresses(pod: &Pod, family: &str) -> Vec<String> {
    let parsed = pod.status.pod_ips.iter().filter_map(|address| ip::parse(&address.ip));
    let mut found: Vec<_> =
        parsed.filter(|address| ip_family(*address) == family).map(ip::canonical).collect();
    found.sort();
    found
}

pub fn ip_family(address: IpAddr) -> &'static str {
    if address.to_canonical().is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Whether the pod has an address and has not terminated.
pub fn has_endpoint(pod: &Pod) -> bool {
    !pod.is_finished() && !pod.status.pod_ips.is_empty()
}

/// Returns the pods that a Service selects, sorted by name.
pub fn selected_pods(context: &Context, service: &Service) -> Vec<Arc<Object>> {
    context.store.select(PODS, Some(&service.metadata.namespace), |pod| service.selects(pod))
}

/// Returns the keys of all Services.
pub fn all_keys(context: &Context) -> Vec<Key> {
    let storage: Arc<str> = SERVICES.into();
    let services = context.store.list(SERVICES, None).objects;
    services.iter().map(|service| Key::new(&storage, &service.namespace, &service.name)).collect()
}

/// Adds the Services whose endpoints a change may affect.
pub fn enqueue_affected(context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
    match storage.as_ref() {
        SERVICES => keys.push(Key::new(storage, &event.object.namespace, &event.object.name)),
        PODS if affects_endpoints(event) => {
            let services: Arc<str> = SERVICES.into();
            let selecting = context.store.select(SERVICES, Some(&event.object.namespace), |_| true);
            for service in selecting {
                let view = service.view::<Service>();
                let before = event.previous.as_ref().is_some_and(|previous| view.selects(previous));
                if before || view.selects(&event.object) {
                    keys.push(Key::new(&services, &service.namespace, &service.name));
                }
            }
        }
        // Pods on a node that did not exist have been omitted.
        NODES if event.kind == EventKind::Added => keys.extend(all_keys(context)),
        _ => {}
    }
}

/// Whether a change of a pod can change endpoints.
fn affects_endpoints(event: &Event) -> bool {
    let pod = event.object.view::<Pod>();
    let Some(previous) = &event.previous else { return has_endpoint(&pod) };
    if event.kind == EventKind::Deleted {
        return true;
    }
    let was = previous.view::<Pod>();
    previous.labels != event.object.labels
        || has_endpoint(&was) != has_endpoint(&pod)
        || was.is_ready() != pod.is_ready()
        || was.metadata.is_deleting() != pod.metadata.is_deleting()
        || was.status.pod_ips != pod.status.pod_ips
}
