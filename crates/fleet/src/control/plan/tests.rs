//! Tests of node plans, by cases.

#![expect(clippy::needless_pass_by_value, reason = "what a test says of an object is said once")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::node::Told;

const WISH: &str = "apps.openyurt.io/desired-nodepool";
const HAND: &str = "apps.openyurt.io/nodepool";

fn worn(metadata: Value, taints: Value) -> Worn {
    let told: Told =
        serde_json::from_value(json!({"metadata": metadata, "spec": {"taints": taints}})).unwrap();
    Worn::told(&told)
}

fn labelled(labels: Value) -> Worn {
    worn(json!({"name": "n", "labels": labels}), json!([]))
}

fn pool(name: &str, spec: Value, tenant: Option<&str>) -> Arc<Pool> {
    let labels = tenant.map(|tenant| json!({"openyurt/tenant": tenant}));
    let told = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
    Arc::new(Pool::of(serde_json::from_value(told).unwrap()))
}

/// The node after its plan was executed.
fn after(worn: &Worn, pools: &[Arc<Pool>]) -> Worn {
    plan(worn, pools).unwrap_or_else(|| worn.clone())
}

#[test]
fn which_pool_a_node_is_in() {
    let zoned = json!({"selector": {"matchLabels": {"zone": "a"}}});
    let pools = [
        pool("a", json!({"selector": {"matchLabels": {"apps.openyurt.io/nodepool": "a"}}}), None),
        pool("b", json!({}), None),
        pool("by-zone-2", zoned.clone(), None),
        pool("by-zone", zoned.clone(), None),
        pool("a-tenants-zone", zoned, Some("u1")),
        pool("u1-pool", json!({}), Some("u1")),
        pool(
            "listed",
            json!({"selector": {"matchExpressions": [
            {"key": "site", "operator": "In", "values": ["x", "y"]}, {"key": "off", "operator": "DoesNotExist"},
            {"key": "site", "operator": "NotIn", "values": ["y"]}, {"key": "site", "operator": "Exists"}]}}),
            None,
        ),
        pool("all", json!({"selector": {}}), None),
    ];
    #[rustfmt::skip]
    let table = [
        (json!({}), None),
        (json!({WISH: "b"}), Some(("b", By::Wish))),
        (json!({HAND: "a"}), Some(("a", By::Hand))),
        (json!({WISH: "b", HAND: "a"}), Some(("b", By::Wish))),
        (json!({WISH: ""}), None),
        // A node whose desired pool does not exist gets no other.
        (json!({WISH: "gone", HAND: "a", "zone": "a"}), None),
        (json!({HAND: "gone", "zone": "a"}), None),
        (json!({"zone": "a"}), Some(("by-zone", By::Selector))),
        (json!({"zone": "b"}), None),
        (json!({"site": "x"}), Some(("listed", By::Selector))),
        (json!({"site": "y"}), None),
        (json!({"site": "x", "off": ""}), None),
        // A tenant's pool takes only that tenant's nodes.
        (json!({"zone": "a", "openyurt/tenant": "u1"}), Some(("a-tenants-zone", By::Selector))),
        (json!({"zone": "a", "openyurt/tenant": "u2"}), Some(("by-zone", By::Selector))),
        (json!({WISH: "u1-pool"}), None),
        (json!({WISH: "u1-pool", "openyurt/tenant": "u2"}), None),
        (json!({WISH: "u1-pool", "openyurt/tenant": "u1"}), Some(("u1-pool", By::Wish))),
        (json!({WISH: "b", "openyurt/tenant": "u1"}), Some(("b", By::Wish))),
        (json!({HAND: "u1-pool", "openyurt/tenant": "u2"}), None),
    ];
    for (labels, expected) in table {
        let found = member_of(&labelled(labels.clone()).bare(), &pools).map(|(pool, by)| (&*pool.name, by));
        assert_eq!(found, expected, "{labels}");
    }
}

