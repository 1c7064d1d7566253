//! Validation of `spec.versions`: names, the single storage version, and each version's schema, subresources, columns and selectable
//! fields.

use serde_json::{Value, json};

use super::super::paths;
use super::super::schema::StructuralSchema;
use super::{VersionPart, defaults, expressions, label_errors, openapi, structural, version_parts};
use crate::field::{FieldError, FieldErrors, Path};
use crate::rules::accessors::go_names;

const MAX_SELECTABLE_FIELDS: usize = 8;

/// Validates all versions.
pub fn check(crd: &Value) -> FieldErrors {
    let spec = &crd["spec"];
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let all = Path::new("spec.versions");
    let mut errors = FieldErrors::new();
    for (at, version) in versions.iter().enumerate() {
        if version["schema"]["openAPIV3Schema"].is_null() {
            let path = all.index(at).field("schema").field("openAPIV3Schema");
            errors.push(FieldError::required(&path, ""));
        }
    }
    for (at, version) in versions.iter().enumerate() {
        let path = all.index(at);
        let name = version["name"].as_str().unwrap_or_default();
        let complaints = label_errors(name);
        if !complaints.is_empty() {
            errors.push(FieldError::invalid(&path.field("name"), name, complaints.join(",")));
            if at == 0 {
                // The internal form also has the first version's name at the top level.
                errors.push(FieldError::invalid(&Path::new("spec.version"), name, complaints.join(",")));
            }
        }
        errors.extend(deprecation(version, &path.field("deprecationWarning")));
    }
    for part in version_parts(crd, "schema") {
        let status = has_status(crd, part.version);
        errors.extend(schema(part.part, status, &part_path(&part, "validation", "schema")));
    }
    for part in version_parts(crd, "subresources") {
        errors.extend(subresources(part.part, &part_path(&part, "subresources", "subresources")));
    }
    for part in version_parts(crd, "additionalPrinterColumns") {
        let path = part_path(&part, "additionalPrinterColumns", "additionalPrinterColumns");
        for (at, column) in part.part.as_array().into_iter().flatten().enumerate() {
            errors.extend(self::column(column, &path.index(at)));
        }
    }
    for part in version_parts(crd, "selectableFields") {
        let path = part_path(&part, "selectableFields", "selectableFields");
        let schema = &versions[part.version.unwrap_or_default()]["schema"]["openAPIV3Schema"];
        errors.extend(selectable_fields(part.part, schema, &path));
    }
    let mut names: Vec<&Value> = versions.iter().map(|version| &version["name"]).collect();
    names.sort_by_key(std::string::ToString::to_string);
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        errors.push(FieldError::invalid(
            &all,
            without_schemas(versions),
            "must contain unique version names",
        ));
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(&all, without_schemas(versions), detail));
    }
    errors
}

/// Formats versions for an error: without their schemas.
fn without_schemas(versions: &[Value]) -> Value {
    let short = |version: &Value| json!({"name": version["name"], "served": version["served"], "storage": version["storage"]});
    go_names(&versions.iter().map(short).collect())
}

fn part_path(part: &VersionPart<'_>, top: &str, below: &str) -> Path {
    match part.version {
        None => Path::new("spec").field(top),
        Some(at) => Path::new("spec.versions").index(at).field(below),
    }
}

fn has_status(crd: &Value, version: Option<usize>) -> bool {
    let versions = crd["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has = |version: &Value| version["subresources"]["status"].is_object();
    match version {
        Some(at) => versions.get(at).is_some_and(has),
        None => versions.iter().any(has),
    }
}

fn deprecation(version: &Value, path: &Path) -> FieldErrors {
    let Some(text) = version["deprecationWarning"].as_str() else { return FieldErrors::new() };
    let mut details = Vec::new();
    if version["deprecated"] == true {
        if text.len() > 256 {
            details.push("must be <= 256 characters long".to_owned());
        }
        if text.is_empty() {
            details.push("must not be an empty string".to_owned());
        }
        if let Some((at, _)) = text.char_indices().find(|(_, c)| c.is_control()) {
            details.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {at}"
            ));
        }
    } else {
        details.push("can only be set for deprecated versions".to_owned());
    }
    details.into_iter().map(|detail| FieldError::invalid(path, text, detail)).collect()
}

/// Keywords that may be at the root of a schema with a status subresource, by their Go names.
const ALLOWED_AT_ROOT: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
    MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example \
    XPreserveUnknownFields XValidations]";
#[rustfmt::skip]
const FORBIDDEN_AT_ROOT: &[&str] = &[
    "$ref", "$schema", "id", "default", "nullable", "enum", "maxProperties", "minProperties", "allOf", "oneOf", "anyOf",
    "not", "additionalProperties", "patternProperties", "dependencies", "additionalItems", "definitions",
    "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type", "x-kubernetes-map-type",
];

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

