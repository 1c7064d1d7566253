//! Resources of a release in walm's response format: cores as floats, memory in Mi, storage in Gi.
//!
//! Types and their conversion only; the `api` crate decides which route returns them. Empty lists are `null`. Fractions
//! of a unit are rounded up, so that clients never reserve less than is requested.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::resource_list::{self, ResourceField, ResourceList};
use super::workload::{api_group, array_field, count_or_one, str_field};
use crate::quantity::Quantity;

const MEBI: i64 = 1 << 20;
const GIBI: i64 = 1 << 30;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseResources {
    pub deployments: Option<Vec<ReplicatedResources>>,
    pub stateful_sets: Option<Vec<ReplicatedResources>>,
    pub daemon_sets: Option<Vec<DaemonSetResources>>,
    pub jobs: Option<Vec<JobResources>>,
    pub pvcs: Option<Vec<StorageClaim>>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicatedResources {
    pub replicas: u64,
    #[serde(flatten)]
    pub pods: WorkloadPods,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetResources {
    pub node_selector: Option<BTreeMap<String, String>>,
    #[serde(flatten)]
    pub pods: WorkloadPods,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobResources {
    pub parallelism: u64,
    pub completions: u64,
    #[serde(flatten)]
    pub pods: WorkloadPods,
}

/// Fields common to all workloads.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadPods {
    pub name: String,
    pub pod_requests: PodTemplateResources,
    pub pod_limits: PodTemplateResources,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PodTemplateResources {
    pub cpu: f64,
    pub memory: i64,
    pub storage: Option<Vec<StorageClaim>>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageClaim {
    pub name: String,
    /// `pvc`, or `tosDisk` for the vendor's volumes.
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub storage_class: String,
    pub size: i64,
}

impl ReleaseResources {
    pub fn from_objects<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut found = Self::default();
        for object in objects {
            let spec = &object["spec"];
            match (api_group(object), str_field(object, "kind")) {
                ("apps" | "extensions", "Deployment") => {
                    push(
                        &mut found.deployments,
                        ReplicatedResources {
                            replicas: count_or_one(spec, "replicas"),
                            pods: workload_pods(object),
                        },
                    );
                }
                ("apps", "StatefulSet") => {
                    push(
                        &mut found.stateful_sets,
                        ReplicatedResources {
                            replicas: count_or_one(spec, "replicas"),
                            pods: workload_pods(object),
                        },
                    );
                }
                ("apps" | "extensions", "DaemonSet") => {
                    let node_selector = node_selector(&spec["template"]);
                    push(
                        &mut found.daemon_sets,
                        DaemonSetResources { node_selector, pods: workload_pods(object) },
                    );
                }
                ("batch", "Job") => {
                    let (parallelism, completions) =
                        (count_or_one(spec, "parallelism"), count_or_one(spec, "completions"));
                    push(
                        &mut found.jobs,
                        JobResources { parallelism, completions, pods: workload_pods(object) },
                    );
                }
                ("", "PersistentVolumeClaim") => push(&mut found.pvcs, claim_storage(object)),
                _ => {}
            }
        }
        found
    }
}

fn push<T>(list: &mut Option<Vec<T>>, item: T) {
    list.get_or_insert_default().push(item);
}

fn workload_pods(object: &Value) -> WorkloadPods {
    let template = &object["spec"]["template"];
    let disks = array_field(&template["spec"], "volumes").iter().filter_map(vendor_disk_storage);
    let claims = array_field(&object["spec"], "volumeClaimTemplates").iter().map(claim_storage);
    WorkloadPods {
        name: str_field(&object["metadata"], "name").to_owned(),
        pod_requests: template_resources(
            &resource_list::for_pod(template, ResourceField::Requests),
            Some(disks.chain(claims).collect()),
        ),
        pod_limits: template_resources(&resource_list::for_pod(template, ResourceField::Limits), None),
    }
}

fn template_resources(resources: &ResourceList, storage: Option<Vec<StorageClaim>>) -> PodTemplateResources {
    let cpu = resources.get("cpu").map_or(0, Quantity::milli_value);
    #[expect(clippy::cast_precision_loss, reason = "cores as a float are what the shape has")]
    let cpu = cpu as f64 / 1000.0;
    PodTemplateResources { cpu, memory: round_up_to_unit(resources.get("memory"), MEBI), storage }
}

fn round_up_to_unit(amount: Option<&Quantity>, unit: i64) -> i64 {
    amount.map_or(0, |amount| {
        let bytes = amount.value();
        bytes / unit + i64::from(bytes % unit > 0)
    })
}

fn claim_storage(claim: &Value) -> StorageClaim {
    let (metadata, spec) = (&claim["metadata"], &claim["spec"]);
    let plain = str_field(spec, "storageClassName");
    let beta = str_field(&metadata["annotations"], "volume.beta.kubernetes.io/storage-class");
    StorageClaim {
        name: str_field(metadata, "name").to_owned(),
        kind: "pvc",
        storage_class: if plain.is_empty() { beta } else { plain }.to_owned(),
        size: round_up_to_unit(
            Quantity::from_value(&spec["resources"]["requests"]["storage"]).as_ref(),
            GIBI,
        ),
    }
}

/// A volume on a vendor's disk, which has no claim.
fn vendor_disk_storage(volume: &Value) -> Option<StorageClaim> {
    let disk = volume.get("tosDisk")?;
    Some(StorageClaim {
        name: str_field(disk, "name").to_owned(),
        kind: "tosDisk",
        storage_class: str_field(disk, "storageType").to_owned(),
        size: round_up_to_unit(Quantity::from_value(&disk["capability"]).as_ref(), GIBI),
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
    fn zookeeper_resources_match_the_walm_format() {
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
            serde_json::to_value(ReleaseResources::from_objects(&objects)).unwrap(),
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
        insta::assert_json_snapshot!(ReleaseResources::from_objects(&objects));
    }
}
