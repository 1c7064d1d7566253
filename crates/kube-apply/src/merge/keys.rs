//! Merge strategies of fields of Kubernetes' own kinds that are not merged field by field.
//!
//! In Kubernetes these are struct tags (`patchStrategy`, `patchMergeKey`). This table omits fields that manifests
//! never set, such as lists in a status. Custom resources have no tags: their lists are replaced.

use serde_json::Value;

use crate::object::group;

use How::*;

/// Merge strategy of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Maps field by field, lists replaced.
    Plain,
    /// Replaced as a whole, also maps.
    Replace,
    /// A map that keeps only the desired fields (`retainKeys`).
    Retain,
    /// A list merged by this key.
    By(&'static str),
    /// A list merged by this key, whose items are merged as [`How::Retain`].
    ByRetaining(&'static str),
    /// A list of unique strings.
    Set,
}

/// Columns: kind (empty matches any), parent field, field, strategy.
#[rustfmt::skip]
const TABLE: &[(&str, &str, &str, How)] = &[
    ("", "metadata", "finalizers",      Set),
    ("", "metadata", "ownerReferences", By("uid")),

    ("", "spec", "containers",                By("name")),
    ("", "spec", "initContainers",            By("name")),
    ("", "spec", "ephemeralContainers",       By("name")),
    ("", "spec", "volumes",                   ByRetaining("name")),
    ("", "spec", "resourceClaims",            ByRetaining("name")),
    ("", "spec", "imagePullSecrets",          By("name")),
    ("", "spec", "hostAliases",               By("ip")),
    ("", "spec", "schedulingGates",           By("name")),
    ("", "spec", "topologySpreadConstraints", By("topologyKey")),
    ("", "containers", "env",           By("name")),
    ("", "containers", "ports",         By("containerPort")),
    ("", "containers", "volumeMounts",  By("mountPath")),
    ("", "containers", "volumeDevices", By("devicePath")),

    ("Service",             "spec", "ports",    By("port")),
    ("Deployment",          "spec", "strategy", Retain),
    ("PodDisruptionBudget", "spec", "selector", Replace),
    ("ServiceAccount",      "",     "secrets",  By("name")),
    ("MutatingWebhookConfiguration",   "", "webhooks", By("name")),
    ("ValidatingWebhookConfiguration", "", "webhooks", By("name")),
    ("", "webhooks", "matchConditions", By("name")),
    ("MutatingAdmissionPolicy",   "spec", "matchConditions", By("name")),
    ("ValidatingAdmissionPolicy", "spec", "matchConditions", By("name")),
    ("ValidatingAdmissionPolicy", "spec", "variables",       By("name")),
];

/// API groups that Helm has Go types for. All others count as custom resources.
#[rustfmt::skip]
const GROUPS: &[&str] = &[
    "", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apps", "authentication.k8s.io", "authorization.k8s.io",
    "autoscaling", "batch", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "extensions",
    "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "policy",
    "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
];

/// A path in an object of some kind.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// `None` for a custom resource.
    kind: Option<&'a str>,
    field: &'a str,
    pub how: How,
}

impl<'a> Place<'a> {
    /// The root of an object.
    pub fn of(object: &'a Value) -> Self {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let known = GROUPS.contains(&group(api_version));
        Self { kind: object["kind"].as_str().filter(|_| known), field: "", how: Plain }
    }

    /// A field of the current value.
    #[must_use]
    pub fn below(self, field: &'a str) -> Self {
        let above = match self.field {
            "initContainers" | "ephemeralContainers" => "containers",
            other => other,
        };
        let row = self.kind.and_then(|kind| {
            let fits = |of: &str| of.is_empty() || of == kind;
            TABLE.iter().find(|row| fits(row.0) && row.1 == above && row.2 == field)
        });
        Self { field, how: row.map_or(Plain, |row| row.3), ..self }
    }

    /// An item of the current list.
    #[must_use]
    pub fn item(self) -> Self {
        let how = if matches!(self.how, ByRetaining(_)) { Retain } else { Plain };
        Self { how, ..self }
    }
}
