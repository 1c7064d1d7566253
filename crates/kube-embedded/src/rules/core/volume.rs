//! `PersistentVolume` and `PersistentVolumeClaim`.

use serde_json::{Map, Value, json};

use crate::field::{FieldError, FieldErrors, Path};
use crate::quantity::Quantity;
use crate::rules::accessors::{
    go_names, is_empty_value, list_mut, members, set_if_absent, set_if_empty, text,
};
use crate::rules::check::{self, PathValue, quantity};
use crate::rules::workloads::{scheduling, volume};
use crate::rules::{DEFAULT_RULES, KindRules, NamePolicy, go_structs, meta};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub const RULES: &[KindRules] = &[
    KindRules {
        group: "",
        kind: "PersistentVolume",
        default: |volume| {
            set_if_empty(members(volume, "status"), "phase", "Pending");
            let spec = members(volume, "spec");
            set_if_empty(spec, "persistentVolumeReclaimPolicy", "Retain");
            set_if_absent(spec, "volumeMode", "Filesystem");
            if let Some(Value::Object(path)) = spec.get_mut("hostPath") {
                set_if_absent(path, "type", "");
            }
            if let Some(Value::Object(iscsi)) = spec.get_mut("iscsi") {
                set_if_empty(iscsi, "iscsiInterface", "default");
            }
        },
        prepare_for_create: |volume| {
            // The phase begins at the creation.
            let mut status = json!({"phase": "Pending"});
            if let Some(made) = volume["metadata"].get("creationTimestamp") {
                status["lastPhaseTransitionTime"] = made.clone();
            }
            volume["status"] = status;
        },
        validate: validate_volume,
        validate_update: |new, old| {
            let mut errs = meta::validate_create(&new["metadata"], false, NamePolicy::Subdomain);
            // Kubernetes validates the whole object before the change check, and again with it.
            errs.extend(validate_volume(new));
            errs.extend(validate_volume(new));
            errs.extend(validate_volume_update(new, old));
            errs
        },
        warnings: |volume, _| volume_warnings(volume),
        ..DEFAULT_RULES
    },
    KindRules {
        group: "",
        kind: "PersistentVolumeClaim",
        default: |claim| {
            set_if_empty(members(claim, "status"), "phase", "Pending");
            set_if_absent(members(claim, "spec"), "volumeMode", "Filesystem");
        },
        prepare_for_create: |claim| {
            claim["status"] = json!({"phase": "Pending"});
            let spec = members(claim, "spec");
            if spec.get("dataSource").is_some_and(|source| !is_allowed_data_source(source)) {
                spec.remove("dataSource");
            }
            sync_data_sources(spec);
        },
        prepare_for_update: |new, old| {
            let spec = members(new, "spec");
            let kept = !old["spec"]["dataSource"].is_null() || !old["spec"]["dataSourceRef"].is_null();
            if !kept && spec.get("dataSource").is_some_and(|source| !is_allowed_data_source(source)) {
                spec.remove("dataSource");
            }
            sync_data_sources(spec);
        },
        validate: |claim| validate_claim(&PathValue::root(claim).get("spec")),
        validate_update: |new, old| {
            let mut errs = meta::validate_create(&new["metadata"], true, NamePolicy::Subdomain);
            errs.extend(validate_claim(&PathValue::root(new).get("spec")));
            errs.extend(validate_claim_update(new, old));
            errs
        },
        validate_status: |new, _| {
            let mut errs = FieldErrors::new();
            for (_, amount) in PathValue::root(new).nested("status.capacity").entries() {
                validate_storage_amount(&amount, &mut errs);
            }
            errs
        },
        warnings: |claim, _| claim_warnings(claim),
        ..DEFAULT_RULES
    },
];

/// Only these kinds are allowed in the older of the two fields.
fn is_allowed_data_source(source: &Value) -> bool {
    match (text(&source["apiGroup"]), text(&source["kind"])) {
        ("", kind) => kind == "PersistentVolumeClaim",
        (group, kind) => (group, kind) == ("snapshot.storage.k8s.io", "VolumeSnapshot"),
    }
}

