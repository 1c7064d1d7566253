//! The order in which excess pods are deleted.
//!
//! Least useful first: unscheduled, not running, not ready, low deletion cost, on crowded
//! nodes, young. Ages compare by power of two, so that pods of about the same age are ordered randomly (by uid).
//!
//! Kubernetes compares two pods in the same power of two randomly before it compares restarts; here restarts come first, because
//! its comparison is not transitive.

use std::cmp::Reverse;
use std::collections::HashMap;

use jiff::Timestamp;

use crate::control::view::{ContainerStatus, Pod, PodStatus};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The number of related pods on each node.
#[derive(Default)]
pub struct RelatedPods(HashMap<String, usize>);

impl RelatedPods {
    pub fn add(&mut self, pod: &Pod) {
        if pod.is_active() {
            *self.0.entry(pod.spec.node_name.clone()).or_default() += 1;
        }
    }

    fn count_on_node_of(&self, pod: &Pod) -> usize {
        self.0.get(&pod.spec.node_name).copied().unwrap_or_default()
    }
}

/// The sort key: the first pods are deleted.
pub fn deletion_rank<'a>(pod: &'a Pod, crowd: &RelatedPods, now: Timestamp) -> impl Ord + use<'a> {
    let ready = pod.is_ready();
    let phase = match pod.status.phase.as_str() {
        "Unknown" => 1,
        "Running" => 2,
        _ => 0,
    };
    let since = pod.condition("Ready").filter(|_| ready).and_then(|ready| ready.last_transition_time);
    (
        (!pod.spec.node_name.is_empty(), phase, ready, cost(pod)),
        (Reverse(crowd.count_on_node_of(pod)), ready.then(|| age_magnitude(since, now))),
        (Reverse(restarts(pod)), age_magnitude(pod.metadata.creation_timestamp, now)),
        pod.metadata.uid.as_str(),
    )
}

/// The most restarts of a container, and of a sidecar.
fn restarts(pod: &Pod) -> (i64, i64) {
    let most = |statuses: &mut dyn Iterator<Item = &ContainerStatus>| {
        statuses.map(|status| status.restart_count).max().unwrap_or_default()
    };
    let stays = |status: &&ContainerStatus| {
        let mut containers = pod.spec.init_containers.iter();
        containers.any(|container| container.name == status.name && container.restart_policy == "Always")
    };
    let PodStatus { container_statuses, init_container_statuses, .. } = &pod.status;
    (most(&mut container_statuses.iter()), most(&mut init_container_statuses.iter().filter(stays)))
}

/// The power of two of the nanoseconds since then. A missing or future time counts as the youngest.
fn age_magnitude(since: Option<Timestamp>, now: Timestamp) -> Option<u32> {
    let nanos = since.map(|since| now.duration_since(since).as_nanos());
    nanos.and_then(|nanos| u128::try_from(nanos).ok()).and_then(u128::checked_ilog2)
}

/// The deletion cost: a number without plus sign or leading zeros; anything else counts as 0.
fn cost(pod: &Pod) -> i32 {
    let text = pod.metadata.annotations.get(DELETION_COST).map_or("0", String::as_str);
    let plain = text == "0" || text.starts_with('-') || text.starts_with(|c| matches!(c, '1'..='9'));
    text.parse().ok().filter(|_| plain).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn test_now() -> Timestamp {
        "2026-01-02T04:00:00Z".parse().unwrap()
    }

    /// A ready pod on node `a` that is an hour old, changed by `with`.
    fn pod(name: &str, with: impl Fn(&mut Value)) -> Pod {
        let mut value = json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-02T03:00:00Z", "annotations": {}},
            "spec": {"nodeName": "a"},
            "status": {"phase": "Running", "containerStatuses": [{"restartCount": 0}], "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:00:00Z"}]},
        });
        with(&mut value);
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn deletion_rank_orders_least_useful_first() {
        let ready = |status: &str, since: &str| json!([{"type": "Ready", "status": status, "lastTransitionTime": since}]);
        let pods = [
            pod("z-steady", |_| {}),
            pod("y-restarted", |p| p["status"]["containerStatuses"][0]["restartCount"] = 3.into()),
            pod("x-young", |p| p["metadata"]["creationTimestamp"] = "2026-01-02T03:59:00Z".into()),
            pod("w-lately-ready", |p| p["status"]["conditions"] = ready("True", "2026-01-02T03:59:00Z")),
            pod("v-crowded", |p| p["spec"]["nodeName"] = "b".into()),
            pod("u-cheap", |p| p["metadata"]["annotations"][DELETION_COST] = "-1".into()),
            pod("t-not-ready", |p| p["status"]["conditions"] = ready("False", "2026-01-02T03:00:00Z")),
            pod("s-pending", |p| p["status"]["phase"] = "Pending".into()),
            pod("r-nowhere", |p| p["spec"]["nodeName"] = "".into()),
        ];
        let mut crowd = RelatedPods::default();
        for pod in pods.iter().chain([&pods[4]; 9]) {
            crowd.add(pod);
        }
        let mut order: Vec<_> = pods.iter().collect();
        order.sort_by_cached_key(|pod| deletion_rank(pod, &crowd, test_now()));
        let order: Vec<_> = order.iter().map(|pod| pod.metadata.name.as_str()).collect();
        let mut expected: Vec<_> = pods.iter().rev().map(|pod| pod.metadata.name.as_str()).collect();
        expected.swap(6, 7); // Restarts count before age.
        assert_eq!(order, expected);
    }

    #[test]
    fn deletion_cost_must_be_a_plain_number() {
        let costs =
            |text: &str| cost(&pod("a", |p| p["metadata"]["annotations"][DELETION_COST] = text.into()));
        assert_eq!(["10", "-3", "0", "+1", "007", "x", ""].map(costs), [10, -3, 0, 0, 0, 0, 0]);
    }
}
