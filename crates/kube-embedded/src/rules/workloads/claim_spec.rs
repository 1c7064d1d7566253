//! The spec of a persistent volume claim inside a template.

use serde_json::Value;

use crate::field::{FieldError, FieldErrors};
use crate::quantity::Quantity;
use crate::rules::check::quantity;
use crate::rules::check::{self, PathValue};

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// The claim template of an ephemeral volume.
pub fn validate_template(template: &PathValue, errs: &mut FieldErrors) {
    let metadata = template.get("metadata");
    check::annotations(&metadata.get("annotations"), errs);
    check::labels(&metadata.get("labels"), errs);
    for (name, at) in metadata.value.and_then(Value::as_object).into_iter().flatten() {
        let known = matches!(name.as_str(), "annotations" | "labels");
        if !known && !at.is_null() && at != "" {
            errs.push(FieldError::forbidden(&metadata.get(name).path, "cannot be set"));
        }
    }
    validate_spec(&template.get("spec"), errs);
}

pub fn validate_spec(spec: &PathValue, errs: &mut FieldErrors) {
    let modes = spec.get("accessModes");
    if modes.is_empty() {
        errs.push(FieldError::required(&modes.path, "at least 1 access mode is required"));
    }
    check::label_selector(&spec.get("selector"), errs);
    for mode in modes.items() {
        check::one_of(&mode.with_path(modes.path.clone()), ACCESS_MODES, errs);
    }
    let known = |alone: bool| {
        modes.items().any(|m| ACCESS_MODES.contains(&m.text()) && (m.text() == "ReadWriteOncePod") == alone)
    };
    if known(true) && known(false) {
        let words = "may not use ReadWriteOncePod with other access modes";
        errs.push(FieldError::forbidden(&modes.path, words));
    }
    let storage = spec.nested("resources.requests").get("storage");
    let storage = storage.with_path(spec.get("resources").path.key("storage"));
    if storage.exists() {
        quantity::positive(&storage, errs);
    } else {
        errs.push(FieldError::required(&storage.path, ""));
    }
    for name in ["storageClassName", "volumeAttributesClassName"] {
        if !spec.get(name).is_empty() {
            check::text(&spec.get(name), check::dns_subdomain, errs);
        }
    }
    if spec.has("volumeMode") {
        check::one_of(&spec.get("volumeMode"), &["Block", "Filesystem"], errs);
    }
    validate_data_sources(spec, errs);
}

fn validate_data_sources(spec: &PathValue, errs: &mut FieldErrors) {
    let (source, reference) = (spec.get("dataSource"), spec.get("dataSourceRef"));
    for at in [&source, &reference].into_iter().filter(|at| at.exists()) {
        check::required(&at.get("name"), errs);
        check::required(&at.get("kind"), errs);
        let group = at.get("apiGroup");
        if group.is_empty() && at.get("kind").text() != "PersistentVolumeClaim" {
            let words = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errs.push(FieldError::invalid(&at.path, at.get("kind").text(), words));
        }
        if !group.is_empty() {
            check::text(&group, check::dns_subdomain, errs);
        }
        if !at.get("namespace").is_empty() {
            check::text(&at.get("namespace"), check::dns_label, errs);
        }
    }
    if !source.exists() || !reference.exists() {
        return;
    }
    let same = ["apiGroup", "kind", "name"].iter().all(|name| source.peek(name) == reference.peek(name));
    let words = if !reference.get("namespace").is_empty() {
        "may not be specified when dataSourceRef.namespace is specified"
    } else if same {
        return;
    } else {
        "must match dataSourceRef"
    };
    errs.push(FieldError::invalid(&spec.path, source.path.as_str(), words));
}

/// Warnings about a claim's spec: fractional bytes.
pub fn warnings(spec: &PathValue) -> Vec<String> {
    ["requests", "limits"]
        .into_iter()
        .filter_map(|list| fractional_bytes_warning(&spec.get("resources").get(list).key("storage")))
        .collect()
}

/// A warning about a fractional number of bytes.
pub fn fractional_bytes_warning(at: &PathValue) -> Option<String> {
    let amount = at.value.and_then(Quantity::from_value)?;
    (!amount.is_whole())
        .then(|| format!("{}: fractional byte value {:?} is invalid, must be an integer", at.path, at.text()))
}
