//! Accessors for JSON documents: absent values read as empty, as Go's zero values do.
//!
//! Used by all modules that read objects by field name (`rules`, `print`, `admission`). Types
//! have been checked when the document was decoded, so a wrong type can be read as absent.

use serde_json::{Map, Value};

use crate::field::{FieldError, FieldErrorType, Path};

/// The string, or `""`.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The string, unless absent or empty.
pub fn non_empty_text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// The number, or 0.
pub fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// The boolean, or false.
pub fn bool_or_false(value: &Value) -> bool {
    value.as_bool().unwrap_or_default()
}

/// The elements, or none.
pub fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The strings in a list.
pub fn texts(value: &Value) -> impl Iterator<Item = &str> {
    items(value).iter().map(text)
}

/// The entries, sorted by key, or none.
pub fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Absent, null, or an empty string, list or map.
pub fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The members of `parent[name]`, which becomes a map if it is not one.
pub fn members<'a>(parent: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    if !parent.is_object() {
        *parent = Value::Object(Map::new());
    }
    let map = parent.as_object_mut().expect("it has just been made a map");
    let member = map.entry(name).or_insert(Value::Null);
    if !member.is_object() {
        *member = Value::Object(Map::new());
    }
    member.as_object_mut().expect("it has just been made a map")
}

/// `parent[name]` as a mutable list, if it is one.
pub fn list_mut<'a>(parent: &'a mut Value, name: &str) -> Option<&'a mut Vec<Value>> {
    parent.get_mut(name)?.as_array_mut()
}

/// Every element of `parent[name]` that is a map.
pub fn maps_mut<'a>(
    parent: &'a mut Value,
    name: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> + use<'a> {
    list_mut(parent, name).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Sets `map[name]` if it is absent or null.
pub fn set_if_absent(map: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    if map.get(name).is_none_or(Value::is_null) {
        map.insert(name.to_owned(), value.into());
    }
}

/// As [`set_if_absent`]; an empty string counts as absent, too.
pub fn set_if_empty(map: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    if map.get(name).is_none_or(is_empty_value) {
        map.insert(name.to_owned(), value.into());
    }
}

/// The value as Go prints a struct without JSON names: with capitalised field names.
///
/// Some messages of Kubernetes contain such structs, so the same names are shown here.
pub fn go_names(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(map.iter().map(|(k, v)| (go_name(k), go_names(v))).collect()),
        Value::Array(list) => Value::Array(list.iter().map(go_names).collect()),
        other => other.clone(),
    }
}

/// `path: Duplicate value: <text>`, for a struct that Go prints in its own field order.
pub fn go_duplicate(path: &Path, shown: String) -> FieldError {
    FieldError { path: path.clone(), error_type: FieldErrorType::Duplicate, value: None, detail: shown }
}

/// The Go name of one field.
pub fn go_name(name: &str) -> String {
    match name {
        "apiGroup" => return "APIGroup".to_owned(),
        "apiVersion" => return "APIVersion".to_owned(),
        "uid" => return "UID".to_owned(),
        "cidrs" => return "CIDRs".to_owned(),
        _ => {}
    }
    let mut chars = name.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_values_read_as_empty() {
        let object = json!({"a": {"b": "x"}, "n": 3, "e": ""});
        assert_eq!((text(&object["a"]["b"]), text(&object["q"]["z"]), int(&object["n"])), ("x", "", 3));
        assert!(
            is_empty_value(&object["e"]) && is_empty_value(&object["none"]) && !is_empty_value(&object["n"])
        );
        assert_eq!(non_empty_text(&object["e"]), None);
    }

    #[test]
    fn set_if_absent_keeps_existing_values() {
        let mut object = json!({"spec": {"a": "x", "b": null, "c": ""}});
        let spec = members(&mut object, "spec");
        for field in ["a", "b", "c", "d"] {
            set_if_absent(spec, field, 1);
        }
        set_if_empty(spec, "c", "y");
        assert_eq!(object["spec"], json!({"a": "x", "b": 1, "c": "y", "d": 1}));
    }

    #[test]
    fn go_names_are_capitalised() {
        let role = json!({"apiGroup": "g", "kind": "k"});
        assert_eq!(go_names(&role).to_string(), "{\"APIGroup\":\"g\",\"Kind\":\"k\"}");
    }
}
