//! The Service `default/kubernetes` and its one endpoint.
//!
//! They exist from the first start and are created again when they are deleted, as kube-apiserver does.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{ENDPOINTS, SERVICES, SLICES};
use crate::bootstrap;
use crate::control::queue::{Controller, Next};
use crate::control::{Component, Context, Failure, Part};
use crate::store::{Event, Key};

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
/// The simulated network has no reachable addresses: this one is from a range reserved for documentation.
const ADDRESS: &str = "192.0.2.1";

pub struct Kubernetes;

impl Controller for Kubernetes {
    fn everything(&self, _: &Context) -> Vec<Key> {
        vec![Key::new(&SERVICES.into(), NAMESPACE, NAME)]
    }

    fn touched(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let ours = [SERVICES, ENDPOINTS, SLICES].contains(&storage.as_ref());
        if ours && event.object.name.as_ref() == NAME && event.object.namespace.as_ref() == NAMESPACE {
            keys.extend(self.everything(context));
        }
    }

    async fn sync(&self, context: &Context, _: &Key) -> Result<Next, Failure> {
        if context.store.get(SERVICES, NAMESPACE, NAME).is_none() {
            context.actor.create(Component::ApiServer, bootstrap::kubernetes_service()).await?;
        }
        ensure(context, ENDPOINTS, endpoints(), &["subsets"]).await?;
        ensure(context, SLICES, slice(), &["endpoints", "ports"]).await?;
        Ok(Next::Rest)
    }
}

fn port() -> Value {
    json!({"name": "https", "port": bootstrap::API_PORT, "protocol": "TCP"})
}

fn endpoints() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": NAME, "namespace": NAMESPACE,
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{"addresses": [{"ip": ADDRESS}], "ports": [port()]}],
    })
}

fn slice() -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": NAME, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": NAME},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": true}}],
        "ports": [port()],
    })
}

/// Creates an object, or restores its labels and the named fields.
async fn ensure(context: &Context, storage: &str, wanted: Value, parts: &[&str]) -> Result<(), Failure> {
    let Some(object) = context.store.get(storage, NAMESPACE, NAME) else {
        context.actor.create(Component::ApiServer, wanted).await?;
        return Ok(());
    };
    let mut document = object.value();
    let mut changed = document["metadata"]["labels"] != wanted["metadata"]["labels"];
    document["metadata"]["labels"] = wanted["metadata"]["labels"].clone();
    for part in parts {
        changed |= document[part] != wanted[part];
        document[part] = wanted[part].clone();
    }
    if changed {
        context.actor.update(Component::ApiServer, Part::Main, document).await?;
    }
    Ok(())
}
