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
fn nothing_that_the_server_may_do_is_a_wildcard_and_tokens_stay_at_home() {
    for manifest in manifests() {
        let at = format!("{} {}", manifest["kind"], manifest["metadata"]["name"]);
        for rule in manifest["rules"].as_array().into_iter().flatten() {
            let text = rule.to_string();
            assert!(!text.contains("\"*\""), "{at}: {text}");
            if manifest["kind"] == "ClusterRole" && manifest["metadata"]["name"] == PLATFORM {
                assert!(!text.contains("\"configmaps\""), "{text}");
                assert!(!text.contains("escalate") && !text.contains("serviceaccounts/token"), "{text}");
            }
        }
    }
}

#[test]
fn the_stream_is_read_back_as_the_objects() {
    use serde::Deserialize;
    let read: Vec<Value> = serde_norway::Deserializer::from_str(&yaml())
        .map(|document| Value::deserialize(document).unwrap())
        .collect();
    assert_eq!(read, manifests());
}
