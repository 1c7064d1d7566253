//! Validation and defaulting of `CustomResourceDefinitions`.
//!
//! Kubernetes validates its internal form, in which parts that all versions share are at the top level: errors therefore name
//! `spec.validation...` if all versions have the same schema, and `spec.versions[i].schema...` otherwise. [`VersionPart`] models this.
//!
//! Invariant: a CRD without errors compiles (`super::resources`), and its rules evaluate.

mod conversion;
mod defaults;
mod expressions;
mod openapi;
mod structural;
mod versions;

use std::collections::HashSet;

use serde_json::{Value, json};

use super::embedded::label_errors;
use super::pattern;
use super::schema::{StructuralSchema, is_known_format};
use super::status::{api_approval, is_established, record_stored_version};
use crate::field::{FieldError, FieldErrors, Path};
use crate::rules::{DEFAULT_RULES, GenerationPolicy, KindRules, NamePolicy};

/// Rules of `CustomResourceDefinition`.
pub const RULES: &[KindRules] = &[KindRules {
    group: "apiextensions.k8s.io",
    kind: "CustomResourceDefinition",
    naming: NamePolicy::Subdomain,
    allows_any_finalizer: true,
    generation: GenerationPolicy::Content,
    default,
    prepare_for_create: create,
    prepare_for_update: update,
    validate: |crd| validate(crd, None),
    validate_update: |crd, old| validate(crd, Some(old)),
    validate_status: |crd, _| {
        validate_names(&crd["status"]["acceptedNames"], &Path::new("status.acceptedNames"))
    },
    warnings,
    ..DEFAULT_RULES
}];

fn default(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(false)) {
        spec.remove("preserveUnknownFields");
    }
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut)
        && let Some(kind) = names.get("kind").and_then(Value::as_str).map(ToOwned::to_owned)
        && !kind.is_empty()
    {
        let absent = |names: &serde_json::Map<String, Value>, key: &str| {
            names.get(key).and_then(Value::as_str).is_none_or(str::is_empty)
        };
        if absent(names, "singular") {
            names.insert("singular".to_owned(), kind.to_lowercase().into());
        }
        if absent(names, "listKind") {
            names.insert("listKind".to_owned(), format!("{kind}List").into());
        }
    }
    let conversion = spec.entry("conversion").or_insert(Value::Null);
    if conversion.is_null() {
        *conversion = json!({"strategy": "None"});
    }
    if let Some(service) = conversion.pointer_mut("/webhook/clientConfig/service")
        && service.is_object()
        && service["port"].is_null()
    {
        service["port"] = 443.into();
    }
    if crd["status"]["storedVersions"].as_array().is_none_or(Vec::is_empty) {
        record_stored_version(crd);
    }
}

/// The initial status of a new CRD contains only its storage version.
fn create(crd: &mut Value) {
    crd["status"] = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}});
    record_stored_version(crd);
}

fn update(crd: &mut Value, _old: &Value) {
    record_stored_version(crd);
}

/// A part of the versions of a CRD, as Kubernetes validates it: shared parts are at the top level.
pub(super) struct VersionPart<'a> {
    /// `None` for a part that all versions share.
    pub version: Option<usize>,
    pub part: &'a Value,
}

pub(super) fn version_parts<'a>(crd: &'a Value, part: &str) -> Vec<VersionPart<'a>> {
    let versions = crd["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let parts: Vec<&Value> = versions.iter().map(|version| &version[part]).collect();
    match parts.as_slice() {
        [] => Vec::new(),
        [first, rest @ ..] if rest.iter().all(|other| other == first) => {
            vec![VersionPart { version: None, part: first }]
        }
        _ => parts.iter().enumerate().map(|(at, part)| VersionPart { version: Some(at), part }).collect(),
    }
}

