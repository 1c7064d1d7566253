//! The Service `default/kubernetes` and its one endpoint.
//!
//! They exist from the first start and are created again when they are deleted, as kube-apiserver does.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{ENDPOINTS, SERVICES, SLICES};
use crate::bootstrap;
use crate::control::queue::{Action, Controller};
use crate::control::{Component, Context, ObjectPart, ReconcileError};
use crate::store::{Event, Key};

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
/// The simulated network has no reachable addresses: this one is from a range reserved for documentation.
const ADDRESS: &str = "192.0.2.1";

pub struct Kubernetes;

impl Controller for Kubernetes {
    fn initial_keys(&self, _: &Context) -> Vec<Key> {
        vec![Key::new(&SERVICES.into(), NAMESPACE, NAME)]
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let ours = [SERVICES, ENDPOINTS, SLICES].contains(&storage.as_ref());
        if ours && event.object.name.as_ref() == NAME && event.object.namespace.as_ref() == NAMESPACE {
            keys.extend(self.initial_keys(context));
        }
    }

    async fn reconcile(&self, context: &Context, _: &Key) -> Result<Action, ReconcileError> {
        if context.store.get(SERVICES, NAMESPACE, NAME).is_none() {
            context.client.create(Component::ApiServer, bootstrap::kubernetes_service()).await?;
        }
        ensure(context, ENDPOINTS, endpoints(), &["subsets"]).await?;
        ensure(context, SLICES, slice(), &["endpoints", "ports"]).await?;
        Ok(Action::AwaitChange)
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
async fn ensure(
    context: &Context,
    storage: &str,
    desired: Value,
    parts: &[&str],
) -> Result<(), ReconcileError> {
    let Some(object) = context.store.get(storage, NAMESPACE, NAME) else {
        context.client.create(Component::ApiServer, desired).await?;
        return Ok(());
    };
    let mut document = object.value();
    let mut changed = document["metadata"]["labels"] != desired["metadata"]["labels"];
    document["metadata"]["labels"] = desired["metadata"]["labels"].clone();
    for part in parts {
        changed |= document[part] != desired[part];
        document[part] = desired[part].clone();
    }
    if changed {
        context.client.update(Component::ApiServer, ObjectPart::Main, document).await?;
    }
    Ok(())
}
