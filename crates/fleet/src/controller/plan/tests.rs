//! Tests of node plans, by cases.

#![expect(clippy::needless_pass_by_value, reason = "what a test says of an object is said once")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::node::NodeObject;

const DESIRED_POOL_LABEL: &str = "apps.openyurt.io/desired-nodepool";
const POOL_LABEL: &str = "apps.openyurt.io/nodepool";

fn node_attributes(metadata: Value, taints: Value) -> NodeAttributes {
    let told: NodeObject =
        serde_json::from_value(json!({"metadata": metadata, "spec": {"taints": taints}})).unwrap();
    NodeAttributes::from_object(&told)
}

fn node_with_labels(labels: Value) -> NodeAttributes {
    node_attributes(json!({"name": "n", "labels": labels}), json!([]))
}

fn pool(name: &str, spec: Value, tenant: Option<&str>) -> Arc<Pool> {
    let labels = tenant.map(|tenant| json!({"openyurt/tenant": tenant}));
    let told = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
    Arc::new(Pool::from_object(serde_json::from_value(told).unwrap()))
}

/// The node after its plan was executed.
fn reconciled(worn: &NodeAttributes, pools: &[Arc<Pool>]) -> NodeAttributes {
    plan(worn, pools).unwrap_or_else(|| worn.clone())
}

#[test]
fn pool_of_a_node_by_labels_and_selectors() {
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
        (json!({DESIRED_POOL_LABEL: "b"}), Some(("b", MembershipSource::DesiredLabel))),
        (json!({POOL_LABEL: "a"}), Some(("a", MembershipSource::Label))),
        (json!({DESIRED_POOL_LABEL: "b", POOL_LABEL: "a"}), Some(("b", MembershipSource::DesiredLabel))),
        (json!({DESIRED_POOL_LABEL: ""}), None),
        // A node whose desired pool does not exist gets no other.
        (json!({DESIRED_POOL_LABEL: "gone", POOL_LABEL: "a", "zone": "a"}), None),
        (json!({POOL_LABEL: "gone", "zone": "a"}), None),
        (json!({"zone": "a"}), Some(("by-zone", MembershipSource::Selector))),
        (json!({"zone": "b"}), None),
        (json!({"site": "x"}), Some(("listed", MembershipSource::Selector))),
        (json!({"site": "y"}), None),
        (json!({"site": "x", "off": ""}), None),
        // A tenant's pool takes only that tenant's nodes.
        (json!({"zone": "a", "openyurt/tenant": "u1"}), Some(("a-tenants-zone", MembershipSource::Selector))),
        (json!({"zone": "a", "openyurt/tenant": "u2"}), Some(("by-zone", MembershipSource::Selector))),
        (json!({DESIRED_POOL_LABEL: "u1-pool"}), None),
        (json!({DESIRED_POOL_LABEL: "u1-pool", "openyurt/tenant": "u2"}), None),
        (json!({DESIRED_POOL_LABEL: "u1-pool", "openyurt/tenant": "u1"}), Some(("u1-pool", MembershipSource::DesiredLabel))),
        (json!({DESIRED_POOL_LABEL: "b", "openyurt/tenant": "u1"}), Some(("b", MembershipSource::DesiredLabel))),
        (json!({POOL_LABEL: "u1-pool", "openyurt/tenant": "u2"}), None),
    ];
    for (labels, expected) in table {
        let found = find_pool(&node_with_labels(labels.clone()).without_pool(), &pools)
            .map(|(pool, by)| (&*pool.name, by));
        assert_eq!(found, expected, "{labels}");
    }
}

#[test]
fn a_pool_dresses_its_nodes_and_remembers_what_was_there() {
    let node = node_attributes(
        json!({"name": "n", "labels": {"apps.openyurt.io/desired-nodepool": "p", "region": "old", "own": "x"}, "annotations": {"note": "mine"}}),
        json!([{"key": "edge", "value": "old", "effect": "NoSchedule"}, {"key": "keep", "effect": "NoExecute"}]),
    );
    let spec = json!({"labels": {"region": "hz", "tier": "edge"}, "annotations": {"note": "pool", "more": "1"}, "hostNetwork": true,
                      "taints": [{"key": "edge", "value": "new", "effect": "NoSchedule"}]});
    let pools = [pool("p", spec, None)];
    let dressed = reconciled(&node, &pools);
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
    assert!(reconciled(&leaving, &pools).is_equivalent(&expected), "{:?}", reconciled(&leaving, &pools));
    // It is also restored when the pool is deleted.
    assert!(reconciled(&dressed, &[]).is_equivalent(&node));
}

