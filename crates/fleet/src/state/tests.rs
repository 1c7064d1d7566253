//! Sums and counts compared with their recomputation.

#![expect(clippy::needless_pass_by_value, reason = "what a test says of an object is said once")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::words::Words;

/// A change of the cluster.
#[derive(Clone, Debug)]
enum Event {
    Pod { namespace: u8, name: u8, node: Option<u8>, phase: usize, milli: i64, limited: bool },
    PodGone { namespace: u8, name: u8 },
    Node { name: u8, tenant: Option<u8>, ready: bool },
    NodeGone { name: u8 },
}

const PHASES: &[&str] = &["Pending", "Running", "Succeeded", "Failed"];

fn event() -> impl Strategy<Value = Event> {
    let small = || 0..4u8;
    prop_oneof![
        4 => (small(), small(), prop::option::of(small()), 0..PHASES.len(), 0..9000i64, any::<bool>()).prop_map(
            |(namespace, name, node, phase, milli, limited)| Event::Pod { namespace, name, node, phase, milli, limited }
        ),
        2 => (small(), small()).prop_map(|(namespace, name)| Event::PodGone { namespace, name }),
        2 => (small(), prop::option::of(small()), any::<bool>()).prop_map(|(name, tenant, ready)| Event::Node { name, tenant, ready }),
        1 => small().prop_map(|name| Event::NodeGone { name }),
    ]
}

fn pod(words: &Words, namespace: u8, name: u8, spec: Value, phase: &str) -> Pod {
    let told = json!({
        "metadata": {"name": format!("p{name}"), "namespace": format!("x{namespace}")},
        "spec": spec,
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    Pod::of(serde_json::from_value(told).unwrap(), words)
}

fn node(words: &Words, name: u8, tenant: Option<u8>, ready: bool) -> Node {
    let labels = tenant.map(|tenant| json!({"openyurt/tenant": format!("u{tenant}")}));
    let status = if ready { "True" } else { "Unknown" };
    let told = json!({"metadata": {"name": format!("n{name}"), "labels": labels},
                      "status": {"conditions": [{"type": "Ready", "status": status}]}});
    Node::of(&serde_json::from_value(told).unwrap(), words)
}

fn happen(state: &mut State, words: &Words, event: &Event) {
    match event {
        Event::Pod { namespace, name, node, phase, milli, limited } => {
            let amounts = json!({"cpu": format!("{milli}m"), "memory": format!("{milli}Ki")});
            let limits = if *limited { amounts.clone() } else { json!({}) };
            let container = json!({"image": "i", "resources": {"requests": amounts, "limits": limits}});
            let spec = json!({"nodeName": node.map(|node| format!("n{node}")), "containers": [container]});
            state.put_pod(Arc::new(pod(words, *namespace, *name, spec, PHASES[*phase])));
        }
        Event::PodGone { namespace, name } => state.drop_pod(&format!("x{namespace}"), &format!("p{name}")),
        Event::Node { name, tenant, ready } => state.put_node(&Arc::new(node(words, *name, *tenant, *ready))),
        Event::NodeGone { name } => state.drop_node(&format!("n{name}")),
    }
}

fn counted<'a, T: Kept + 'a>(objects: impl Iterator<Item = &'a Arc<T>>) -> Count {
    let mut count = Count::default();
    objects.for_each(|object| count.add(object.is_healthy()));
    count
}

/// All pods, by namespace and name.
fn pods(state: &State) -> Vec<&Arc<Pod>> {
    state.pods.namespaces().flat_map(|namespace| state.pods.after(namespace, None)).collect()
}

/// Recomputes all derived state from the objects and compares.
fn check(state: &State) {
    let mut loads: HashMap<Arc<str>, Load> = HashMap::new();
    for pod in pods(state) {
        if let Some((node, takes, running)) = pod.load() {
            loads.entry(node.clone()).or_default().add(takes, running);
        }
    }
    assert_eq!(state.loads, loads);
    assert_eq!(state.pods.count(), counted(pods(state).into_iter()));
    let mut in_all = Count::default();
    for namespace in 0..4 {
        let namespace = format!("x{namespace}");
        let count = state.pods.count_in(&namespace);
        assert_eq!(count, counted(state.pods.after(&namespace, None)));
        assert!(state.pods.after(&namespace, None).is_sorted_by_key(|pod| pod.head.name.clone()));
        in_all = in_all.and(count);
    }
    assert_eq!(state.pods.count(), in_all);
    let mut tenants: HashMap<Arc<str>, Count> = HashMap::new();
    let mut nodes = Count::default();
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
    fn sums_and_counts_are_what_counting_anew_gives(events in prop::collection::vec(event(), 1..120)) {
        let (mut state, words) = (State::default(), Words::default());
        for event in &events {
            happen(&mut state, &words, event);
        }
        check(&state);
    }
}

#[test]
fn what_is_gone_leaves_nothing_behind() {
    let (mut state, words) = (State::default(), Words::default());
    let spec =
        json!({"nodeName": "n1", "containers": [{"image": "i", "resources": {"requests": {"cpu": "1"}}}]});
    state.put_pod(Arc::new(pod(&words, 1, 1, spec, "Running")));
    state.put_node(&Arc::new(node(&words, 1, Some(1), true)));
    assert_eq!((state.loads.len(), state.tenants.len()), (1, 1));
    state.drop_pod("x1", "p1");
    state.drop_pod("x1", "p1");
    state.drop_node("n1");
    state.drop_node("n1");
    assert_eq!((state.loads.len(), state.tenants.len(), state.pods.spaces.len()), (0, 0, 0));
    check(&state);
}
