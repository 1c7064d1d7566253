//! CRDs and objects of their kinds.

use serde_json::json;

use super::*;

/// A CRD of the kind `Gadget` with this plural.
fn crd(plural: &str) -> Object {
    Object::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.x.dev")},
        "spec": {
            "group": "x.dev", "scope": "Namespaced", "names": {"kind": "Gadget", "plural": plural},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    }))
    .unwrap()
}

#[tokio::test]
async fn crd_and_its_objects_are_applied_together() {
    for way in [SERVER_SIDE, ApplyStrategy::ThreeWay] {
        let town = TestCluster::without_controllers().await;
        let gadget =
            objects("apiVersion: x.dev/v1\nkind: Gadget\nmetadata: {name: g}\nspec: {size: 1, parts: [a]}\n")
                .remove(0);
        let wanted = [gadget.clone(), crd("gadgets")];
        assert_eq!(
            town.target.cluster_scoped(&wanted).await.unwrap(),
            [ObjectId {
                group: "apiextensions.k8s.io".into(),
                kind: "CustomResourceDefinition".into(),
                namespace: None,
                name: "gadgets.x.dev".into()
            }]
        );
        let options = release_options("web", way);
        let applied = apply(&town.target, &[], &wanted, &options, &NoProgress).await.unwrap();
        assert_eq!(names(&applied.created), ["CustomResourceDefinition gadgets.x.dev", "Gadget shop/g"]);
        assert!(town.target.discovery.api_versions().contains(&"x.dev/v1/Gadget".to_owned()));

        town.patch(("x.dev/v1", "Gadget"), "g", json!({"spec": {"theirs": true, "parts": ["b"]}})).await;
        let bigger =
            objects("apiVersion: x.dev/v1\nkind: Gadget\nmetadata: {name: g}\nspec: {size: 2, parts: [a]}\n")
                .remove(0);
        let mut options = options.clone();
        if way == SERVER_SIDE {
            options.strategy = ApplyStrategy::ServerSide { force_conflicts: true };
        }
        apply(&town.target, &wanted, &[bigger, crd("gadgets")], &options, &NoProgress).await.unwrap();
        let live = town.get(("x.dev/v1", "Gadget"), "g").await.unwrap();
        assert_eq!(live["spec"], json!({"size": 2, "parts": ["a"], "theirs": true}));
    }
}

#[tokio::test]
async fn apply_stops_when_crd_is_not_established() {
    let town = TestCluster::without_controllers().await;
    let options = release_options("web", SERVER_SIDE);
    apply(&town.target, &[], &[crd("gadgets")], &options, &NoProgress).await.unwrap();
    // The kind name is taken.
    let second = crd("gizmos").with_source(Some("c/templates/crd.yaml".to_owned()));
    let service =
        objects("apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n")
            .remove(0);
    let error = apply(&town.target, &[], &[service, second], &options, &NoProgress).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("CustomResourceDefinition gizmos.x.dev (c/templates/crd.yaml): "), "{text}");
    assert!(text.contains("Conflict"), "{text}");
    assert_eq!(error.kind(), domain::ErrorKind::Timeout);
    assert_eq!(names(&error.applied.created), ["CustomResourceDefinition gizmos.x.dev"]);
    assert_eq!(town.get(("v1", "Service"), "web").await, None);
}
