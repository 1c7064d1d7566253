//! Tests of quota usage, and the property that sums add up.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn object(api_version: &str, kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": kind.to_lowercase()}, "spec": spec})
}

fn template(cpu: &str) -> Value {
    json!({"spec": {"containers": [{"name": "a", "resources": {
        "requests": {"cpu": cpu}, "limits": {"cpu": "1", "memory": "1Gi"},
    }}]}})
}

fn usage_json(usage: &QuotaUsage) -> Value {
    json!({"steady": resource_list::to_json(&usage.steady), "surge": resource_list::to_json(&usage.surge)})
}

#[test]
fn each_kind_in_a_quotas_words() {
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "storageClassName": "fast", "resources": {"requests": {"storage": "10Gi"}},
    }});
    let table = [
        object("apps/v1", "Deployment", &json!({"replicas": 4, "template": template("250m")})),
        object(
            "apps/v1",
            "StatefulSet",
            &json!({"replicas": 3, "template": template("1"), "volumeClaimTemplates": [claim]}),
        ),
        object(
            "apps/v1",
            "DaemonSet",
            &json!({"template": template("100m"), "updateStrategy": {"rollingUpdate": {"maxSurge": 1}}}),
        ),
        object("batch/v1", "CronJob", &json!({"jobTemplate": {"spec": {"template": template("100m")}}})),
        object("v1", "PersistentVolumeClaim", &claim["spec"]),
        object("v1", "Service", &json!({"type": "LoadBalancer", "ports": [{"port": 80}, {"port": 443}]})),
        object("v1", "ConfigMap", &Value::Null),
        object("networking.k8s.io/v1", "Ingress", &json!({})),
        object("example.com/v1", "Widget", &json!({"template": template("1")})),
    ];
    let pictures: Vec<Value> = table
        .iter()
        .map(
            |object| json!({"kind": object["kind"], "takes": usage_json(&QuotaUsage::for_object(object, 5))}),
        )
        .collect();
    insta::assert_json_snapshot!(pictures);
}

#[test]
fn ephemeral_volume_counts_as_one_claim_per_pod() {
    let mut template = template("1");
    template["spec"]["volumes"] = json!([
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}}},
        {"name": "config", "configMap": {"name": "c"}},
    ]);
    let usage = QuotaUsage::for_object(
        &object("apps/v1", "Deployment", &json!({"replicas": 4, "template": template})),
        0,
    );
    assert_eq!(usage.steady["requests.storage"].to_string(), "4Gi");
    assert_eq!(usage.peak()["persistentvolumeclaims"].to_string(), "5");
}

fn any_object() -> impl Strategy<Value = Value> {
    let workload = prop_oneof![
        Just(("apps/v1", "Deployment")),
        Just(("apps/v1", "StatefulSet")),
        Just(("apps/v1", "DaemonSet")),
        Just(("batch/v1", "Job")),
        Just(("v1", "Service")),
        Just(("v1", "PersistentVolumeClaim")),
    ];
    (workload, 0u32..9, 0u32..5000).prop_map(|((api_version, kind), number, cpu)| {
        let spec = json!({
            "replicas": number, "parallelism": number, "template": template(&format!("{cpu}m")),
            "resources": {"requests": {"storage": format!("{cpu}Mi")}},
        });
        object(api_version, kind, &spec)
    })
}

proptest! {
    #[test]
    fn sums_add_up(
        left in proptest::collection::vec(any_object(), 0..6),
        right in proptest::collection::vec(any_object(), 0..6),
        nodes in 0u64..10,
    ) {
        let total = |objects: &mut dyn Iterator<Item = &Value>| {
            let objects: Vec<&Value> = objects.collect();
            QuotaUsage::total(objects, |_| nodes)
        };
        let mut sum = total(&mut left.iter());
        sum.add(&total(&mut right.iter()));
        prop_assert_eq!(&sum, &total(&mut left.iter().chain(&right)));
        prop_assert_eq!(&sum, &total(&mut right.iter().chain(&left)));
    }
}
