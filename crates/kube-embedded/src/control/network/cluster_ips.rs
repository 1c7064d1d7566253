//! `IPAddress` objects: one for each cluster IP of a Service.
//!
//! See also: `crate::admission::services` allocates cluster IPs. It reads the Services themselves; these
//! objects only follow.

#![warn(clippy::arithmetic_side_effects)]

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::SERVICES;
use super::service::{self, Service};
use crate::control::queue::{Action, Controller};
use crate::control::{
    Component, Context, Preconditions, Propagation, ReconcileError, ignore_not_found_or_conflict,
};
use crate::rules::network::ip;
use crate::store::{Event, Key, Object};

pub const ADDRESSES: &str = "ipaddresses.networking.k8s.io";
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
const MANAGER: &str = "ipallocator.k8s.io";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct IpAddress {
    spec: IpAddressSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct IpAddressSpec {
    parent_ref: ParentRef,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ParentRef {
    namespace: String,
    name: String,
}

/// A key is a Service whose addresses are recorded, or an `IPAddress` that is deleted when no Service has it.
pub struct ClusterIps;

impl Controller for ClusterIps {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = ADDRESSES.into();
        let addresses = context.store.list(ADDRESSES, None).objects;
        let mut keys = service::all_keys(context);
        keys.extend(addresses.iter().map(|address| Key::new(&storage, "", &address.name)));
        keys
    }

    fn keys_for_event(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        if storage.as_ref() == SERVICES {
            keys.push(Key::new(storage, &object.namespace, &object.name));
            if let Some(previous) = &event.previous {
                keys.extend(addresses(previous).map(|address| Key::new(&ADDRESSES.into(), "", &address)));
            }
        } else if storage.as_ref() == ADDRESSES {
            keys.push(Key::new(storage, "", &object.name));
            let parent = &object.view::<IpAddress>().spec.parent_ref;
            keys.push(Key::new(&SERVICES.into(), &parent.namespace, &parent.name));
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        if key.storage.as_ref() == ADDRESSES {
            release(context, key).await?;
        } else if let Some(service) = context.store.get(SERVICES, &key.namespace, &key.name) {
            for address in addresses(&service).filter(|_| !service.is_deleting) {
                // An address that belonged to another Service is released first.
                release(context, &Key::new(&ADDRESSES.into(), "", &address)).await?;
                if context.store.get(ADDRESSES, "", &address).is_none() {
                    record(context, &service, &address).await?;
                }
            }
        }
        Ok(Action::AwaitChange)
    }
}

/// The cluster IPs of a Service in canonical form.
fn addresses(service: &Object) -> impl Iterator<Item = String> {
    let addresses = service.view::<Service>().spec.cluster_ips.clone();
    addresses.into_iter().filter_map(|address| ip::parse(&address)).map(ip::canonical)
}

async fn record(context: &Context, service: &Object, address: &str) -> Result<(), ReconcileError> {
    let family = ip::parse(address).map_or("IPv4", service::ip_family);
    let document = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {"name": address, "labels": {
            "ipaddress.kubernetes.io/ip-family": family, MANAGED_BY: MANAGER,
        }},
        "spec": {"parentRef": {"resource": "services", "namespace": service.namespace, "name": service.name}},
    });
    context.client.create(Component::ApiServer, document).await?;
    Ok(())
}

async fn release(context: &Context, key: &Key) -> Result<(), ReconcileError> {
    let Some(object) = context.store.get(ADDRESSES, "", &key.name) else { return Ok(()) };
    if object.label(MANAGED_BY) != Some(MANAGER) {
        return Ok(());
    }
    let parent = &object.view::<IpAddress>().spec.parent_ref;
    let service = context.store.get(SERVICES, &parent.namespace, &parent.name);
    if !service.is_some_and(|service| addresses(&service).any(|held| *held == *key.name)) {
        let preconditions = Preconditions { uid: &object.uid, version: None };
        ignore_not_found_or_conflict(
            context.client.delete(key, preconditions, Propagation::Background).await,
        )?;
    }
    Ok(())
}
