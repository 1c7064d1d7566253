//! Field errors and field paths, formatted as in Kubernetes.
//!
//! Validation collects [`FieldErrors`]; [`crate::error::ApiError::invalid`] converts them to the 422 response with its
//! causes. Messages and reasons match Kubernetes.

mod errors;

use std::fmt;

use serde_json::Value;

pub use self::errors::{FieldErrors, MAX_ERROR_BYTES};

/// A field path: `spec.containers[0].ports[1].name`, `data[a b]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Path(String);

impl Path {
    pub fn root() -> Self {
        Self::default()
    }

    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A field: `.name`, without the dot at the root.
    pub fn field(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// An element of a list: `[3]`.
    pub fn index(&self, at: usize) -> Self {
        Self(format!("{}[{at}]", self.0))
    }

    /// An entry of a map: `[key]`.
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Error types, each with its message and the cause's reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorType {
    Required,
    Invalid,
    /// Printed as `Invalid value`, with its own reason.
    TypeInvalid,
    Unsupported,
    Duplicate,
    NotFound,
    Forbidden,
    TooLong,
    TooMany,
    Internal,
}

impl FieldErrorType {
    pub fn description(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::Unsupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::NotFound => "Not found",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Unsupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
        }
    }
}

/// One error of one field. `value` is shown if the error type shows one.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    pub path: Path,
    pub error_type: FieldErrorType,
    pub value: Option<Value>,
    pub detail: String,
}

impl FieldError {
    fn new(path: &Path, complaint: FieldErrorType, value: Option<Value>, detail: impl Into<String>) -> Self {
        Self { path: path.clone(), error_type: complaint, value, detail: detail.into() }
    }

    /// `path: Required value[: detail]`
    pub fn required(path: &Path, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorType::Required, None, detail)
    }

    /// `path: Invalid value: <json>: detail`
    pub fn invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorType::Invalid, Some(value.into()), detail)
    }

    /// As [`FieldError::invalid`], for a value of the wrong JSON type.
    pub fn type_invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorType::TypeInvalid, Some(value.into()), detail)
    }

    /// `path: Unsupported value: "x": supported values: "a", "b"`, in the order given.
    pub fn unsupported(path: &Path, value: impl Into<Value>, supported: &[impl AsRef<str>]) -> Self {
        let quoted: Vec<_> = supported.iter().map(|s| format!("{:?}", s.as_ref())).collect();
        let detail = format!("supported values: {}", quoted.join(", "));
        Self::new(path, FieldErrorType::Unsupported, Some(value.into()), detail)
    }

    /// `path: Duplicate value: <json>`
    pub fn duplicate(path: &Path, value: impl Into<Value>) -> Self {
        Self::new(path, FieldErrorType::Duplicate, Some(value.into()), "")
    }

    /// `path: Not found: <json>`
    pub fn not_found(path: &Path, value: impl Into<Value>) -> Self {
        Self::new(path, FieldErrorType::NotFound, Some(value.into()), "")
    }

    /// `path: Forbidden: detail`
    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorType::Forbidden, None, detail)
    }

    /// `path: Too long: may not be more than N bytes`
    pub fn too_long(path: &Path, most: usize) -> Self {
        let noun = if most == 1 { "byte" } else { "bytes" };
        Self::new(path, FieldErrorType::TooLong, None, format!("may not be more than {most} {noun}"))
    }

    /// `path: Too many: 4: must have at most 3 items`
    pub fn too_many(path: &Path, actual: usize, most: usize) -> Self {
        let noun = if most == 1 { "item" } else { "items" };
        Self::new(
            path,
            FieldErrorType::TooMany,
            Some(actual.into()),
            format!("must have at most {most} {noun}"),
        )
    }

    /// The part after `path: ` in the message, also used in the cause.
    pub fn message_body(&self) -> String {
        let mut text = self.error_type.description().to_owned();
        if let Some(value) = &self.value {
            text.push_str(": ");
            text.push_str(&format_value(value));
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

/// A value as Go formats it: in a label selector, labels come before expressions.
fn format_value(value: &Value) -> String {
    match (value.get("matchLabels"), value.get("matchExpressions")) {
        (Some(labels), Some(expressions)) => {
            format!("{{\"matchLabels\":{labels},\"matchExpressions\":{expressions}}}")
        }
        _ => match value {
            Value::String(text) => crate::go::quote(text),
            other => other.to_string(),
        },
    }
}

/// The messages of errors, for tests.
#[cfg(test)]
pub fn error_messages(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message_body())
    }
}
