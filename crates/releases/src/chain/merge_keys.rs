//! Which lists of the built-in kinds are merged element by element, and by which key.
//!
//! It is the `patchMergeKey` of Kubernetes' types, for what a manifest can have. Lists of all other kinds are replaced
//! as a whole: there is nothing that says how to merge them.

/// How a list is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Elements with the same value of this field are the same element.
    By(&'static str),
    /// Texts, each of which is there once.
    Set,
}

use Merge::{By, Set};

/// The field that a list is in, empty where that does not matter; the list; how it is merged.
#[rustfmt::skip]
const LISTS: &[(&str, &str, Merge)] = &[
    ("spec",                "containers",                By("name")),
    ("spec",                "initContainers",            By("name")),
    ("spec",                "ephemeralContainers",       By("name")),
    ("spec",                "volumes",                   By("name")),
    ("spec",                "imagePullSecrets",          By("name")),
    ("spec",                "hostAliases",               By("ip")),
    ("spec",                "resourceClaims",            By("name")),
    ("spec",                "schedulingGates",           By("name")),
    ("spec",                "topologySpreadConstraints", By("topologyKey")),
    ("containers",          "env",                       By("name")),
    ("containers",          "ports",                     By("containerPort")),
    ("containers",          "volumeMounts",              By("mountPath")),
    ("containers",          "volumeDevices",             By("devicePath")),
    ("initContainers",      "env",                       By("name")),
    ("initContainers",      "ports",                     By("containerPort")),
    ("initContainers",      "volumeMounts",              By("mountPath")),
    ("initContainers",      "volumeDevices",             By("devicePath")),
    ("metadata",            "finalizers",                Set),
    ("metadata",            "ownerReferences",           By("uid")),
];

/// Lists of certain kinds only, where the same words mean something else in others.
#[rustfmt::skip]
const OF_KINDS: &[(&str, &str, &str, Merge)] = &[
    ("Service",                          "spec",     "ports",           By("port")),
    ("ServiceAccount",                   "",         "secrets",         By("name")),
    ("MutatingWebhookConfiguration",     "",         "webhooks",        By("name")),
    ("ValidatingWebhookConfiguration",   "",         "webhooks",        By("name")),
    ("MutatingWebhookConfiguration",     "webhooks", "matchConditions", By("name")),
    ("ValidatingWebhookConfiguration",   "webhooks", "matchConditions", By("name")),
    ("MutatingAdmissionPolicy",          "spec",     "matchConditions", By("name")),
    ("ValidatingAdmissionPolicy",        "spec",     "matchConditions", By("name")),
    ("ValidatingAdmissionPolicy",        "spec",     "variables",       By("name")),
];

/// Groups of Kubernetes itself whose names have no `k8s.io` in them.
const PLAIN_GROUPS: &[&str] = &["", "apps", "autoscaling", "batch", "extensions", "policy"];

/// How the list `field` inside `parent` is merged in objects of a kind; `None`: it is replaced.
pub fn merge(group: &str, kind: &str, parent: &str, field: &str) -> Option<Merge> {
    if parent == "metadata" {
        // Every object has Kubernetes' metadata.
        return LISTS.iter().find(|row| (row.0, row.1) == (parent, field)).map(|row| row.2);
    }
    if !PLAIN_GROUPS.contains(&group) && !group.ends_with(".k8s.io") {
        return None;
    }
    let of_kind = OF_KINDS.iter().find(|row| (row.0, row.1, row.2) == (kind, parent, field));
    of_kind
        .map(|row| row.3)
        .or_else(|| LISTS.iter().find(|row| (row.0, row.1) == (parent, field)).map(|row| row.2))
}