/// `dataSource` and `dataSourceRef` are equivalent; one is filled in from the other.
fn sync_data_sources(spec: &mut Map<String, Value>) {
    let copy = |from: &Value| -> Value {
        let fields = from.as_object().into_iter().flatten();
        let kept = fields.filter(|(field, _)| matches!(field.as_str(), "kind" | "name" | "apiGroup"));
        Value::Object(kept.map(|(field, value)| (field.clone(), value.clone())).collect())
    };
    let (old, new) = (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned());
    match (old, new) {
        (Some(old), None) => _ = spec.insert("dataSourceRef".to_owned(), copy(&old)),
        (None, Some(new)) if is_empty_value(&new["namespace"]) => {
            spec.insert("dataSource".to_owned(), copy(&new));
        }
        _ => {}
    }
}

fn access_modes(modes: &PathValue, errs: &mut FieldErrors) {
    const MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in modes.items() {
        check::one_of(&mode.with_path(modes.path.clone()), MODES, errs);
    }
    let alone = modes.items().any(|mode| mode.text() == "ReadWriteOncePod");
    let others = modes.items().any(|mode| MODES[..3].contains(&mode.text()));
    if alone && others {
        let words = "may not use ReadWriteOncePod with other access modes";
        errs.push(FieldError::forbidden(&modes.path, words));
    }
}

fn validate_storage_amount(at: &PathValue, errs: &mut FieldErrors) {
    let amount = at.value.and_then(Quantity::from_value).unwrap_or_default();
    if amount.value() < 0 {
        errs.push(FieldError::invalid(&at.path, amount.value(), "must be a valid resource quantity"));
    }
}

fn class_name(at: &PathValue, errs: &mut FieldErrors) {
    if !at.is_empty() {
        check::text(at, check::dns_subdomain, errs);
    }
}

/// The volume sources with their required fields. Sources without a remaining implementation
/// are accepted as they are.
#[rustfmt::skip]
const SOURCES: &[(&str, &[&str])] = &[
    ("hostPath", &["path"]), ("gcePersistentDisk", &["pdName"]), ("awsElasticBlockStore", &["volumeID"]),
    ("glusterfs", &["endpoints", "path"]), ("flocker", &[]), ("nfs", &["server", "path"]), ("rbd", &["monitors", "image"]),
    ("quobyte", &["registry", "volume"]), ("cephfs", &["monitors"]), ("iscsi", &["targetPortal", "iqn"]),
    ("cinder", &["volumeID"]), ("fc", &[]), ("flexVolume", &["driver"]), ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]), ("photonPersistentDisk", &["pdID"]), ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]), ("scaleIO", &["gateway", "system", "volumeName"]), ("local", &["path"]),
    ("storageos", &[]), ("csi", &["driver", "volumeHandle"]),
];

fn validate_volume(volume: &Value) -> FieldErrors {
    let root = PathValue::root(volume);
    let spec = root.get("spec");
    let mut errs = FieldErrors::new();
    let modes = spec.get("accessModes");
    check::required(&modes, &mut errs);
    access_modes(&modes, &mut errs);
    let capacity = spec.get("capacity");
    check::required(&capacity, &mut errs);
    if !capacity.has("storage") || capacity.len() > 1 {
        errs.push(FieldError::unsupported(&capacity.path, capacity.to_json(), &["storage"]));
    }
    for (_, amount) in capacity.entries() {
        validate_storage_amount(&amount, &mut errs);
        quantity::positive(&amount, &mut errs);
    }
    let policy = spec.get("persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        check::one_of(&policy, &["Delete", "Recycle", "Retain"], &mut errs);
    }
    let affinity = spec.get("nodeAffinity");
    if affinity.exists() {
        node_affinity(&affinity, &mut errs);
    }
    validate_sources(&spec, &mut errs);
    class_name(&spec.get("storageClassName"), &mut errs);
    let mode = spec.get("volumeMode");
    if mode.exists() {
        check::one_of(&mode, &["Block", "Filesystem"], &mut errs);
    }
    let class = spec.get("volumeAttributesClassName");
    if class.exists() {
        if class.is_empty() {
            errs.push(FieldError::required(&class.path, "an empty string is disallowed"));
        }
        class_name(&class, &mut errs);
        if !spec.has("csi") {
            let words = "has to be specified when using volumeAttributesClassName";
            errs.push(FieldError::required(&spec.get("csi").path, words));
        }
    }
    errs
}

