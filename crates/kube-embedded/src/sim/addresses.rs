//! Simulated load balancer addresses for Services of type `LoadBalancer` and for Ingresses.
//!
//! A load balancer gets the first free address of [`ADDRESS_RANGE`], or the one in `spec.loadBalancerIP`. An Ingress of the class
//! [`CLASS`], which is the default class, gets the address of a node. Without the setting `addresses` this controller does not run, and
//! both stay pending, as on a real cluster without a provider.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::control::events::InvolvedObject;
use crate::control::network::Service;
use crate::control::queue::{Action, Controller};
use crate::control::{Component, Context, ObjectPart, ReconcileError};
use crate::store::{Event, EventKind, Key, Object};

const SERVICES: &str = "services";
const NODES: &str = "nodes";
const INGRESSES: &str = "ingresses.networking.k8s.io";
const CLASSES: &str = "ingressclasses.networking.k8s.io";
/// The name of the IngressClass that this controller implements.
const CLASS: &str = "longshore";
/// 10.97.0.0/24, without its first and last address.
const ADDRESS_RANGE: std::ops::Range<u32> = 0x0a61_0001..0x0a61_00ff;

/// The one key for all load balancers: they are reconciled together, so that no address is assigned twice.
fn all_load_balancers_key() -> Key {
    Key::new(&SERVICES.into(), "", "")
}

pub(super) struct Addresses;

impl Controller for Addresses {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let mut keys = vec![all_load_balancers_key(), Key::new(&CLASSES.into(), "", CLASS)];
        keys.extend(ingresses(context));
        keys
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        match storage.as_ref() {
            SERVICES if is_load_balancer(object) => keys.push(all_load_balancers_key()),
            INGRESSES => keys.push(Key::new(storage, &object.namespace, &object.name)),
            CLASSES if object.name.as_ref() == CLASS => keys.push(Key::new(storage, "", CLASS)),
            // A new node may provide the address that Ingresses wait for.
            NODES if event.kind != EventKind::Modified => keys.extend(ingresses(context)),
            _ => {}
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        match key.storage.as_ref() {
            SERVICES => assign_addresses(context).await?,
            CLASSES => ensure_class(context).await?,
            _ => publish_ingress_address(context, key).await?,
        }
        Ok(Action::AwaitChange)
    }
}

fn ingresses(context: &Context) -> Vec<Key> {
    let storage: Arc<str> = INGRESSES.into();
    let all = context.store.list(INGRESSES, None).objects;
    all.iter().map(|ingress| Key::new(&storage, &ingress.namespace, &ingress.name)).collect()
}

fn address_of(service: &Value) -> Option<Ipv4Addr> {
    service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str()?.parse().ok()
}

/// Returns the address to assign per load balancer, by index into `balancers`. Pure: no I/O, no clock.
fn decide(balancers: &[Value]) -> Vec<(usize, Ipv4Addr)> {
    let mut taken: HashSet<Ipv4Addr> = balancers.iter().filter_map(address_of).collect();
    let mut given = Vec::new();
    for (at, service) in balancers.iter().enumerate() {
        // Skip Services that have an address or name another `loadBalancerClass`.
        if address_of(service).is_some() || !service["spec"]["loadBalancerClass"].is_null() {
            continue;
        }
        let asked = service["spec"]["loadBalancerIP"].as_str().and_then(|ip| ip.parse().ok());
        let free = || ADDRESS_RANGE.map(Ipv4Addr::from).find(|address| !taken.contains(address));
        if let Some(address) = asked.or_else(free) {
            taken.insert(address);
            given.push((at, address));
        }
    }
    given
}

async fn assign_addresses(context: &Context) -> Result<(), ReconcileError> {
    let objects = context.store.select(SERVICES, None, |service| !service.is_deleting);
    let objects: Vec<_> = objects.into_iter().filter(|service| is_load_balancer(service)).collect();
    let balancers: Vec<Value> = objects.iter().map(|object| object.value()).collect();
    for (at, address) in decide(&balancers) {
        let tell = |reason, message: &str| {
            let about = InvolvedObject::new("v1", "Service", &objects[at]);
            context.events.normal("service-controller", about, reason, message);
        };
        tell("EnsuringLoadBalancer", "Ensuring load balancer");
        let mut service = balancers[at].clone();
        service["status"]["loadBalancer"] = json!({"ingress": [{"ip": address, "ipMode": "VIP"}]});
        context.client.update(Component::ControllerManager, ObjectPart::Status, service).await?;
        tell("EnsuredLoadBalancer", "Ensured load balancer");
    }
    Ok(())
}

fn is_load_balancer(service: &Object) -> bool {
    service.view::<Service>().spec.r#type == "LoadBalancer"
}

