//! Defaults of a pod's spec, in pods and in every template.
//!
//! Defaults of Pods alone (requests from limits, host ports) are in `pod`.

use serde_json::{Value, json};

use super::defaulting::{
    default_if_absent, default_if_zero, ensure_object, is_empty, items_mut, nested_mut, set_field,
};
use crate::quantity::Quantity;

/// The fields of a volume that are its source.
pub const VOLUME_SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// The container lists of a pod, in the order in which Kubernetes visits them.
pub const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Sets the defaults of the pod template at `names`, if there is one.
pub fn template(object: &mut Value, names: &str) {
    if let Some(template) = nested_mut(object, names)
        && let Some(spec) = ensure_object(template, "spec")
    {
        pod_spec(spec);
    }
}

pub fn pod_spec(spec: &mut Value) {
    default_if_zero(spec, "dnsPolicy", "ClusterFirst");
    default_if_zero(spec, "restartPolicy", "Always");
    default_if_absent(spec, "securityContext", json!({}));
    default_if_absent(spec, "terminationGracePeriodSeconds", 30);
    default_if_zero(spec, "schedulerName", "default-scheduler");
    sync_service_account(spec);
    for list in CONTAINER_LISTS {
        items_mut(spec, list).for_each(container);
    }
    items_mut(spec, "volumes").for_each(volume);
    resource_list(spec.get_mut("overhead"));
    resources(spec);
    drop_disabled_fields(spec);
}

/// Drops fields of feature gates that are disabled in 1.36, without a warning.
fn drop_disabled_fields(spec: &mut Value) {
    let drop_from = |owner: Option<&mut Value>, names: &[&str]| {
        if let Some(map) = owner.and_then(Value::as_object_mut) {
            map.retain(|name, _| !names.contains(&name.as_str()));
        }
    };
    for list in CONTAINER_LISTS {
        items_mut(spec, list)
            .for_each(|container| drop_from(container.get_mut("lifecycle"), &["stopSignal"]));
    }
    for volume in items_mut(spec, "volumes").filter_map(|volume| volume.get_mut("projected")) {
        let gated = ["clusterTrustBundle", "podCertificate"];
        items_mut(volume, "sources").for_each(|source| drop_from(Some(source), &gated));
    }
    drop_from(Some(spec), &["schedulingGroup"]);
}

/// Keeps the deprecated field for the service account equal to the new one.
fn sync_service_account(spec: &mut Value) {
    let name = ["serviceAccountName", "serviceAccount"]
        .into_iter()
        .find_map(|field| spec.get(field).and_then(Value::as_str).filter(|name| !name.is_empty()));
    if let Some(name) = name.map(str::to_owned) {
        set_field(spec, "serviceAccountName", name.clone());
        set_field(spec, "serviceAccount", name);
    }
}

