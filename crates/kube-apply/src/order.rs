//! Install and uninstall order of objects: Helm's order of kinds, grouped into waves.
//!
//! Objects of one wave do not depend on each other and are written concurrently. The order is Helm's, the grouping
//! our own.

use crate::object::Object;

/// Install order; each row is a wave.
#[rustfmt::skip]
const INSTALL_ORDER: &[&[&str]] = &[
    &["PriorityClass", "Namespace"],
    // Before the objects that they limit.
    &["NetworkPolicy", "ResourceQuota", "LimitRange", "PodSecurityPolicy", "PodDisruptionBudget"],
    &["ServiceAccount", "Secret", "SecretList", "ConfigMap", "StorageClass", "PersistentVolume"],
    // A claim gets the default storage class on creation.
    &["PersistentVolumeClaim", "CustomResourceDefinition", "ClusterRole", "ClusterRoleList"],
    // Creating a binding requires the role that it references.
    &["ClusterRoleBinding", "ClusterRoleBindingList", "Role", "RoleList"],
    &["RoleBinding", "RoleBindingList", "Service"],
    // Containers get environment variables of existing Services and need their ServiceAccounts.
    &["DaemonSet", "Pod", "ReplicationController", "ReplicaSet", "Deployment", "HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob", "IngressClass"],
    &["Ingress", "APIService"],
    &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
];

/// Uninstall order; each row is a wave. Unlisted kinds go last, as in Helm.
#[rustfmt::skip]
const UNINSTALL_ORDER: &[&[&str]] = &[
    // Webhooks first: they would intercept later deletions after their backend is gone.
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

/// Groups objects into waves of the install order.
pub fn install_waves<T: AsRef<Object>>(objects: Vec<T>) -> Vec<Vec<T>> {
    waves(objects, INSTALL_ORDER)
}

/// Groups objects into waves of the uninstall order.
pub fn uninstall_waves<T: AsRef<Object>>(objects: Vec<T>) -> Vec<Vec<T>> {
    waves(objects, UNINSTALL_ORDER)
}

impl AsRef<Object> for Object {
    fn as_ref(&self) -> &Object {
        self
    }
}

/// Wave, position in it and, for unlisted kinds, which come last one after the other, the kind.
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
    // The sort is stable: objects of one kind keep the order of the manifest.
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

    fn describe(waves: Vec<Vec<Object>>) -> String {
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
            describe(install_waves(mixed.clone())),
            "Namespace/8 | ServiceAccount/6 Secret/5 | Role/12 | RoleBinding/11 Service/3 | Deployment/2 Deployment/7 \
             StatefulSet/9 | Ingress/1 | Alpha/4 Alpha/10 | Zed/0"
        );
        assert_eq!(
            describe(uninstall_waves(mixed)),
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
        let (there, back) = (sorted(INSTALL_ORDER), sorted(UNINSTALL_ORDER));
        assert_eq!(there, back);
        assert!(there.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