#[test]
fn a_pool_dresses_its_nodes_and_remembers_what_was_there() {
    let node = worn(
        json!({"name": "n", "labels": {"apps.openyurt.io/desired-nodepool": "p", "region": "old", "own": "x"}, "annotations": {"note": "mine"}}),
        json!([{"key": "edge", "value": "old", "effect": "NoSchedule"}, {"key": "keep", "effect": "NoExecute"}]),
    );
    let spec = json!({"labels": {"region": "hz", "tier": "edge"}, "annotations": {"note": "pool", "more": "1"}, "hostNetwork": true,
                      "taints": [{"key": "edge", "value": "new", "effect": "NoSchedule"}]});
    let pools = [pool("p", spec, None)];
    let dressed = after(&node, &pools);
    let mut patch = node.patch(&dressed, Some("7"));
    // The annotation's value is JSON text.
    let memory = &mut patch["metadata"]["annotations"]["nodepool.openyurt.io/previous-attributes"];
    *memory = serde_json::from_str(memory.as_str().unwrap()).unwrap();
    insta::assert_json_snapshot!(patch);
    assert_eq!(plan(&dressed, &pools), None, "nothing to do twice");

    // Without the pool the node is restored.
    let mut leaving = dressed.clone();
    leaving.labels.remove("apps.openyurt.io/desired-nodepool");
    let mut expected = node.clone();
    expected.labels.remove("apps.openyurt.io/desired-nodepool");
    assert!(after(&leaving, &pools).is_like(&expected), "{:?}", after(&leaving, &pools));
    // It is also restored when the pool is deleted.
    assert!(after(&dressed, &[]).is_like(&node));
}

#[test]
fn what_somebody_changed_in_a_pool_is_put_right_and_theirs_when_the_node_leaves() {
    let node = labelled(json!({"apps.openyurt.io/desired-nodepool": "p", "region": "old"}));
    let pools = [pool("p", json!({"labels": {"region": "hz"}}), None)];
    let mut changed = after(&node, &pools);
    changed.labels.insert("region".to_owned(), "somebody's".to_owned());
    let again = after(&changed, &pools);
    assert_eq!(again.labels["region"], "hz");
    assert_eq!(after(&again, &[]).labels["region"], "somebody's");
    // The label was removed by a user, so it is not restored when the node leaves.
    changed.labels.remove("region");
    let again = after(&changed, &pools);
    assert_eq!(again.labels["region"], "hz");
    assert_eq!(after(&again, &[]).labels.get("region"), None);
}

#[test]
fn what_leaves_the_pool_leaves_its_nodes() {
    let node = labelled(json!({"apps.openyurt.io/nodepool": "p", "b": "old"}));
    let with = |labels: Value| [pool("p", json!({"labels": labels}), None)];
    let dressed = after(&node, &with(json!({"a": "1", "b": "2"})));
    assert_eq!((dressed.labels["a"].as_str(), dressed.labels["b"].as_str()), ("1", "2"));
    let less = after(&dressed, &with(json!({"a": "3"})));
    assert_eq!((less.labels["a"].as_str(), less.labels["b"].as_str()), ("3", "old"));
    // The membership label was set by a user, so the controller does not remove it.
    let left = after(&less, &[]);
    assert!(left.is_like(&node), "{left:?}");
    assert_eq!(left.labels["apps.openyurt.io/nodepool"], "p");
}

#[test]
fn a_memory_that_cannot_be_read_is_none() {
    let node = worn(
        json!({"name": "n", "labels": {"a": "b"}, "annotations": {"nodepool.openyurt.io/previous-attributes": "not JSON"}}),
        json!([]),
    );
    assert_eq!(plan(&node, &[]), None);
    // OpenYurt's own format has no `before`.
    let text = json!({"labels": {"a": "b"}, "taints": [{"key": "t", "effect": "NoSchedule"}]}).to_string();
    let node = worn(
        json!({"name": "n", "labels": {"a": "b"}, "annotations": {"nodepool.openyurt.io/previous-attributes": text}}),
        json!([{"key": "t", "effect": "NoSchedule"}]),
    );
    let bare = plan(&node, &[]).unwrap();
    assert!(bare.labels.is_empty() && bare.taints.is_empty());
}

