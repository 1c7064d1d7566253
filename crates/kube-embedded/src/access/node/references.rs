//! References of the pods on a node to other objects.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::super::{items, text};
use super::{MIRROR, RelatedKind};
use crate::control::view::Pod;
use crate::control::volumes::view::Volume;
use crate::store::{Object, Store};

/// Volume types of pods and persistent volumes that name a Secret under `secretRef`.
const SECRET_VOLUMES: [&str; 7] = ["cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"];
/// Secret references of CSI volumes that the kubelet uses.
const CSI_SECRETS: [&str; 3] = ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"];

/// Names of the objects that a pod refers to. Computed once per version of a pod and cached with its view: every request of a node reads
/// all its pods in a namespace.
#[derive(Debug)]
pub(crate) struct PodReferences {
    service_account: String,
    claims: HashSet<String>,
    config_maps: HashSet<String>,
    secrets: HashSet<String>,
}

impl PodReferences {
    fn from_pod(pod: &Value) -> Self {
        #[cfg(test)]
        super::tests::READ_PODS.set(super::tests::READ_PODS.get() + 1);
        let owned = |name: &str| name.to_owned();
        Self {
            service_account: text(&pod["spec"], "serviceAccountName").to_owned(),
            claims: claims(pod).collect(),
            config_maps: config_maps(pod).map(owned).collect(),
            secrets: secrets(pod).map(owned).collect(),
        }
    }
}

/// Whether a pod on the node needs the object, directly or through a volume.
pub(super) fn is_related(store: &Store, node: &str, what: RelatedKind, namespace: &str, name: &str) -> bool {
    let any_pod = |is: fn(&PodReferences, &str) -> bool| {
        pods(store, node, namespace).any(|pod| is(references(&pod.0, &pod.1), name))
    };
    match what {
        RelatedKind::Pod => {
            store.get("pods", namespace, name).is_some_and(|pod| pod.view::<Pod>().spec.node_name == node)
        }
        RelatedKind::ServiceAccount => any_pod(|pod, name| pod.service_account == name),
        RelatedKind::ConfigMap => any_pod(|pod, name| pod.config_maps.contains(name)),
        RelatedKind::PersistentVolumeClaim => any_pod(|pod, name| pod.claims.contains(name)),
        RelatedKind::PersistentVolume => {
            let volume = store.get("persistentvolumes", "", name);
            volume.is_some_and(|volume| NodeClaims::new(store, node).is_bound(&volume.view::<Volume>()))
        }
        RelatedKind::Secret => {
            let mut claims = NodeClaims::new(store, node);
            any_pod(|pod, name| pod.secrets.contains(name))
                || store.list("persistentvolumes", None).objects.iter().any(|volume| {
                    claims.is_bound(&volume.view::<Volume>())
                        && names_secret(&volume.value(), namespace, name)
                })
        }
    }
}

/// Returns the node's pods in a namespace, without mirror pods, because a node writes those itself.
fn pods(store: &Store, node: &str, namespace: &str) -> impl Iterator<Item = (Arc<Pod>, Arc<Object>)> {
    let pods = store.list("pods", Some(namespace)).objects.into_iter().map(|pod| (pod.view::<Pod>(), pod));
    pods.filter(move |(pod, _)| pod.spec.node_name == node && !pod.metadata.annotations.contains_key(MIRROR))
}

fn references<'a>(pod: &'a Pod, object: &Object) -> &'a PodReferences {
    pod.references.get_or_init(|| PodReferences::from_pod(&object.value()))
}

/// Claims of the pods on a node, by namespace, read on demand.
struct NodeClaims<'a> {
    store: &'a Store,
    node: &'a str,
    by_namespace: HashMap<String, HashSet<String>>,
}

impl<'a> NodeClaims<'a> {
    fn new(store: &'a Store, node: &'a str) -> Self {
        Self { store, node, by_namespace: HashMap::new() }
    }

    /// Whether a volume is bound to one of these claims.
    fn is_bound(&mut self, volume: &Volume) -> bool {
        let Some(claim) = &volume.spec.claim_ref else { return false };
        let known = self.by_namespace.entry(claim.namespace.clone()).or_insert_with(|| {
            let pods = pods(self.store, self.node, &claim.namespace);
            pods.flat_map(|(pod, object)| references(&pod, &object).claims.clone()).collect()
        });
        !claim.name.is_empty() && known.contains(&claim.name)
    }
}

