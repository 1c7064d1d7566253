//! Attacks with selectors of thousands of requirements: in lists, open watches, and deletions.

use serde_json::{Value, json};

use super::tenant::{Tenant, config_maps, put, while_others_run};
use super::{DEPLOYMENTS, deployment};
use crate::cluster::Cluster;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn tenant() -> Tenant {
    let cluster = Cluster::in_memory().await;
    let rules = json!([{"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"]}]);
    Tenant::new(&cluster, rules).await
}

fn repeated(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(",")
}

#[tokio::test]
async fn long_selectors_are_refused() {
    let tenant = tenant().await;
    let selectors = [
        (format!("labelSelector={}", repeated(400, |n| format!("!k{n}"))), None),
        (
            format!("labelSelector={}", repeated(501, |n| format!("!k{n}"))),
            Some("labelSelector has 501 requirements and values (limit 500)"),
        ),
        (
            format!("labelSelector=k+in+({})", repeated(500, |n| n.to_string())),
            Some("labelSelector has 501 requirements and values (limit 500)"),
        ),
        (
            format!("labelSelector={}", repeated(150, |n| format!("!{}{n}", "k".repeat(60)))),
            Some("labelSelector is too long (limit 8192 bytes)"),
        ),
        (format!("fieldSelector={}", repeated(300, |n| format!("metadata.name!=a{n}"))), None),
        (
            format!("fieldSelector={}", repeated(501, |n| format!("metadata.name!={n:03}"))),
            Some("fieldSelector is too long (limit 8192 bytes)"),
        ),
    ];
    for (selector, refused) in selectors {
        for (method, watch) in [("GET", ""), ("GET", "&watch=true&timeoutSeconds=1"), ("DELETE", "")] {
            let answer = tenant
                .begin(method, &format!("{CONFIG_MAPS}?{selector}{watch}"), "application/json", Vec::new())
                .await;
            let expected = if refused.is_some() { 400 } else { 200 };
            assert_eq!(answer.status(), expected, "{method} {watch} {selector:.60}");
        }
        if let Some(refused) = refused {
            let (_, answer) = tenant.get(&format!("{CONFIG_MAPS}?{selector}")).await;
            assert_eq!(answer["message"], refused);
        }
    }
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods",
        "labelSelector": {"rawSelector": repeated(5_000, |n| format!("!k{n}"))}}}});
    let (code, answer) = tenant.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await;
    assert_eq!(code, 201);
    assert_eq!(
        answer["status"]["evaluationError"],
        "spec.resourceAttributes.labelSelector ignored due to parse error"
    );
    tenant.cluster.stop();
}

#[tokio::test]
async fn watches_with_large_selectors_count_their_requirements() {
    let tenant = tenant().await;
    let path = format!("{CONFIG_MAPS}?watch=true&labelSelector={}", repeated(400, |n| format!("!k{n}")));
    let mut open = Vec::new();
    let refused = loop {
        let answer = tenant.begin("GET", &path, "application/json", Vec::new()).await;
        if answer.status() != 200 {
            break answer.status();
        }
        open.push(answer);
    };
    assert_eq!(refused, 429);
    assert!((50..150).contains(&open.len()), "{} watches", open.len());
    let small = format!("{CONFIG_MAPS}?watch=true&labelSelector=a");
    open.truncate(20);
    assert_eq!(tenant.begin("GET", &small, "application/json", Vec::new()).await.status(), 200);
    tenant.cluster.stop();
}

#[tokio::test]
async fn list_with_a_large_selector_lets_others_run() {
    let tenant = tenant().await;
    put(&tenant.cluster, "configmaps", config_maps(1_000, 8)).await;
    let path = format!("{CONFIG_MAPS}?labelSelector={}", repeated(450, |n| format!("!k{n}")));
    for more in ["", "&limit=999"] {
        let ((code, list), count) = while_others_run(tenant.get(&format!("{path}{more}"))).await;
        assert_eq!(code, 200);
        assert!(
            list["items"].as_array().is_some_and(|items| items.len() >= 999),
            "{:.200}",
            list.to_string()
        );
        assert!(count > 10, "others ran {count} times");
    }
    tenant.cluster.stop();
}

#[tokio::test]
async fn selector_of_a_custom_resource_by_name_reads_no_object() {
    let cluster = Cluster::in_memory().await;
    let rules = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let tenant = Tenant::new(&cluster, rules).await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"color": {"type": "string"}}}}});
    let definition = json!({
        "metadata": {"name": "things.example.org"},
        "spec": {"group": "example.org", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "selectableFields": [{"jsonPath": ".spec.color"}]}]},
    });
    let (code, answer) =
        tenant.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    assert_eq!(code, 201, "{answer:#}");
    let things = "/apis/example.org/v1/namespaces/default/things";
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let thing = json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"color": color}});
        let mut answer = (0, Value::Null);
        for _ in 0..100 {
            answer = tenant.post(things, &thing).await;
            if answer.0 == 201 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(answer.0, 201, "{:#}", answer.1);
    }
    for (selector, expected) in [
        ("metadata.name=a", vec!["a"]),
        ("metadata.name!=a,spec.color=red", vec!["c"]),
        ("spec.color=red", vec!["a", "c"]),
        ("spec.color!=red", vec!["b"]),
    ] {
        let (code, list) = tenant.get(&format!("{things}?fieldSelector={selector}")).await;
        let names: Vec<_> =
            list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
        assert_eq!((code, json!(names)), (200, json!(expected)), "{selector}");
    }
    cluster.stop();
}

#[tokio::test]
async fn long_selectors_in_objects_are_refused() {
    let cluster = Cluster::in_memory().await;
    let rules = json!([{"verbs": ["*"], "apiGroups": ["apps", "networking.k8s.io"], "resources": ["*"]}]);
    let tenant = Tenant::new(&cluster, rules).await;
    let absent = |count: usize| -> Value {
        (0..count).map(|n| json!({"key": format!("k{n}"), "operator": "DoesNotExist"})).collect()
    };
    let listed = |count: usize| {
        let values: Vec<_> = (0..count).map(|n| n.to_string()).collect();
        json!([{"key": "k", "operator": "NotIn", "values": values}])
    };
    for (expressions, count, code) in [
        (absent(499), 500, 201),
        (absent(500), 501, 422),
        (listed(498), 500, 201),
        (listed(60_000), 60_002, 422),
    ] {
        let mut object = deployment("web", 0, &json!({}));
        object["spec"]["selector"]["matchExpressions"] = expressions.clone();
        let labels = object["spec"]["selector"]["matchLabels"].as_object().unwrap().len();
        assert_eq!(labels, 1);
        let (found, answer) = tenant.post(&format!("{DEPLOYMENTS}?dryRun=All"), &object).await;
        assert_eq!(found, code, "{:.500}", answer.to_string());
        if code == 422 {
            let expected = format!("spec.selector: Too many: {count}: must have at most 500 items");
            let message = answer["message"].as_str().unwrap();
            assert!(message.contains(&expected), "{message:.500}");
        }
        let labels = json!({"a": "b"});
        let policy = json!({"metadata": {"name": "p"}, "spec": {"podSelector":
            {"matchLabels": labels, "matchExpressions": expressions}}});
        let path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies?dryRun=All";
        let (found, answer) = tenant.post(path, &policy).await;
        assert_eq!(found, code, "{:.500}", answer.to_string());
    }
    cluster.stop();
}