fn validate_sources(spec: &PathValue, errs: &mut FieldErrors) {
    let given: Vec<_> = SOURCES.iter().filter(|(source, _)| spec.has(source)).collect();
    let Some((first, rest)) = given.split_first() else {
        errs.push(FieldError::required(&spec.path, "must specify a volume type"));
        return;
    };
    for (source, _) in rest {
        errs.push(FieldError::forbidden(&spec.path.field(source), "may not specify more than 1 volume type"));
    }
    let (source, fields) = first;
    let at = spec.get(source);
    for field in *fields {
        check::required(&at.get(field), errs);
    }
    let path = at.get("path");
    match *source {
        "hostPath" | "local" if path.text().split('/').any(|part| part == "..") => {
            errs.push(FieldError::invalid(&path.path, path.text(), "must not contain '..'"));
        }
        "nfs" if !path.text().starts_with('/') => {
            errs.push(FieldError::invalid(&path.path, path.text(), "must be an absolute path"));
        }
        "csi" => {
            driver_name(&at.get("driver"), errs);
            secrets(&at, errs);
        }
        _ => {}
    }
    if *source == "hostPath" && at.has("type") && !path.is_empty() {
        check::one_of(&at.get("type"), volume::HOST_PATH_TYPES, errs);
    }
    if *source == "local" && !spec.has("nodeAffinity") {
        let words = "Local volume requires node affinity";
        errs.push(FieldError::required(&spec.path.field("nodeAffinity"), words));
    }
    let policy = spec.get("persistentVolumeReclaimPolicy");
    let root =
        *source == "hostPath" && path.text().starts_with('/') && path.text().trim_matches('/').is_empty();
    if root && policy.text() == "Recycle" {
        let words = "may not be 'recycle' for a hostPath mount of '/'";
        errs.push(FieldError::forbidden(&policy.path, words));
    }
}

/// The secrets passed to a driver, each by name and namespace.
fn secrets(csi: &PathValue, errs: &mut FieldErrors) {
    for name in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let secret = csi.get(name);
        if secret.exists() {
            check::required_text(&secret.get("name"), check::dns_subdomain, errs);
            check::required_text(&secret.get("namespace"), check::dns_label, errs);
        }
    }
}

/// The name of a CSI driver, if it is set.
pub fn driver_name(at: &PathValue, errs: &mut FieldErrors) {
    if at.is_empty() {
        return;
    }
    if at.len() > 63 {
        errs.push(FieldError::too_long(&at.path, 63));
    }
    let words = check::dns_subdomain(&at.text().to_lowercase()).into_iter();
    errs.extend(words.map(|words| FieldError::invalid(&at.path, at.text(), words)));
}

fn node_affinity(affinity: &PathValue, errs: &mut FieldErrors) {
    let required = affinity.get("required");
    if !required.exists() {
        errs.push(FieldError::required(&required.path, "must specify required node constraints"));
        return;
    }
    scheduling::validate_node_selector(&required, errs);
}

fn validate_volume_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let source = |volume: &Value| {
        let spec = volume["spec"].as_object().into_iter().flatten();
        let parts = spec.filter(|(field, _)| SOURCES.iter().any(|(source, _)| source == field));
        let mut source: Map<String, Value> = parts.map(|(k, v)| (k.clone(), v.clone())).collect();
        // A secret for expansion may be added later.
        if is_empty_value(&old["spec"]["csi"]["controllerExpandSecretRef"])
            && let Some(Value::Object(csi)) = source.get_mut("csi")
        {
            csi.remove("controllerExpandSecretRef");
        }
        source
    };
    if source(new) != source(old) {
        let words = format!(
            "spec.persistentvolumesource is immutable after creation\n{}",
            go_structs::difference("PersistentVolumeSource", &source(old).into(), &source(new).into())
        );
        errs.push(FieldError::forbidden(&Path::new("spec.persistentvolumesource"), words));
    }
    validate_immutable_volume_mode(new, old, &mut errs);
    let class = |volume: &Value| volume["spec"]["volumeAttributesClassName"].is_string();
    if class(old) && !class(new) {
        let words = "update from non-nil value to nil is forbidden";
        errs.push(FieldError::forbidden(&Path::new("spec.volumeAttributesClassName"), words));
    }
    // Node affinity is immutable once set.
    let (now, was) = (&new["spec"]["nodeAffinity"], &old["spec"]["nodeAffinity"]);
    if !was.is_null() && now != was {
        let path = Path::new("nodeAffinity");
        let words = "field is immutable, except for updating from beta label to GA";
        errs.push(FieldError::invalid(&path, go_names(now), words));
    }
    errs
}

fn validate_immutable_volume_mode(new: &Value, old: &Value, errs: &mut FieldErrors) {
    let (now, was) = (&new["spec"]["volumeMode"], &old["spec"]["volumeMode"]);
    if now != was {
        errs.push(FieldError::invalid(&Path::new("volumeMode"), now.clone(), check::IMMUTABLE));
    }
}

