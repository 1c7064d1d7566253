//! The storage group: classes, drivers, attachments.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::accessors::{go_names, is_empty_value, items, members, set_if_absent, text};
use super::check::{self, PathValue, quantity};
use super::core::volume::driver_name;
use super::{DEFAULT_RULES, GenerationPolicy, KindRules, NamePolicy, meta};
use crate::field::{FieldError, FieldErrors, Path};

const GROUP: &str = "storage.k8s.io";

const TOKENS_IN_ATTRIBUTES_WARNING: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";

pub const RULES: &[KindRules] = &[
    KindRules {
        group: GROUP,
        kind: "StorageClass",
        default: |class| {
            if let Some(fields) = class.as_object_mut() {
                set_if_absent(fields, "reclaimPolicy", "Delete");
                set_if_absent(fields, "volumeBindingMode", "Immediate");
            }
        },
        validate: validate_class,
        validate_update: |new, old| {
            let mut errs = meta::validate_create(&new["metadata"], false, NamePolicy::Subdomain);
            errs.extend(validate_class(new));
            let (now, was) = (PathValue::root(new), PathValue::root(old));
            for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
                check::immutable(&now.get(field), &was.get(field), &mut errs);
            }
            errs
        },
        ..DEFAULT_RULES
    },
    KindRules {
        group: GROUP,
        kind: "VolumeAttributesClass",
        validate: validate_attributes_class,
        validate_update: |new, old| {
            let mut errs: FieldErrors = ["driverName", "parameters"]
                .into_iter()
                .filter(|field| new[*field] != old[*field])
                .map(|field| {
                    FieldError::forbidden(&Path::new(field), format!("updates to {field} are forbidden."))
                })
                .collect();
            errs.extend(meta::validate_create(&new["metadata"], false, NamePolicy::Subdomain));
            errs.extend(validate_attributes_class(new));
            errs
        },
        ..DEFAULT_RULES
    },
    KindRules {
        group: GROUP,
        kind: "CSIDriver",
        generation: GenerationPolicy::ContentAfterCreate,
        default: default_driver,
        validate: |driver| validate_driver(&PathValue::root(driver).get("spec")),
        validate_update: |new, old| {
            let (now, was) = (PathValue::root(new).get("spec"), PathValue::root(old).get("spec"));
            let mut errs = validate_driver(&now);
            for (field, shown) in
                [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
            {
                let path = Path::new("spec").field(shown);
                check::immutable(&now.get(field).with_path(path), &was.get(field), &mut errs);
            }
            errs
        },
        warnings: |driver, old| {
            let spec = &driver["spec"];
            let asks = old.is_none_or(|old| old["spec"]["tokenRequests"] != spec["tokenRequests"]);
            let silent = asks
                && !is_empty_value(&spec["tokenRequests"])
                && spec["serviceAccountTokenInSecrets"].is_null();
            silent.then(|| TOKENS_IN_ATTRIBUTES_WARNING.to_owned()).into_iter().collect()
        },
        ..DEFAULT_RULES
    },
    KindRules {
        group: GROUP,
        kind: "CSINode",
        validate: validate_node,
        validate_update: |new, old| {
            let mut errs = validate_node(new);
            errs.extend(validate_node_update(new, old));
            errs
        },
        ..DEFAULT_RULES
    },
    KindRules {
        group: GROUP,
        kind: "VolumeAttachment",
        prepare_for_create: |attachment| attachment["status"] = json!({"attached": false}),
        validate: validate_attachment,
        validate_update: |new, old| {
            let mut errs = validate_attachment(new);
            if new["spec"] != old["spec"] {
                errs.push(FieldError::invalid(&Path::new("spec"), go_names(&new["spec"]), check::IMMUTABLE));
            }
            errs
        },
        ..DEFAULT_RULES
    },
    KindRules {
        group: GROUP,
        kind: "CSIStorageCapacity",
        generation: GenerationPolicy::Absent,
        validate: |capacity| {
            let root = PathValue::root(capacity);
            let mut errs = FieldErrors::new();
            check::label_selector(&root.get("nodeTopology"), &mut errs);
            check::text(&root.get("storageClassName"), check::dns_subdomain, &mut errs);
            if root.has("capacity") {
                quantity::not_negative(&root.get("capacity"), &mut errs);
            }
            errs
        },
        validate_update: |new, old| {
            let mut errs = meta::validate_create(&new["metadata"], true, NamePolicy::Subdomain);
            for field in ["nodeTopology", "storageClassName"] {
                check::immutable(
                    &PathValue::root(new).get(field),
                    &PathValue::root(old).get(field),
                    &mut errs,
                );
            }
            errs
        },
        ..DEFAULT_RULES
    },
];

