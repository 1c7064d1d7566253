//! Custom resource definitions and the objects they define.
//!
//! [`RULES`] says which CRDs are accepted (`accept`), [`status`] what becomes of an accepted one, and
//! [`CustomKind`] is one served version of it, compiled: everything that a write of a custom resource
//! asks for. Pure: no store, no clock.

pub mod accept;
pub mod cel;
mod check;
mod embedded;
mod formats;
mod lists;
mod numbers;
mod openapi;
pub mod paths;
mod pattern;
mod resource;
pub mod schema;
mod shape;
pub mod status;
mod types;

pub use accept::RULES;
pub use resource::{resources, version_order};

use serde_json::Value;

use self::cel::rules::Rules;
use self::schema::Schema;
use crate::field::{Complaint, FieldError, Path};

/// What one version of a CRD says beyond names and shape.
pub struct CustomKind {
    pub group: Box<str>,
    pub version: Box<str>,
    pub kind: Box<str>,
    /// `openAPIV3Schema` as written.
    document: Value,
    schema: Schema,
    rules: Option<Rules>,
    has_status: bool,
    scale: Option<ScalePaths>,
    selectable: Box<[Box<str>]>,
    deprecation: Option<Box<str>>,
}

/// Where `/scale` finds its three values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: Box<str>,
    pub status_replicas: Box<str>,
    pub selector: Option<Box<str>>,
}

/// What validation has to say.
#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    pub errors: Vec<FieldError>,
    /// Rules that are broken as they already were before the update.
    pub warnings: Vec<String>,
}

impl CustomKind {
    /// Why an object cannot be decoded at all: 400 `<Kind> in version "<v>" cannot be handled as a <Kind>:
    /// <complaint>`.
    pub fn malformed(&self, object: &Value) -> Option<FieldError> {
        embedded::malformed(object, &self.schema, &Path::root())
    }

    /// Drops unknown fields, also of `metadata`; answers their paths, as warnings print them.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        shape::prune(object, &self.schema)
    }

    /// Fills in defaults: after pruning on a write, and on every read.
    pub fn default(&self, object: &mut Value) {
        shape::default(object, &self.schema);
    }

    /// Complaints about an object to be created (`old` is `None`) or changed. Its metadata is checked
    /// elsewhere.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.review(new, old).errors
    }

    /// As [`CustomKind::validate`], with the warnings of an update.
    pub fn review(&self, new: &Value, old: Option<&Value>) -> Verdict {
        let mut errors = self.type_meta(new);
        if !errors.is_empty() {
            return Verdict { errors, warnings: Vec::new() };
        }
        errors.extend(check::check(new, old, &self.schema, None));
        if let Some(scale) = &self.scale {
            errors.extend(replicas(new, &scale.spec_replicas));
            errors.extend(scale.status_complaints(new));
        }
        errors.extend(embedded::check(new, &self.schema));
        self.lists_and_rules(new, old, errors)
    }

    /// Complaints about a change through `/status`.
    pub fn validate_status(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        self.review_status(new, old).errors
    }

    pub fn review_status(&self, new: &Value, old: &Value) -> Verdict {
        let mut errors = self.type_meta(new);
        if !errors.is_empty() {
            return Verdict { errors, warnings: Vec::new() };
        }
        if let (Some(status), Some(schema)) = (new.get("status"), self.schema.properties.get("status")) {
            errors.extend(check::check(status, old.get("status"), schema, Some(&Path::new("status"))));
        }
        if let Some(scale) = &self.scale {
            errors.extend(scale.status_complaints(new));
        }
        self.lists_and_rules(new, Some(old), errors)
    }

    fn lists_and_rules(&self, new: &Value, old: Option<&Value>, mut errors: Vec<FieldError>) -> Verdict {
        let repeated = |object: &Value| lists::duplicates(object, &self.schema, &Path::root());
        if old.is_none_or(|old| repeated(old).is_empty()) {
            errors.extend(repeated(new));
        }
        let mut warnings = Vec::new();
        if let Some(rules) = &self.rules {
            if errors.iter().any(check::blocks_rules) {
                errors.push(FieldError {
                    path: Path::new("<nil>"),
                    complaint: Complaint::Invalid,
                    value: Some(Value::Null),
                    detail: "some validation rules were not checked because the object was invalid; \
                             correct the existing errors to complete validation"
                        .to_owned(),
                });
            } else {
                errors.extend(rules.check(new, old, &self.schema, None, &mut warnings));
            }
        }
        Verdict { errors, warnings }
    }

    fn type_meta(&self, object: &Value) -> Vec<FieldError> {
        let api_version = format!("{}/{}", self.group, self.version);
        let mut errors = Vec::new();
        for (field, wanted) in [("kind", self.kind.as_ref()), ("apiVersion", api_version.as_str())] {
            let found = object[field].as_str().unwrap_or_default();
            if found != wanted {
                errors.push(FieldError::invalid(&Path::new(field), found, format!("must be {wanted}")));
            }
        }
        errors
    }

    /// The OpenAPI schema of the kind, with what every object has.
    pub fn openapi(&self) -> Value {
        openapi::of(self)
    }

    /// Paths that field selectors may name, without the leading dot: `spec.color`.
    pub fn selectable_fields(&self) -> impl Iterator<Item = &str> {
        self.selectable.iter().map(|path| path.trim_start_matches('.'))
    }

    /// The value of a selectable field as selectors compare it.
    pub fn selectable_value(object: &Value, field: &str) -> String {
        match paths::value_at(object, field) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    pub fn scale(&self) -> Option<&ScalePaths> {
        self.scale.as_ref()
    }

    pub fn has_status(&self) -> bool {
        self.has_status
    }

    /// The `Warning` for every request to a deprecated version.
    pub fn deprecation(&self) -> Option<&str> {
        self.deprecation.as_deref()
    }

    /// Whether reading an object may add to it.
    pub fn has_defaults(&self) -> bool {
        self.schema.has_defaults()
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }
}

impl ScalePaths {
    fn status_complaints(&self, object: &Value) -> Vec<FieldError> {
        let mut errors: Vec<FieldError> = replicas(object, &self.status_replicas).into_iter().collect();
        if let Some(path) = &self.selector
            && let Some(value) = paths::value_at(object, path)
            && !value.is_string()
        {
            let detail = accessor_error(path, value, "string");
            errors.push(FieldError::invalid(&Path::new(path.as_ref()), "", detail));
        }
        errors
    }
}

/// A count of replicas that is there must be a sensible one.
fn replicas(object: &Value, path: &str) -> Option<FieldError> {
    let value = paths::value_at(object, path)?;
    let at = Path::new(path);
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