/// Errors of the spec of a claim, also in `StatefulSet`s and ephemeral volumes.
pub fn validate_claim(spec: &PathValue) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let modes = spec.get("accessModes");
    if modes.is_empty() {
        errs.push(FieldError::required(&modes.path, "at least 1 access mode is required"));
    }
    check::label_selector(&spec.get("selector"), &mut errs);
    access_modes(&modes, &mut errs);
    let resources = spec.get("resources");
    let storage = resources.nested("requests.storage").with_path(resources.path.key("storage"));
    if storage.exists() {
        quantity::positive(&storage, &mut errs);
    } else {
        errs.push(FieldError::required(&storage.path, ""));
    }
    class_name(&spec.get("storageClassName"), &mut errs);
    let mode = spec.get("volumeMode");
    if mode.exists() {
        check::one_of(&mode, &["Block", "Filesystem"], &mut errs);
    }
    let (source, reference) = (spec.get("dataSource"), spec.get("dataSourceRef"));
    for at in [&source, &reference].into_iter().filter(|at| at.exists()) {
        data_source(at, &mut errs);
    }
    if source.exists() && reference.exists() {
        let same =
            ["apiGroup", "kind", "name"].iter().all(|f| source.get(f).text() == reference.get(f).text());
        let words = if reference.get("namespace").is_empty() {
            (!same).then_some("must match dataSourceRef")
        } else {
            Some("may not be specified when dataSourceRef.namespace is specified")
        };
        errs.extend(words.map(|words| FieldError::invalid(&spec.path, source.path.as_str(), words)));
    }
    class_name(&spec.get("volumeAttributesClassName"), &mut errs);
    errs
}

fn data_source(at: &PathValue, errs: &mut FieldErrors) {
    check::required(&at.get("name"), errs);
    check::required(&at.get("kind"), errs);
    let (group, kind) = (at.get("apiGroup"), at.get("kind"));
    if group.is_empty() && kind.text() != "PersistentVolumeClaim" {
        let words = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errs.push(FieldError::invalid(&at.path, kind.text(), words));
    }
    if !group.is_empty() {
        check::text(&group, check::dns_subdomain, errs);
    }
    let namespace = at.get("namespace");
    if !namespace.is_empty() {
        check::text(&namespace, check::dns_label, errs);
    }
}

fn validate_claim_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let (mut now, mut was) = (new["spec"].clone(), old["spec"].clone());
    let class = |claim: &Value| claim["metadata"]["annotations"].get(CLASS_ANNOTATION).cloned();
    let (class_now, class_was) = (class(new), class(old));
    if is_empty_value(&was["volumeName"]) {
        was["volumeName"] = now["volumeName"].clone();
    }
    let (named, unnamed) = (now["storageClassName"].is_string(), was["storageClassName"].is_null());
    let from_annotation = unnamed
        && class_was.as_ref() == Some(&now["storageClassName"])
        && class_now.as_ref().is_none_or(|class| Some(class) == class_was.as_ref());
    if from_annotation {
        now["storageClassName"] = Value::Null;
    } else {
        if class_now != class_was {
            let path = Path::new("metadata.annotations").key(CLASS_ANNOTATION);
            let shown = class_now.clone().unwrap_or_else(|| "".into());
            errs.push(FieldError::invalid(&path, shown, check::IMMUTABLE));
        }
        // A claim from before there was a default class may get one.
        let allowed = class_was.as_ref().is_none_or(|class| *class == now["storageClassName"]);
        if named && unnamed && allowed {
            now["storageClassName"] = Value::Null;
        }
    }
    if text(&new["status"]["phase"]) == "Bound" {
        if !now["resources"]["requests"].is_null() {
            now["resources"]["requests"]["storage"] = was["resources"]["requests"]["storage"].clone();
        }
        now["volumeAttributesClassName"] = was["volumeAttributesClassName"].clone();
    }
    without_nulls(&mut now);
    without_nulls(&mut was);
    if now != was {
        let words = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{}",
            go_structs::difference("PersistentVolumeClaimSpec", &was, &now)
        );
        errs.push(FieldError::forbidden(&Path::new("spec"), words));
    }
    validate_shrink(new, old, &mut errs);
    validate_immutable_volume_mode(new, old, &mut errs);
    errs
}

fn without_nulls(spec: &mut Value) {
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
}

