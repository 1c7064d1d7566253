//! How the fields of Kubernetes' own kinds are merged, where it is not field by field.
//!
//! In Kubernetes it is said by tags on its types (`patchStrategy`, `patchMergeKey`). Here it is one table; what a manifest
//! never sets (the lists in a status) is left out. Custom kinds have no such tags: their lists are replaced whole.

use serde_json::Value;

use crate::object::group;

use How::*;

/// How two values at one place become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Maps field by field, lists whole.
    Plain,
    /// Whole, even a map.
    Replace,
    /// A map of which only the wanted fields stay.
    Retain,
    /// A list whose items are known by this field.
    By(&'static str),
    /// The same, and each item as [`How::Retain`].
    ByRetaining(&'static str),
    /// A list of words in which each stands once.
    Set,
}

/// By the kind it is for (any, where it is empty), the field above and the field.
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

/// The groups of the kinds that Helm knows by type. All others are custom.
#[rustfmt::skip]
const GROUPS: &[&str] = &[
    "", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apps", "authentication.k8s.io", "authorization.k8s.io",
    "autoscaling", "batch", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "extensions",
    "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "policy",
    "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
];

/// A place in an object of some kind.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// `None` for a custom kind.
    kind: Option<&'a str>,
    field: &'a str,
    pub how: How,
}

impl<'a> Place<'a> {
    /// The whole of an object.
    pub fn of(object: &'a Value) -> Self {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let known = GROUPS.contains(&group(api_version));
        Self { kind: object["kind"].as_str().filter(|_| known), field: "", how: Plain }
    }

    /// A field of what is here.
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

    /// An item of the list that is here.
    #[must_use]
    pub fn item(self) -> Self {
        let how = if matches!(self.how, ByRetaining(_)) { Retain } else { Plain };
        Self { how, ..self }
    }
}
