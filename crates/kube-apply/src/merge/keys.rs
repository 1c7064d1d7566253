//! Merge strategies of fields of Kubernetes' own kinds that are not merged field by field.
//!
//! In Kubernetes these are struct tags (`patchStrategy`, `patchMergeKey`). This table omits fields that manifests
//! never set, such as lists in a status. Custom resources have no tags: their lists are replaced.

use serde_json::Value;

use crate::object::group;

use MergeStrategy::*;

/// Merge strategy of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeStrategy {
    /// Maps field by field, lists replaced.
    Plain,
    /// Replaced as a whole, also maps.
    Replace,
    /// A map that keeps only the desired fields (`retainKeys`).
    RetainKeys,
    /// A list merged by this key.
    ByKey(&'static str),
    /// A list merged by this key, whose items are merged as [`MergeStrategy::RetainKeys`].
    ByKeyRetaining(&'static str),
    /// A list of unique strings.
    Set,
}

/// Columns: kind (empty matches any), parent field, field, strategy.
#[rustfmt::skip]
const FIELD_STRATEGIES: &[(&str, &str, &str, MergeStrategy)] = &[
    ("", "metadata", "finalizers",      Set),
    ("", "metadata", "ownerReferences", ByKey("uid")),

    ("", "spec", "containers",                ByKey("name")),
    ("", "spec", "initContainers",            ByKey("name")),
    ("", "spec", "ephemeralContainers",       ByKey("name")),
    ("", "spec", "volumes",                   ByKeyRetaining("name")),
    ("", "spec", "resourceClaims",            ByKeyRetaining("name")),
    ("", "spec", "imagePullSecrets",          ByKey("name")),
    ("", "spec", "hostAliases",               ByKey("ip")),
    ("", "spec", "schedulingGates",           ByKey("name")),
    ("", "spec", "topologySpreadConstraints", ByKey("topologyKey")),
    ("", "containers", "env",           ByKey("name")),
    ("", "containers", "ports",         ByKey("containerPort")),
    ("", "containers", "volumeMounts",  ByKey("mountPath")),
    ("", "containers", "volumeDevices", ByKey("devicePath")),

    ("Service",             "spec", "ports",    ByKey("port")),
    ("Deployment",          "spec", "strategy", RetainKeys),
    ("PodDisruptionBudget", "spec", "selector", Replace),
    ("ServiceAccount",      "",     "secrets",  ByKey("name")),
    ("MutatingWebhookConfiguration",   "", "webhooks", ByKey("name")),
    ("ValidatingWebhookConfiguration", "", "webhooks", ByKey("name")),
    ("", "webhooks", "matchConditions", ByKey("name")),
    ("MutatingAdmissionPolicy",   "spec", "matchConditions", ByKey("name")),
    ("ValidatingAdmissionPolicy", "spec", "matchConditions", ByKey("name")),
    ("ValidatingAdmissionPolicy", "spec", "variables",       ByKey("name")),
];

/// API groups that Helm has Go types for. All others count as custom resources.
#[rustfmt::skip]
const BUILTIN_GROUPS: &[&str] = &[
    "", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apps", "authentication.k8s.io", "authorization.k8s.io",
    "autoscaling", "batch", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "extensions",
    "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "policy",
    "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
];

/// A path in an object of some kind.
#[derive(Clone, Copy, Debug)]
pub struct MergePath<'a> {
    /// `None` for a custom resource.
    kind: Option<&'a str>,
    field: &'a str,
    pub strategy: MergeStrategy,
}

impl<'a> MergePath<'a> {
    /// The root of an object.
    pub fn root(object: &'a Value) -> Self {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let known = BUILTIN_GROUPS.contains(&group(api_version));
        Self { kind: object["kind"].as_str().filter(|_| known), field: "", strategy: Plain }
    }

    /// A field of the current value.
    #[must_use]
    pub fn child(self, field: &'a str) -> Self {
        let above = match self.field {
            "initContainers" | "ephemeralContainers" => "containers",
            other => other,
        };
        let row = self.kind.and_then(|kind| {
            let fits = |of: &str| of.is_empty() || of == kind;
            FIELD_STRATEGIES.iter().find(|row| fits(row.0) && row.1 == above && row.2 == field)
        });
        Self { field, strategy: row.map_or(Plain, |row| row.3), ..self }
    }

    /// An item of the current list.
    #[must_use]
    pub fn item(self) -> Self {
        let how = if matches!(self.strategy, ByKeyRetaining(_)) { RetainKeys } else { Plain };
        Self { strategy: how, ..self }
    }
}
