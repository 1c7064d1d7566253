//! Custom resource definitions and the objects they define.
//!
//! [`RULES`] validates CRDs (`definition`), [`status`] computes their status, and [`CustomKind`] is one served version of a CRD, compiled
//! for the writes of its objects. Pure: no store, no clock.

pub mod cel;
pub mod definition;
mod embedded;
mod formats;
mod lists;
mod numbers;
pub mod paths;
mod pattern;
mod resource;
pub mod schema;
mod shape;
pub mod status;
mod types;
mod validation;

pub use definition::RULES;
pub use resource::{resources, version_order};

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use self::cel::rules::CelRules;
use self::schema::StructuralSchema;
use crate::field::{FieldError, FieldErrorType, FieldErrors, Path};

type VersionSchemas = BTreeMap<Box<str>, Arc<StructuralSchema>>;

/// One served version of a CRD, compiled.
pub struct CustomKind {
    pub group: Box<str>,
    pub version: Box<str>,
    pub kind: Box<str>,
    /// `openAPIV3Schema` as written.
    document: Value,
    schema: Arc<StructuralSchema>,
    /// Schemas of all versions, served or not: a stored object may be in any of them.
    versions: Arc<VersionSchemas>,
    storage_version: Box<str>,
    /// The store version of the CRD: objects written later conform to it.
    defined_at_version: u64,
    /// The CRD's uid and generation.
    crd_uid_and_generation: (Box<str>, i64),
    rules: Option<CelRules>,
    has_status: bool,
    scale: Option<ScalePaths>,
    selectable: Box<[Box<str>]>,
    deprecation: Option<Box<str>>,
}

/// Paths of the three values of `/scale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: Box<str>,
    pub status_replicas: Box<str>,
    pub selector: Option<Box<str>>,
}

/// Result of a validation.
#[derive(Debug, Default, PartialEq)]
pub struct ValidationResult {
    pub errors: FieldErrors,
    /// Violated rules that the old object violated as well.
    pub warnings: Vec<String>,
}

impl CustomKind {
    /// Returns why an object cannot be decoded, for the 400 error `<Kind> in version "<v>" cannot be handled as a <Kind>: <reason>`.
    pub fn decode_error(&self, object: &Value) -> Option<FieldError> {
        embedded::first_type_error(object, &self.schema, &Path::root())
    }

    /// Drops unknown fields, including fields of `metadata`; returns their paths as warnings print them.
    pub fn drop_unknown(&self, object: &mut Value) -> Vec<String> {
        shape::drop_unknown(object, &self.schema)
    }

