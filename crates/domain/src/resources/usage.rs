//! Quota usage of objects, by `ResourceQuota` resource names.

use serde_json::Value;

use super::amounts::{self, Amounts, Side, count};
use super::workload::{Workload, group, items, text};
use crate::quantity::Quantity;

const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Kinds that a quota can count: group, kind, resource. The last column is true for core kinds that also have a name
/// without `count/`.
#[rustfmt::skip]
const COUNTED: &[(&str, &str, &str, bool)] = &[
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
pub struct Usage {
    /// When all pods are running.
    pub steady: Amounts,
    /// Additional usage while everything is updated at once.
    pub surge: Amounts,
}

impl Usage {
    /// Usage of one object; `nodes` is the number of eligible nodes of a DaemonSet.
    pub fn of(object: &Value, nodes: u64) -> Self {
        let mut usage = Self { steady: counted(object), surge: Amounts::new() };
        match (group(object), text(object, "kind")) {
            ("", "Service") => usage.steady.extend(of_service(object)),
            ("", "PersistentVolumeClaim") => usage.steady.extend(of_claim(object)),
            _ => {}
        }
        if let Some(workload) = Workload::of(object) {
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
            let nodes =
                Workload::of(object).filter(Workload::is_per_node).map_or(0, |workload| nodes(&workload));
            total.add(&Self::of(object, nodes));
        }
        total
    }

    pub fn add(&mut self, more: &Self) {
        amounts::add(&mut self.steady, &more.steady);
        amounts::add(&mut self.surge, &more.surge);
    }

    /// Maximum usage: steady plus surge.
    pub fn peak(&self) -> Amounts {
        let mut peak = self.steady.clone();
        amounts::add(&mut peak, &self.surge);
        peak
    }

    fn add_pods(&mut self, workload: &Workload<'_>, nodes: u64) {
        let template = workload.template();
        let of = |side| amounts::of_template(template, side);
        let mut each = computing(&of(Side::Requests), &of(Side::Limits));
        each.insert("pods".to_owned(), count(1));
        each.insert("count/pods".to_owned(), count(1));
        for claim in workload.claims_per_pod() {
            let mut taken = of_claim(claim);
            taken.insert("count/persistentvolumeclaims".to_owned(), count(1));
            amounts::add(&mut each, &taken);
        }
        amounts::add(&mut self.steady, &amounts::times(&each, workload.pods(nodes)));
        amounts::add(&mut self.surge, &amounts::times(&each, workload.surge(nodes)));
        if let Some(made) = workload.makes() {
            amounts::add(&mut self.steady, &Amounts::from([(format!("count/{made}"), count(1))]));
        }
    }
}

/// Object counts of the object itself.
fn counted(object: &Value) -> Amounts {
    let row = COUNTED.iter().find(|row| (row.0, row.1) == (group(object), text(object, "kind")));
    let Some((group, _, resource, plain)) = row else { return Amounts::new() };
    let full = if group.is_empty() { (*resource).to_owned() } else { format!("{resource}.{group}") };
    let mut counted = Amounts::from([(format!("count/{full}"), count(1))]);
    if *plain {
        counted.insert((*resource).to_owned(), count(1));
    }
    counted
}

/// Requests and limits by their names in a quota.
pub fn computing(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::new();
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
pub fn of_service(service: &Value) -> Amounts {
    let spec = &service["spec"];
    let ports = items(spec, "ports");
    let node_ports = match text(spec, "type") {
        "LoadBalancer" if spec["allocateLoadBalancerNodePorts"] == false => {
            ports.iter().filter(|port| port["nodePort"].as_i64().unwrap_or_default() != 0).count()
        }
        "NodePort" | "LoadBalancer" => ports.len(),
        _ => 0,
    };
    Amounts::from([
        ("services".to_owned(), count(1)),
        ("services.nodeports".to_owned(), count(u64::try_from(node_ports).unwrap_or(u64::MAX))),
        ("services.loadbalancers".to_owned(), count(u64::from(spec["type"] == "LoadBalancer"))),
    ])
}

/// Usage of a `PersistentVolumeClaim`, in total and per storage class.
pub fn of_claim(claim: &Value) -> Amounts {
    const CLAIMS: &str = "persistentvolumeclaims";
    let mut usage = Amounts::from([(CLAIMS.to_owned(), count(1))]);
    let class = storage_class(claim);
    if !class.is_empty() {
        usage.insert(format!("{class}{STORAGE_CLASS}{CLAIMS}"), count(1));
    }
    if let Some(requested) = storage_of_claim(claim) {
        if !class.is_empty() {
            usage.insert(format!("{class}{STORAGE_CLASS}requests.storage"), requested.clone());
        }
        usage.insert("requests.storage".to_owned(), requested);
    }
    usage
}

fn storage_class(claim: &Value) -> &str {
    let beta = text(&claim["metadata"]["annotations"], "volume.beta.kubernetes.io/storage-class");
    if beta.is_empty() { text(&claim["spec"], "storageClassName") } else { beta }
}

/// Storage of a claim, in whole bytes: the larger of its request and `allocatedResources`.
fn storage_of_claim(claim: &Value) -> Option<Quantity> {
    let whole = |amount: Quantity| {
        if amount.is_whole() { amount } else { Quantity::from_units(amount.value(), amount.format()) }
    };
    let requested = whole(Quantity::of(&claim["spec"]["resources"]["requests"]["storage"])?);
    let allocated = Quantity::of(&claim["status"]["allocatedResources"]["storage"]).map(whole);
    Some(allocated.filter(|allocated| *allocated > requested).unwrap_or(requested))
}

#[cfg(test)]
mod tests;