/// Creates the default IngressClass.
async fn ensure_class(context: &Context) -> Result<(), ReconcileError> {
    if context.store.get(CLASSES, "", CLASS).is_none() {
        let class = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
            "metadata": {
                "name": CLASS, "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"},
            },
            "spec": {"controller": "longshore.dev/simulated"},
        });
        context.client.create(Component::ControllerManager, class).await?;
    }
    Ok(())
}

async fn publish_ingress_address(context: &Context, key: &Key) -> Result<(), ReconcileError> {
    let Some(object) = context.store.get(INGRESSES, &key.namespace, &key.name) else { return Ok(()) };
    let mut ingress = object.value();
    let old = &ingress["metadata"]["annotations"]["kubernetes.io/ingress.class"];
    let ours = ingress["spec"]["ingressClassName"] == CLASS || *old == CLASS;
    let Some(address) = node_address(context).filter(|_| ours && !object.is_deleting) else { return Ok(()) };
    let wanted = json!({"ingress": [{"ip": address}]});
    if ingress["status"]["loadBalancer"] != wanted {
        ingress["status"]["loadBalancer"] = wanted;
        context.client.update(Component::ControllerManager, ObjectPart::Status, ingress).await?;
    }
    Ok(())
}

/// Returns the address of the first node.
fn node_address(context: &Context) -> Option<String> {
    let of = |node: Arc<Object>| {
        let node = node.value();
        let mut addresses = node["status"]["addresses"].as_array()?.iter();
        let internal = addresses.find(|address| address["type"] == "InternalIP")?;
        internal["address"].as_str().map(str::to_owned)
    };
    context.store.list(NODES, None).objects.into_iter().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::test_cluster::TestCluster;
    use crate::sim::Simulation;

    const SERVICES: &str = "/api/v1/namespaces/default/services";

    fn balancer(name: &str, spec: &Value) -> Value {
        let mut service = json!({"metadata": {"name": name},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
        for (key, value) in spec.as_object().into_iter().flatten() {
            service["spec"][key] = value.clone();
        }
        service
    }

    async fn world(addresses: bool) -> TestCluster {
        TestCluster::with_simulation(Simulation { nodes: 0, addresses, ..Simulation::default() }).await
    }

    async fn address(world: &TestCluster, name: &str) -> Value {
        let service = world.get(&format!("{SERVICES}/{name}")).await;
        service["status"]["loadBalancer"]["ingress"][0]["ip"].clone()
    }

    #[tokio::test]
    async fn load_balancers_get_distinct_addresses() {
        let world = world(true).await;
        for (name, spec, expected) in [
            ("a", json!({}), json!("10.97.0.1")),
            ("b", json!({}), json!("10.97.0.2")),
            ("asked", json!({"loadBalancerIP": "192.0.2.9"}), json!("192.0.2.9")),
            ("other", json!({"loadBalancerClass": "x.dev/other"}), Value::Null),
        ] {
            world.create(SERVICES, balancer(name, &spec)).await;
            assert_eq!(address(&world, name).await, expected, "{name}");
        }
        world.delete(&format!("{SERVICES}/a")).await;
        world.create(SERVICES, balancer("c", &json!({}))).await;
        assert_eq!(address(&world, "c").await, "10.97.0.1");
        world.patch(&format!("{SERVICES}/c"), json!({"spec": {"type": "ClusterIP"}})).await;
        assert_eq!(address(&world, "c").await, Value::Null);
        let told = world.list_events("default", "Service").await;
        assert!(told.contains(&"EnsuredLoadBalancer: Ensured load balancer".to_owned()));
    }

    #[tokio::test]
    async fn ingress_of_own_class_gets_node_address() {
        const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
        let world = world(true).await;
        let ingress = |name: &str| {
            let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
            json!({"metadata": {"name": name}, "spec": {"defaultBackend": backend}})
        };
        let mut other = ingress("other");
        other["spec"]["ingressClassName"] = "other".into();
        world.create(INGRESSES, ingress("a")).await;
        world.create(INGRESSES, other).await;
        let addresses = json!([{"type": "InternalIP", "address": "10.1.0.1"}]);
        let labels = json!({"sim.longshore.dev/node": "false"});
        let node = json!({"metadata": {"name": "n", "labels": labels}, "status": {"addresses": addresses}});
        world.create("/api/v1/nodes", node).await;
        let of = async |name: &str| world.get(&format!("{INGRESSES}/{name}")).await;
        assert_eq!(of("a").await["spec"]["ingressClassName"], CLASS);
        assert_eq!(of("a").await["status"]["loadBalancer"], json!({"ingress": [{"ip": "10.1.0.1"}]}));
        assert_eq!(of("other").await["status"]["loadBalancer"], json!({}));
    }

    #[tokio::test]
    async fn load_balancers_stay_pending_when_addresses_are_disabled() {
        let world = world(false).await;
        world.create(SERVICES, balancer("a", &json!({}))).await;
        assert_eq!(address(&world, "a").await, Value::Null);
        assert!(world.list("/apis/networking.k8s.io/v1/ingressclasses").await.is_empty());
    }
}
