//! The selector of a controller for its pods.

use serde_json::Value;

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, At};

use super::template;

/// Adds the error of a changed selector to `errs`.
pub fn unchanged(mut errs: FieldErrors, new: &Value, old: &Value) -> FieldErrors {
    let (new, old) = (At::root(new), At::root(old));
    check::immutable(&new.down("spec.selector"), &old.down("spec.selector"), &mut errs);
    errs
}

/// Required, valid and not empty; `kind` is used in the message. Returns whether it can be used.
pub fn validate(selector: &At, kind: &str, unusable: &str, errs: &mut FieldErrors) -> bool {
    if !selector.exists() {
        errs.push(FieldError::required(&selector.path, ""));
        return true;
    }
    check::label_selector(selector, errs);
    if check::selector_is_empty(selector) {
        let words = format!("empty selector is invalid for {kind}");
        errs.push(FieldError::invalid(&selector.path, selector.json(), words));
    }
    let usable = usable(selector);
    if !usable {
        errs.push(FieldError::invalid(&selector.path, selector.json(), unusable));
    }
    usable
}

/// Whether Go can parse it: every key, operator and value is valid.
pub fn usable(selector: &At) -> bool {
    let mut errs = FieldErrors::new();
    check::label_selector(selector, &mut errs);
    errs.is_empty()
}

/// Checks that the selector matches the template's labels. An empty selector matches everything, and an absent
/// one matches nothing.
pub fn fits(selector: &At, pods: &At, errs: &mut FieldErrors) {
    let picks = || check::selector_picks(selector, &pods.down("metadata.labels"));
    if !selector.exists() || !check::selector_is_empty(selector) && !picks() {
        template::selector_misses(pods, errs);
    }
}
