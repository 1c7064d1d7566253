//! Values from other objects, through the controller.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};
use testkit::wait_for;

use super::{record_statuses, release_spec};
use crate::testing::{SHOP, TestHarness, web_chart};

fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": SHOP}, "data": data})
}

fn secret(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": SHOP}, "stringData": data})
}

async fn greeting(stage: &TestHarness, name: &str) -> String {
    stage.namespaced_api::<ConfigMap>().get(name).await.unwrap().data.unwrap()["greeting"].clone()
}

#[tokio::test]
async fn later_values_sources_override_earlier_ones() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    stage
        .world
        .apply([
            config_map("low", &json!({"values.yaml": "greeting: low\nreplicas: 2\n"})),
            secret("high", &json!({"mine": "greeting: high\n"})),
            secret("word", &json!({"password": "hush-hush"})),
        ])
        .await;
    let cases = [
        ("of-map", json!([{"kind": "ConfigMap", "name": "low"}]), Value::Null, "low"),
        (
            "of-secret",
            json!([{"kind": "ConfigMap", "name": "low"}, {"kind": "Secret", "name": "high", "valuesKey": "mine"}]),
            Value::Null,
            "high",
        ),
        (
            "of-path",
            json!([{"kind": "Secret", "name": "word", "valuesKey": "password", "targetPath": "greeting"}]),
            Value::Null,
            "hush-hush",
        ),
        (
            "absent",
            json!([{"kind": "Secret", "name": "none", "optional": true}, {"kind": "ConfigMap", "name": "low", "valuesKey": "none", "optional": true}]),
            Value::Null,
            "hello",
        ),
        ("over", json!([{"kind": "ConfigMap", "name": "low"}]), json!({"greeting": "over"}), "over"),
    ];
    for (name, from, object, told) in cases {
        let mut spec = release_spec(name, &package);
        spec["valuesFrom"] = from;
        if !object.is_null() {
            spec["valuesObject"] = object;
        }
        stage.create_release(name, spec).await.unwrap();
        stage.wait_for_state(name, "active").await;
        assert_eq!(greeting(&stage, name).await, told, "{name}");
    }
}

#[tokio::test]
async fn missing_reference_is_named_and_retried() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let cases = [
        ("object", json!([{"kind": "Secret", "name": "late"}]), "spec.valuesFrom[0]: Secret late not found"),
        (
            "key",
            json!([{"kind": "ConfigMap", "name": "map", "valuesKey": "late"}]),
            "spec.valuesFrom[0]: ConfigMap map has no key late",
        ),
    ];
    stage.world.apply([config_map("map", &json!({"early": "a: b"}))]).await;
    for (name, from, message) in cases {
        let mut spec = release_spec(name, &package);
        spec["valuesFrom"] = from;
        stage.create_release(name, spec).await.unwrap();
        let status = stage.wait_for_state(name, "failed").await.status.unwrap();
        assert!(status.message.contains(message), "{}", status.message);
        assert!(
            status.next_retry_time.is_some(),
            "{name}: others bring it, so that no change of the release is due"
        );
        assert!(record_statuses(&stage, name).await.is_empty());
    }
    stage
        .world
        .apply([
            secret("late", &json!({"values.yaml": "greeting: at last"})),
            config_map("map", &json!({"late": "greeting: at last"})),
        ])
        .await;
    for name in ["object", "key"] {
        stage.wait_for_state(name, "active").await;
        assert_eq!(greeting(&stage, name).await, "at last", "{name}");
    }
}

#[tokio::test]
async fn invalid_values_error_omits_content() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    stage
        .world
        .apply([
            secret("list", &json!({"values.yaml": "- canary-in-a-list\n"})),
            secret("broken", &json!({"values.yaml": "a: {canary-in-a-brace\n"})),
            secret("deep", &json!({"word": "canary-in-a-path"})),
        ])
        .await;
    let cases = [
        ("list", json!([{"kind": "Secret", "name": "list"}])),
        ("broken", json!([{"kind": "Secret", "name": "broken"}])),
        (
            "path",
            json!([{"kind": "Secret", "name": "deep", "valuesKey": "word", "targetPath": "replicas[-1]"}]),
        ),
        // The chart rejects the value.
        ("kind", json!([{"kind": "Secret", "name": "deep", "valuesKey": "word", "targetPath": "replicas"}])),
    ];
    for (name, from) in cases {
        let mut spec = release_spec(name, &package);
        spec["valuesFrom"] = from;
        stage.create_release(name, spec).await.unwrap();
        let release = stage.wait_for_state(name, "failed").await;
        let told = serde_json::to_string(&release).unwrap();
        assert!(!told.contains("canary"), "{told}");
    }
}

#[tokio::test]
async fn values_are_read_with_the_service_account_of_the_release() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    stage.world.apply([secret("values", &json!({"values.yaml": "greeting: hi"}))]).await;
    let mut nobody = release_spec("nobody", &package);
    nobody["serviceAccountName"] = "nobody".into();
    nobody["valuesFrom"] = json!([{"kind": "Secret", "name": "values"}]);
    stage.create_release("nobody", nobody).await.unwrap();
    let status = stage.wait_for_state("nobody", "failed").await.status.unwrap();
    assert!(status.message.contains("system:serviceaccount:shop:nobody"), "{}", status.message);
    // A name with path segments does not reach another object.
    for name in ["../../longshore-system/secrets/x", "x/../../y", "a%2Fb"] {
        let mut astray = release_spec("astray", &package);
        astray["valuesFrom"] = json!([{"kind": "Secret", "name": name}]);
        if stage.create_release("astray", astray).await.is_err() {
            continue;
        }
        let status = stage.wait_for_state("astray", "failed").await.status.unwrap();
        assert!(status.message.contains("spec.valuesFrom[0]"), "{}", status.message);
        let releases = stage.namespaced_api::<kube_types::HelmRelease>();
        releases.delete("astray", &kube::api::DeleteParams::default()).await.unwrap();
        stage.wait_until_deleted(&releases, "astray").await;
    }
}

#[tokio::test]
async fn changed_references_are_applied_within_the_interval() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    stage.world.apply([secret("values", &json!({"values.yaml": "greeting: one"}))]).await;
    let mut looking = release_spec("web", &package);
    looking["valuesFrom"] = json!([{"kind": "Secret", "name": "values"}]);
    looking["interval"] = "1s".into();
    stage.create_release("web", looking).await.unwrap();
    stage.wait_for_state("web", "active").await;
    stage.world.apply([secret("values", &json!({"values.yaml": "greeting: two"}))]).await;
    wait_for("it is seen", async || (greeting(&stage, "web").await == "two").then_some(())).await;
    wait_for("it is entered", async || {
        (record_statuses(&stage, "web").await == ["1 superseded", "2 deployed"]).then_some(())
    })
    .await;
    // Only the record contains them.
    assert!(stage.namespaced_api::<Secret>().get_opt("sh.helm.release.v1.web.v2").await.unwrap().is_some());
}