fn container(container: &mut Value) {
    let policy = default_pull_policy(container.get("image").and_then(Value::as_str).unwrap_or_default());
    default_if_zero(container, "imagePullPolicy", policy);
    default_if_zero(container, "terminationMessagePath", "/dev/termination-log");
    default_if_zero(container, "terminationMessagePolicy", "File");
    for port in items_mut(container, "ports") {
        default_if_zero(port, "protocol", "TCP");
    }
    for variable in items_mut(container, "env") {
        if let Some(field) = nested_mut(variable, "valueFrom.fieldRef") {
            default_if_zero(field, "apiVersion", "v1");
        }
        if let Some(resource) = nested_mut(variable, "valueFrom.resourceFieldRef") {
            default_if_absent(resource, "divisor", "0");
        }
        if let Some(file) = nested_mut(variable, "valueFrom.fileKeyRef") {
            default_if_absent(file, "optional", false);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = nested_mut(container, name) {
            probe(found);
        }
    }
    for name in ["lifecycle.postStart.httpGet", "lifecycle.preStop.httpGet"] {
        if let Some(found) = nested_mut(container, name) {
            http_get(found);
        }
    }
    resources(container);
}

fn probe(probe: &mut Value) {
    default_if_zero(probe, "timeoutSeconds", 1);
    default_if_zero(probe, "periodSeconds", 10);
    default_if_zero(probe, "successThreshold", 1);
    default_if_zero(probe, "failureThreshold", 3);
    if let Some(found) = nested_mut(probe, "httpGet") {
        http_get(found);
    }
    if let Some(found) = nested_mut(probe, "grpc") {
        default_if_absent(found, "service", "");
    }
}

fn http_get(action: &mut Value) {
    default_if_zero(action, "path", "/");
    default_if_zero(action, "scheme", "HTTP");
}

fn volume(volume: &mut Value) {
    if VOLUME_SOURCES.iter().all(|source| volume.get(source).is_none_or(Value::is_null)) {
        set_field(volume, "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(found) = nested_mut(volume, source) {
            default_if_absent(found, "defaultMode", 0o644);
        }
    }
    if let Some(found) = nested_mut(volume, "hostPath") {
        default_if_absent(found, "type", "");
    }
    if let Some(found) = nested_mut(volume, "image") {
        let policy = default_pull_policy(found.get("reference").and_then(Value::as_str).unwrap_or_default());
        default_if_zero(found, "pullPolicy", policy);
    }
    if let Some(found) = nested_mut(volume, "downwardAPI") {
        items_mut(found, "items").for_each(downward_file);
    }
    if let Some(found) = nested_mut(volume, "projected") {
        for source in items_mut(found, "sources") {
            if let Some(token) = nested_mut(source, "serviceAccountToken") {
                default_if_absent(token, "expirationSeconds", 3600);
            }
            if let Some(downward) = nested_mut(source, "downwardAPI") {
                items_mut(downward, "items").for_each(downward_file);
            }
        }
    }
    if let Some(found) = nested_mut(volume, "iscsi") {
        default_if_zero(found, "iscsiInterface", "default");
    }
    if let Some(found) = nested_mut(volume, "rbd") {
        default_if_zero(found, "pool", "rbd");
        default_if_zero(found, "user", "admin");
        default_if_zero(found, "keyring", "/etc/ceph/keyring");
    }
    if let Some(found) = nested_mut(volume, "scaleIO") {
        default_if_zero(found, "storageMode", "ThinProvisioned");
        default_if_zero(found, "fsType", "xfs");
    }
    if let Some(found) = nested_mut(volume, "azureDisk") {
        default_if_absent(found, "cachingMode", "ReadWrite");
        default_if_absent(found, "kind", "Shared");
        default_if_absent(found, "fsType", "ext4");
        default_if_absent(found, "readOnly", false);
    }
    if let Some(template) = nested_mut(volume, "ephemeral.volumeClaimTemplate")
        && let Some(spec) = ensure_object(template, "spec")
    {
        claim_spec(spec);
    }
}

fn downward_file(file: &mut Value) {
    if let Some(field) = nested_mut(file, "fieldRef") {
        default_if_zero(field, "apiVersion", "v1");
    }
    if let Some(resource) = nested_mut(file, "resourceFieldRef") {
        default_if_absent(resource, "divisor", "0");
    }
}

/// Sets the defaults of a claim's spec in a template.
pub fn claim_spec(spec: &mut Value) {
    default_if_absent(spec, "volumeMode", "Filesystem");
    resources(spec);
}

/// `Always` for images with a mutable tag.
fn default_pull_policy(image: &str) -> &'static str {
    let (rest, digest) = image.split_once('@').map_or((image, None), |(rest, digest)| (rest, Some(digest)));
    let (name, tag) = match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (rest, None),
    };
    // An invalid image name has no tag, so it is not `latest` either.
    let named = is_repository(name);
    match tag {
        Some("latest") if named => "Always",
        None if digest.is_none() && named => "Always",
        _ => "IfNotPresent",
    }
}

fn is_repository(name: &str) -> bool {
    let mut parts = name.split('/').rev().peekable();
    let mut fits = true;
    while let Some(part) = parts.next() {
        let host = parts.peek().is_none() && name.contains('/');
        let allowed = |b: u8| {
            b.is_ascii_lowercase()
                || b.is_ascii_digit()
                || b".-_".contains(&b)
                || host && (b == b':' || b.is_ascii_uppercase())
        };
        fits &= !part.is_empty() && part.bytes().all(allowed);
    }
    fits
}

