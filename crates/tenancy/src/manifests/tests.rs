//! Snapshot of the manifests that an administrator applies.

use std::fmt::Write;

use super::*;

/// CRDs have their own snapshot in `kube_types`.
#[test]
fn what_an_administrator_applies() {
    let mut text = String::new();
    for manifest in manifests() {
        if manifest["kind"] == "CustomResourceDefinition" {
            writeln!(text, "---\nCustomResourceDefinition {}", manifest["metadata"]["name"]).unwrap();
        } else {
            write!(text, "---\n{}", serde_norway::to_string(&manifest).unwrap()).unwrap();
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn server_rights_have_no_wildcards_and_tokens_only_in_the_system_namespace() {
    for manifest in manifests() {
        let at = format!("{} {}", manifest["kind"], manifest["metadata"]["name"]);
        for rule in manifest["rules"].as_array().into_iter().flatten() {
            let text = rule.to_string();
            assert!(!text.contains("\"*\""), "{at}: {text}");
            if manifest["kind"] == "ClusterRole" && manifest["metadata"]["name"] == PLATFORM_SERVICE_ACCOUNT {
                assert!(!text.contains("\"configmaps\""), "{text}");
                assert!(!text.contains("escalate") && !text.contains("serviceaccounts/token"), "{text}");
            }
        }
    }
}

#[test]
fn yaml_stream_parses_back_to_the_objects() {
    use serde::Deserialize;
    let read: Vec<Value> = serde_norway::Deserializer::from_str(&yaml())
        .map(|document| Value::deserialize(document).unwrap())
        .collect();
    assert_eq!(read, manifests());
}
