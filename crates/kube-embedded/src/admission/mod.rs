//! Admission of writes, between decoding and the store.
//!
//! Steps: mutating admission ([`mutate`]), allocation of values that only the server has ([`reserve`]), and after the validation of the
//! kind validating admission ([`validate`]). Changes of quotas are committed in the transaction of the write.

pub mod defaults;
pub(crate) mod errors;
pub mod limits;
pub mod namespace;
pub mod node_limits;
pub mod nodes;
pub mod pod_security;
pub mod quota;
pub mod services;

use serde_json::Value;

use crate::access::{User, csr, escalation};
use crate::cluster::Cluster;
use crate::crd;
use crate::error::Result;
use crate::policy::ParamSource;
use crate::schema::resources::Resource;
use crate::store::Change;

const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// Attributes of a write for admission.
pub struct AdmissionRequest<'a> {
    pub operation: Operation,
    pub resource: &'a Resource,
    /// Empty for the main resource.
    pub subresource: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    pub name: &'a str,
    pub user: &'a User,
    pub old: Option<&'a Value>,
    pub dry_run: bool,
}

impl AdmissionRequest<'_> {
    /// Whether this is the main resource of a built-in kind.
    fn is_builtin_kind(&self, group: &str, kind: &str) -> bool {
        !self.resource.is_custom()
            && self.subresource.is_empty()
            && self.resource.group.as_ref() == group
            && self.resource.kind.as_ref() == kind
    }
}

/// Runs mutating admission, which sets fields that depend on other objects of the cluster.
pub fn mutate(cluster: &Cluster, request: &AdmissionRequest<'_>, object: &mut Value) -> Result<()> {
    let store = cluster.store();
    namespace::check(store, request)?;
    nodes::check(store, request, Some(object))?;
    if request.operation == Operation::Create && !request.resource.has_verb("create") {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(errors::forbidden(request, object, why.to_owned()));
    }
    match (request.operation, request.old) {
        (Operation::Create, _) => {
            if request.is_builtin_kind("", "Pod") {
                defaults::set_priority(store, request.name, object)?;
                defaults::set_service_account(object);
                limits::mutate(store, request, object);
                defaults::add_default_tolerations(object);
            } else if request.is_builtin_kind("", "PersistentVolumeClaim") {
                defaults::set_storage_class(store, object);
            } else if request.is_builtin_kind("networking.k8s.io", "Ingress") {
                defaults::set_ingress_class(store, object);
            } else if request.is_builtin_kind("", "Node") {
                nodes::label_not_simulated(request.user, object);
                defaults::add_not_ready_taint(object);
            } else if request.is_builtin_kind("certificates.k8s.io", "CertificateSigningRequest") {
                csr::set_requester(request.user, object);
            }
            if !request.resource.is_custom() && request.subresource.is_empty() {
                defaults::add_storage_finalizer(&request.resource.kind, object);
            }
        }
        (Operation::Update, Some(old)) if request.is_builtin_kind("", "Pod") => {
            defaults::keep_priority(object, old);
            defaults::add_default_tolerations(object);
        }
        (Operation::Update, _) if request.subresource == "resize" => limits::mutate(store, request, object),
        _ => {}
    }
    escalation::check(cluster.authorizer(), request, object)
}

/// Values reserved for a write until it is over; dropping it releases them.
#[must_use = "what is not held is free for others"]
pub struct AdmissionReservation {
    _services: Option<services::ServiceReservation>,
}

/// Allocates addresses and ports of Services.
pub fn reserve(
    cluster: &Cluster,
    request: &AdmissionRequest<'_>,
    object: &mut Value,
) -> Result<AdmissionReservation> {
    if !request.is_builtin_kind("", "Service") {
        return Ok(AdmissionReservation { _services: None });
    }
    let (store, allocator) = (cluster.store(), cluster.services());
    let services = match request.old {
        Some(old) => allocator.update(store, object, old, request.dry_run)?,
        None => allocator.create(store, object, request.dry_run)?,
    };
    Ok(AdmissionReservation { _services: Some(services) })
}

/// Sets the status of a CRD, which accepts its names unless other CRDs have them.
pub fn establish(cluster: &Cluster, request: &AdmissionRequest<'_>, object: &mut Value) {
    if request.resource.storage.as_ref() != CRDS {
        return;
    }
    // A dry run accepts no names.
    if !request.dry_run {
        let stored = cluster.store().list(CRDS, None).objects;
        let others: Vec<Value> = stored
            .iter()
            .filter(|other| other.name.as_ref() != request.name)
            .map(|other| other.value())
            .collect();
        crd::status::set_names_and_conditions(object, &others, cluster.clock().now());
    }
    if request.subresource.is_empty() {
        crd::status::record_stored_version(object);
    }
}

/// Runs validating admission; returns the changes to commit with the write.
pub fn validate(
    cluster: &Cluster,
    request: &AdmissionRequest<'_>,
    object: Option<&Value>,
    warn: &mut dyn FnMut(String),
) -> Result<Vec<Change>> {
    let store = cluster.store();
    namespace::check(store, request)?;
    if request.operation == Operation::Delete && request.is_builtin_kind("scheduling.k8s.io", "PriorityClass")
    {
        defaults::reject_system_class_deletion(request.name)?;
    }
    if request.operation == Operation::Delete {
        nodes::check(store, request, None)?;
    }
    if let Some(object) = object {
        limits::validate(store, request, object)?;
        pod_security::check(store, request, object)?.into_iter().for_each(&mut *warn);
        if request.operation == Operation::Create
            && request.is_builtin_kind("certificates.k8s.io", "CertificateSigningRequest")
        {
            csr::check_create(object)?;
        }
        node_limits::check(store, request, object)?;
        if request.is_builtin_kind("scheduling.k8s.io", "PriorityClass") {
            defaults::reject_second_default_class(store, object, request.old)?;
        }
        if let (true, Some(old)) = (request.is_builtin_kind("", "PersistentVolumeClaim"), request.old) {
            defaults::validate_claim_resize(store, object, old)?;
        }
    }
    evaluate_policies(cluster, request, object, warn)?;
    match object {
        Some(object) => quota::charge(store, request, Some(object), cluster.clock().now()),
        None => Ok(Vec::new()),
    }
}

/// Evaluates `ValidatingAdmissionPolicies` only. No other validating admission applies to requests that store nothing, such as a
/// `TokenRequest`.
pub fn evaluate_policies(
    cluster: &Cluster,
    request: &AdmissionRequest<'_>,
    object: Option<&Value>,
    warn: &mut dyn FnMut(String),
) -> Result<()> {
    let kinds = |api_version: &str, kind: &str| {
        let registry = cluster.registry();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let found = registry.by_kind(group, version, kind)?;
        Some(ParamSource { storage: found.storage.clone(), namespaced: found.namespaced })
    };
    cluster.policies().evaluate(cluster.store(), request, object, &kinds)?.into_iter().for_each(warn);
    Ok(())
}

/// Returns the changes to commit with the removal of an object.
pub fn on_delete(cluster: &Cluster, request: &AdmissionRequest<'_>) -> Vec<Change> {
    quota::charge(cluster.store(), request, None, cluster.clock().now()).unwrap_or_default()
}
