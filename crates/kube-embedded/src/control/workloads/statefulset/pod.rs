//! Pods of a StatefulSet and their claims. Pure: no I/O, no clock.

#![warn(clippy::arithmetic_side_effects)]

use serde_json::{Value, json};

use super::view::StatefulSet;
use crate::control::workloads::pods::{self, Owner};
use crate::control::workloads::revisions::POD_LABEL;

pub const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

pub fn pod_name(set: &str, ordinal: i64) -> String {
    format!("{set}-{ordinal}")
}

/// The name of a pod's claim from `template`.
pub fn claim_name(template: &Value, set: &str, ordinal: i64) -> String {
    format!("{}-{set}-{ordinal}", template["metadata"]["name"].as_str().unwrap_or_default())
}

/// Builds the pod with this ordinal from the template of a revision.
pub fn pod(
    owner: &Owner<'_>,
    set: &StatefulSet,
    (revision, template): (&str, &Value),
    ordinal: i64,
) -> Value {
    let mut pod = pods::from_template(owner, template);
    let name = pod_name(&set.metadata.name, ordinal);
    pod["metadata"]["name"] = name.as_str().into();
    pod["metadata"]["generateName"] = pods::name_prefix(&set.metadata.name).into();
    set_identity(&mut pod, &name, ordinal);
    pod["metadata"]["labels"][POD_LABEL] = revision.into();
    pod["spec"]["hostname"] = name.into();
    if !set.spec.service_name.is_empty() {
        pod["spec"]["subdomain"] = set.spec.service_name.as_str().into();
    }
    add_volumes(&mut pod, set, ordinal);
    pod
}

/// Sets the labels that identify a pod by its ordinal.
pub fn set_identity(pod: &mut Value, name: &str, ordinal: i64) {
    let labels = &mut pod["metadata"]["labels"];
    labels[NAME_LABEL] = name.into();
    labels[INDEX_LABEL] = ordinal.to_string().into();
}

/// Adds the volumes of the claims; they replace volumes of the same name.
fn add_volumes(pod: &mut Value, set: &StatefulSet, ordinal: i64) {
    let templates = &set.spec.volume_claim_templates;
    if templates.is_empty() {
        return;
    }
    let claimed = |template: &Value| {
        let claim = claim_name(template, &set.metadata.name, ordinal);
        json!({"name": template["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim}})
    };
    let mut volumes: Vec<Value> = templates.iter().map(claimed).collect();
    let own = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.extend(
        own.filter(|volume| templates.iter().all(|t| t["metadata"]["name"] != volume["name"])).cloned(),
    );
    pod["spec"]["volumes"] = volumes.into();
}

/// Builds a pod's claim from `template`, with the labels of the set's selector.
pub fn claim(set: &StatefulSet, template: &Value, ordinal: i64) -> Value {
    let mut claim = template.clone();
    claim["apiVersion"] = "v1".into();
    claim["kind"] = "PersistentVolumeClaim".into();
    claim["metadata"]["name"] = claim_name(template, &set.metadata.name, ordinal).into();
    claim["metadata"]["namespace"] = set.metadata.namespace.as_str().into();
    for (key, value) in set.spec.selector["matchLabels"].as_object().into_iter().flatten() {
        claim["metadata"]["labels"][key] = value.clone();
    }
    claim
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Object;

    #[test]
    fn pod_has_its_ordinal_name_and_claims() {
        let document = json!({
            "metadata": {"name": "db", "namespace": "n", "uid": "u"},
            "spec": {
                "serviceName": "svc", "selector": {"matchLabels": {"app": "db"}},
                "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"l": "m"}}, "spec": {"x": 1}}],
            },
        });
        let set: StatefulSet = serde_json::from_value(document.clone()).unwrap();
        let object = Object::new(document, 1);
        let owner = Owner { api_version: "apps/v1", kind: "StatefulSet", object: &object };
        let template = json!({"metadata": {"labels": {"app": "db"}},
            "spec": {"volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]}});
        let pod = pod(&owner, &set, ("db-1a", &template), 7);
        assert_eq!(
            (&pod["metadata"]["name"], &pod["metadata"]["generateName"]),
            (&json!("db-7"), &json!("db-"))
        );
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"app": "db", "apps.kubernetes.io/pod-index": "7", "controller-revision-hash": "db-1a",
                "statefulset.kubernetes.io/pod-name": "db-7"})
        );
        assert_eq!(
            pod["spec"],
            json!({"hostname": "db-7", "subdomain": "svc", "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-7"}}, {"name": "tmp", "emptyDir": {}}]})
        );
        assert_eq!(
            claim(&set, &set.spec.volume_claim_templates[0], 7),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"x": 1}, "metadata": {
                "name": "data-db-7", "namespace": "n", "labels": {"app": "db", "l": "m"}}})
        );
    }
}
