//! The errors of one validation, bounded: a request can have a million errors, and many of them show a whole value.

use std::ops::Deref;

use serde_json::Value;

use super::FieldError;

/// Maximum size of all errors of one request. The first error is kept regardless of its size.
pub const MAX_ERROR_BYTES: usize = 1 << 20;
/// Memory of one error besides its strings: it bounds the number of short errors.
const ERROR_OVERHEAD_BYTES: usize = 128;

/// A list of errors that stops growing at [`MAX_ERROR_BYTES`]. Further errors are counted only.
///
/// Invariant: if an error was pushed, at least one is kept.
#[derive(Clone, Debug, Default)]
pub struct FieldErrors {
    errors: Vec<FieldError>,
    bytes: usize,
    omitted: usize,
}

impl FieldErrors {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&mut self, error: FieldError) {
        let bytes = self.bytes.saturating_add(error_size(&error));
        // After the first omitted error all later ones are omitted, so that the shown errors are the first ones.
        if self.omitted > 0 || (bytes > MAX_ERROR_BYTES && !self.errors.is_empty()) {
            self.omitted = self.omitted.saturating_add(1);
        } else {
            self.bytes = bytes;
            self.errors.push(error);
        }
    }

    /// Adds the errors of `other`, and its number of omitted errors.
    pub fn append(&mut self, other: Self) {
        let omitted = other.omitted;
        self.extend(other.errors);
        self.omit(omitted);
    }

    /// Counts omitted errors.
    pub fn omit(&mut self, count: usize) {
        self.omitted = self.omitted.saturating_add(count);
    }

    /// The number of errors, including omitted ones.
    pub fn len(&self) -> usize {
        self.errors.len().saturating_add(self.omitted)
    }

    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// The number of omitted errors.
    pub fn omitted(&self) -> usize {
        self.omitted
    }

    /// Whether further errors are omitted. A loop with large errors can stop here.
    pub fn is_full(&self) -> bool {
        self.omitted > 0 || self.bytes >= MAX_ERROR_BYTES
    }
}

/// The memory of an error.
fn error_size(error: &FieldError) -> usize {
    let value = error.value.as_ref().map_or(0, value_size);
    [error.path.as_str().len(), error.detail.len(), value]
        .into_iter()
        .fold(ERROR_OVERHEAD_BYTES, usize::saturating_add)
}

fn value_size(value: &Value) -> usize {
    const NODE: usize = 32;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => NODE,
        Value::String(text) => text.len().saturating_add(NODE),
        Value::Array(items) => items.iter().map(value_size).fold(NODE, usize::saturating_add),
        Value::Object(fields) => {
            let sizes = fields.iter().map(|(key, value)| key.len().saturating_add(value_size(value)));
            sizes.fold(NODE, usize::saturating_add)
        }
    }
}

impl Deref for FieldErrors {
    type Target = [FieldError];

    fn deref(&self) -> &[FieldError] {
        &self.errors
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<I: IntoIterator<Item = FieldError>>(&mut self, errors: I) {
        errors.into_iter().for_each(|error| self.push(error));
    }
}

impl FromIterator<FieldError> for FieldErrors {
    fn from_iter<I: IntoIterator<Item = FieldError>>(errors: I) -> Self {
        let mut all = Self::new();
        all.extend(errors);
        all
    }
}

impl IntoIterator for FieldErrors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.into_iter()
    }
}

impl<'a> IntoIterator for &'a FieldErrors {
    type Item = &'a FieldError;
    type IntoIter = std::slice::Iter<'a, FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.iter()
    }
}

impl From<FieldError> for FieldErrors {
    fn from(error: FieldError) -> Self {
        [error].into_iter().collect()
    }
}

impl From<Vec<FieldError>> for FieldErrors {
    fn from(errors: Vec<FieldError>) -> Self {
        errors.into_iter().collect()
    }
}

impl From<&Self> for FieldErrors {
    fn from(errors: &Self) -> Self {
        errors.clone()
    }
}

impl From<&[FieldError]> for FieldErrors {
    fn from(errors: &[FieldError]) -> Self {
        errors.iter().cloned().collect()
    }
}

impl<const N: usize> From<&[FieldError; N]> for FieldErrors {
    fn from(errors: &[FieldError; N]) -> Self {
        errors.as_slice().into()
    }
}

impl From<&Vec<FieldError>> for FieldErrors {
    fn from(errors: &Vec<FieldError>) -> Self {
        errors.as_slice().into()
    }
}

impl PartialEq for FieldErrors {
    fn eq(&self, other: &Self) -> bool {
        (&self.errors, self.omitted) == (&other.errors, other.omitted)
    }
}

impl<const N: usize> PartialEq<[FieldError; N]> for FieldErrors {
    fn eq(&self, other: &[FieldError; N]) -> bool {
        self.omitted == 0 && self.errors.as_slice() == other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Path;

    fn long_error() -> FieldError {
        FieldError::invalid(&Path::new("a"), "x".repeat(MAX_ERROR_BYTES / 4), "long")
    }

    #[test]
    fn errors_beyond_limit_are_only_counted() {
        let mut errors = FieldErrors::new();
        for _ in 0..1_000 {
            errors.push(long_error());
        }
        assert_eq!((errors.iter().count(), errors.omitted(), errors.len()), (3, 997, 1_000));
        assert!(errors.is_full());
        errors.push(FieldError::required(&Path::new("b"), ""));
        assert_eq!(errors.iter().count(), 3, "what is kept is the beginning");

        let mut all = FieldErrors::from(long_error());
        all.append(errors);
        assert_eq!((all.iter().count(), all.len()), (3, 1_002));
    }

    #[test]
    fn short_errors_are_bounded() {
        let short = || FieldError::required(&Path::root(), "");
        let errors: FieldErrors = std::iter::repeat_with(short).take(1_000_000).collect();
        assert!(errors.iter().count() <= MAX_ERROR_BYTES / ERROR_OVERHEAD_BYTES);
        assert_eq!(errors.len(), 1_000_000);
    }

    #[test]
    fn first_error_is_kept_regardless_of_size() {
        let huge = FieldError::invalid(&Path::new("a"), "x".repeat(2 * MAX_ERROR_BYTES), "");
        let errors = FieldErrors::from(huge);
        assert_eq!((errors.iter().count(), errors.omitted()), (1, 0));
    }
}
