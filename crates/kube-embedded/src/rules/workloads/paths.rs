//! Paths in the file system of a container or a node.

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::PathValue;

/// The octal permissions of a file.
pub fn validate_file_mode(at: &PathValue, errs: &mut FieldErrors) {
    if at.number().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        let words = "must be a number between 0 and 0777 (octal), both inclusive";
        errs.push(FieldError::invalid(&at.path, at.int(), words));
    }
}

pub fn validate_no_backsteps(at: &PathValue, errs: &mut FieldErrors) {
    if at.text().split('/').any(|part| part == "..") {
        errs.push(FieldError::invalid(&at.path, at.text(), "must not contain '..'"));
    }
}

/// A relative path without `..`.
pub fn validate_descending_path(at: &PathValue, errs: &mut FieldErrors) {
    if at.text().starts_with('/') {
        errs.push(FieldError::invalid(&at.path, at.text(), "must be a relative path"));
    }
    validate_no_backsteps(at, errs);
}

/// A relative path without the names that the kubelet reserves.
pub fn validate_not_reserved(at: &PathValue, errs: &mut FieldErrors) {
    validate_descending_path(at, errs);
    if at.text().starts_with("..") && !at.text().starts_with("../") {
        errs.push(FieldError::invalid(&at.path, at.text(), "must not start with '..'"));
    }
}