#[test]
fn no_memory_makes_a_node_somebody_elses() {
    // A node may write its own annotations.
    let forged = json!({
        "labels": {"openyurt/tenant": "u1", "kubernetes.io/hostname": "n"},
        "taints": [{"key": "openyurt/tenant", "value": "u1", "effect": "NoSchedule"}],
        "before": {"labels": {"openyurt/tenant": "u2", "apps.openyurt.io/nodepool": "theirs"},
                   "taints": [{"key": "openyurt/tenant", "value": "u2", "effect": "NoSchedule"}]},
    });
    let node = worn(
        json!({"name": "n", "labels": {"openyurt/tenant": "u1", "kubernetes.io/hostname": "n"},
               "annotations": {"nodepool.openyurt.io/previous-attributes": forged.to_string()}}),
        json!([{"key": "openyurt/tenant", "value": "u1", "effect": "NoSchedule"}]),
    );
    let bare = node.bare();
    assert_eq!((&bare.labels, &bare.taints), (&node.labels, &node.taints));
}

#[test]
fn a_wish_counts_more_than_a_hand_and_leaves_nothing_of_it() {
    let pools = [pool("a", json!({}), None), pool("b", json!({}), None)];
    let mut node = labelled(json!({"apps.openyurt.io/nodepool": "a"}));
    assert_eq!(plan(&node, &pools), None);
    node.labels.insert(DESIRED_POOL.to_owned(), "b".to_owned());
    let mut moved = after(&node, &pools);
    assert_eq!(moved.labels[POOL], "b");
    assert_eq!(plan(&moved, &pools), None);
    moved.labels.remove(DESIRED_POOL);
    assert_eq!(after(&moved, &pools).labels, std::collections::BTreeMap::new());
}

fn pairs() -> impl Strategy<Value = std::collections::BTreeMap<String, String>> {
    prop::collection::btree_map("[a-d]", "[x-z]", 0..4)
}

fn taints() -> impl Strategy<Value = Vec<Value>> {
    let taint = ("[a-c]", prop::sample::select(vec!["NoSchedule", "NoExecute"]), "[x-y]");
    prop::collection::btree_map((taint.0, taint.1), taint.2, 0..4).prop_map(|taints| {
        taints
            .into_iter()
            .map(|((key, effect), value)| json!({"key": key, "effect": effect, "value": value}))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn through_any_pools_and_out_again_a_node_is_as_it_was(
        labels in pairs(), annotations in pairs(), worn_taints in taints(),
        passed in prop::collection::vec((pairs(), pairs(), taints(), any::<bool>()), 1..4),
    ) {
        let node = worn(json!({"name": "n", "labels": labels, "annotations": annotations}), json!(worn_taints));
        let mut now = node.clone();
        for (labels, annotations, taints, host_network) in passed {
            now.labels.insert(DESIRED_POOL.to_owned(), "p".to_owned());
            let spec = json!({"labels": labels, "annotations": annotations, "taints": taints, "hostNetwork": host_network});
            let pools = [pool("p", spec, None)];
            now = after(&now, &pools);
            prop_assert_eq!(plan(&now, &pools), None);
            for (key, value) in &labels {
                prop_assert_eq!(&now.labels[key], value);
            }
            prop_assert_eq!(now.labels.get(POOL).map(String::as_str), Some("p"));
        }
        now.labels.remove(DESIRED_POOL);
        let left = after(&now, &[]);
        prop_assert!(left.is_like(&node), "{:?} is not {:?}", left, node);
    }
}
