//! Bootstrap objects: created at the first start, in one transaction.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::access::bootstrap as roles;
use crate::access::cluster_info::{self, cluster_info};
use crate::access::pki::Pki;
use crate::clock::{Clock, rfc3339};
use crate::sim::{Simulation, volume};
use crate::store::{Change, CommitError, Expect, Key, Op, Store};

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The port of the API in objects.
pub(crate) const API_PORT: u16 = 6443;

pub(crate) const SERVICE_CIDR_NAME: &str = "kubernetes";

const API_SERVICE_STORAGE: &str = "apiservices.apiregistration.k8s.io";

const PRIORITY_CLASS_STORAGE: &str = "priorityclasses.scheduling.k8s.io";

/// Name, value, and the part of the description that differs.
const SYSTEM_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-cluster-critical",
        2_000_000_000,
        "must run in the cluster, but can be moved to another node if necessary.",
    ),
    ("system-node-critical", 2_000_001_000, "must not be moved from their current node."),
];

/// The API groups served by this server itself: group, version, and the two priorities by which Kubernetes
/// orders them.
#[rustfmt::skip]
const API_SERVICES: &[(&str, &str, u32, u32)] = &[
    ("",                             "v1", 18000,  1),
    ("admissionregistration.k8s.io", "v1", 16700, 15),
    ("apiextensions.k8s.io",         "v1", 16700, 15),
    ("apps",                         "v1", 17800, 15),
    ("authentication.k8s.io",        "v1", 17700, 15),
    ("authorization.k8s.io",         "v1", 17600, 15),
    ("autoscaling",                  "v1", 17500, 15),
    ("autoscaling",                  "v2", 17500, 30),
    ("batch",                        "v1", 17400, 15),
    ("certificates.k8s.io",          "v1", 17300, 15),
    ("coordination.k8s.io",          "v1", 16500, 15),
    ("discovery.k8s.io",             "v1", 16200, 15),
    ("events.k8s.io",                "v1", 17750, 15),
    ("flowcontrol.apiserver.k8s.io", "v1", 16100, 21),
    ("networking.k8s.io",            "v1", 17200, 15),
    ("node.k8s.io",                  "v1", 16300, 15),
    ("policy",                       "v1", 17100, 15),
    ("rbac.authorization.k8s.io",    "v1", 17000, 15),
    ("resource.k8s.io",              "v1", 16200, 21),
    ("scheduling.k8s.io",            "v1", 16600, 15),
    ("storage.k8s.io",               "v1", 16800, 15),
];

/// Store metadata: the default StorageClass has been created once, so that it stays deleted if a user deletes it.
const STORAGE_CLASS_CREATED_KEY: &str = "storage-class-given";