#[test]
fn changed_attributes_are_corrected_and_restored_on_leave() {
    let node = node_with_labels(json!({"apps.openyurt.io/desired-nodepool": "p", "region": "old"}));
    let pools = [pool("p", json!({"labels": {"region": "hz"}}), None)];
    let mut changed = reconciled(&node, &pools);
    changed.labels.insert("region".to_owned(), "somebody's".to_owned());
    let again = reconciled(&changed, &pools);
    assert_eq!(again.labels["region"], "hz");
    assert_eq!(reconciled(&again, &[]).labels["region"], "somebody's");
    // The label was removed by a user, so it is not restored when the node leaves.
    changed.labels.remove("region");
    let again = reconciled(&changed, &pools);
    assert_eq!(again.labels["region"], "hz");
    assert_eq!(reconciled(&again, &[]).labels.get("region"), None);
}

#[test]
fn attributes_removed_from_pool_are_removed_from_nodes() {
    let node = node_with_labels(json!({"apps.openyurt.io/nodepool": "p", "b": "old"}));
    let with = |labels: Value| [pool("p", json!({"labels": labels}), None)];
    let dressed = reconciled(&node, &with(json!({"a": "1", "b": "2"})));
    assert_eq!((dressed.labels["a"].as_str(), dressed.labels["b"].as_str()), ("1", "2"));
    let less = reconciled(&dressed, &with(json!({"a": "3"})));
    assert_eq!((less.labels["a"].as_str(), less.labels["b"].as_str()), ("3", "old"));
    // The membership label was set by a user, so the controller does not remove it.
    let left = reconciled(&less, &[]);
    assert!(left.is_equivalent(&node), "{left:?}");
    assert_eq!(left.labels["apps.openyurt.io/nodepool"], "p");
}

#[test]
fn unreadable_record_of_applied_attributes_is_ignored() {
    let node = node_attributes(
        json!({"name": "n", "labels": {"a": "b"}, "annotations": {"nodepool.openyurt.io/previous-attributes": "not JSON"}}),
        json!([]),
    );
    assert_eq!(plan(&node, &[]), None);
    // OpenYurt's own format has no `before`.
    let text = json!({"labels": {"a": "b"}, "taints": [{"key": "t", "effect": "NoSchedule"}]}).to_string();
    let node = node_attributes(
        json!({"name": "n", "labels": {"a": "b"}, "annotations": {"nodepool.openyurt.io/previous-attributes": text}}),
        json!([{"key": "t", "effect": "NoSchedule"}]),
    );
    let bare = plan(&node, &[]).unwrap();
    assert!(bare.labels.is_empty() && bare.taints.is_empty());
}

#[test]
fn forged_record_does_not_change_the_tenant() {
    // A node may write its own annotations.
    let forged = json!({
        "labels": {"openyurt/tenant": "u1", "kubernetes.io/hostname": "n"},
        "taints": [{"key": "openyurt/tenant", "value": "u1", "effect": "NoSchedule"}],
        "before": {"labels": {"openyurt/tenant": "u2", "apps.openyurt.io/nodepool": "theirs"},
                   "taints": [{"key": "openyurt/tenant", "value": "u2", "effect": "NoSchedule"}]},
    });
    let node = node_attributes(
        json!({"name": "n", "labels": {"openyurt/tenant": "u1", "kubernetes.io/hostname": "n"},
               "annotations": {"nodepool.openyurt.io/previous-attributes": forged.to_string()}}),
        json!([{"key": "openyurt/tenant", "value": "u1", "effect": "NoSchedule"}]),
    );
    let bare = node.without_pool();
    assert_eq!((&bare.labels, &bare.taints), (&node.labels, &node.taints));
}

#[test]
fn desired_pool_label_overrides_pool_label() {
    let pools = [pool("a", json!({}), None), pool("b", json!({}), None)];
    let mut node = node_with_labels(json!({"apps.openyurt.io/nodepool": "a"}));
    assert_eq!(plan(&node, &pools), None);
    node.labels.insert(DESIRED_POOL.to_owned(), "b".to_owned());
    let mut moved = reconciled(&node, &pools);
    assert_eq!(moved.labels[POOL], "b");
    assert_eq!(plan(&moved, &pools), None);
    moved.labels.remove(DESIRED_POOL);
    assert_eq!(reconciled(&moved, &pools).labels, std::collections::BTreeMap::new());
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
        let node = node_attributes(json!({"name": "n", "labels": labels, "annotations": annotations}), json!(worn_taints));
        let mut now = node.clone();
        for (labels, annotations, taints, host_network) in passed {
            now.labels.insert(DESIRED_POOL.to_owned(), "p".to_owned());
            let spec = json!({"labels": labels, "annotations": annotations, "taints": taints, "hostNetwork": host_network});
            let pools = [pool("p", spec, None)];
            now = reconciled(&now, &pools);
            prop_assert_eq!(plan(&now, &pools), None);
            for (key, value) in &labels {
                prop_assert_eq!(&now.labels[key], value);
            }
            prop_assert_eq!(now.labels.get(POOL).map(String::as_str), Some("p"));
        }
        now.labels.remove(DESIRED_POOL);
        let left = reconciled(&now, &[]);
        prop_assert!(left.is_equivalent(&node), "{:?} is not {:?}", left, node);
    }
}