fn validate(crd: &Value, old: Option<&Value>) -> FieldErrors {
    // First, because parsing a schema compiles its patterns.
    if let Some(error) = check_pattern_weights(crd) {
        return error.into();
    }
    let mut errors = FieldErrors::new();
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&crd["metadata"]["name"]);
    if old.is_none() && name != format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"])) {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid(&Path::new("metadata.name"), name, detail));
    }
    errors.extend(validate_group_and_scope(spec));
    errors.extend(versions::check(crd));
    let path = Path::new("spec.names");
    for key in ["plural", "singular", "kind", "listKind"] {
        if text(&spec["names"][key]).is_empty() {
            errors.push(FieldError::required(&path.field(key), ""));
        }
    }
    errors.extend(validate_names(&spec["names"], &path));
    errors.extend(conversion::check(spec));
    if let Some(old) = old {
        errors.extend(validate_immutable_fields(crd, old));
    }
    errors.extend(validate_names(&crd["status"]["acceptedNames"], &Path::new("status.acceptedNames")));
    errors.extend(validate_stored_versions(crd));
    errors.extend(validate_approval(crd, old));
    let was_open = old.is_some_and(|old| old["spec"]["preserveUnknownFields"] == true);
    if spec["preserveUnknownFields"] == true && !was_open {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(FieldError::invalid(&Path::new("spec.preserveUnknownFields"), true, detail));
        let mut versions = spec["versions"].as_array().into_iter().flatten();
        if versions
            .any(|version| StructuralSchema::parse(&version["schema"]["openAPIV3Schema"]).has_defaults())
        {
            let detail = "must be false in order to use defaults in the schema";
            errors.push(FieldError::invalid(&Path::new("spec.preserveUnknownFields"), true, detail));
        }
    }
    errors
}

/// Refuses patterns that take long to compile.
fn check_pattern_weights(crd: &Value) -> Option<FieldError> {
    let (mut seen, mut total) = (HashSet::new(), 0_usize);
    for part in version_parts(crd, "schema") {
        pattern_weight(&part.part["openAPIV3Schema"], 0, &mut seen, &mut total);
    }
    (total > pattern::MAX_TOTAL_WEIGHT).then(|| {
        let detail = format!(
            "the patterns of all schemas are too large to be compiled (size {total}, limit {}); use fewer or smaller \
             repetitions",
            pattern::MAX_TOTAL_WEIGHT
        );
        FieldError::forbidden(&Path::new("spec.versions"), detail)
    })
}

fn pattern_weight<'a>(schema: &'a Value, depth: usize, seen: &mut HashSet<&'a str>, total: &mut usize) {
    if depth >= super::schema::MAX_DEPTH {
        return;
    }
    if let Some(text) = schema["pattern"].as_str().filter(|text| seen.insert(text)) {
        *total = total.saturating_add(pattern::weight(text));
    }
    for child in openapi::children(schema) {
        pattern_weight(child, depth + 1, seen, total);
    }
}

fn validate_group_and_scope(spec: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let group = spec["group"].as_str().unwrap_or_default();
    let path = Path::new("spec.group");
    let complaints = subdomain_errors(group);
    if group.is_empty() {
        errors.push(FieldError::required(&path, ""));
    } else if !complaints.is_empty() {
        errors.push(FieldError::invalid(&path, group, complaints.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(&path, group, "should be a domain with at least one dot"));
    }
    match spec["scope"].as_str().unwrap_or_default() {
        "" => errors.push(FieldError::required(&Path::new("spec.scope"), "")),
        "Cluster" | "Namespaced" => {}
        other => {
            errors.push(FieldError::unsupported(&Path::new("spec.scope"), other, &["Cluster", "Namespaced"]));
        }
    }
    errors
}

fn subdomain_errors(text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if text.len() > 253 {
        complaints.push("must be no more than 253 characters".to_owned());
    }
    let part = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.chars().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    if !text.split('.').all(part) {
        complaints.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
             and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
             validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    complaints
}

/// Validates `spec.names` or `status.acceptedNames`.
fn validate_names(names: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let text = |key: &str| names[key].as_str().unwrap_or_default();
    for key in ["plural", "singular"] {
        let complaints = label_errors(text(key));
        if !text(key).is_empty() && !complaints.is_empty() {
            errors.push(FieldError::invalid(&path.field(key), text(key), complaints.join(",")));
        }
    }
    for key in ["kind", "listKind"] {
        let complaints = label_errors(&text(key).to_lowercase());
        if !text(key).is_empty() && !complaints.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", complaints.join(","));
            errors.push(FieldError::invalid(&path.field(key), text(key), detail));
        }
    }
    if !text("kind").is_empty() && text("kind") == text("listKind") {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(&path.field("listKind"), text("listKind"), detail));
    }
    for key in ["shortNames", "categories"] {
        let list = names[key].as_array().into_iter().flatten();
        for (at, name) in list.enumerate() {
            let name = name.as_str().unwrap_or_default();
            let complaints = label_errors(name);
            if !complaints.is_empty() {
                errors.push(FieldError::invalid(&path.field(key).index(at), name, complaints.join(",")));
            }
        }
    }
    errors
}

