//! The selector of a controller for its pods.

use serde_json::Value;

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, PathValue};

use super::template;

/// Adds the error of a changed selector to `errs`.
pub fn validate_immutable(mut errs: FieldErrors, new: &Value, old: &Value) -> FieldErrors {
    let (new, old) = (PathValue::root(new), PathValue::root(old));
    check::immutable(&new.nested("spec.selector"), &old.nested("spec.selector"), &mut errs);
    errs
}

/// Required, valid and not empty; `kind` is used in the message. Returns whether it can be used.
pub fn validate(selector: &PathValue, kind: &str, unusable: &str, errs: &mut FieldErrors) -> bool {
    if !selector.exists() {
        errs.push(FieldError::required(&selector.path, ""));
        return true;
    }
    check::label_selector(selector, errs);
    if check::selector_is_empty(selector) {
        let words = format!("empty selector is invalid for {kind}");
        errs.push(FieldError::invalid(&selector.path, selector.to_json(), words));
    }
    let usable = is_parsable(selector);
    if !usable {
        errs.push(FieldError::invalid(&selector.path, selector.to_json(), unusable));
    }
    usable
}

/// Whether Go can parse it: every key, operator and value is valid.
pub fn is_parsable(selector: &PathValue) -> bool {
    let mut errs = FieldErrors::new();
    check::label_selector(selector, &mut errs);
    errs.is_empty()
}

/// Checks that the selector matches the template's labels. An empty selector matches everything, and an absent
/// one matches nothing.
pub fn validate_matches_template(selector: &PathValue, pods: &PathValue, errs: &mut FieldErrors) {
    let picks = || check::selector_matches(selector, &pods.nested("metadata.labels"));
    if !selector.exists() || !check::selector_is_empty(selector) && !picks() {
        template::selector_mismatch(pods, errs);
    }
}
