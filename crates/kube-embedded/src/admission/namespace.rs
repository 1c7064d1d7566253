//! The `NamespaceLifecycle` plugin.

use super::{AdmissionRequest, Operation};
use crate::error::{ApiError, Result};
use crate::store::Store;

/// Namespaces that cannot be deleted.
const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Rejects creates in absent or terminating namespaces, and deletions of protected namespaces.
pub fn check(store: &Store, request: &AdmissionRequest<'_>) -> Result<()> {
    let resource = request.resource;
    let is_namespace = resource.group.is_empty() && resource.name.as_ref() == "namespaces";
    if is_namespace && request.operation == Operation::Delete && PROTECTED.contains(&request.name) {
        return Err(ApiError::forbidden("", "namespaces", request.name, "this namespace may not be deleted"));
    }
    if request.namespace.is_empty()
        || request.operation != Operation::Create
        || !request.subresource.is_empty()
    {
        return Ok(());
    }
    let Some(namespace) = store.get("namespaces", "", request.namespace) else {
        return Err(ApiError::not_found("", "namespaces", request.namespace));
    };
    if namespace.is_deleting {
        let name = request.namespace;
        let why = format!("unable to create new content in namespace {name} because it is being terminated");
        let cause = format!("namespace {name} is being terminated");
        return Err(ApiError::forbidden(&resource.group, &resource.name, request.name, why).with_cause(
            "NamespaceTerminating",
            &cause,
            "metadata.namespace",
        ));
    }
    Ok(())
}