/// Whether a volume names the Secret. A reference without a namespace is in the claim's namespace.
fn names_secret(volume: &Value, namespace: &str, name: &str) -> bool {
    let spec = &volume["spec"];
    let own = text(&spec["claimRef"], "namespace");
    let is =
        |space: &str, found: &str| found == name && (if space.is_empty() { own } else { space }) == namespace;
    let in_csi = CSI_SECRETS.iter().map(|key| &spec["csi"][*key]);
    let mut all = SECRET_VOLUMES.iter().map(|key| &spec[*key]["secretRef"]).chain(in_csi);
    all.any(|reference| is(text(reference, "namespace"), text(reference, "name")))
        || is(text(&spec["azureFile"], "secretNamespace"), text(&spec["azureFile"], "secretName"))
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let kinds = ["containers", "initContainers", "ephemeralContainers"];
    kinds.into_iter().flat_map(|kind| items(&pod["spec"], kind))
}

fn volumes(pod: &Value) -> &[Value] {
    items(&pod["spec"], "volumes")
}

/// Returns the names in the environment of containers, under the keys of one kind.
fn in_environment<'a>(pod: &'a Value, one: &'a str, all: &'a str) -> impl Iterator<Item = &'a str> {
    containers(pod).flat_map(move |container| {
        let single =
            items(container, "env").iter().map(move |variable| text(&variable["valueFrom"][one], "name"));
        let whole = items(container, "envFrom").iter().map(move |source| text(&source[all], "name"));
        single.chain(whole)
    })
}

fn in_projections<'a>(volume: &'a Value, key: &'a str) -> impl Iterator<Item = &'a str> {
    items(&volume["projected"], "sources").iter().map(move |source| text(&source[key], "name"))
}

fn config_maps(pod: &Value) -> impl Iterator<Item = &str> {
    let in_volumes = volumes(pod).iter().flat_map(|volume| {
        [text(&volume["configMap"], "name")].into_iter().chain(in_projections(volume, "configMap"))
    });
    let all = in_environment(pod, "configMapKeyRef", "configMapRef").chain(in_volumes);
    all.filter(|name| !name.is_empty())
}

fn secrets(pod: &Value) -> impl Iterator<Item = &str> {
    let to_pull = items(&pod["spec"], "imagePullSecrets").iter().map(|reference| text(reference, "name"));
    let in_volumes = volumes(pod).iter().flat_map(|volume| {
        let named = [
            text(&volume["secret"], "secretName"),
            text(&volume["azureFile"], "secretName"),
            text(&volume["csi"]["nodePublishSecretRef"], "name"),
        ];
        let referred = SECRET_VOLUMES.iter().map(|key| text(&volume[*key]["secretRef"], "name"));
        named.into_iter().chain(referred).chain(in_projections(volume, "secret"))
    });
    let all = to_pull.chain(in_environment(pod, "secretKeyRef", "secretRef")).chain(in_volumes);
    all.filter(|name| !name.is_empty())
}

/// Returns the claims of a pod. An ephemeral volume's claim is named `<pod>-<volume>`.
fn claims(pod: &Value) -> impl Iterator<Item = String> {
    let own = text(&pod["metadata"], "name");
    volumes(pod).iter().filter_map(move |volume| {
        let named = text(&volume["persistentVolumeClaim"], "claimName");
        if !named.is_empty() {
            return Some(named.to_owned());
        }
        (!volume["ephemeral"].is_null()).then(|| format!("{own}-{}", text(volume, "name")))
    })
}

/// Volume types that refer to other objects, with their description.
#[rustfmt::skip]
const VOLUME_REFERENCES: [(&str, &str); 7] = [
    ("configMap",             "configmaps (via configmap volumes)"),
    ("secret",                "secrets (via secret volumes)"),
    ("csi",                   "csidrivers (via CSI volumes)"),
    ("glusterfs",             "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral",             "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile",             "secrets (via azureFile volumes)"),
];

/// Sources of projected volumes that refer to other objects, with their description.
#[rustfmt::skip]
const PROJECTED_REFERENCES: [(&str, &str); 5] = [
    ("configMap",           "configmaps (via projected volumes)"),
    ("secret",              "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle",  "clustertrustbundles"),
    ("podCertificate",      "podcertificates"),
];

/// Returns the first kind of object that a mirror pod refers to and must not, as worded in the refusal.
pub(crate) fn forbidden_reference(pod: &Value) -> Option<&'static str> {
    if !text(&pod["spec"], "serviceAccountName").is_empty() {
        return Some("serviceaccounts");
    }
    if secrets(pod).next().is_some() {
        return Some("secrets");
    }
    if config_maps(pod).next().is_some() {
        return Some("configmaps");
    }
    if !items(&pod["spec"], "resourceClaims").is_empty() {
        return Some("resourceclaims");
    }
    let in_table = |table: &[(&'static str, &'static str)], value: &Value| {
        table.iter().find(|(key, _)| !value[*key].is_null()).map(|(_, words)| *words)
    };
    volumes(pod).iter().find_map(|volume| {
        let mut gathered = items(&volume["projected"], "sources").iter();
        in_table(&VOLUME_REFERENCES, volume)
            .or_else(|| gathered.find_map(|source| in_table(&PROJECTED_REFERENCES, source)))
    })
}