fn resources(owner: &mut Value) {
    for list in ["limits", "requests"] {
        resource_list(owner.get_mut("resources").and_then(|resources| resources.get_mut(list)));
    }
}

/// Rounds quantities up to thousandths.
pub fn resource_list(list: Option<&mut Value>) {
    for amount in list.and_then(Value::as_object_mut).into_iter().flat_map(|map| map.values_mut()) {
        let fine = amount.as_str().is_some_and(|text| text.ends_with(['n', 'u']));
        if fine && let Some(parsed) = Quantity::from_value(amount) {
            *amount = parsed.round_up_to_milli().to_string().into();
        }
    }
}

/// Copies the labels of a template to an object without labels.
pub fn labels_from_template(object: &mut Value, template: &str) {
    let labels =
        nested_mut(object, template).and_then(|template| template.get("metadata")?.get("labels")).cloned();
    if let Some(labels) = labels.filter(|labels| !is_empty(&json!({"l": labels}), "l"))
        && let Some(metadata) = ensure_object(object, "metadata")
        && is_empty(metadata, "labels")
    {
        set_field(metadata, "labels", labels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_pod_spec_is_completed() {
        let mut spec = json!({
            "serviceAccount": "robot",
            "containers": [{"name": "c", "image": "host:5000/app", "ports": [{"containerPort": 1}],
                "livenessProbe": {"httpGet": {"port": 1}}, "resources": {"limits": {"cpu": "100u"}},
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}],
            "volumes": [{"name": "v"}, {"name": "w", "hostPath": {"path": "/"}}, {"name": "s", "secret": {}}],
        });
        pod_spec(&mut spec);
        insta::assert_json_snapshot!(spec, @r#"
            {
              "containers": [
                {
                  "env": [
                    {
                      "name": "A",
                      "valueFrom": {
                        "fieldRef": {
                          "apiVersion": "v1",
                          "fieldPath": "metadata.name"
                        }
                      }
                    }
                  ],
                  "image": "host:5000/app",
                  "imagePullPolicy": "Always",
                  "livenessProbe": {
                    "failureThreshold": 3,
                    "httpGet": {
                      "path": "/",
                      "port": 1,
                      "scheme": "HTTP"
                    },
                    "periodSeconds": 10,
                    "successThreshold": 1,
                    "timeoutSeconds": 1
                  },
                  "name": "c",
                  "ports": [
                    {
                      "containerPort": 1,
                      "protocol": "TCP"
                    }
                  ],
                  "resources": {
                    "limits": {
                      "cpu": "1m"
                    }
                  },
                  "terminationMessagePath": "/dev/termination-log",
                  "terminationMessagePolicy": "File"
                }
              ],
              "dnsPolicy": "ClusterFirst",
              "restartPolicy": "Always",
              "schedulerName": "default-scheduler",
              "securityContext": {},
              "serviceAccount": "robot",
              "serviceAccountName": "robot",
              "terminationGracePeriodSeconds": 30,
              "volumes": [
                {
                  "emptyDir": {},
                  "name": "v"
                },
                {
                  "hostPath": {
                    "path": "/",
                    "type": ""
                  },
                  "name": "w"
                },
                {
                  "name": "s",
                  "secret": {
                    "defaultMode": 420
                  }
                }
              ]
            }
            "#);
    }

    #[test]
    fn mutable_image_tags_default_to_pull_policy_always() {
        for (image, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("host:5000/a/b", "Always"),
            ("nginx:1", "IfNotPresent"),
            ("nginx@sha256:abc", "IfNotPresent"),
            ("host:5000/a/b:1", "IfNotPresent"),
            ("", "IfNotPresent"),
            ("Not An Image", "IfNotPresent"),
        ] {
            assert_eq!(default_pull_policy(image), policy, "{image}");
        }
    }
}
