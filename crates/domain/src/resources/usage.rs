//! Quota usage of objects, by `ResourceQuota` resource names.

use serde_json::Value;

use super::resource_list::{self, ResourceField, ResourceList, count_quantity};
use super::workload::{Workload, api_group, array_field, str_field};
use crate::quantity::Quantity;

const STORAGE_CLASS_SUFFIX: &str = ".storageclass.storage.k8s.io/";

/// Kinds that a quota can count: group, kind, resource. The last column is true for core kinds that also have a name
/// without `count/`.
#[rustfmt::skip]
const COUNTED_KINDS: &[(&str, &str, &str, bool)] = &[
    ("",                  "ConfigMap",               "configmaps",               true),
    ("",                  "PersistentVolumeClaim",   "persistentvolumeclaims",   true),
    ("",                  "ReplicationController",   "replicationcontrollers",   true),
    ("",                  "ResourceQuota",           "resourcequotas",           true),
    ("",                  "Secret",                  "secrets",                  true),
    ("",                  "Service",                 "services",                 true),
    ("",                  "ServiceAccount",          "serviceaccounts",          false),
    ("apps",              "DaemonSet",               "daemonsets",               false),
    ("apps",              "Deployment",              "deployments",              false),
    ("apps",              "ReplicaSet",              "replicasets",              false),
    ("apps",              "StatefulSet",             "statefulsets",             false),
    ("autoscaling",       "HorizontalPodAutoscaler", "horizontalpodautoscalers", false),
    ("batch",             "CronJob",                 "cronjobs",                 false),
    ("batch",             "Job",                     "jobs",                     false),
    ("networking.k8s.io", "Ingress",                 "ingresses",                false),
    ("networking.k8s.io", "NetworkPolicy",           "networkpolicies",          false),
    ("policy",            "PodDisruptionBudget",     "poddisruptionbudgets",     false),
];

/// Quota usage of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaUsage {
    /// When all pods are running.
    pub steady: ResourceList,
    /// Additional usage while everything is updated at once.
    pub surge: ResourceList,
}

impl QuotaUsage {
    /// Usage of one object; `nodes` is the number of eligible nodes of a DaemonSet.
    pub fn for_object(object: &Value, nodes: u64) -> Self {
        let mut usage = Self { steady: object_counts(object), surge: ResourceList::new() };
        match (api_group(object), str_field(object, "kind")) {
            ("", "Service") => usage.steady.extend(service_usage(object)),
            ("", "PersistentVolumeClaim") => usage.steady.extend(claim_usage(object)),
            _ => {}
        }
        if let Some(workload) = Workload::from_object(object) {
            usage.add_pods(&workload, nodes);
        }
        usage
    }

    /// Usage of several objects.
    pub fn total<'a>(
        objects: impl IntoIterator<Item = &'a Value>,
        nodes: impl Fn(&Workload<'a>) -> u64,
    ) -> Self {
        let mut total = Self::default();
        for object in objects {
            let nodes = Workload::from_object(object)
                .filter(Workload::is_per_node)
                .map_or(0, |workload| nodes(&workload));
            total.add(&Self::for_object(object, nodes));
        }
        total
    }

    pub fn add(&mut self, more: &Self) {
        resource_list::add(&mut self.steady, &more.steady);
        resource_list::add(&mut self.surge, &more.surge);
    }

    /// Maximum usage: steady plus surge.
    pub fn peak(&self) -> ResourceList {
        let mut peak = self.steady.clone();
        resource_list::add(&mut peak, &self.surge);
        peak
    }

    fn add_pods(&mut self, workload: &Workload<'_>, nodes: u64) {
        let template = workload.template();
        let of = |side| resource_list::for_template(template, side);
        let mut each = compute_resources(&of(ResourceField::Requests), &of(ResourceField::Limits));
        each.insert("pods".to_owned(), count_quantity(1));
        each.insert("count/pods".to_owned(), count_quantity(1));
        for claim in workload.claims_per_pod() {
            let mut claim_resources = claim_usage(claim);
            claim_resources.insert("count/persistentvolumeclaims".to_owned(), count_quantity(1));
            resource_list::add(&mut each, &claim_resources);
        }
        resource_list::add(&mut self.steady, &resource_list::times(&each, workload.pods(nodes)));
        resource_list::add(&mut self.surge, &resource_list::times(&each, workload.surge(nodes)));
        if let Some(made) = workload.created_resource() {
            resource_list::add(
                &mut self.steady,
                &ResourceList::from([(format!("count/{made}"), count_quantity(1))]),
            );
        }
    }
}

