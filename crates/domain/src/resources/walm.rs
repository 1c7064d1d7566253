//! Resources of a release in walm's response format: cores as floats, memory in Mi, storage in Gi.
//!
//! Types and their conversion only; the `api` crate decides which route returns them. Empty lists are `null`. Fractions
//! of a unit are rounded up, so that clients never reserve less than is requested.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::amounts::{self, Amounts, Side};
use super::workload::{group, items, number, text};
use crate::quantity::Quantity;

const MEBI: i64 = 1 << 20;
const GIBI: i64 = 1 << 30;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseResources {
    pub deployments: Option<Vec<Replicated>>,
    pub stateful_sets: Option<Vec<Replicated>>,
    pub daemon_sets: Option<Vec<Daemon>>,
    pub jobs: Option<Vec<Run>>,
    pub pvcs: Option<Vec<Storage>>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replicated {
    pub replicas: u64,
    #[serde(flatten)]
    pub pods: Pods,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Daemon {
    pub node_selector: Option<BTreeMap<String, String>>,
    #[serde(flatten)]
    pub pods: Pods,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub parallelism: u64,
    pub completions: u64,
    #[serde(flatten)]
    pub pods: Pods,
}

/// Fields common to all workloads.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pods {
    pub name: String,
    pub pod_requests: Pod,
    pub pod_limits: Pod,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pod {
    pub cpu: f64,
    pub memory: i64,
    pub storage: Option<Vec<Storage>>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    pub name: String,
    /// `pvc`, or `tosDisk` for the vendor's volumes.
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub storage_class: String,
    pub size: i64,
}

impl ReleaseResources {
    pub fn of<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut found = Self::default();
        for object in objects {
            let spec = &object["spec"];
            match (group(object), text(object, "kind")) {
                ("apps" | "extensions", "Deployment") => {
                    put(
                        &mut found.deployments,
                        Replicated { replicas: number(spec, "replicas"), pods: pods(object) },
                    );
                }
                ("apps", "StatefulSet") => {
                    put(
                        &mut found.stateful_sets,
                        Replicated { replicas: number(spec, "replicas"), pods: pods(object) },
                    );
                }
                ("apps" | "extensions", "DaemonSet") => {
                    let node_selector = node_selector(&spec["template"]);
                    put(&mut found.daemon_sets, Daemon { node_selector, pods: pods(object) });
                }
                ("batch", "Job") => {
                    let (parallelism, completions) =
                        (number(spec, "parallelism"), number(spec, "completions"));
                    put(&mut found.jobs, Run { parallelism, completions, pods: pods(object) });
                }
                ("", "PersistentVolumeClaim") => put(&mut found.pvcs, claim(object)),
                _ => {}
            }
        }
        found
    }
}

fn put<T>(list: &mut Option<Vec<T>>, item: T) {
    list.get_or_insert_default().push(item);
}

fn pods(object: &Value) -> Pods {
    let template = &object["spec"]["template"];
    let disks = items(&template["spec"], "volumes").iter().filter_map(disk);
    let claims = items(&object["spec"], "volumeClaimTemplates").iter().map(claim);
    Pods {
        name: text(&object["metadata"], "name").to_owned(),
        pod_requests: pod(&amounts::of_pod(template, Side::Requests), Some(disks.chain(claims).collect())),
        pod_limits: pod(&amounts::of_pod(template, Side::Limits), None),
    }
}

fn pod(asked: &Amounts, storage: Option<Vec<Storage>>) -> Pod {
    let cpu = asked.get("cpu").map_or(0, Quantity::milli_value);
    #[expect(clippy::cast_precision_loss, reason = "cores as a float are what the shape has")]
    let cpu = cpu as f64 / 1000.0;
    Pod { cpu, memory: in_units(asked.get("memory"), MEBI), storage }
}

fn in_units(amount: Option<&Quantity>, unit: i64) -> i64 {
    amount.map_or(0, |amount| {
        let bytes = amount.value();
        bytes / unit + i64::from(bytes % unit > 0)
    })
}

fn claim(claim: &Value) -> Storage {
    let (metadata, spec) = (&claim["metadata"], &claim["spec"]);
    let plain = text(spec, "storageClassName");
    let beta = text(&metadata["annotations"], "volume.beta.kubernetes.io/storage-class");
    Storage {
        name: text(metadata, "name").to_owned(),
        kind: "pvc",
        storage_class: if plain.is_empty() { beta } else { plain }.to_owned(),
        size: in_units(Quantity::of(&spec["resources"]["requests"]["storage"]).as_ref(), GIBI),
    }
}

/// A volume on a vendor's disk, which has no claim.
fn disk(volume: &Value) -> Option<Storage> {
    let disk = volume.get("tosDisk")?;
    Some(Storage {
        name: text(disk, "name").to_owned(),
        kind: "tosDisk",
        storage_class: text(disk, "storageType").to_owned(),
        size: in_units(Quantity::of(&disk["capability"]).as_ref(), GIBI),
    })
}

fn node_selector(template: &Value) -> Option<BTreeMap<String, String>> {
    let selector = template["spec"]["nodeSelector"].as_object()?;
    Some(
        selector
            .iter()
            .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn zookeeper() {
        let objects = [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "zookeeper-test-zookeeper"}}),
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "zookeeper-test-zookeeper"}, "spec": {
                "replicas": 3,
                "template": {"spec": {"containers": [{"name": "zookeeper", "resources": {
                    "requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "4Gi"},
                }}]}},
                "volumeClaimTemplates": [{
                    "metadata": {"name": "zkdir", "annotations": {"volume.beta.kubernetes.io/storage-class": "silver"}},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "100Gi"}}},
                }],
            }}),
        ];
        let pod_requests = json!({"cpu": 0.5, "memory": 1024, "storage": [
            {"name": "zkdir", "type": "pvc", "storageClass": "silver", "size": 100},
        ]});
        let pod_limits = json!({"cpu": 2.0, "memory": 4096, "storage": null});
        assert_eq!(
            serde_json::to_value(ReleaseResources::of(&objects)).unwrap(),
            json!({
                "deployments": null, "daemonSets": null, "jobs": null, "pvcs": null,
                "statefulSets": [{
                    "replicas": 3, "name": "zookeeper-test-zookeeper",
                    "podRequests": pod_requests, "podLimits": pod_limits,
                }],
            })
        );
    }

    #[test]
    fn what_is_not_said_counts_once_and_parts_are_rounded_up() {
        let template = json!({"spec": {
            "containers": [{"resources": {"requests": {"cpu": "1", "memory": "1"}}}],
            "nodeSelector": {"disk": "fast"},
            "volumes": [{"tosDisk": {"name": "d", "storageType": "gold", "capability": "1.5Gi"}}],
        }});
        let of = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": kind}, "spec": {"template": template}});
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
            "spec": {"storageClassName": "bronze", "resources": {"requests": {"storage": "500Mi"}}}});
        let objects = [of("apps/v1", "Deployment"), of("apps/v1", "DaemonSet"), of("batch/v1", "Job"), claim];
        insta::assert_json_snapshot!(ReleaseResources::of(&objects));
    }
}
