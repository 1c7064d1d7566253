//! The manifests that a cluster administrator applies before the platform can run on a cluster.
//!
//! The server runs as ServiceAccount `longshore` and has only the rights in [`server_role`]. It cannot change these manifests: neither its
//! own role, nor the curated ones, nor the policies that guard provisioned objects. On the embedded cluster its administrator applies
//! all of them at each start ([`apply`]).

mod admission_policies;
mod approvals;
pub(crate) mod host_ports;
mod node_bootstrap_role;
mod nodes;
mod placement;
mod pools;
mod server_role;
mod tokens;
mod workloads;

use futures::future::try_join_all;
use kube::api::{Patch, PatchParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::ApiResource;
use kube::{Api, ResourceExt};
use kube_types::well_known::MANAGED_BY;
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE};
use serde::Serialize;
use serde_json::{Value, json};

use crate::roles;

/// The ServiceAccount that the server runs as, in `longshore-system`. Its roles and bindings have the same name.
pub const PLATFORM_SERVICE_ACCOUNT: &str = "longshore";

/// Why the manifests could not be applied.
#[derive(Debug, thiserror::Error)]
#[error("cannot apply {kind} `{name}`")]
pub struct ApplyError {
    kind: String,
    name: String,
    #[source]
    source: Box<kube::Error>,
}

/// All objects in the order in which they must be applied.
pub fn manifests() -> Vec<Value> {
    let mut all = vec![namespace()];
    all.extend(kube_types::definitions::all().iter().map(|definition| to_value(&definition.crd)));
    all.push(service_account());
    all.extend(roles::workspace_cluster_roles().iter().map(to_value));
    all.extend(server_role::objects());
    all.extend(node_bootstrap_role::objects());
    all.extend(admission_policies::objects());
    all.extend(nodes::objects());
    all.extend(approvals::objects());
    all.extend(placement::objects());
    all.extend(pools::objects());
    all.extend(tokens::objects());
    all.extend(workloads::objects());
    all.extend(host_ports::objects());
    all
}

/// All objects as one stream of YAML documents.
pub fn yaml() -> String {
    let document = |object: &Value| {
        let text = serde_norway::to_string(object).expect("an object of ours can be written as YAML");
        format!("---\n{text}")
    };
    manifests().iter().map(document).collect()
}

/// Applies all objects except CRDs, as an administrator of the cluster. `kube_access::crds` handles CRDs: an existing CRD of another
/// project must not be changed.
pub async fn apply(client: &kube::Client) -> Result<(), ApplyError> {
    let all = manifests().into_iter().filter(|manifest| manifest["kind"] != "CustomResourceDefinition");
    let (namespaces, rest): (Vec<_>, Vec<_>) = all.partition(|manifest| manifest["kind"] == "Namespace");
    // Only namespaces must exist before the other objects.
    for together in [namespaces, rest] {
        try_join_all(together.into_iter().map(|manifest| apply_one(client, manifest))).await?;
    }
    Ok(())
}

async fn apply_one(client: &kube::Client, manifest: Value) -> Result<(), ApplyError> {
    let object: DynamicObject =
        serde_json::from_value(manifest).expect("a manifest of ours is a Kubernetes object");
    let types = object.types.clone().unwrap_or_default();
    let kind = GroupVersionKind::try_from(&types).expect("a manifest of ours says what it is");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = object.name_any();
    api.patch(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&object))
        .await
        .map(drop)
        .map_err(|source| ApplyError { kind: kind.kind, name, source: Box::new(source) })
}

fn namespace() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": SYSTEM_NAMESPACE, "labels": labels() },
    })
}

fn service_account() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": PLATFORM_SERVICE_ACCOUNT, "namespace": SYSTEM_NAMESPACE, "labels": labels() },
    })
}

fn labels() -> Value {
    json!({ MANAGED_BY: FIELD_MANAGER })
}

fn to_value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).expect("an object of ours can be written as JSON")
}

#[cfg(test)]
mod tests;
