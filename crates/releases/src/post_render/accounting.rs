//! Memory accounting for JSON values, done before they are copied.
//!
//! All objects of a release share one [`Budget`]: otherwise a few operations of a patch could double an object until the memory is full.

use helm_template::budget::{Budget, VALUE_BYTES};
use kube_apply::Object;
use serde_json::Value;

/// The maximum size of an object after a patch that adds to it. API servers reject objects of half that size.
pub const MAX_OBJECT_BYTES: usize = 8 << 20;

/// Bytes compared or copied per step.
const BYTES_PER_STEP: usize = 16;

/// Steps for matching one patch or override with one object.
const STEPS_PER_MATCH: u64 = 50;

/// The size of a value in memory: its texts and a constant per value.
pub fn bytes(value: &Value) -> usize {
    let sum = |total: usize, more: usize| total.saturating_add(more);
    let content = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes).fold(0, sum),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| key.len().saturating_add(bytes(value))).fold(0, sum)
        }
        _ => 0,
    };
    content.saturating_add(VALUE_BYTES)
}

/// The nesting depth of a value.
pub fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => None,
    };
    below.unwrap_or_default().saturating_add(1)
}

/// Charges a copy of `bytes`.
pub fn charge_copy(budget: &Budget<'_>, bytes: usize) -> Result<(), String> {
    budget
        .charge((bytes / BYTES_PER_STEP) as u64)
        .and_then(|()| budget.allocate(bytes))
        .map_err(|why| why.to_string())
}

/// Charges comparing one value with `others`, or moving that many.
pub fn charge_compare(budget: &Budget<'_>, others: usize) -> Result<(), String> {
    budget.charge(others as u64).map_err(|why| why.to_string())
}

/// Charges matching one patch or override with all objects.
pub fn charge_match_all(budget: &Budget<'_>, objects: &[Object]) -> Result<(), String> {
    budget.charge(STEPS_PER_MATCH.saturating_mul(objects.len() as u64)).map_err(|why| why.to_string())
}
