//! Capacity of nodes.

use std::collections::BTreeMap;

use domain::resources::Workload;
use domain::resources::resource_list::{self, ResourceField, ResourceList, count_quantity};
use kube::Client;
use serde_json::Value;

use super::{CapacityError, ObjectChange, ObjectChanges, Shortage, core_resource, list};

/// A node and its free resources.
struct SchedulableNode {
    object: Value,
    free: ResourceList,
}

/// Schedulable nodes and their free resources.
pub struct NodeHeadroom(Vec<SchedulableNode>);

impl NodeHeadroom {
    /// `reader` needs permission to list all nodes and pods, which tenants do not have.
    pub async fn read(reader: &Client) -> Result<Self, CapacityError> {
        let what = "nodes and their pods";
        let failed = |source| CapacityError::Read { what, source };
        let nodes = list(reader, &core_resource("Node", "nodes"), None, "").await.map_err(failed)?;
        let on_nodes = "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName!=";
        let pods = list(reader, &core_resource("Pod", "pods"), None, on_nodes).await.map_err(failed)?;
        Ok(Self::with_pods(nodes, &pods))
    }

    /// Computes the free resources of nodes from the pods on them.
    pub(super) fn with_pods(nodes: Vec<Value>, pods: &[Value]) -> Self {
        let mut left: BTreeMap<String, SchedulableNode> = nodes
            .into_iter()
            .filter(|node| node["spec"]["unschedulable"] != true)
            .map(|object| {
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                (
                    name,
                    SchedulableNode { free: resource_list::parse(&object["status"]["allocatable"]), object },
                )
            })
            .collect();
        for pod in pods {
            let name = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            if let Some(node) = left.get_mut(name) {
                node.reserve(&pod_requests(pod));
            }
        }
        Self(left.into_values().collect())
    }

    /// Number of nodes.
    pub fn count(&self) -> u64 {
        u64::try_from(self.0.len()).unwrap_or(u64::MAX)
    }

    /// Simulates scheduling, first fit with the largest pods first, and returns the pods that fit on no node.
    pub fn shortages(self, turns: &ObjectChanges) -> Vec<Shortage> {
        simulate_scheduling(self.0, &turns.0)
    }
}

/// Resources of a pod of this template.
fn pod_requests(template: &Value) -> ResourceList {
    let mut needs = resource_list::for_template(template, ResourceField::Requests);
    needs.insert("pods".to_owned(), count_quantity(1));
    needs
}

fn simulate_scheduling(mut nodes: Vec<SchedulableNode>, turns: &[ObjectChange]) -> Vec<Shortage> {
    let mut wanted: Vec<_> = turns
        .iter()
        .filter_map(|turn| {
            let workload = Workload::from_object(turn.desired.as_ref()?)?;
            Some((turn, workload, pod_requests(workload.template())))
        })
        .collect();
    let size = |needs: &ResourceList| {
        let of = |name: &str| needs.get(name).map_or(0, domain::quantity::Quantity::milli_value);
        (of("memory"), of("cpu"))
    };
    wanted.sort_by_key(|(_, _, needs)| std::cmp::Reverse(size(needs)));
    let mut shortages = Vec::new();
    for (turn, workload, needs) in wanted {
        let (new, lost) = if workload.is_per_node() {
            schedule_daemon_set(&mut nodes, turn, &workload, &needs)
        } else {
            let new = added_pods(turn, &workload);
            // If one pod fits on no node, no further one does: attempts are bounded by the nodes, not by `replicas`.
            let placed =
                (0..new).take_while(|_| schedule_pod(&mut nodes, workload.template(), &needs)).count();
            (new, new.saturating_sub(u64::try_from(placed).unwrap_or(u64::MAX)))
        };
        if lost > 0 {
            shortages.push(Shortage::Nodes { id: turn.id.clone(), pods: lost, total: new });
        }
    }
    shortages
}

/// Number of additional pods.
fn added_pods(turn: &ObjectChange, workload: &Workload<'_>) -> u64 {
    let there = turn.live.as_ref().and_then(Workload::from_object).map_or(0, |live| live.pods(0));
    let surge = if turn.needs_surge() { workload.surge(0) } else { 0 };
    workload.pods(0).saturating_sub(there).saturating_add(surge)
}

fn schedule_pod(nodes: &mut [SchedulableNode], template: &Value, needs: &ResourceList) -> bool {
    let found = nodes.iter_mut().find(|node| node.permits(template) && node.fits(needs));
    found.is_some_and(|node| {
        node.reserve(needs);
        true
    })
}

/// Counts the pods of a new `DaemonSet`. The pods of an existing one are already placed.
fn schedule_daemon_set(
    nodes: &mut [SchedulableNode],
    turn: &ObjectChange,
    workload: &Workload<'_>,
    needs: &ResourceList,
) -> (u64, u64) {
    if turn.live.is_some() {
        return (0, 0);
    }
    let (mut new, mut lost) = (0_u64, 0_u64);
    for node in nodes.iter_mut().filter(|node| node.permits(workload.template())) {
        new = new.saturating_add(1);
        if node.fits(needs) {
            node.reserve(needs);
        } else {
            lost = lost.saturating_add(1);
        }
    }
    (new, lost)
}

impl SchedulableNode {
    fn fits(&self, needs: &ResourceList) -> bool {
        needs
            .iter()
            .all(|(name, amount)| amount.is_zero() || self.free.get(name).is_some_and(|free| free >= amount))
    }

    fn reserve(&mut self, needs: &ResourceList) {
        for (name, amount) in needs {
            if let Some(free) = self.free.get_mut(name) {
                *free = free.sub(amount);
            }
        }
    }

    /// Whether node selector and taints permit a pod of this template.
    fn permits(&self, template: &Value) -> bool {
        let spec = &template["spec"];
        let labels = &self.object["metadata"]["labels"];
        let mut wanted = spec["nodeSelector"].as_object().into_iter().flatten();
        let tolerations = spec["tolerations"].as_array().map(Vec::as_slice).unwrap_or_default();
        let taints = self.object["spec"]["taints"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut barring = taints.iter().filter(|taint| taint["effect"] != "PreferNoSchedule");
        wanted.all(|(key, value)| labels[key.as_str()] == *value)
            && barring.all(|taint| tolerations.iter().any(|toleration| tolerates(toleration, taint)))
    }
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (key, effect) = (text(&toleration["key"]), text(&toleration["effect"]));
    let exists = toleration["operator"] == "Exists";
    let same_key = key == text(&taint["key"]) || (key.is_empty() && exists);
    let same_value = exists || text(&toleration["value"]) == text(&taint["value"]);
    same_key && same_value && (effect.is_empty() || effect == text(&taint["effect"]))
}
