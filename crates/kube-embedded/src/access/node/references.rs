//! Which objects the pods on a node refer to.

use serde_json::Value;

use super::super::{items, text};
use super::{MIRROR, Related};
use crate::control::view::Pod;
use crate::store::Store;

/// Volumes of pods and of the cluster that name a Secret under `secretRef`.
const SECRET_VOLUMES: [&str; 7] = ["cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"];
/// What a volume of a CSI driver names for the kubelet's own use.
const CSI_SECRETS: [&str; 3] = ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"];

/// Whether an object is one that a pod on the node needs, itself or through its volumes.
pub(super) fn are_related(store: &Store, node: &str, what: Related, namespace: &str, name: &str) -> bool {
    match what {
        Related::Pod => {
            store.get("pods", namespace, name).is_some_and(|pod| pod.view::<Pod>().spec.node_name == node)
        }
        Related::Account => {
            any_pod(store, node, namespace, |pod| text(&pod["spec"], "serviceAccountName") == name)
        }
        Related::ConfigMap => {
            any_pod(store, node, namespace, |pod| config_maps(pod).any(|found| found == name))
        }
        Related::Claim => any_pod(store, node, namespace, |pod| claims(pod).any(|found| found == name)),
        Related::Volume => {
            let volume = store.get("persistentvolumes", "", name);
            volume.is_some_and(|volume| is_claimed(store, node, &volume.value()))
        }
        Related::Secret => {
            any_pod(store, node, namespace, |pod| secrets(pod).any(|found| found == name))
                || store.list("persistentvolumes", None).objects.iter().any(|volume| {
                    let volume = volume.value();
                    names_secret(&volume, namespace, name) && is_claimed(store, node, &volume)
                })
        }
    }
}

/// Whether one of the node's pods in a namespace is such a one. Mirror pods do not count: a node writes them itself.
fn any_pod(store: &Store, node: &str, namespace: &str, is: impl Fn(&Value) -> bool) -> bool {
    let pods = store.list("pods", Some(namespace)).objects;
    let mut here = pods.iter().filter(|pod| {
        let pod = pod.view::<Pod>();
        pod.spec.node_name == node && !pod.metadata.annotations.contains_key(MIRROR)
    });
    here.any(|pod| is(&pod.value()))
}

/// Whether a pod on the node uses the claim that a volume is bound to.
fn is_claimed(store: &Store, node: &str, volume: &Value) -> bool {
    let claim = &volume["spec"]["claimRef"];
    let (namespace, name) = (text(claim, "namespace"), text(claim, "name"));
    !name.is_empty() && are_related(store, node, Related::Claim, namespace, name)
}

/// A Secret without a namespace is one of the claim's.
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

/// The names in the environment of containers, under the keys of one kind.
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

/// The claims of a pod; one that is made for a volume of it has the name of both.
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

/// Volumes that lead to other objects, and in which words.
#[rustfmt::skip]
const LEADING: [(&str, &str); 7] = [
    ("configMap",             "configmaps (via configmap volumes)"),
    ("secret",                "secrets (via secret volumes)"),
    ("csi",                   "csidrivers (via CSI volumes)"),
    ("glusterfs",             "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral",             "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile",             "secrets (via azureFile volumes)"),
];

/// The same of what a projected volume gathers.
#[rustfmt::skip]
const GATHERED: [(&str, &str); 5] = [
    ("configMap",           "configmaps (via projected volumes)"),
    ("secret",              "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle",  "clustertrustbundles"),
    ("podCertificate",      "podcertificates"),
];

/// What a pod refers to, in the words of the refusal, and a pod that a node writes itself must not.
pub(crate) fn of_mirror_pod(pod: &Value) -> Option<&'static str> {
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
        in_table(&LEADING, volume).or_else(|| gathered.find_map(|source| in_table(&GATHERED, source)))
    })
}