/// Creates missing bootstrap objects. A second start writes nothing. With a `simulation`, a StorageClass for its
/// provisioner is created as well.
pub async fn create_bootstrap_objects(
    store: &Store,
    pki: &Pki,
    clock: &dyn Clock,
    simulation: Option<&Simulation>,
) -> Result<(), CommitError> {
    let mut objects: Vec<(&'static str, Value)> = Vec::new();
    for name in NAMESPACES {
        objects.push(("namespaces", namespace(name)));
    }
    objects.extend(SYSTEM_CLASSES.iter().map(|class| (PRIORITY_CLASS_STORAGE, priority_class(*class))));
    objects.push(("services", kubernetes_service()));
    objects.push(("servicecidrs.networking.k8s.io", default_service_cidr()));
    objects.push(("configmaps", cluster_info("https://127.0.0.1:6443", pki.ca_pem())));
    objects.extend(
        API_SERVICES.iter().map(|row| (API_SERVICE_STORAGE, api_service(row, &rfc3339(clock.now())))),
    );
    objects.extend(roles::missing_objects(store));
    let gives_class = simulation.is_some() && store.get_meta(STORAGE_CLASS_CREATED_KEY).is_none();
    if gives_class {
        objects.push(("storageclasses.storage.k8s.io", volume::standard_class()));
    }
    let now = rfc3339(clock.now());
    let changes: Vec<Change> = objects
        .into_iter()
        .filter_map(|(storage, mut object)| {
            let metadata = &mut object["metadata"];
            metadata["uid"] = Uuid::new_v4().to_string().into();
            metadata["creationTimestamp"] = now.as_str().into();
            let namespace = metadata["namespace"].as_str().unwrap_or_default();
            let name = metadata["name"].as_str().unwrap_or_default();
            if store.get(storage, namespace, name).is_some() {
                return None;
            }
            let key = Key::new(&storage.into(), namespace, name);
            Some(Change { key, expect: Expect::Absent, op: Op::Put(object) })
        })
        .collect();
    if !changes.is_empty() {
        store.commit(changes).await?;
    }
    if gives_class {
        store.put_meta(STORAGE_CLASS_CREATED_KEY, b"yes").await?;
    }
    Ok(())
}

/// Writes the cluster's address to `kube-public/cluster-info`, for joining nodes.
pub async fn publish_cluster_info(store: &Store, pki: &Pki, url: &str) -> Result<(), CommitError> {
    let (namespace, name) = (cluster_info::NAMESPACE, cluster_info::NAME);
    while let Some(found) = store.get("configmaps", namespace, name) {
        let Some(moved) = cluster_info::with_address(&found.value(), url, pki.ca_pem()) else { break };
        let key = Key::new(&"configmaps".into(), namespace, name);
        let change = Change { key, expect: Expect::Version(found.version), op: Op::Put(moved) };
        match store.commit(vec![change]).await {
            // Signed concurrently: retry.
            Err(CommitError::Conflict(..)) => {}
            other => return other.map(drop),
        }
    }
    Ok(())
}

fn namespace(name: &str) -> Value {
    json!({
        "kind": "Namespace", "apiVersion": "v1",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
    })
}

fn priority_class((name, value, which): (&str, i64, &str)) -> Value {
    json!({
        "kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1",
        "metadata": {"name": name, "generation": 1},
        "value": value,
        "description": format!("Used for system critical pods that {which}"),
        "preemptionPolicy": "PreemptLowerPriority",
    })
}

fn api_service(&(group, version, group_priority, priority): &(&str, &str, u32, u32), now: &str) -> Value {
    let mut spec =
        json!({"version": version, "groupPriorityMinimum": group_priority, "versionPriority": priority});
    if !group.is_empty() {
        spec["group"] = group.into();
    }
    json!({
        "kind": "APIService", "apiVersion": "apiregistration.k8s.io/v1",
        "metadata": {
            "name": format!("{version}.{group}"),
            "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
        },
        "spec": spec,
        "status": {"conditions": [{
            "type": "Available", "status": "True", "lastTransitionTime": now,
            "reason": "Local", "message": "Local APIServices are always available",
        }]},
    })
}

/// The `ServiceCIDR` of cluster IPs.
pub(crate) fn default_service_cidr() -> Value {
    json!({
        "kind": "ServiceCIDR", "apiVersion": "networking.k8s.io/v1",
        "metadata": {"name": SERVICE_CIDR_NAME}, "spec": {"cidrs": ["10.96.0.0/16"]},
    })
}

/// The Service of the API itself.
pub(crate) fn kubernetes_service() -> Value {
    json!({
        "kind": "Service", "apiVersion": "v1",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": API_PORT}],
            "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "type": "ClusterIP", "sessionAffinity": "None",
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: &str = "storageclasses.storage.k8s.io";

    #[tokio::test]
    async fn deleted_storage_class_is_not_recreated() {
        let data = tempfile::tempdir().unwrap();
        let store = Store::open(data.path(), crate::store::Options::default()).unwrap();
        let pki = Pki::in_memory(&[], crate::clock::SystemClock.now()).unwrap();
        let simulation = Simulation::default();
        let start = async |simulation| {
            create_bootstrap_objects(&store, &pki, &crate::clock::SystemClock, simulation).await.unwrap();
        };
        start(None).await;
        assert!(store.get(CLASSES, "", "standard").is_none(), "nobody would make its volumes");
        start(Some(&simulation)).await;
        let class = store.get(CLASSES, "", "standard").unwrap();
        let key = Key::new(&CLASSES.into(), "", "standard");
        let gone = Change { key, expect: Expect::Version(class.version), op: Op::Delete };
        store.commit(vec![gone]).await.unwrap();
        start(Some(&simulation)).await;
        assert!(store.get(CLASSES, "", "standard").is_none());
    }
}
