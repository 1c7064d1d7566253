//! `longshore node reset`: leaves the cluster. Deletes the Node and Lease as far as permitted, deletes the key, and
//! reports what remains.
//!
//! Kubernetes may refuse that a node deletes itself. The command then sets the Node not ready and annotates it as
//! leaving. It deletes the Lease in any case.

use domain::clock::{Clock, SystemClock};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use kube_types::well_known::{NODE_LEAVING, TENANT};
use serde_json::json;

use super::clients::{self, ErrorMessage, status_code};
use super::join::PrintLine;
use super::state_dir::StateDir;
use super::{NodeError, ResetArgs, machine};

pub(super) async fn run(args: &ResetArgs, say: PrintLine<'_>) -> Result<(), NodeError> {
    let folder = StateDir::open(&args.dir)?;
    let (name, server) = (folder.machine.name.clone(), folder.machine.server.clone());
    let left = match folder.identity()? {
        None => None,
        Some(identity) => match clients::node(&identity) {
            Ok(client) => delete_node(&client, &name, &folder.machine.id).await.err(),
            Err(error) => Some(error.into()),
        },
    };
    folder.remove_all()?;
    say(&format!("deleted the key and certificate of node `{name}` of {server}"))?;
    match left {
        None => Ok(()),
        Some(why) => say(&format!(
            "node `{name}` still exists and must be deleted by its owner or an administrator: {why}"
        )),
    }
}

/// Deletes Node and Lease. The error says why the Node still exists. The Node of another machine is left unchanged.
async fn delete_node(client: &Client, name: &str, id: &str) -> Result<(), ErrorMessage> {
    let nodes: Api<Node> = Api::all(client.clone());
    let Some(node) = nodes.get_opt(name).await? else { return Ok(()) };
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    if info.is_none_or(|info| info.machine_id != id) {
        return Err(ErrorMessage::new("it is registered by another machine"));
    }
    let gone = match nodes.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(error) if status_code(&error) == 404 => Ok(()),
        Err(error) => {
            let left = Patch::Strategic(machine::leaving_status_patch(&node, SystemClock.now()));
            nodes.patch_status(name, &PatchParams::default(), &left).await?;
            // The platform deletes a tenant's Node with this annotation.
            let leaves = Patch::Merge(json!({ "metadata": { "annotations": { NODE_LEAVING: "true" } } }));
            nodes.patch(name, &PatchParams::default(), &leaves).await?;
            let of_tenant = node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(TENANT));
            if of_tenant { Ok(()) } else { Err(error.into()) }
        }
    };
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    match leases.delete(name, &DeleteParams::default()).await {
        Err(error) if status_code(&error) != 404 => Err(error.into()),
        _ => gone,
    }
}