/// Object counts of the object itself.
fn object_counts(object: &Value) -> ResourceList {
    let row =
        COUNTED_KINDS.iter().find(|row| (row.0, row.1) == (api_group(object), str_field(object, "kind")));
    let Some((group, _, resource, plain)) = row else { return ResourceList::new() };
    let full = if group.is_empty() { (*resource).to_owned() } else { format!("{resource}.{group}") };
    let mut counted = ResourceList::from([(format!("count/{full}"), count_quantity(1))]);
    if *plain {
        counted.insert((*resource).to_owned(), count_quantity(1));
    }
    counted
}

/// Requests and limits by their names in a quota.
pub fn compute_resources(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut usage = ResourceList::new();
    for (name, amount) in requests {
        let native =
            matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
        let extended = name.contains('/') && !name.contains("kubernetes.io/");
        if native {
            usage.insert(name.clone(), amount.clone());
        }
        if native || extended {
            usage.insert(format!("requests.{name}"), amount.clone());
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = limits.get(name) {
            usage.insert(format!("limits.{name}"), amount.clone());
        }
    }
    usage
}

/// Usage of a Service, by its type.
pub fn service_usage(service: &Value) -> ResourceList {
    let spec = &service["spec"];
    let ports = array_field(spec, "ports");
    let node_ports = match str_field(spec, "type") {
        "LoadBalancer" if spec["allocateLoadBalancerNodePorts"] == false => {
            ports.iter().filter(|port| port["nodePort"].as_i64().unwrap_or_default() != 0).count()
        }
        "NodePort" | "LoadBalancer" => ports.len(),
        _ => 0,
    };
    ResourceList::from([
        ("services".to_owned(), count_quantity(1)),
        ("services.nodeports".to_owned(), count_quantity(u64::try_from(node_ports).unwrap_or(u64::MAX))),
        ("services.loadbalancers".to_owned(), count_quantity(u64::from(spec["type"] == "LoadBalancer"))),
    ])
}

/// Usage of a `PersistentVolumeClaim`, in total and per storage class.
pub fn claim_usage(claim: &Value) -> ResourceList {
    const CLAIMS: &str = "persistentvolumeclaims";
    let mut usage = ResourceList::from([(CLAIMS.to_owned(), count_quantity(1))]);
    let class = storage_class(claim);
    if !class.is_empty() {
        usage.insert(format!("{class}{STORAGE_CLASS_SUFFIX}{CLAIMS}"), count_quantity(1));
    }
    if let Some(requested) = claim_storage(claim) {
        if !class.is_empty() {
            usage.insert(format!("{class}{STORAGE_CLASS_SUFFIX}requests.storage"), requested.clone());
        }
        usage.insert("requests.storage".to_owned(), requested);
    }
    usage
}

fn storage_class(claim: &Value) -> &str {
    let beta = str_field(&claim["metadata"]["annotations"], "volume.beta.kubernetes.io/storage-class");
    if beta.is_empty() { str_field(&claim["spec"], "storageClassName") } else { beta }
}

/// Storage of a claim, in whole bytes: the larger of its request and `allocatedResources`.
fn claim_storage(claim: &Value) -> Option<Quantity> {
    let whole = |amount: Quantity| {
        if amount.is_whole() { amount } else { Quantity::from_units(amount.value(), amount.format()) }
    };
    let requested = whole(Quantity::from_value(&claim["spec"]["resources"]["requests"]["storage"])?);
    let allocated = Quantity::from_value(&claim["status"]["allocatedResources"]["storage"]).map(whole);
    Some(allocated.filter(|allocated| *allocated > requested).unwrap_or(requested))
}

#[cfg(test)]
mod tests;
