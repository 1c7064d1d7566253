//! From files to manifests: cut into documents, told apart from hooks, and put into the order of installation.

use bytes::Bytes;
use helm_template::profile::Profile;
use helm_template::value::Str;
use helm_template::yaml::{Head, head};

use crate::hooks::{self, Hook};
use crate::render::Rendered;
use crate::scope::is_partial;
use crate::split::{split, trim};

/// One document that is not a hook.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The file that it came from.
    pub source: Str,
    pub content: Bytes,
    pub head: Head,
}

/// What the documents of all files are, each sort in the order of installation.
#[derive(Debug, Default)]
pub struct Sorted {
    pub manifests: Vec<Manifest>,
    pub hooks: Vec<Hook>,
    /// What is said to the user meanwhile.
    pub warnings: Vec<String>,
}

pub fn sort(files: &[Rendered], profile: Profile) -> Result<Sorted, String> {
    let mut files: Vec<_> = files.iter().filter(|file| !is_partial(&file.name)).collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let mut sorted = Sorted::default();
    for file in files.into_iter().filter(|file| !trim(&file.content).is_empty()) {
        for content in split(&file.content, profile) {
            let head =
                head(&content, profile).map_err(|why| format!("YAML parse error on {}: {why}", file.name))?;
            let manifest = Manifest { source: file.name.clone(), content, head };
            match hooks::of(manifest, profile) {
                hooks::Found::Manifest(manifest) => sorted.manifests.push(manifest),
                hooks::Found::Hook(hook) => sorted.hooks.push(hook),
                hooks::Found::Unknown(warning) => sorted.warnings.push(warning),
            }
        }
    }
    sorted.manifests.sort_by(|a, b| rank(&a.head.kind, profile).cmp(&rank(&b.head.kind, profile)));
    sorted.hooks.sort_by(|a, b| rank(&a.kind, profile).cmp(&rank(&b.kind, profile)));
    Ok(sorted)
}

/// Known kinds by their place, unknown ones after them by name.
fn rank(kind: &str, profile: Profile) -> (usize, &str) {
    match INSTALL_ORDER.iter().position(|known| *known == kind) {
        Some(at) if profile == Profile::Helm4 || at < WITH_HELM4 => (at, ""),
        _ => (usize::MAX, kind),
    }
}

/// What must be there before what.
const INSTALL_ORDER: &[&str] = &[
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// From here on they are in Helm 4's order only.
const WITH_HELM4: usize = 36;
