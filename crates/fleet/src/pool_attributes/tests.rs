//! Tests of permitted attributes.

use serde_json::{Value, json};

use super::*;

fn spec(value: Value) -> NodePoolSpec {
    serde_json::from_value(value).unwrap()
}

#[test]
fn attributes_permitted_for_administrators_and_tenants() {
    let label = |key: &str, value: &str| json!({"labels": {key: value}});
    let taint = |key: &str, effect: &str| json!({"taints": [{"key": key, "effect": effect, "value": "v"}]});
    #[rustfmt::skip]
    let table = [
        // Attribute, permitted for an administrator, permitted for a tenant.
        (label("region", "hz"), true, true),
        (label("example.com/region", ""), true, true),
        (label("topology.kubernetes.io/zone", "z"), true, false),
        (label("node-role.kubernetes.io/control-plane", ""), true, false),
        (label("openyurt.io/is-edge-worker", "true"), true, false),
        (label("notkubernetes.io/x", ""), true, true),
        // No pool may set the tenant and membership labels.
        (label("openyurt/tenant", "uaaaaaaaaaa"), false, false),
        (label("apps.openyurt.io/nodepool", "x"), false, false),
        (label("apps.openyurt.io/desired-nodepool", "x"), false, false),
        (label("nodepool.openyurt.io/hostnetwork", "true"), false, false),
        (label("kubernetes.io/hostname", "x"), false, false),
        (json!({"annotations": {"nodepool.openyurt.io/previous-attributes": "{}"}}), false, false),
        (json!({"annotations": {"note": "what I want: ü, 7"}}), true, true),
        (json!({"annotations": {"note": "x".repeat(5000)}}), false, false),
        (taint("openyurt/tenant", "NoSchedule"), false, false),
        (taint("edge", "NoExecute"), true, true),
        (taint("edge", "Sometimes"), false, false),
        (taint("node.kubernetes.io/unschedulable", "NoSchedule"), true, false),
        // Attributes that the API server would reject.
        (label("", "x"), false, false),
        (label("a b", "x"), false, false),
        (label("-a", "x"), false, false),
        (label("A/b", "x"), false, false),
        (label("a/b/c", "x"), false, false),
        (label("a/", "x"), false, false),
        (label("a", "x y"), false, false),
        (label("a", &"x".repeat(64)), false, false),
    ];
    for (said, administrator, tenant) in table {
        for (of_tenant, expected) in [(false, administrator), (true, tenant)] {
            let spec = spec(said.clone());
            assert_eq!(
                validate(&spec, of_tenant).is_ok(),
                expected,
                "{said} {of_tenant} {:?}",
                validate(&spec, of_tenant)
            );
            // Refused attributes are also ignored in pools that were written directly.
            let given = permitted(&spec, of_tenant);
            let any = !given.labels.is_empty() || !given.annotations.is_empty() || !given.taints.is_empty();
            assert_eq!(any, expected, "{said}");
        }
    }
}

#[test]
fn validation_error_names_the_attribute() {
    let wrong = validate(&spec(json!({"labels": {"fine": "x", "openyurt/tenant": "u"}})), true).unwrap_err();
    assert_eq!(wrong, "label `openyurt/tenant`: reserved for the system");
    let many: BTreeMap<_, _> = (0..65).map(|number| (format!("l{number}"), String::new())).collect();
    assert!(validate(&NodePoolSpec { labels: many, ..NodePoolSpec::default() }, false).is_err());
}

#[test]
fn host_network_becomes_a_label_and_last_duplicate_taint_wins() {
    let given = permitted(
        &spec(json!({"hostNetwork": true, "taints": [
            {"key": "a", "effect": "NoSchedule", "value": "1"}, {"key": "a", "effect": "NoSchedule", "value": "2"},
            {"key": "a", "effect": "NoExecute", "value": "3"},
        ]})),
        false,
    );
    assert_eq!(given.labels[HOST_NETWORK], "true");
    let taints: Vec<_> = given.taints.iter().map(|taint| taint.value.as_deref().unwrap()).collect();
    assert_eq!(taints, ["3", "2"]);
}