fn validate_immutable_fields(crd: &Value, old: &Value) -> FieldErrors {
    let always = [("spec.group", "/spec/group"), ("spec.names.plural", "/spec/names/plural")];
    let established = [("spec.scope", "/spec/scope"), ("spec.names.kind", "/spec/names/kind")];
    let established = established.into_iter().filter(|_| is_established(old));
    established
        .chain(always)
        .filter(|(_, pointer)| crd.pointer(pointer) != old.pointer(pointer))
        .map(|(path, pointer)| {
            let value = crd.pointer(pointer).cloned().unwrap_or_else(|| "".into());
            FieldError::invalid(&Path::new(path), value, "field is immutable")
        })
        .collect()
}

/// Maximum number of errors that repeat a whole list.
const MAX_LIST_ERRORS: usize = 100;

fn validate_stored_versions(crd: &Value) -> FieldErrors {
    let path = Path::new("status.storedVersions");
    let stored = crd["status"]["storedVersions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if stored.is_empty() {
        return FieldError::invalid(&path, Value::Null, "must have at least one stored version").into();
    }
    let versions = crd["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut errors = FieldErrors::new();
    let known: HashSet<&Value> = stored.iter().collect();
    let mut names: HashSet<&Value> = HashSet::new();
    for version in versions {
        let named_before = !names.insert(&version["name"]);
        let is_missing = named_before || !known.contains(&version["name"]);
        // Each error repeats the whole list.
        if version["storage"] == true && is_missing && errors.len() < MAX_LIST_ERRORS {
            let detail =
                format!("must have the storage version {}", version["name"].as_str().unwrap_or_default());
            errors.push(FieldError::invalid(&path, stored.to_vec(), detail));
        }
    }
    for (at, name) in stored.iter().enumerate() {
        if !names.contains(name) {
            let name = name.as_str().unwrap_or_default();
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {name} and \
                 removes {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(&path.index(at), name, detail));
        }
    }
    errors
}

fn validate_approval(crd: &Value, old: Option<&Value>) -> Option<FieldError> {
    let (approved, reason, message) = api_approval(crd)?;
    let before = old.and_then(api_approval);
    if approved || before.is_some_and(|(_, before, _)| before == reason) || reason == "UnapprovedAnnotation" {
        return None;
    }
    let path = Path::new("metadata.annotations").key("api-approved.kubernetes.io");
    let value = &crd["metadata"]["annotations"]["api-approved.kubernetes.io"];
    Some(match reason {
        "MissingAnnotation" => FieldError::required(&path, message),
        _ => FieldError::invalid(&path, value.clone(), message),
    })
}

/// Returns warnings for formats without effect.
fn warnings(crd: &Value, old: Option<&Value>) -> Vec<String> {
    let formats = |crd: &Value| {
        let mut found = Vec::new();
        for part in version_parts(crd, "schema") {
            collect_unknown_formats(&part.part["openAPIV3Schema"], 0, &mut found);
        }
        found
    };
    let before: HashSet<String> = old.map(formats).unwrap_or_default().into_iter().collect();
    let mut warnings: Vec<String> = formats(crd)
        .into_iter()
        .filter(|format| !before.contains(format))
        .map(|format| format!("unrecognized format {format:?}"))
        .collect();
    warnings.sort();
    warnings.dedup();
    if crd["spec"]["conversion"]["strategy"] == "Webhook" {
        warnings.push(
            "kube-embedded does not call conversion webhooks: versions differ in apiVersion only".into(),
        );
    }
    warnings
}

fn collect_unknown_formats(schema: &Value, depth: usize, found: &mut Vec<String>) {
    let Some(node) = schema.as_object().filter(|_| depth < super::schema::MAX_DEPTH) else { return };
    let text = |key: &str| node.get(key).and_then(Value::as_str).unwrap_or_default();
    if !text("format").is_empty() && !is_known_format(text("type"), text("format")) {
        found.push(text("format").to_owned());
    }
    for child in openapi::children(schema) {
        collect_unknown_formats(child, depth + 1, found);
    }
}

#[cfg(test)]
mod tests;