/// A request may be reduced only down to the current capacity.
fn validate_shrink(new: &Value, old: &Value, errs: &mut FieldErrors) {
    let amount = |value: &Value| Quantity::from_value(value).unwrap_or_default();
    let asked = |claim: &Value| amount(&claim["spec"]["resources"]["requests"]["storage"]);
    if asked(new) < asked(old) && asked(new) <= amount(&old["status"]["capacity"]["storage"]) {
        let path = Path::new("spec.resources.requests.storage");
        errs.push(FieldError::forbidden(&path, "field can not be less than status.capacity"));
    }
}

fn claim_warnings(claim: &Value) -> Vec<String> {
    let root = PathValue::root(claim);
    let mut warnings = Vec::new();
    let class = root.nested("metadata.annotations").key(CLASS_ANNOTATION);
    if class.exists() {
        warnings.push(format!(
            "{}: deprecated since v1.8; use \"storageClassName\" attribute instead",
            class.path
        ));
    }
    for field in ["requests", "limits"] {
        let amount = root.nested("spec.resources").get(field).key("storage");
        if amount.value.and_then(Quantity::from_value).is_some_and(|amount| !amount.is_whole()) {
            let (path, shown) = (&amount.path, amount.text());
            warnings.push(format!("{path}: fractional byte value {shown:?} is invalid, must be an integer"));
        }
    }
    warnings
}

fn volume_warnings(volume: &Value) -> Vec<String> {
    const DEPRECATED_SINCE: &[(&str, &str, &str)] = &[
        ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
        ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    let root = PathValue::root(volume);
    let annotations = root.nested("metadata.annotations");
    let mut warnings = Vec::new();
    for (key, words) in [
        (CLASS_ANNOTATION, "deprecated since v1.8; use \"storageClassName\" attribute instead"),
        (
            "volume.beta.kubernetes.io/mount-options",
            "deprecated since v1.31; use \"mountOptions\" attribute instead",
        ),
    ] {
        if annotations.has(key) {
            warnings.push(format!("{}: {words}", annotations.key(key).path));
        }
    }
    let policy = root.nested("spec.persistentVolumeReclaimPolicy");
    if policy.text() == "Recycle" {
        warnings.push(format!(
            "{}: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
            policy.path
        ));
    }
    let given = DEPRECATED_SINCE.iter().filter(|(field, _, _)| root.get("spec").has(field));
    warnings.extend(given.map(|(_, shown, words)| format!("spec.{shown}: {words}")));
    warnings
}

/// Adds the finalizer that protects a volume or a claim in use.
pub fn add_protection_finalizer(object: &mut Value, finalizer: &str) {
    members(object, "metadata").entry("finalizers").or_insert_with(|| json!([]));
    let Some(list) = list_mut(&mut object["metadata"], "finalizers") else { return };
    if !list.iter().any(|held| text(held) == finalizer) {
        list.push(finalizer.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::error_messages;

    #[test]
    fn claim_requires_access_modes_and_storage() {
        assert_eq!(
            error_messages(&validate_claim(&PathValue { value: Some(&json!({})), path: Path::new("spec") })),
            [
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value"
            ]
        );
    }

    #[test]
    fn bound_claim_can_only_grow() {
        let claim = |size: &str, phase: &str| {
            json!({"spec": {"volumeMode": "Filesystem", "resources": {"requests": {"storage": size}}},
                   "status": {"phase": phase, "capacity": {"storage": "1Gi"}}})
        };
        assert_eq!(
            error_messages(&validate_claim_update(&claim("2Gi", "Bound"), &claim("1Gi", "Bound"))),
            [""; 0]
        );
        assert_eq!(validate_claim_update(&claim("2Gi", "Pending"), &claim("1Gi", "Pending")).len(), 1);
        assert_eq!(
            error_messages(&validate_claim_update(&claim("1Gi", "Bound"), &claim("2Gi", "Bound"))),
            ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]
        );
        let mut named = claim("1Gi", "Pending");
        named["spec"]["storageClassName"] = "a".into();
        assert_eq!(error_messages(&validate_claim_update(&named, &claim("1Gi", "Pending"))), [""; 0]);
    }

    #[test]
    fn volume_requires_exactly_one_source() {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                          "hostPath": {"path": "/a/../b"}, "nfs": {"server": "s", "path": "p"}});
        assert_eq!(
            error_messages(&validate_volume(&json!({"spec": spec}))),
            [
                "spec.nfs: Forbidden: may not specify more than 1 volume type",
                "spec.hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
            ]
        );
    }
}
