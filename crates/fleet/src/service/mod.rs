//! Writes on behalf of users: pools, desired pools of nodes, autonomy.
//!
//! Invariant: the actor is authorised before every write, by the current owner of the object in the cluster. The
//! platform writes nodes and pools with its own permissions, because tenants have none on them in Kubernetes.

use domain::Actor;
use domain::actor::{AccessScope, AuthorizationError};
use domain::ids::WorkspaceName;
use domain::roles::Capability;
use kube::core::ObjectMeta;
use kube_types::well_known::TENANT;

use crate::Error;

mod nodes;
mod pools;

pub use pools::{CreatePool, UpdatePool};

const NODE: &str = "node";
const POOL: &str = "node pool";

/// Checks `what` on nodes and pools of this tenant, or without a tenant.
fn authorize(actor: &Actor, what: Capability, tenant: Option<&str>) -> Result<(), AuthorizationError> {
    // A tenant that is not a workspace name owns nothing: only platform roles apply.
    match tenant.and_then(|tenant| tenant.parse::<WorkspaceName>().ok()) {
        Some(workspace) => actor.authorize(what, AccessScope::Workspace(&workspace)),
        None => actor.authorize(what, AccessScope::Platform),
    }
}

/// Checks that the actor may change an object. An object that the actor may not see is reported as not found.
fn authorize_change(
    actor: &Actor,
    tenant: Option<&str>,
    kind: &'static str,
    name: &str,
) -> Result<(), Error> {
    if authorize(actor, Capability::ReadNodes, tenant).is_err() {
        return Err(not_found(kind, name));
    }
    Ok(authorize(actor, Capability::ManageNodes, tenant)?)
}

fn tenant_of(metadata: &ObjectMeta) -> Option<&str> {
    let tenant = metadata.labels.as_ref().and_then(|labels| labels.get(TENANT))?;
    Some(tenant.as_str()).filter(|tenant| !tenant.is_empty())
}

fn not_found(kind: &'static str, name: &str) -> Error {
    Error::NotFound { kind, name: domain::ids::truncate_for_error(name) }
}

/// Converts the error of a write.
fn write_error(error: kube::Error, kind: &'static str, name: &str) -> Error {
    match &error {
        kube::Error::Api(status) if status.code == 404 => not_found(kind, name),
        kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists" => {
            Error::Conflict(format!("{kind} `{name}` already exists"))
        }
        kube::Error::Api(status) if status.code == 409 => {
            Error::ModifiedConcurrently(format!("{kind} `{name}`"))
        }
        kube::Error::Api(status) if matches!(status.code, 400 | 422) => {
            Error::Invalid(status.message.clone())
        }
        _ => error.into(),
    }
}

/// Whether the text is a valid name of a node or pool, safe in a request path.
fn is_valid_name(name: &str) -> bool {
    let well = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 253
        && name.bytes().next().is_some_and(well)
        && name.bytes().last().is_some_and(well)
        && name.bytes().all(|byte| well(byte) || byte == b'-' || byte == b'.')
}

#[cfg(test)]
mod tests;
