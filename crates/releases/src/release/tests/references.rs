//! Values from other objects, through the controller.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};
use testkit::until;

use super::{records, spec};
use crate::stage::{SHOP, Stage, web};

fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": SHOP}, "data": data})
}

fn secret(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": SHOP}, "stringData": data})
}

async fn greeting(stage: &Stage, name: &str) -> String {
    stage.of::<ConfigMap>().get(name).await.unwrap().data.unwrap()["greeting"].clone()
}

#[tokio::test]
async fn each_layer_lies_over_the_one_before() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    stage
        .world
        .apply([
            map("low", &json!({"values.yaml": "greeting: low\nreplicas: 2\n"})),
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
        let mut spec = spec(name, &package);
        spec["valuesFrom"] = from;
        if !object.is_null() {
            spec["valuesObject"] = object;
        }
        stage.write(name, spec).await.unwrap();
        stage.until_state(name, "active").await;
        assert_eq!(greeting(&stage, name).await, told, "{name}");
    }
}

#[tokio::test]
async fn what_is_missing_is_named_and_found_when_it_comes() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    let cases = [
        (
            "object",
            json!([{"kind": "Secret", "name": "late"}]),
            "spec.valuesFrom[0]: there is no Secret late",
        ),
        (
            "key",
            json!([{"kind": "ConfigMap", "name": "map", "valuesKey": "late"}]),
            "spec.valuesFrom[0]: ConfigMap map has no key late",
        ),
    ];
    stage.world.apply([map("map", &json!({"early": "a: b"}))]).await;
    for (name, from, message) in cases {
        let mut spec = spec(name, &package);
        spec["valuesFrom"] = from;
        stage.write(name, spec).await.unwrap();
        let status = stage.until_state(name, "failed").await.status.unwrap();
        assert!(status.message.contains(message), "{}", status.message);
        assert!(
            status.next_retry_time.is_some(),
            "{name}: others bring it, so that no change of the release is due"
        );
        assert!(records(&stage, name).await.is_empty());
    }
    stage
        .world
        .apply([
            secret("late", &json!({"values.yaml": "greeting: at last"})),
            map("map", &json!({"late": "greeting: at last"})),
        ])
        .await;
    for name in ["object", "key"] {
        stage.until_state(name, "active").await;
        assert_eq!(greeting(&stage, name).await, "at last", "{name}");
    }
}

#[tokio::test]
async fn what_is_no_map_is_refused_without_a_word_of_it() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
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
        let mut spec = spec(name, &package);
        spec["valuesFrom"] = from;
        stage.write(name, spec).await.unwrap();
        let release = stage.until_state(name, "failed").await;
        let told = serde_json::to_string(&release).unwrap();
        assert!(!told.contains("canary"), "{told}");
    }
}

#[tokio::test]
async fn a_release_reads_as_its_account_and_nothing_of_another_namespace() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    stage.world.apply([secret("values", &json!({"values.yaml": "greeting: hi"}))]).await;
    let mut nobody = spec("nobody", &package);
    nobody["serviceAccountName"] = "nobody".into();
    nobody["valuesFrom"] = json!([{"kind": "Secret", "name": "values"}]);
    stage.write("nobody", nobody).await.unwrap();
    let status = stage.until_state("nobody", "failed").await.status.unwrap();
    assert!(status.message.contains("system:serviceaccount:shop:nobody"), "{}", status.message);
    // A name with path segments does not reach another object.
    for name in ["../../longshore-system/secrets/x", "x/../../y", "a%2Fb"] {
        let mut astray = spec("astray", &package);
        astray["valuesFrom"] = json!([{"kind": "Secret", "name": name}]);
        if stage.write("astray", astray).await.is_err() {
            continue;
        }
        let status = stage.until_state("astray", "failed").await.status.unwrap();
        assert!(status.message.contains("spec.valuesFrom[0]"), "{}", status.message);
        let releases = stage.of::<kube_types::HelmRelease>();
        releases.delete("astray", &kube::api::DeleteParams::default()).await.unwrap();
        stage.until_gone(&releases, "astray").await;
    }
}

#[tokio::test]
async fn what_changes_in_them_is_seen_within_the_interval() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    stage.world.apply([secret("values", &json!({"values.yaml": "greeting: one"}))]).await;
    let mut looking = spec("web", &package);
    looking["valuesFrom"] = json!([{"kind": "Secret", "name": "values"}]);
    looking["interval"] = "1s".into();
    stage.write("web", looking).await.unwrap();
    stage.until_state("web", "active").await;
    stage.world.apply([secret("values", &json!({"values.yaml": "greeting: two"}))]).await;
    until("it is seen", async || (greeting(&stage, "web").await == "two").then_some(())).await;
    until("it is entered", async || {
        (records(&stage, "web").await == ["1 superseded", "2 deployed"]).then_some(())
    })
    .await;
    // Only the record contains them.
    assert!(stage.of::<Secret>().get_opt("sh.helm.release.v1.web.v2").await.unwrap().is_some());
}
