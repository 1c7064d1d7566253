//! What must be there before what: Helm's order, cut into waves.
//!
//! Objects of one wave do not need each other and are written at the same time. The order of the kinds is that of Helm;
//! where it is cut is ours.

use crate::object::Object;

/// What must be there before what. A line is a wave.
#[rustfmt::skip]
const INSTALL: &[&[&str]] = &[
    &["PriorityClass", "Namespace"],
    // Before anything that they count or limit.
    &["NetworkPolicy", "ResourceQuota", "LimitRange", "PodSecurityPolicy", "PodDisruptionBudget"],
    &["ServiceAccount", "Secret", "SecretList", "ConfigMap", "StorageClass", "PersistentVolume"],
    // A claim is given the default class when it is made.
    &["PersistentVolumeClaim", "CustomResourceDefinition", "ClusterRole", "ClusterRoleList"],
    // Whether a binding may be made is asked of the role that it names.
    &["ClusterRoleBinding", "ClusterRoleBindingList", "Role", "RoleList"],
    &["RoleBinding", "RoleBindingList", "Service"],
    // Containers know the Services that were there before them, and need the ServiceAccounts.
    &["DaemonSet", "Pod", "ReplicationController", "ReplicaSet", "Deployment", "HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob", "IngressClass"],
    &["Ingress", "APIService"],
    &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
];

/// What must go before what. Kinds that are not here go last, as in Helm; a line is a wave.
#[rustfmt::skip]
const UNINSTALL: &[&[&str]] = &[
    // Webhooks first: they would be asked about the rest, when what serves them is gone.
    &["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"],
    &["APIService"],
    &["Ingress", "IngressClass", "Service"],
    &["CronJob", "Job", "StatefulSet", "HorizontalPodAutoscaler", "Deployment", "ReplicaSet", "ReplicationController", "Pod", "DaemonSet"],
    &["RoleBindingList", "RoleBinding", "RoleList", "Role", "ClusterRoleBindingList", "ClusterRoleBinding", "ClusterRoleList", "ClusterRole"],
    &["CustomResourceDefinition"],
    &["PersistentVolumeClaim", "PersistentVolume", "StorageClass", "ConfigMap", "SecretList", "Secret", "ServiceAccount"],
    &["PodDisruptionBudget", "PodSecurityPolicy", "LimitRange", "ResourceQuota", "NetworkPolicy"],
    &["Namespace", "PriorityClass"],
];

/// Objects in the order of installation, in waves.
pub fn install<T: AsRef<Object>>(objects: Vec<T>) -> Vec<Vec<T>> {
    waves(objects, INSTALL)
}

/// Objects in the order of removal, in waves.
pub fn uninstall<T: AsRef<Object>>(objects: Vec<T>) -> Vec<Vec<T>> {
    waves(objects, UNINSTALL)
}

impl AsRef<Object> for Object {
    fn as_ref(&self) -> &Object {
        self
    }
}

/// The wave, the place in it, and for kinds that no wave has, which come last one after the other, the name.
fn rank(kind: &str, order: &[&[&str]]) -> (usize, usize, String) {
    let places = order.iter().enumerate();
    let mut places =
        places.filter_map(|(wave, kinds)| Some((wave, kinds.iter().position(|known| *known == kind)?)));
    match places.next() {
        Some((wave, place)) => (wave, place, String::new()),
        None => (usize::MAX, 0, kind.to_owned()),
    }
}

fn waves<T: AsRef<Object>>(objects: Vec<T>, order: &[&[&str]]) -> Vec<Vec<T>> {
    let mut ranked: Vec<_> =
        objects.into_iter().map(|object| (rank(object.as_ref().kind(), order), object)).collect();
    // Stable: within a kind the order of the manifest holds.
    ranked.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut waves: Vec<Vec<T>> = Vec::new();
    let mut last = None;
    for ((wave, _, unknown), object) in ranked {
        let this = Some((wave, unknown));
        match waves.last_mut() {
            Some(open) if last == this => open.push(object),
            _ => waves.push(vec![object]),
        }
        last = this;
    }
    waves
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drawn(waves: Vec<Vec<Object>>) -> String {
        let names = |wave: Vec<Object>| {
            wave.iter()
                .map(|object| format!("{}/{}", object.kind(), object.name()))
                .collect::<Vec<_>>()
                .join(" ")
        };
        waves.into_iter().map(names).collect::<Vec<_>>().join(" | ")
    }

    fn objects(kinds: &[&str]) -> Vec<Object> {
        let object = |(at, kind): (usize, &&str)| {
            let name = format!("{at}");
            Object::from_value(json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})).unwrap()
        };
        kinds.iter().enumerate().map(object).collect()
    }

    #[test]
    fn waves_follow_helms_order_and_the_manifests() {
        let mixed = objects(&[
            "Zed",
            "Ingress",
            "Deployment",
            "Service",
            "Alpha",
            "Secret",
            "ServiceAccount",
            "Deployment",
            "Namespace",
            "StatefulSet",
            "Alpha",
            "RoleBinding",
            "Role",
        ]);
        assert_eq!(
            drawn(install(mixed.clone())),
            "Namespace/8 | ServiceAccount/6 Secret/5 | Role/12 | RoleBinding/11 Service/3 | Deployment/2 Deployment/7 \
             StatefulSet/9 | Ingress/1 | Alpha/4 Alpha/10 | Zed/0"
        );
        assert_eq!(
            drawn(uninstall(mixed)),
            "Ingress/1 Service/3 | StatefulSet/9 Deployment/2 Deployment/7 | RoleBinding/11 Role/12 | Secret/5 \
             ServiceAccount/6 | Namespace/8 | Alpha/4 Alpha/10 | Zed/0"
        );
    }

    #[test]
    fn both_tables_have_the_same_kinds_once_each() {
        let sorted = |table: &[&[&'static str]]| {
            let mut kinds: Vec<_> = table.concat();
            kinds.sort_unstable();
            kinds
        };
        let (there, back) = (sorted(INSTALL), sorted(UNINSTALL));
        assert_eq!(there, back);
        assert!(there.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