/// The name of a provisioner or driver.
fn validate_provisioner(at: &PathValue, errs: &mut FieldErrors) {
    check::required(at, errs);
    if !at.is_empty() {
        let name = at.text().to_lowercase();
        let words = check::qualified_name(&name).into_iter();
        errs.extend(words.map(|words| FieldError::invalid(&at.path, name.as_str(), words)));
    }
}

fn validate_parameters(at: &PathValue, required: bool, errs: &mut FieldErrors) {
    const MAX_PARAMETERS: usize = 512;
    const MAX_PARAMETER_BYTES: usize = 256 * 1024;
    if at.len() > MAX_PARAMETERS {
        errs.push(FieldError::too_long(&at.path, MAX_PARAMETERS));
        return;
    }
    if at.entries().any(|(key, _)| key.is_empty()) {
        errs.push(FieldError::invalid(&at.path, "", "field can not be empty."));
    }
    let size: usize = at.entries().map(|(key, value)| key.len() + value.len()).sum();
    if size > MAX_PARAMETER_BYTES {
        errs.push(FieldError::too_long(&at.path, MAX_PARAMETER_BYTES));
    }
    if required && at.is_empty() {
        errs.push(FieldError::required(&at.path, "must contain at least one key/value pair"));
    }
}

fn validate_class(class: &Value) -> FieldErrors {
    let root = PathValue::root(class);
    let mut errs = FieldErrors::new();
    validate_provisioner(&root.get("provisioner"), &mut errs);
    validate_parameters(&root.get("parameters"), false, &mut errs);
    let policy = root.get("reclaimPolicy");
    if !policy.is_empty() {
        check::one_of(&policy, &["Delete", "Retain"], &mut errs);
    }
    let mode = root.get("volumeBindingMode");
    if mode.exists() {
        check::one_of(&mode, &["Immediate", "WaitForFirstConsumer"], &mut errs);
    } else {
        check::required(&mode, &mut errs);
    }
    for term in root.get("allowedTopologies").items() {
        let mut keys = HashSet::new();
        for expression in term.get("matchLabelExpressions").items() {
            let (key, values) = (expression.get("key"), expression.get("values"));
            check::required(&values, &mut errs);
            check::text(&key, check::qualified_name, &mut errs);
            if keys.contains(&key.text()) {
                errs.push(FieldError::duplicate(&key.path, key.text()));
            }
            keys.insert(key.text());
            let mut seen = HashSet::new();
            for value in values.items() {
                if seen.contains(&value.text()) {
                    errs.push(FieldError::duplicate(&value.path, value.text()));
                }
                seen.insert(value.text());
            }
        }
    }
    errs
}

fn validate_attributes_class(class: &Value) -> FieldErrors {
    let root = PathValue::root(class);
    let mut errs = FieldErrors::new();
    validate_provisioner(&root.get("driverName"), &mut errs);
    validate_parameters(&root.get("parameters"), true, &mut errs);
    errs
}

fn default_driver(driver: &mut Value) {
    let spec = members(driver, "spec");
    set_if_absent(spec, "attachRequired", true);
    for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        set_if_absent(spec, field, false);
    }
    set_if_absent(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if spec.get("volumeLifecycleModes").is_none_or(is_empty_value) {
        spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
    }
}

fn validate_driver(spec: &PathValue) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let policy = spec.get("fsGroupPolicy");
    if policy.exists() {
        check::one_of(&policy, &["File", "None", "ReadWriteOnceWithFSType"], &mut errs);
    }
    let requests = spec.get("tokenRequests");
    let mut audiences = HashSet::new();
    for request in requests.items() {
        let (audience, seconds) = (request.get("audience"), request.get("expirationSeconds"));
        if audiences.contains(&audience.text()) {
            errs.push(FieldError::duplicate(&audience.path, audience.text()));
            continue;
        }
        audiences.insert(audience.text());
        let words = match seconds.number() {
            Some(..600) => "may not specify a duration less than 10 minutes",
            Some(seconds) if seconds > 1 << 32 => "may not specify a duration larger than 2^32 seconds",
            _ => continue,
        };
        errs.push(FieldError::invalid(&seconds.path, seconds.int(), words));
    }
    let modes = spec.get("volumeLifecycleModes");
    for mode in modes.items() {
        check::one_of(&mode.with_path(modes.path.clone()), &["Persistent", "Ephemeral"], &mut errs);
    }
    let period = spec.get("nodeAllocatableUpdatePeriodSeconds");
    if period.number().is_some_and(|seconds| seconds < 10) {
        let words = "must be greater than or equal to 10 seconds";
        errs.push(FieldError::invalid(&period.path, period.int(), words));
    }
    let secrets = spec.get("serviceAccountTokenInSecrets");
    if secrets.exists() && requests.is_empty() {
        let words = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errs.push(FieldError::invalid(&secrets.path, secrets.to_json(), words));
    }
    errs
}

