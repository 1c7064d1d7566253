//! CRDs and objects of their kinds.

use serde_json::json;

use super::*;

/// A CRD of the kind `Gadget` with this plural.
fn definition(plural: &str) -> Object {
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
async fn a_definition_and_what_it_defines_come_together() {
    for way in [SERVER_SIDE, Way::ThreeWay] {
        let town = Town::still().await;
        let gadget =
            objects("apiVersion: x.dev/v1\nkind: Gadget\nmetadata: {name: g}\nspec: {size: 1, parts: [a]}\n")
                .remove(0);
        let wanted = [gadget.clone(), definition("gadgets")];
        assert_eq!(
            town.target.cluster_scoped(&wanted).await.unwrap(),
            [Id {
                group: "apiextensions.k8s.io".into(),
                kind: "CustomResourceDefinition".into(),
                namespace: None,
                name: "gadgets.x.dev".into()
            }]
        );
        let options = release("web", way);
        let applied = apply(&town.target, &[], &wanted, &options, &Silent).await.unwrap();
        assert_eq!(names(&applied.created), ["CustomResourceDefinition gadgets.x.dev", "Gadget shop/g"]);
        assert!(town.target.discovery.api_versions().contains(&"x.dev/v1/Gadget".to_owned()));

        town.change(("x.dev/v1", "Gadget"), "g", json!({"spec": {"theirs": true, "parts": ["b"]}})).await;
        let bigger =
            objects("apiVersion: x.dev/v1\nkind: Gadget\nmetadata: {name: g}\nspec: {size: 2, parts: [a]}\n")
                .remove(0);
        let mut options = options.clone();
        if way == SERVER_SIDE {
            options.way = Way::ServerSide { force_conflicts: true };
        }
        apply(&town.target, &wanted, &[bigger, definition("gadgets")], &options, &Silent).await.unwrap();
        let live = town.get(("x.dev/v1", "Gadget"), "g").await.unwrap();
        assert_eq!(live["spec"], json!({"size": 2, "parts": ["a"], "theirs": true}));
    }
}

#[tokio::test]
async fn a_definition_that_is_not_established_is_named_and_nothing_follows() {
    let town = Town::still().await;
    let options = release("web", SERVER_SIDE);
    apply(&town.target, &[], &[definition("gadgets")], &options, &Silent).await.unwrap();
    // The kind name is taken.
    let second = definition("gizmos").with_source(Some("c/templates/crd.yaml".to_owned()));
    let service =
        objects("apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n")
            .remove(0);
    let error = apply(&town.target, &[], &[service, second], &options, &Silent).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("CustomResourceDefinition gizmos.x.dev (c/templates/crd.yaml): "), "{text}");
    assert!(text.contains("Conflict"), "{text}");
    assert_eq!(error.kind(), domain::Kind::Timeout);
    assert_eq!(names(&error.applied.created), ["CustomResourceDefinition gizmos.x.dev"]);
    assert_eq!(town.get(("v1", "Service"), "web").await, None);
}