    /// Drops unknown fields, and nulls that the schema does not allow.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        shape::prune(object, &self.schema)
    }

    /// Sets defaults: after pruning on a write, and on every read.
    pub fn default(&self, object: &mut Value) {
        shape::default(object, &self.schema);
    }

    /// Converts a stored object to this version, with the defaults of its storage version and without fields unknown to this version.
    pub fn convert_from_storage(&self, object: &mut Value) {
        let stored = object["apiVersion"].as_str().and_then(|stored| stored.rsplit('/').next());
        let other = stored.filter(|stored| *stored != self.version.as_ref());
        let other = other.and_then(|stored| self.versions.get(stored));
        let schema = other.unwrap_or(&self.schema);
        shape::prune(object, schema);
        shape::default(object, schema);
        if other.is_some() {
            shape::prune(object, &self.schema);
        }
        object["apiVersion"] = format!("{}/{}", self.group, self.version).into();
    }

    /// Converts an object of this version to the storage version.
    pub fn convert_to_storage(&self, object: &mut Value) {
        if self.storage_version != self.version
            && let Some(schema) = self.versions.get(&self.storage_version)
        {
            shape::prune(object, schema);
        }
        object["apiVersion"] = format!("{}/{}", self.group, self.storage_version).into();
    }

    /// Whether an object that was written at store version `at` is served without conversion.
    pub fn is_served_as_stored(&self, at: u64) -> bool {
        let defaulted = !self.has_defaults() || self.versions.len() == 1;
        self.version == self.storage_version && at > self.defined_at_version && defaulted
    }

    /// Validates an object to be created (`old` is `None`) or updated. `errors` are the errors of its metadata.
    pub fn validate(&self, new: &Value, old: Option<&Value>, mut errors: FieldErrors) -> ValidationResult {
        let foreign = self.validate_type_meta(new);
        if !foreign.is_empty() {
            return ValidationResult { errors: foreign, warnings: Vec::new() };
        }
        errors.extend(validation::check(new, old, &self.schema, None));
        if let Some(scale) = &self.scale {
            errors.extend(validate_replicas(new, &scale.spec_replicas));
            errors.extend(scale.validate_scale_status(new));
        }
        errors.extend(embedded::check(new, &self.schema));
        self.validate_lists_and_rules(new, old, errors)
    }

    /// Validates an update of `/status`.
    pub fn validate_status(&self, new: &Value, old: &Value, mut errors: FieldErrors) -> ValidationResult {
        let foreign = self.validate_type_meta(new);
        if !foreign.is_empty() {
            return ValidationResult { errors: foreign, warnings: Vec::new() };
        }
        if let (Some(status), Some(schema)) = (new.get("status"), self.schema.properties.get("status")) {
            errors.extend(validation::check(status, old.get("status"), schema, Some(&Path::new("status"))));
        }
        if let Some(scale) = &self.scale {
            errors.extend(scale.validate_scale_status(new));
        }
        self.validate_lists_and_rules(new, Some(old), errors)
    }

    fn validate_lists_and_rules(
        &self,
        new: &Value,
        old: Option<&Value>,
        mut errors: FieldErrors,
    ) -> ValidationResult {
        let repeated = |object: &Value| lists::duplicates(object, &self.schema, &Path::root());
        if old.is_none_or(|old| repeated(old).is_empty()) {
            errors.extend(repeated(new));
        }
        let mut warnings = Vec::new();
        if let Some(rules) = &self.rules {
            if errors.iter().any(validation::blocks_rules) {
                errors.push(FieldError {
                    path: Path::new("<nil>"),
                    error_type: FieldErrorType::Invalid,
                    value: Some(Value::Null),
                    detail: "some validation rules were not checked because the object was invalid; \
                             correct the existing errors to complete validation"
                        .to_owned(),
                });
            } else {
                errors.extend(rules.check(new, old, &self.schema, None, &mut warnings));
            }
        }
        ValidationResult { errors, warnings }
    }

    fn validate_type_meta(&self, object: &Value) -> FieldErrors {
        let api_version = format!("{}/{}", self.group, self.version);
        let mut errors = FieldErrors::new();
        for (field, wanted) in [("kind", self.kind.as_ref()), ("apiVersion", api_version.as_str())] {
            let found = object[field].as_str().unwrap_or_default();
            if found != wanted {
                errors.push(FieldError::invalid(&Path::new(field), found, format!("must be {wanted}")));
            }
        }
        errors
    }

    /// Returns `openAPIV3Schema` as written.
    pub fn openapi(&self) -> &Value {
        &self.document
    }

    /// Returns the paths that field selectors may use, without the leading dot: `spec.color`.
    pub fn selectable_fields(&self) -> impl Iterator<Item = &str> {
        self.selectable.iter().map(|path| path.trim_start_matches('.'))
    }

    pub fn scale(&self) -> Option<&ScalePaths> {
        self.scale.as_ref()
    }

    pub fn has_status(&self) -> bool {
        self.has_status
    }

    /// Returns the deprecation warning for requests to this version.
    pub fn deprecation(&self) -> Option<&str> {
        self.deprecation.as_deref()
    }

    /// Whether `other` comes from the same CRD with the same `spec`.
    pub fn has_same_definition(&self, other: &Self) -> bool {
        self.crd_uid_and_generation == other.crd_uid_and_generation
    }

    fn has_defaults(&self) -> bool {
        self.schema.has_defaults()
    }

    pub fn schema(&self) -> &StructuralSchema {
        &self.schema
    }
}

impl ScalePaths {
    fn validate_scale_status(&self, object: &Value) -> FieldErrors {
        let mut errors: FieldErrors = validate_replicas(object, &self.status_replicas).into_iter().collect();
        if let Some(path) = &self.selector {
            let misplaced = match paths::try_value_at(object, path) {
                Ok(Some(value)) if !value.is_string() => Some(accessor_error(path, value, "string")),
                Err(value) => Some(accessor_error(path, value, GO_MAP_TYPE)),
                Ok(_) => None,
            };
            let at = Path::new(path.as_ref());
            errors.extend(misplaced.map(|detail| FieldError::invalid(&at, "", detail)));
        }
        errors
    }
}

/// Validates a replica count, if it is set.
fn validate_replicas(object: &Value, path: &str) -> Option<FieldError> {
    let at = Path::new(path);
    let value = match paths::try_value_at(object, path) {
        Ok(value) => value?,
        Err(value) => return Some(FieldError::invalid(&at, 0, accessor_error(path, value, GO_MAP_TYPE))),
    };
    let Some(count) = value.as_i64() else {
        return Some(FieldError::invalid(&at, 0, accessor_error(path, value, "int64")));
    };
    if count < 0 {
        Some(FieldError::invalid(&at, count, "should be a non-negative integer"))
    } else if count > i64::from(i32::MAX) {
        Some(FieldError::invalid(&at, count, format!("should be less than or equal to {}", i32::MAX)))
    } else {
        None
    }
}

/// The Go name of an object's type.
const GO_MAP_TYPE: &str = "map[string]interface{}";

fn accessor_error(path: &str, value: &Value, wanted: &str) -> String {
    let (shown, found) = match value {
        Value::Null => ("<nil>".to_owned(), "<nil>"),
        Value::Bool(flag) => (flag.to_string(), "bool"),
        Value::Number(number) if number.is_f64() => (number.to_string(), "float64"),
        Value::Number(number) => (number.to_string(), "int64"),
        Value::String(text) => (text.clone(), "string"),
        Value::Array(_) => (value.to_string(), "[]interface {}"),
        Value::Object(_) => (value.to_string(), "map[string]interface {}"),
    };
    let dotted = if path.starts_with('.') { path.to_owned() } else { format!(".{path}") };
    format!("{dotted} accessor error: {shown} is of the type {found}, expected {wanted}")
}

#[cfg(test)]
mod tests;