fn schema(validation: &Value, status: bool, path: &Path) -> FieldErrors {
    let document = &validation["openAPIV3Schema"];
    if !document.is_object() {
        return FieldErrors::new();
    }
    let path = path.field("openAPIV3Schema");
    let mut errors = FieldErrors::new();
    if status {
        let ty = document["type"].as_str().unwrap_or_default();
        if !ty.is_empty() && ty != "object" {
            let detail = "only \"object\" is allowed as the type at the root of the schema if the status \
                          subresource is enabled";
            errors.push(FieldError::invalid(&path.field("type"), ty, detail));
        } else if FORBIDDEN_AT_ROOT.iter().any(|key| is_set(&document[*key])) {
            let detail = format!(
                "only {ALLOWED_AT_ROOT} fields are allowed at the root of the schema if the status subresource is enabled"
            );
            errors.push(FieldError::invalid(&path, document.clone(), detail));
        }
    }
    if document["nullable"] == true {
        errors.push(FieldError::forbidden(&path.field("nullable"), "nullable cannot be true at the root"));
    }
    let readable = openapi::is_parsable(document);
    let mut sound = false;
    if readable {
        let complaints = structural::check(document, &path);
        if complaints.is_empty() {
            let complaints = defaults::check(document, &path);
            sound = complaints.is_empty();
            errors.extend(complaints);
        } else {
            errors.extend(complaints);
        }
    }
    let complaints = openapi::check(document, &path);
    let well_formed = complaints.is_empty();
    errors.extend(complaints);
    if sound && well_formed {
        errors.extend(expressions::check(document, &path));
    }
    errors
}

fn json_path(text: &str, path: &Path) -> Option<FieldError> {
    (!text.starts_with('.'))
        .then(|| FieldError::invalid(path, text, "must be a simple json path starting with ."))
}

fn subresources(subresources: &Value, path: &Path) -> FieldErrors {
    let scale = &subresources["scale"];
    if !scale.is_object() {
        return FieldErrors::new();
    }
    let mut errors = FieldErrors::new();
    let rows = [
        ("specReplicasPath", &[".spec."][..], "should be a json path under .spec", true),
        ("statusReplicasPath", &[".status."][..], "should be a json path under .status", true),
        (
            "labelSelectorPath",
            &[".spec.", ".status."][..],
            "should be a json path under either .spec or .status",
            false,
        ),
    ];
    for (key, prefixes, words, required) in rows {
        let path = path.field(&format!("scale.{key}"));
        let text = scale[key].as_str().unwrap_or_default();
        if text.is_empty() {
            if required {
                errors.push(FieldError::required(&path, ""));
            }
        } else if let Some(error) = json_path(text, &path) {
            errors.push(error);
        } else if !prefixes.iter().any(|prefix| text.starts_with(prefix)) {
            errors.push(FieldError::invalid(&path, text, words));
        }
    }
    errors
}

fn column(column: &Value, path: &Path) -> FieldErrors {
    const TYPES: &str = "must be one of boolean,date,integer,number,string";
    const FORMATS: &[&str] = &["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let text = |key: &str| column[key].as_str().unwrap_or_default();
    let mut errors = FieldErrors::new();
    if text("name").is_empty() {
        errors.push(FieldError::required(&path.field("name"), ""));
    }
    match text("type") {
        "" => errors.push(FieldError::required(&path.field("type"), TYPES)),
        "integer" | "number" | "string" | "boolean" | "date" => {}
        other => errors.push(FieldError::invalid(&path.field("type"), other, TYPES)),
    }
    if !text("format").is_empty() && !FORMATS.contains(&text("format")) {
        let detail = format!("must be one of {}", FORMATS.join(","));
        errors.push(FieldError::invalid(&path.field("format"), text("format"), detail));
    }
    match text("jsonPath") {
        "" => errors.push(FieldError::required(&path.field("JSONPath"), "")),
        text => errors.extend(json_path(text, &path.field("JSONPath"))),
    }
    errors
}

fn selectable_fields(fields: &Value, document: &Value, path: &Path) -> FieldErrors {
    let Some(fields) = fields.as_array().filter(|fields| !fields.is_empty()) else {
        return FieldErrors::new();
    };
    let schema = StructuralSchema::parse(document);
    let mut errors = FieldErrors::new();
    let mut seen = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        let path = path.index(at).field("jsonPath");
        let text = field["jsonPath"].as_str().unwrap_or_default();
        if text.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        let (found, node) = match paths::resolve(text, &schema, false) {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(&path, text, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if found == "metadata" || found.starts_with("metadata.") {
            errors.push(FieldError::invalid(&path, text, "must not point to fields in metadata"));
        }
        if !matches!(node.ty.as_ref(), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and \
                          strings with formats are allowed.";
            errors.push(FieldError::invalid(&path, text, detail));
        }
        if seen.contains(&found) {
            errors.push(FieldError::duplicate(&path, text));
        } else {
            seen.push(found);
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS {
        errors.push(FieldError::too_many(path, seen.len(), MAX_SELECTABLE_FIELDS));
    }
    errors
}
