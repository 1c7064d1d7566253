//! Sums and counts compared with their recomputation.

#![expect(clippy::needless_pass_by_value, reason = "what a test says of an object is said once")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::interner::StringInterner;

/// A change of the cluster.
#[derive(Clone, Debug)]
enum ClusterChange {
    Pod { namespace: u8, name: u8, node: Option<u8>, phase: usize, milli: i64, limited: bool },
    PodDeleted { namespace: u8, name: u8 },
    Node { name: u8, tenant: Option<u8>, ready: bool },
    NodeDeleted { name: u8 },
}

const PHASES: &[&str] = &["Pending", "Running", "Succeeded", "Failed"];

fn any_change() -> impl Strategy<Value = ClusterChange> {
    let small = || 0..4u8;
    prop_oneof![
        4 => (small(), small(), prop::option::of(small()), 0..PHASES.len(), 0..9000i64, any::<bool>()).prop_map(
            |(namespace, name, node, phase, milli, limited)| ClusterChange::Pod { namespace, name, node, phase, milli, limited }
        ),
        2 => (small(), small()).prop_map(|(namespace, name)| ClusterChange::PodDeleted { namespace, name }),
        2 => (small(), prop::option::of(small()), any::<bool>()).prop_map(|(name, tenant, ready)| ClusterChange::Node { name, tenant, ready }),
        1 => small().prop_map(|name| ClusterChange::NodeDeleted { name }),
    ]
}

fn pod(words: &StringInterner, namespace: u8, name: u8, spec: Value, phase: &str) -> Pod {
    let told = json!({
        "metadata": {"name": format!("p{name}"), "namespace": format!("x{namespace}")},
        "spec": spec,
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    Pod::from_object(serde_json::from_value(told).unwrap(), words)
}

fn node(words: &StringInterner, name: u8, tenant: Option<u8>, ready: bool) -> Node {
    let labels = tenant.map(|tenant| json!({"openyurt/tenant": format!("u{tenant}")}));
    let status = if ready { "True" } else { "Unknown" };
    let told = json!({"metadata": {"name": format!("n{name}"), "labels": labels},
                      "status": {"conditions": [{"type": "Ready", "status": status}]}});
    Node::from_object(&serde_json::from_value(told).unwrap(), words)
}

fn apply_change(state: &mut FleetCache, words: &StringInterner, event: &ClusterChange) {
    match event {
        ClusterChange::Pod { namespace, name, node, phase, milli, limited } => {
            let amounts = json!({"cpu": format!("{milli}m"), "memory": format!("{milli}Ki")});
            let limits = if *limited { amounts.clone() } else { json!({}) };
            let container = json!({"image": "i", "resources": {"requests": amounts, "limits": limits}});
            let spec = json!({"nodeName": node.map(|node| format!("n{node}")), "containers": [container]});
            state.put_pod(Arc::new(pod(words, *namespace, *name, spec, PHASES[*phase])));
        }
        ClusterChange::PodDeleted { namespace, name } => {
            state.remove_pod(&format!("x{namespace}"), &format!("p{name}"));
        }
        ClusterChange::Node { name, tenant, ready } => {
            state.put_node(&Arc::new(node(words, *name, *tenant, *ready)));
        }
        ClusterChange::NodeDeleted { name } => state.remove_node(&format!("n{name}")),
    }
}

fn counted<'a, T: CachedObject + 'a>(objects: impl Iterator<Item = &'a Arc<T>>) -> HealthCount {
    let mut count = HealthCount::default();
    objects.for_each(|object| count.add(object.is_healthy()));
    count
}

/// All pods, by namespace and name.
fn pods(state: &FleetCache) -> Vec<&Arc<Pod>> {
    state.pods.namespaces().flat_map(|namespace| state.pods.list_after(namespace, None)).collect()
}

/// Recomputes all derived state from the objects and compares.
fn assert_consistent(state: &FleetCache) {
    let mut loads: HashMap<Arc<str>, NodeAllocation> = HashMap::new();
    for pod in pods(state) {
        if let Some((node, takes, running)) = pod.allocation() {
            loads.entry(node.clone()).or_default().add(takes, running);
        }
    }
    assert_eq!(state.allocations, loads);
    assert_eq!(state.pods.count(), counted(pods(state).into_iter()));
    let mut in_all = HealthCount::default();
    for namespace in 0..4 {
        let namespace = format!("x{namespace}");
        let count = state.pods.count_in(&namespace);
        assert_eq!(count, counted(state.pods.list_after(&namespace, None)));
        assert!(state.pods.list_after(&namespace, None).is_sorted_by_key(|pod| pod.head.name.clone()));
        in_all = in_all.plus(count);
    }
    assert_eq!(state.pods.count(), in_all);
    let mut tenants: HashMap<Arc<str>, HealthCount> = HashMap::new();
    let mut nodes = HealthCount::default();
    for node in state.nodes.by_name.values() {
        nodes.add(node.is_ready());
        if let Some(tenant) = &node.tenant {
            tenants.entry(tenant.clone()).or_default().add(node.is_ready());
            assert!(state.tenants[tenant].by_name.contains_key(&node.name));
        }
    }
    assert_eq!(state.nodes.count, nodes);
    let kept: HashMap<_, _> =
        state.tenants.iter().map(|(tenant, nodes)| (tenant.clone(), nodes.count)).collect();
    assert_eq!(kept, tenants);
    assert!(state.tenants.values().all(|nodes| nodes.count.total == nodes.by_name.len() as u64));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn sums_and_counts_are_what_counting_anew_gives(events in prop::collection::vec(any_change(), 1..120)) {
        let (mut state, words) = (FleetCache::default(), StringInterner::default());
        for event in &events {
            apply_change(&mut state, &words, event);
        }
        assert_consistent(&state);
    }
}

#[test]
fn removed_objects_leave_no_state() {
    let (mut state, words) = (FleetCache::default(), StringInterner::default());
    let spec =
        json!({"nodeName": "n1", "containers": [{"image": "i", "resources": {"requests": {"cpu": "1"}}}]});
    state.put_pod(Arc::new(pod(&words, 1, 1, spec, "Running")));
    state.put_node(&Arc::new(node(&words, 1, Some(1), true)));
    assert_eq!((state.allocations.len(), state.tenants.len()), (1, 1));
    state.remove_pod("x1", "p1");
    state.remove_pod("x1", "p1");
    state.remove_node("n1");
    state.remove_node("n1");
    assert_eq!((state.allocations.len(), state.tenants.len(), state.pods.namespaces.len()), (0, 0, 0));
    assert_consistent(&state);
}
