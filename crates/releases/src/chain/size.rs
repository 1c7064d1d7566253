//! The memory that JSON takes, counted before it is copied.
//!
//! The chain draws on one [`Budget`] over all objects of a release: a few operations of a patch could otherwise double an object
//! until the memory is full.

use helm_template::budget::{Budget, VALUE_BYTES};
use kube_apply::Object;
use serde_json::Value;

/// Bytes that an object may have after a patch that adds to it. No API server takes one of half that size.
pub const OBJECT_BYTES: usize = 8 << 20;

/// Bytes that are compared or copied in the time of a step.
const BYTES_PER_STEP: usize = 16;

/// Steps to find out whether a link of the chain is for an object.
const STEPS_TO_MATCH: u64 = 50;

/// The bytes of a value in memory: its texts, and what each value takes.
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

/// Values inside each other.
pub fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => None,
    };
    below.unwrap_or_default().saturating_add(1)
}

/// Counts a copy of so many bytes.
pub fn copy(budget: &Budget<'_>, bytes: usize) -> Result<(), String> {
    budget
        .charge((bytes / BYTES_PER_STEP) as u64)
        .and_then(|()| budget.take(bytes))
        .map_err(|why| why.to_string())
}

/// Counts the work of comparing one value with so many others, or of moving them.
pub fn compare(budget: &Budget<'_>, others: usize) -> Result<(), String> {
    budget.charge(others as u64).map_err(|why| why.to_string())
}

/// Counts the work of matching a link of the chain with all objects.
pub fn match_all(budget: &Budget<'_>, objects: &[Object]) -> Result<(), String> {
    budget.charge(STEPS_TO_MATCH.saturating_mul(objects.len() as u64)).map_err(|why| why.to_string())
}