fn validate_node(node: &Value) -> FieldErrors {
    const MAX_DRIVERS: usize = 256;
    let root = PathValue::root(node);
    let mut errs = FieldErrors::new();
    let mut names = HashSet::new();
    for driver in root.nested("spec.drivers").items() {
        let (name, id) = (driver.get("name"), driver.get("nodeID"));
        check::required(&name, &mut errs);
        driver_name(&name, &mut errs);
        check::required(&id, &mut errs);
        if id.len() > MAX_DRIVERS {
            errs.push(FieldError::invalid(
                &id.path,
                id.text(),
                format!("must be {MAX_DRIVERS} characters or less"),
            ));
        }
        check::not_negative(&driver.nested("allocatable.count"), &mut errs);
        if names.contains(&name.text()) {
            errs.push(FieldError::duplicate(&name.path, name.text()));
        }
        names.insert(name.text());
        let mut keys = HashSet::new();
        for key in driver.get("topologyKeys").items() {
            let key = key.with_path(driver.path.clone());
            check::required(&key, &mut errs);
            if keys.contains(&key.text()) {
                errs.push(FieldError::duplicate(&key.path, key.text()));
            }
            keys.insert(key.text());
            check::text(&key, check::qualified_name, &mut errs);
        }
    }
    errs
}

/// Of an existing driver only `allocatable` may change.
fn validate_node_update(new: &Value, old: &Value) -> FieldErrors {
    let fixed = |driver: &Value| {
        let mut driver = driver.clone();
        if let Some(fields) = driver.as_object_mut() {
            fields.remove("allocatable");
        }
        driver
    };
    let mut errs = FieldErrors::new();
    let mut by_name: HashMap<&str, Vec<&Value>> = HashMap::new();
    for now in items(&new["spec"]["drivers"]) {
        by_name.entry(text(&now["name"])).or_default().push(now);
    }
    // Stored drivers have unique names, so each new one is compared once.
    for was in items(&old["spec"]["drivers"]) {
        let same_name = by_name.remove(text(&was["name"])).unwrap_or_default();
        let was = fixed(was);
        for now in same_name.into_iter().map(fixed).filter(|now| *now != was) {
            errs.push(FieldError::invalid(&Path::new("spec.drivers"), go_names(&now), check::IMMUTABLE));
        }
    }
    errs
}

fn validate_attachment(attachment: &Value) -> FieldErrors {
    const EXACTLY_ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let root = PathValue::root(attachment);
    let spec = root.get("spec");
    let mut errs = FieldErrors::new();
    check::required(&spec.get("attacher"), &mut errs);
    driver_name(&spec.get("attacher"), &mut errs);
    let source = spec.get("source");
    let name = source.get("persistentVolumeName");
    match (name.exists(), source.has("inlineVolumeSpec")) {
        (false, false) => errs.push(FieldError::required(&source.path, EXACTLY_ONE)),
        (true, true) => errs.push(FieldError::forbidden(&source.path, EXACTLY_ONE)),
        (true, false) if name.is_empty() => {
            errs.push(FieldError::required(&name.path, "must specify non empty persistentVolumeName"));
        }
        _ => {}
    }
    check::text(&spec.get("nodeName"), check::dns_subdomain, &mut errs);
    if name.exists() {
        check::text(&name, check::dns_subdomain, &mut errs);
    }
    errs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::error_messages;

    #[test]
    fn storage_class_requires_provisioner() {
        assert_eq!(
            error_messages(&validate_class(
                &json!({"reclaimPolicy": "Recycle", "volumeBindingMode": "Immediate"})
            )),
            [
                "provisioner: Required value",
                "reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\""
            ]
        );
    }

    #[test]
    fn csi_node_drivers_are_immutable() {
        let node = |id: &str, count: i64| json!({"spec": {"drivers": [{"name": "d", "nodeID": id, "allocatable": {"count": count}}]}});
        assert_eq!(validate_node_update(&node("a", 2), &node("a", 1)), []);
        assert_eq!(validate_node_update(&node("b", 1), &node("a", 1)).len(), 1);
    }
}
