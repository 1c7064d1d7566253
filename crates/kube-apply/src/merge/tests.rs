//! Merge cases and properties.

mod reference;

use std::time::Duration;

use proptest::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use super::*;

fn pod(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
}

#[test]
fn three_way_merge_removes_sets_and_preserves_fields() {
    let last = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"gone": "1", "kept": "1"}});
    let new = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"kept": "2", "come": "3", "unwanted": null}});
    let live = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"uid": "u"},
        "data": {"gone": "1", "kept": "1", "theirs": "4", "unwanted": "5"},
    });
    let wanted = three_way(&last, &new, &live);
    assert_eq!(wanted["data"], json!({"kept": "2", "come": "3", "theirs": "4"}));
    assert_eq!(
        merge_patch(&live, &wanted),
        Some(json!({"data": {"gone": null, "unwanted": null, "kept": "2", "come": "3"}}))
    );
}

#[test]
fn containers_merge_by_name_and_injected_one_stays() {
    let last = pod(&json!({"containers": [
        {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "1"}]}, {"name": "old"},
    ]}));
    let new = pod(&json!({"containers": [
        {"name": "a", "image": "a:2", "env": [{"name": "Y", "value": "2"}]}, {"name": "b", "image": "b:1"},
    ]}));
    let live = pod(&json!({"containers": [
        {"name": "proxy", "image": "p"},
        {"name": "a", "image": "a:1", "pull": "Always", "env": [
            {"name": "X", "value": "1"}, {"name": "Y", "value": "1"}, {"name": "Z", "value": "9"},
        ]},
        {"name": "old"},
    ]}));
    assert_eq!(
        three_way(&last, &new, &live)["spec"]["containers"],
        json!([
            {"name": "proxy", "image": "p"},
            {"name": "a", "image": "a:2", "pull": "Always", "env": [{"name": "Y", "value": "2"}, {"name": "Z", "value": "9"}]},
            {"name": "b", "image": "b:1"},
        ])
    );
}

#[test]
fn changed_volume_or_strategy_type_drops_old_fields() {
    let last = pod(&json!({"volumes": [{"name": "v", "emptyDir": {}}]}));
    let new = pod(&json!({"volumes": [{"name": "v", "configMap": {"name": "c"}}]}));
    let live = pod(&json!({"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]}));
    assert_eq!(
        three_way(&last, &new, &live)["spec"]["volumes"],
        json!([{"name": "v", "configMap": {"name": "c"}}])
    );

    let deployment = |strategy: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"strategy": strategy}});
    let live = deployment(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}));
    let new = deployment(json!({"type": "Recreate"}));
    assert_eq!(
        three_way(&deployment(json!({})), &new, &live)["spec"]["strategy"],
        json!({"type": "Recreate"})
    );
}

#[test]
fn lists_of_custom_kinds_are_replaced() {
    let object = |containers: Value| json!({"apiVersion": "x.dev/v1", "kind": "Pod", "spec": {"containers": containers}});
    let (new, live) = (object(json!([{"name": "a"}])), object(json!([{"name": "a", "x": 1}, {"name": "b"}])));
    assert_eq!(three_way(&new, &new, &live), new);
}

#[test]
fn ports_merge_by_the_key_of_their_kind() {
    let service = |ports: Value| json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": ports}});
    let (new, live) =
        (service(json!([{"port": 80}])), service(json!([{"port": 80, "nodePort": 30000}, {"port": 81}])));
    assert_eq!(three_way(&new, &new, &live), live);
    let policy = |ports: Value| json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": {"ports": ports}});
    let (new, live) = (policy(json!([{"port": 80}])), policy(json!([{"port": 80, "endPort": 90}])));
    assert_eq!(three_way(&new, &new, &live), new);
}

#[test]
fn finalizers_of_others_stay() {
    let object =
        |words: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"finalizers": words}});
    let merged =
        three_way(&object(json!(["a", "b"])), &object(json!(["b", "c"])), &object(json!(["a", "x", "b"])));
    assert_eq!(merged["metadata"]["finalizers"], json!(["x", "b", "c"]));
    // The manifest does not impose an order.
    let merged = three_way(&object(json!([])), &object(json!(["a", "b"])), &object(json!(["b", "x", "a"])));
    assert_eq!(merged["metadata"]["finalizers"], json!(["b", "x", "a"]));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), (0..3i64).prop_map(Value::from), "[ab]".prop_map(Value::from)];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("(a|b|name|env|containers|spec)", inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

/// Items of a list merged by name; some have no unique key.
fn any_items() -> impl Strategy<Value = Value> {
    let name = prop_oneof![9 => "[a-f]".prop_map(Value::from), 1 => (0..2i64).prop_map(Value::from), 1 => Just(Value::Null)];
    let item = (name, any_value()).prop_map(|(name, value)| json!({"name": name, "value": value}));
    let item = prop_oneof![20 => item, 1 => any_value()];
    prop_oneof![
        4 => prop::collection::btree_map("[a-h]", any_value(), 0..6).prop_map(|items| {
            items.into_iter().map(|(name, value)| json!({"name": name, "value": value})).rev().collect()
        }),
        1 => prop::collection::vec(item, 0..4).prop_map(Value::from),
    ]
}

/// A pod with lists merged by name, in any order, and finalizers as a set.
fn any_pod() -> impl Strategy<Value = Value> {
    let words =
        prop::collection::vec(prop_oneof![9 => "[a-f]".prop_map(Value::from), 1 => any_value()], 0..6);
    let shuffled = any_items().prop_flat_map(|items| match items {
        Value::Array(items) => Just(items).prop_shuffle().prop_map(Value::from).boxed(),
        other => Just(other).boxed(),
    });
    (shuffled, any_items(), any_items(), words, any_value()).prop_map(|(env, volumes, secrets, words, other)| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "finalizers": words, "labels": other},
            "spec": {"containers": [{"name": "c", "env": env}], "volumes": volumes, "imagePullSecrets": secrets},
        })
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    any_value().prop_map(|spec| match without_nulls(&spec) {
        Value::Object(spec) => pod(&spec.into()),
        other => pod(&json!({"x": without_nulls(&json!({"y": other}))})),
    })
}

