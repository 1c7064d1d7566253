//! A value in an object together with its path.
//!
//! Rules traverse objects with it, so value and path always match. Reading never fails:
//! an absent value, or one of another JSON type, reads as Go's zero value.

use serde_json::Value;

use crate::field::Path;
use crate::rules::accessors::go_names;

#[derive(Clone, Debug)]
#[must_use]
pub struct PathValue<'a> {
    /// `None` for absent or null.
    pub value: Option<&'a Value>,
    pub path: Path,
}

impl<'a> PathValue<'a> {
    pub fn root(value: &'a Value) -> Self {
        Self { value: Some(value), path: Path::root() }
    }

    /// The same value under another path.
    pub fn with_path(&self, path: Path) -> Self {
        Self { value: self.value, path }
    }

    /// A named member.
    pub fn get(&self, name: &str) -> PathValue<'a> {
        PathValue { value: self.peek(name), path: self.path.field(name) }
    }

    /// The value of a member, without its path.
    pub fn peek(&self, name: &str) -> Option<&'a Value> {
        self.value.and_then(|value| value.get(name)).filter(|value| !value.is_null())
    }

    /// A nested member: `spec.template.metadata`.
    pub fn nested(&self, names: &str) -> PathValue<'a> {
        names.split('.').fold(self.clone(), |at, name| at.get(name))
    }

    /// An entry of a map, written `[key]`.
    pub fn key(&self, key: &str) -> PathValue<'a> {
        PathValue { value: self.peek(key), path: self.path.key(key) }
    }

    pub fn exists(&self) -> bool {
        self.value.is_some()
    }

    pub fn has(&self, name: &str) -> bool {
        self.peek(name).is_some()
    }

    /// The string, or `""`.
    pub fn text(&self) -> &'a str {
        self.value.and_then(Value::as_str).unwrap_or_default()
    }

    pub fn number(&self) -> Option<i64> {
        self.value.and_then(Value::as_i64)
    }

    /// The number, or 0.
    pub fn int(&self) -> i64 {
        self.number().unwrap_or_default()
    }

    pub fn bool_or_false(&self) -> bool {
        self.value.and_then(Value::as_bool).unwrap_or_default()
    }

    /// A copy of the value; null if absent.
    pub fn to_json(&self) -> Value {
        self.value.cloned().unwrap_or_default()
    }

    /// The value with the field names of Go structs.
    pub fn to_go_names(&self) -> Value {
        self.value.map(go_names).unwrap_or_default()
    }

    pub fn len(&self) -> usize {
        match self.value {
            Some(Value::Array(list)) => list.len(),
            Some(Value::Object(map)) => map.len(),
            Some(Value::String(text)) => text.len(),
            _ => 0,
        }
    }

    /// Absent, `""`, `[]` or `{}`.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements of a list, with their paths.
    pub fn items(&self) -> impl DoubleEndedIterator<Item = PathValue<'a>> + ExactSizeIterator + use<'a> {
        let list: &[Value] = self.value.and_then(Value::as_array).map_or(&[], Vec::as_slice);
        let path = self.path.clone();
        list.iter().enumerate().map(move |(i, value)| PathValue { value: Some(value), path: path.index(i) })
    }

    /// The entries of a map, with their paths.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, PathValue<'a>)> + use<'a> {
        let path = self.path.clone();
        let map = self.value.and_then(Value::as_object);
        map.into_iter()
            .flatten()
            .map(move |(key, value)| (key.as_str(), PathValue { value: Some(value), path: path.key(key) }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn path_follows_value() {
        let object = json!({"a": [{"b": {"k": 1}}], "n": null, "t": "x"});
        let root = PathValue::root(&object);
        let inner = root.get("a").items().next().unwrap().get("b").key("k");
        assert_eq!((inner.path.as_str(), inner.int()), ("a[0].b[k]", 1));
        assert!(!root.has("n") && root.get("n").is_empty() && root.get("t").int() == 0);
        assert_eq!(root.nested("a.b.c").path.as_str(), "a.b.c");
    }
}
