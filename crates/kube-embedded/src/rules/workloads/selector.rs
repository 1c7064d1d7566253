//! The selector by which a controller finds its pods.

use serde_json::Value;

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, At};

use super::template;

/// `errs`, and that the selector may not change.
pub fn unchanged(mut errs: FieldErrors, new: &Value, old: &Value) -> FieldErrors {
    let (new, old) = (At::root(new), At::root(old));
    check::immutable(&new.down("spec.selector"), &old.down("spec.selector"), &mut errs);
    errs
}

/// Required, sound and not empty; `kind` is the word of the complaint. Says whether it can be used.
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

/// Whether Go can make a matcher of it: every key, operator and value is sound.
pub fn usable(selector: &At) -> bool {
    let mut errs = FieldErrors::new();
    check::label_selector(selector, &mut errs);
    errs.is_empty()
}

/// The template carries the labels that the selector asks for. An empty selector asks for none, and one
/// that is not there picks nothing.
pub fn fits(selector: &At, pods: &At, errs: &mut FieldErrors) {
    let picks = || check::selector_picks(selector, &pods.down("metadata.labels"));
    if !selector.exists() || !check::selector_is_empty(selector) && !picks() {
        template::selector_misses(pods, errs);
    }
}
