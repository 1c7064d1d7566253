//! Drift by other clients is found and corrected.

use serde_json::json;

use super::*;
use crate::progress::NoProgress;
use crate::testing::*;
use crate::{ApplyStrategy, apply};

fn ownership() -> Ownership {
    Ownership::new("web", "shop")
}

fn ignore_nothing(_: &Object) -> Vec<String> {
    Vec::new()
}

fn secret() -> Object {
    let value = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"p": "correct-horse"}});
    Object::from_value(value).unwrap()
}

#[tokio::test]
async fn drift_is_detected_and_corrected_except_ignored_fields() {
    for way in [SERVER_SIDE, ApplyStrategy::ThreeWay] {
        let town = TestCluster::without_controllers().await;
        let wanted = [
            deployment("web", 2, json!({})),
            config_map("a", json!({"k": "1"})),
            config_map("gone", json!({})),
            secret(),
        ];
        apply(&town.target, &[], &wanted, &release_options("web", way), &NoProgress).await.unwrap();
        let found = find(&town.target, &wanted, &ownership(), &ignore_nothing, &[]).await.unwrap();
        assert_eq!(format!("{found:?}"), "[]", "{way:?}");

        let image = json!({"metadata": {"labels": {"theirs": "x"}}, "spec": {"replicas": 7, "paused": true}});
        town.patch(DEPLOYMENT, "web", image).await;
        town.patch(
            CONFIG_MAP,
            "a",
            json!({"data": {"k": "2"}, "metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}),
        )
        .await;
        town.patch(("v1", "Secret"), "s", json!({"stringData": {"p": "battery-staple"}})).await;
        let gone = town.target.resolve(&[config_map("gone", json!({}))]).await.unwrap().remove(0);
        request::delete(&town.target.client, &gone, None, kube::api::PropagationPolicy::Background, false)
            .await
            .unwrap();

        let ignored = |object: &Object| match object.kind() {
            "Deployment" => vec!["/spec/replicas".to_owned()],
            _ => Vec::new(),
        };
        let found = find(&town.target, &wanted, &ownership(), &ignored, &[]).await.unwrap();
        let told: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "ConfigMap shop/a differs at /data/k, /metadata/labels",
                "ConfigMap shop/gone is missing",
                "Secret shop/s differs at /data/p",
            ],
            "{way:?}"
        );
        let shown = describe_all(&found);
        assert!(shown.starts_with("ConfigMap shop/a\n- /data/k: \"1\"\n+ /data/k: \"2\"\n"), "{shown}");
        assert!(shown.contains("ConfigMap shop/gone not found\n"), "{shown}");
        for secret in ["correct-horse", "battery-staple", "Y29ycmVjdC1ob3JzZQ", "YmF0dGVyeS1zdGFwbGU"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        let shown = format!("{found:?}{}", serde_json::to_string(&found[2].changes).unwrap());
        for value in ["correct-horse", "battery-staple", "Y29ycmVjdC1ob3JzZQ", "YmF0dGVyeS1zdGFwbGU"] {
            assert!(!shown.contains(value), "{shown}");
        }
        correct(&town.target, &found, &NoProgress).await.unwrap();
        assert_eq!(town.get(CONFIG_MAP, "a").await.unwrap()["data"]["k"], "1");
        assert!(town.get(CONFIG_MAP, "gone").await.is_some());
        let live = town.get(DEPLOYMENT, "web").await.unwrap();
        assert_eq!(
            (&live["spec"]["replicas"], &live["metadata"]["labels"]["theirs"]),
            (&json!(7), &json!("x"))
        );
        let left = find(&town.target, &wanted, &ownership(), &ignore_nothing, &[]).await.unwrap();
        assert_eq!(
            left.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["Deployment shop/web differs at /spec/replicas"]
        );
    }
}

#[tokio::test]
async fn annotation_disables_drift_detection() {
    let town = TestCluster::without_controllers().await;
    let mut quiet = config_map("a", json!({"k": "1"})).into_value();
    quiet["metadata"]["annotations"] = json!({DRIFT_DETECTION: DISABLED});
    let wanted = [Object::from_value(quiet).unwrap()];
    apply(&town.target, &[], &wanted, &release_options("web", SERVER_SIDE), &NoProgress).await.unwrap();
    town.patch(CONFIG_MAP, "a", json!({"data": {"k": "2"}})).await;
    assert_eq!(find(&town.target, &wanted, &ownership(), &ignore_nothing, &[]).await.unwrap().len(), 0);
}

#[test]
fn ignored_fields_keep_live_values() {
    let live = json!({"a": {"b": 1, "~/": 2}, "list": [{"x": 1}, {"x": 2}]});
    for (pointer, want) in [
        ("/a/b", json!({"a": {"b": 1}, "list": [{"x": 9}, {"x": 9}]})),
        ("/a/~0~1", json!({"a": {"b": 9, "~/": 2}, "list": [{"x": 9}, {"x": 9}]})),
        ("/list/1/x", json!({"a": {"b": 9}, "list": [{"x": 9}, {"x": 2}]})),
        ("/list/7/x", json!({"a": {"b": 9}, "list": [{"x": 9}, {"x": 9}]})),
        ("nonsense", json!({"a": {"b": 9}, "list": [{"x": 9}, {"x": 9}]})),
    ] {
        let mut wanted = json!({"a": {"b": 9}, "list": [{"x": 9}, {"x": 9}]});
        keep_live_value(&mut wanted, &live, pointer);
        assert_eq!(wanted, want, "{pointer}");
    }
    let mut wanted = json!({"a": {"only": 1}});
    keep_live_value(&mut wanted, &json!({}), "/a/only");
    assert_eq!(wanted, json!({"a": {}}));
}
