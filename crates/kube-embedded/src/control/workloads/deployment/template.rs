//! Pod templates: equality, and the `ReplicaSet` built from one. Pure: no I/O, no clock.

use aws_lc_rs::digest;
use serde_json::{Value, json};

use super::view::Deployment;

pub const HASH_LABEL: &str = "pod-template-hash";
/// The alphabet of Kubernetes' hashes, which cannot form words.
const DIGITS: &[u8; 10] = b"456789bcdf";
const MAX_NAME_LEN: usize = 253;

/// Whether templates are equal except for the pod template hash label.
pub fn equal_ignoring_hash(a: &Value, b: &Value) -> bool {
    a["spec"] == b["spec"]
        && labels(a).eq(labels(b))
        && metadata_except_labels(a).eq(metadata_except_labels(b))
}

fn labels(template: &Value) -> impl Iterator<Item = (&String, &Value)> {
    template["metadata"]["labels"].as_object().into_iter().flatten().filter(|(key, _)| *key != HASH_LABEL)
}

fn metadata_except_labels(template: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let parts = template["metadata"].as_object().into_iter().flatten();
    parts.filter(|(part, value)| *part != "labels" && !value.is_null())
}

/// Returns a hash of ten characters. Each collision count gives a different one.
pub fn hash(template: &Value, collisions: Option<i64>) -> String {
    let text = format!("{template}{}", collisions.map_or_else(String::new, |count| count.to_string()));
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    let letter = |byte: &u8| char::from(DIGITS[usize::from(*byte) % DIGITS.len()]);
    digest.as_ref().iter().take(10).map(letter).collect()
}

/// Builds the `ReplicaSet` of a Deployment's template, without annotations, owner and replicas.
pub fn replica_set(deployment: &Deployment) -> Value {
    let spec = &deployment.spec;
    let hash = hash(&spec.template, deployment.status.collision_count);
    let mut template = spec.template.clone();
    template["metadata"]["labels"][HASH_LABEL] = hash.as_str().into();
    let mut selector = spec.selector.clone();
    selector["matchLabels"][HASH_LABEL] = hash.as_str().into();
    let name = &deployment.metadata.name;
    let room = name.len().min(MAX_NAME_LEN - 1 - hash.len());
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", &name[..room]), "namespace": deployment.metadata.namespace,
            "labels": template["metadata"]["labels"],
        },
        "spec": {"minReadySeconds": spec.min_ready_seconds, "selector": selector, "template": template},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(label: &str) -> Value {
        json!({"metadata": {"labels": {"app": label}}, "spec": {"containers": [{"name": "c"}]}})
    }

    #[test]
    fn templates_are_compared_without_hash_label() {
        let mut marked = template("a");
        marked["metadata"]["labels"][HASH_LABEL] = "x".into();
        assert!(
            equal_ignoring_hash(&template("a"), &marked)
                && !equal_ignoring_hash(&template("a"), &template("b"))
        );
    }

    #[test]
    fn a_hash_has_ten_letters_of_the_safe_alphabet_and_another_after_a_collision() {
        let hashes = [None, Some(1), Some(2)].map(|collisions| hash(&template("a"), collisions));
        assert!(hashes.iter().all(|hash| hash.len() == 10 && hash.bytes().all(|b| DIGITS.contains(&b))));
        assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2] && hashes[0] != hash(&template("b"), None));
        assert_eq!(hashes[0], hash(&template("a"), None));
    }

    #[test]
    fn long_name_is_truncated_and_selector_keeps_its_expressions() {
        let expressions = json!([{"key": "app", "operator": "Exists"}]);
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "a".repeat(250), "namespace": "n"},
            "spec": {"selector": {"matchExpressions": expressions}, "template": template("a")},
        }))
        .unwrap();
        let set = replica_set(&deployment);
        let hash = set["metadata"]["labels"][HASH_LABEL].as_str().unwrap();
        assert_eq!(set["metadata"]["name"], format!("{}-{hash}", "a".repeat(242)));
        assert_eq!(
            set["spec"]["selector"],
            json!({"matchExpressions": expressions, "matchLabels": {HASH_LABEL: hash}})
        );
        assert_eq!(set["spec"]["template"]["metadata"]["labels"], json!({"app": "a", HASH_LABEL: hash}));
    }
}
