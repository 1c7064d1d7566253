//! Sign checks of quantities.

use super::PathValue;
use crate::field::{FieldError, FieldErrors};
use crate::quantity::Quantity;

/// `Invalid value: "-1": must be greater than or equal to 0`
pub fn not_negative(at: &PathValue, errs: &mut FieldErrors) {
    if at.value.and_then(Quantity::from_value).is_some_and(|amount| amount < Quantity::ZERO) {
        errs.push(FieldError::invalid(&at.path, at.to_json(), super::NOT_NEGATIVE));
    }
}

/// `Invalid value: "0": must be greater than zero`
pub fn positive(at: &PathValue, errs: &mut FieldErrors) {
    if at.value.and_then(Quantity::from_value).is_some_and(|amount| amount <= Quantity::ZERO) {
        errs.push(FieldError::invalid(&at.path, at.to_json(), super::POSITIVE));
    }
}
