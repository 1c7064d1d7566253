//! What people can ask for: pools, which node is in which, and the autonomy of nodes.
//!
//! Always true: the actor is asked before anything is written, by whose the thing is as the cluster has it at that moment. Nodes
//! and pools are written by the platform itself, because tenants have no right on them in Kubernetes.

use domain::Actor;
use domain::actor::{Place, Refusal};
use domain::ids::WorkspaceName;
use domain::roles::Capability;
use kube::core::ObjectMeta;
use kube_types::marks::TENANT;

use crate::Error;

mod nodes;
mod pools;

pub use pools::{PoolChange, PoolWish};

const NODE: &str = "node";
const POOL: &str = "node pool";

/// Whether somebody may do `what` to nodes and pools of that tenant, or of nobody.
fn may(actor: &Actor, what: Capability, tenant: Option<&str>) -> Result<(), Refusal> {
    // What is no name of a workspace is nobody's: only the platform's own people may.
    match tenant.and_then(|tenant| tenant.parse::<WorkspaceName>().ok()) {
        Some(workspace) => actor.may(what, Place::Workspace(&workspace)),
        None => actor.may(what, Place::Platform),
    }
}

/// Whether somebody may change a thing, which is not there for those who may not see it.
fn may_change(actor: &Actor, tenant: Option<&str>, kind: &'static str, name: &str) -> Result<(), Error> {
    if may(actor, Capability::ReadNodes, tenant).is_err() {
        return Err(not_found(kind, name));
    }
    Ok(may(actor, Capability::ManageNodes, tenant)?)
}

fn tenant_of(metadata: &ObjectMeta) -> Option<&str> {
    let tenant = metadata.labels.as_ref().and_then(|labels| labels.get(TENANT))?;
    Some(tenant.as_str()).filter(|tenant| !tenant.is_empty())
}

fn not_found(kind: &'static str, name: &str) -> Error {
    Error::NotFound { kind, name: domain::ids::shortened(name) }
}

/// What to say where a write was refused.
fn refused(error: kube::Error, kind: &'static str, name: &str) -> Error {
    match &error {
        kube::Error::Api(status) if status.code == 404 => not_found(kind, name),
        kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists" => {
            Error::Conflict(format!("there is a {kind} `{name}` already"))
        }
        kube::Error::Api(status) if status.code == 409 => Error::Changed(format!("{kind} `{name}`")),
        kube::Error::Api(status) if matches!(status.code, 400 | 422) => {
            Error::Invalid(status.message.clone())
        }
        _ => error.into(),
    }
}

/// Whether this can be in the path of a request: the name of a node or of a pool.
fn is_name(name: &str) -> bool {
    let well = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 253
        && name.bytes().next().is_some_and(well)
        && name.bytes().last().is_some_and(well)
        && name.bytes().all(|byte| well(byte) || byte == b'-' || byte == b'.')
}

#[cfg(test)]
mod tests;
