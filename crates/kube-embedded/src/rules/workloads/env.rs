//! Environment variables of a container, and the pod fields that they may refer to.

use crate::field::{FieldError, FieldErrors};
use crate::quantity::Quantity;
use crate::rules::check::{self, PathValue};

const FIELDS_FOR_ENV: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
pub const FIELDS_FOR_VOLUMES: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// Fields that references may name, if not everywhere.
const SUPPORTED_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const BYTE_UNITS: &[&str] =
    &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

pub fn validate_variables(list: &PathValue, errs: &mut FieldErrors) {
    for variable in list.items() {
        check::required_text(&variable.get("name"), check::env_name, errs);
        let from = variable.get("valueFrom");
        if from.exists() {
            validate_value_from(&from, !variable.get("value").is_empty(), errs);
        }
    }
}

fn validate_value_from(from: &PathValue, has_value: bool, errs: &mut FieldErrors) {
    let mut sources = 0;
    let mut source = |name: &str| {
        let at = from.get(name);
        sources += usize::from(at.exists());
        at.exists().then_some(at)
    };
    if let Some(at) = source("fieldRef") {
        validate_field_ref(&at, FIELDS_FOR_ENV, errs);
    }
    if let Some(at) = source("resourceFieldRef") {
        validate_resource_ref(&at, false, errs);
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(at) = source(name) {
            check::text(&at.get("name"), check::dns_subdomain, errs);
            check::required_text(&at.get("key"), check::config_key, errs);
        }
    }
    if let Some(at) = source("fileKeyRef") {
        check::required_text(&at.get("key"), check::env_name, errs);
        check::required_text(&at.get("volumeName"), check::dns_label, errs);
        check::required(&at.get("path"), errs);
        super::paths::validate_no_backsteps(&at.get("path"), errs);
    }
    let words = match sources {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errs.push(FieldError::invalid(&from.path, "", words));
}

pub fn validate_field_ref(at: &PathValue, supported: &[&str], errs: &mut FieldErrors) {
    let (version, field) = (at.get("apiVersion"), at.get("fieldPath"));
    for needed in [&version, &field] {
        if needed.is_empty() {
            errs.push(FieldError::required(&needed.path, ""));
            return;
        }
    }
    let cannot = |why: String| {
        FieldError::invalid(&field.path, field.text(), format!("error converting fieldPath: {why}"))
    };
    if version.text() != "v1" {
        errs.push(cannot(format!("unsupported pod version: {}", version.text())));
        return;
    }
    let text = if field.text() == "spec.host" { "spec.nodeName" } else { field.text() };
    let subscript = text.strip_suffix("']").and_then(|rest| rest.split_once("['"));
    match subscript {
        Some((path @ ("metadata.annotations" | "metadata.labels"), key)) => {
            let key = if path == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
            check::label_name(&key, &at.path, errs);
        }
        Some(_) => errs.push(cannot(format!("field label does not support subscript: {text}"))),
        None if !SUPPORTED_FIELDS.contains(&text) => {
            errs.push(cannot(format!("field label not supported: {text}")));
        }
        None if !supported.contains(&text) => {
            errs.push(FieldError::unsupported(&field.path, text, supported));
        }
        None => {}
    }
}

pub fn validate_resource_ref(at: &PathValue, in_volume: bool, errs: &mut FieldErrors) {
    let (container, resource) = (at.get("containerName"), at.get("resource"));
    let name = resource.text();
    let huge = name.starts_with("requests.hugepages-") || name.starts_with("limits.hugepages-");
    if in_volume && container.is_empty() {
        errs.push(FieldError::required(&container.path, ""));
    } else if name.is_empty() {
        errs.push(FieldError::required(&resource.path, ""));
    } else if !RESOURCES.contains(&name) && !huge {
        errs.push(FieldError::unsupported(&resource.path, name, RESOURCES));
    }

    let divisor = at.get("divisor");
    if divisor.value.and_then(Quantity::from_value).is_none_or(|divisor| divisor.is_zero()) {
        return;
    }
    let units = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the";
    let (allowed, words): (&[&str], _) = match name.split_once('.').map(|(_, kind)| kind) {
        Some("cpu") => (&["1m", "1"], "1m and 1 are supported with the cpu resource".to_owned()),
        Some("memory") => (BYTE_UNITS, format!("{units} memory resource")),
        Some("ephemeral-storage") => (BYTE_UNITS, format!("{units} local ephemeral storage resource")),
        _ if huge => (BYTE_UNITS, format!("{units} hugepages resource")),
        _ => return,
    };
    if !allowed.contains(&divisor.text()) {
        errs.push(FieldError::invalid(&divisor.path, name, format!("only divisor's values {words}")));
    }
}

/// `envFrom`: errors about the number of sources are reported at the list.
pub fn validate_env_from(list: &PathValue, errs: &mut FieldErrors) {
    for source in list.items() {
        let prefix = source.get("prefix");
        if !prefix.is_empty() {
            check::text(&prefix, check::env_name, errs);
        }
        let mut found = 0;
        for name in ["configMapRef", "secretRef"] {
            let at = source.get(name);
            if at.exists() {
                found += 1;
                check::required_text(&at.get("name"), check::dns_subdomain, errs);
            }
        }
        let words = match found {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errs.push(FieldError::invalid(&list.path, "", words));
    }
}
