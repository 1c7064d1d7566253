//! REST strategies: differences between the kinds in DELETE, PUT and `/status`.
//!
//! Facts from the registries of Kubernetes 1.36, one function per question. Custom resources have no differences.

use crate::control::Propagation;
use crate::schema::resources::Resource;

fn is_one_of(resource: &Resource, group: &str, names: &[&str]) -> bool {
    !resource.is_custom() && resource.group.as_ref() == group && names.contains(&resource.name.as_ref())
}

/// An immediate deletion returns the object instead of a Status.
pub fn delete_returns_object(resource: &Resource) -> bool {
    const CORE: &[&str] = &[
        "namespaces",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "podtemplates",
        "resourcequotas",
        "serviceaccounts",
        "services",
    ];
    const STORAGE: &[&str] =
        &["csidrivers", "csinodes", "storageclasses", "volumeattachments", "volumeattributesclasses"];
    is_one_of(resource, "", CORE)
        || is_one_of(resource, "storage.k8s.io", STORAGE)
        || (!resource.is_custom() && resource.group.as_ref() == "resource.k8s.io")
}

/// PUT creates an object that does not exist.
pub fn creates_on_update(resource: &Resource) -> bool {
    is_one_of(resource, "", &["endpoints", "events", "limitranges", "services"])
        || is_one_of(resource, "events.k8s.io", &["events"])
        || is_one_of(resource, "coordination.k8s.io", &["leases"])
        || is_one_of(resource, "node.k8s.io", &["runtimeclasses"])
        || is_one_of(
            resource,
            "rbac.authorization.k8s.io",
            &["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
        )
}

/// PUT requires a resourceVersion.
pub fn requires_resource_version(resource: &Resource) -> bool {
    resource.is_custom()
        || is_one_of(resource, "node.k8s.io", &["runtimeclasses"])
        || is_one_of(resource, "policy", &["poddisruptionbudgets"])
        || is_one_of(
            resource,
            "storage.k8s.io",
            &["csidrivers", "csistoragecapacities", "volumeattachments", "csinodes"],
        )
        || is_one_of(resource, "coordination.k8s.io", &["leases"])
        || is_one_of(resource, "apiextensions.k8s.io", &["customresourcedefinitions"])
        || is_one_of(resource, "apiregistration.k8s.io", &["apiservices"])
        || (!resource.is_custom() && resource.group.as_ref() == "admissionregistration.k8s.io")
}

/// The metadata fields that a write to `/status` may change, besides the managed fields.
pub fn mutable_status_metadata(resource: &Resource) -> &'static [&'static str] {
    const COMMON_FIELDS: &[&str] =
        &["labels", "annotations", "ownerReferences", "finalizers", "managedFields"];
    if is_one_of(resource, "apps", &["deployments"]) {
        return &["annotations", "ownerReferences", "finalizers", "managedFields"];
    }
    if is_one_of(resource, "", &["pods"]) {
        return &["labels", "annotations", "finalizers", "managedFields"];
    }
    let restricted =
        is_one_of(resource, "flowcontrol.apiserver.k8s.io", &["flowschemas", "prioritylevelconfigurations"])
            || is_one_of(resource, "networking.k8s.io", &["servicecidrs"])
            || is_one_of(resource, "resource.k8s.io", &["resourceclaims"])
            || is_one_of(resource, "storage.k8s.io", &["volumeattachments"])
            || is_one_of(resource, "admissionregistration.k8s.io", &["validatingadmissionpolicies"])
            || is_one_of(resource, "apiextensions.k8s.io", &["customresourcedefinitions"])
            || is_one_of(resource, "apiregistration.k8s.io", &["apiservices"]);
    if restricted || resource.is_custom() { &["managedFields"] } else { COMMON_FIELDS }
}

/// The warning for deletions without a propagation policy.
pub fn deletion_warning(resource: &Resource) -> Option<&'static str> {
    is_one_of(resource, "batch", &["jobs"]).then_some(
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
    )
}

/// The etcd path of an object, which one of Kubernetes' messages contains.
pub fn etcd_path(resource: &Resource, namespace: &str, name: &str) -> String {
    let place = match (resource.group.as_ref(), resource.name.as_ref()) {
        (group, plural) if resource.is_custom() => format!("{group}/{plural}"),
        ("", "nodes") => "minions".to_owned(),
        ("", "replicationcontrollers") => "controllers".to_owned(),
        ("", "services") => "services/specs".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        (_, plural) => plural.to_owned(),
    };
    if namespace.is_empty() { format!("/{place}/{name}") } else { format!("/{place}/{namespace}/{name}") }
}

/// The propagation policy if the request has none.
pub fn default_propagation(resource: &Resource) -> Propagation {
    if is_one_of(resource, "batch", &["jobs"]) || is_one_of(resource, "", &["replicationcontrollers"]) {
        Propagation::Orphan
    } else {
        Propagation::Background
    }
}