/// Applies a merge patch as an API server does (RFC 7386).
fn patched(target: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut target = target.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        match value {
            Value::Null => _ = target.remove(key),
            value => {
                let there = target.get(key).cloned().unwrap_or(Value::Null);
                target.insert(key.clone(), patched(&there, value));
            }
        }
    }
    target.into()
}

proptest! {
    #[test]
    fn merge_has_the_outcome_of_the_quadratic_one(last in any_pod(), new in any_pod(), live in any_pod()) {
        prop_assert_eq!(three_way(&last, &new, &live), reference::three_way(&last, &new, &live));
    }

    #[test]
    fn merge_of_anything_has_the_outcome_of_the_quadratic_one(last in any_object(), new in any_object(), live in any_object()) {
        prop_assert_eq!(three_way(&last, &new, &live), reference::three_way(&last, &new, &live));
    }

    #[test]
    fn merging_twice_changes_nothing(last in any_object(), new in any_object(), live in any_object()) {
        let once = three_way(&last, &new, &live);
        let twice = three_way(&new, &new, &once);
        prop_assert_eq!(merge_patch(&once, &twice), None);
    }

    #[test]
    fn the_difference_leads_to_what_is_wanted(last in any_object(), new in any_object(), live in any_object()) {
        let wanted = three_way(&last, &new, &live);
        let arrived = merge_patch(&live, &wanted).map_or(live.clone(), |patch| patched(&live, &patch));
        prop_assert_eq!(arrived, wanted);
    }

    #[test]
    fn over_nothing_of_others_the_outcome_is_the_manifest(last in any_object(), new in any_object()) {
        prop_assert_eq!(three_way(&last, &new, &last), new);
    }
}

/// CPU time of `work` on this thread.
fn cpu_time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let read = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let began = read();
    let done = work();
    (done, read().saturating_sub(began))
}

type Merge = fn(&Value, &Value, &Value) -> Value;

/// Merges lists of this length: half of the previous items are dropped, half of the live ones belong to others.
fn merge_many(items: usize, merge: Merge) -> Duration {
    let env = |from: usize| -> Value {
        (from..from + items).map(|n| json!({"name": format!("VARIABLE_{n}"), "value": "x"})).collect()
    };
    let finalizers =
        |from: usize| -> Value { (from..from + items).map(|n| format!("example.com/{n}")).collect() };
    let object = |from: usize| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "finalizers": finalizers(from)},
            "spec": {"containers": [{"name": "c", "env": env(from)}]},
        })
    };
    let (last, new, live) = (object(0), object(items / 2), object(items));
    let (merged, took) = cpu_time(|| {
        let wanted = merge(&last, &new, &live);
        assert!(merge_patch(&live, &wanted).is_some());
        wanted
    });
    let kept = items + items / 2;
    assert_eq!(merged["spec"]["containers"][0]["env"].as_array().map(Vec::len), Some(kept));
    assert_eq!(merged["metadata"]["finalizers"].as_array().map(Vec::len), Some(kept));
    took
}

/// Whether one merge of ten times as many items takes about as long as ten merges.
fn is_linear(merge: Merge, items: usize) -> bool {
    let fastest = |work: &dyn Fn() -> Duration| (0..3).map(|_| work()).min().unwrap();
    let many = fastest(&|| merge_many(items, merge));
    let few = fastest(&|| (0..10).map(|_| merge_many(items / 10, merge)).sum());
    many < few * 4
}

/// A quadratic merge would take 100 times as long for ten times as many items.
#[test]
fn merge_of_long_lists_takes_linear_time() {
    assert!(is_linear(three_way, 20_000));
    assert!(!is_linear(reference::three_way, 4_000), "the measure tells them apart");
}

/// No level may copy the levels below it.
#[test]
fn merge_of_nested_maps_takes_linear_time() {
    let below: Value = (0..20_000).map(|n| (n.to_string(), json!(n))).collect::<Map<_, _>>().into();
    let object = |depth| pod(&(0..depth).fold(below.clone(), |below, _| json!({"a": below})));
    let time = |depth, merge: Merge| {
        let (live, new) = (object(depth), object(depth));
        cpu_time(|| (0..5).for_each(|_| drop(merge(&new, &new, &live)))).1
    };
    let is_linear = |merge| time(100, merge) < time(1, merge) * 10;
    assert!(is_linear(three_way));
    assert!(!is_linear(reference::three_way), "the measure tells them apart");
}
