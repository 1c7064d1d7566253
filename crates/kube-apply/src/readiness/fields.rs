//! Accessors for optional fields of live objects.

use serde_json::Value;

use crate::object::group;

/// Number at a JSON pointer.
pub fn number(value: &Value, pointer: &str) -> Option<i64> {
    value.pointer(pointer).and_then(Value::as_i64)
}

/// Count at a JSON pointer; 0 if missing.
pub fn count(value: &Value, pointer: &str) -> i64 {
    number(value, pointer).unwrap_or(0)
}

pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub fn conditions(live: &Value) -> impl Iterator<Item = &Value> {
    live["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

pub fn condition<'a>(live: &'a Value, sort: &str) -> Option<&'a Value> {
    conditions(live).find(|condition| condition["type"] == sort)
}

/// Whether the condition is `True`.
pub fn is_condition_true(live: &Value, sort: &str) -> bool {
    condition(live, sort).is_some_and(|condition| condition["status"] == "True")
}

/// Reason and message of a condition.
pub fn condition_message(condition: &Value) -> String {
    match (text(condition, "/reason"), text(condition, "/message")) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

pub fn group_kind(live: &Value) -> (&str, &str) {
    (group(text(live, "/apiVersion")), text(live, "/kind"))
}

/// A number or a percentage of `of`, rounded up or down.
pub fn scaled_value(value: Option<&Value>, of: i64, up: bool) -> Option<i64> {
    match value? {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            let scaled = percent.checked_mul(of)?;
            Some(if up { scaled.checked_add(99)? / 100 } else { scaled / 100 })
        }
        _ => None,
    }
}
