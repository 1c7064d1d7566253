//! Strategic merge patches onto a manifest: maps are merged, lists too where their kind has a key for it, null removes.
//!
//! `$patch: replace` and `$patch: delete` work in maps and in elements of lists, `$retainKeys` and
//! `$deleteFromPrimitiveList` as in Kubernetes. New elements come last, as the API server puts them. The order of elements
//! (`$setElementOrder`) is what only tools write, and is refused.

use serde_json::{Map, Value};

use super::merge_keys::{self, Merge};

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

type Fields = Map<String, Value>;

/// Of what kind the object is, which decides how its lists are merged.
#[derive(Clone, Copy)]
pub struct Of<'a> {
    pub group: &'a str,
    pub kind: &'a str,
}

/// The patch says that the object is not to be.
pub fn deletes(patch: &Value) -> bool {
    patch[DIRECTIVE] == "delete"
}

/// The object after the patch. An error says where, never what.
pub fn apply(of: Of<'_>, object: &Value, patch: &Value) -> Result<Value, String> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err("a strategic merge patch is a map".to_owned());
    };
    Merging { of }.map(object.clone(), patch, "").map(Value::Object)
}

struct Merging<'a> {
    of: Of<'a>,
}

impl Merging<'_> {
    fn map(&self, mut below: Fields, patch: &Fields, place: &str) -> Result<Fields, String> {
        match patch.get(DIRECTIVE).map(Value::as_str) {
            None | Some(Some("merge")) => {}
            Some(Some("replace")) => return Ok(plain(patch)),
            Some(Some("delete")) => return Ok(Fields::new()),
            Some(_) => return Err(format!("{}: unknown directive {DIRECTIVE}", shown(place))),
        }
        if let Some(kept) = patch.get(RETAIN) {
            let kept = kept.as_array().ok_or_else(|| format!("{}: {RETAIN} is a list", shown(place)))?;
            below.retain(|key, _| kept.iter().any(|name| name == key));
        }
        for (key, change) in patch {
            if key == DIRECTIVE || key == RETAIN {
                continue;
            }
            if let Some(list) = key.strip_prefix(DELETE_FROM) {
                let gone = change.as_array().ok_or_else(|| format!("{}: {key} is a list", shown(place)))?;
                if let Some(Value::Array(items)) = below.get_mut(list) {
                    items.retain(|item| !gone.contains(item));
                }
                continue;
            }
            if key.starts_with('$') {
                return Err(format!("{}: the directive {key} is not known", shown(place)));
            }
            self.field(&mut below, key, change, place)?;
        }
        Ok(below)
    }

    fn field(&self, below: &mut Fields, key: &str, change: &Value, place: &str) -> Result<(), String> {
        let inside = if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
        let merged = match (below.remove(key), change) {
            (_, Value::Null) => return Ok(()),
            (Some(Value::Object(below)), Value::Object(patch)) => self.map(below, patch, &inside)?.into(),
            // What is not there yet is merged with nothing, so that directives do not end up in it.
            (_, Value::Object(patch)) => self.map(Fields::new(), patch, &inside)?.into(),
            (before, Value::Array(patch)) => {
                let before = match before {
                    Some(Value::Array(items)) => items,
                    _ => Vec::new(),
                };
                self.list(before, patch, place, key, &inside)?.into()
            }
            (_, other) => other.clone(),
        };
        below.insert(key.to_owned(), merged);
        Ok(())
    }

    fn list(
        &self,
        before: Vec<Value>,
        patch: &[Value],
        place: &str,
        key: &str,
        inside: &str,
    ) -> Result<Vec<Value>, String> {
        let parent = place.rsplit('.').next().unwrap_or_default();
        let parent = parent.split('[').next().unwrap_or_default();
        match merge_keys::merge(self.of.group, self.of.kind, parent, key) {
            None => Ok(patch.iter().filter(|item| item.get(DIRECTIVE).is_none()).map(plain_value).collect()),
            Some(Merge::Set) => {
                let mut items = before;
                for item in patch {
                    if !items.contains(item) {
                        items.push(item.clone());
                    }
                }
                Ok(items)
            }
            Some(Merge::By(by)) => self.elements(before, patch, by, inside),
        }
    }

    fn elements(
        &self,
        before: Vec<Value>,
        patch: &[Value],
        by: &str,
        place: &str,
    ) -> Result<Vec<Value>, String> {
        let replaces = |item: &Value| item[DIRECTIVE] == "replace" && item.get(by).is_none();
        let mut items = if patch.iter().any(replaces) { Vec::new() } else { before };
        for (index, element) in patch.iter().enumerate().filter(|(_, item)| !replaces(item)) {
            let at = format!("{place}[{index}]");
            let Value::Object(element) = element else {
                return Err(format!("{at}: an element of this list is a map"));
            };
            let Some(id) = element.get(by) else {
                return Err(format!("{at}: an element of this list needs its {by}"));
            };
            let found = items.iter().position(|item| item.get(by) == Some(id));
            if element.get(DIRECTIVE).is_some_and(|directive| directive == "delete") {
                items.retain(|item| item.get(by) != Some(id));
                continue;
            }
            let below = match found {
                Some(found) => items[found].as_object().cloned().unwrap_or_default(),
                None => Fields::new(),
            };
            let merged = Value::Object(self.map(below, element, &at)?);
            match found {
                Some(found) => items[found] = merged,
                None => items.push(merged),
            }
        }
        Ok(items)
    }
}

/// What a patch adds, without directives and nulls.
fn plain(patch: &Fields) -> Fields {
    let kept = patch.iter().filter(|(key, value)| !key.starts_with('$') && !value.is_null());
    kept.map(|(key, value)| (key.clone(), plain_value(value))).collect()
}

fn plain_value(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(plain(fields)),
        Value::Array(items) => items.iter().map(plain_value).collect(),
        other => other.clone(),
    }
}

fn shown(place: &str) -> &str {
    if place.is_empty() { "the patch" } else { place }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(before: &Value, patch: &Value) -> Result<Value, String> {
        apply(Of { group: "apps", kind: "Deployment" }, before, patch)
    }

    #[test]
    fn what_merges_and_what_replaces() {
        let table = [
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 3, "c": null}}), json!({"a": {"b": 3}})),
            (json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]})),
            (json!({"a": {"b": 1}}), json!({"a": {"$patch": "replace", "c": 2}}), json!({"a": {"c": 2}})),
            (json!({"a": {"b": 1}}), json!({"a": {"$retainKeys": ["c"], "c": 2}}), json!({"a": {"c": 2}})),
            (json!({"a": 1}), json!({"a": {"b": {"$patch": "replace", "c": null}}}), json!({"a": {"b": {}}})),
            (
                json!({"metadata": {"finalizers": ["a", "b"]}}),
                json!({"metadata": {"finalizers": ["b", "c"], "$deleteFromPrimitiveList/finalizers": ["a"]}}),
                json!({"metadata": {"finalizers": ["b", "c"]}}),
            ),
            (
                json!({"spec": {"containers": [{"name": "a", "image": "x", "env": [{"name": "E", "value": "1"}]}, {"name": "b"}]}}),
                json!({"spec": {"containers": [
                    {"name": "b", "$patch": "delete"},
                    {"name": "a", "env": [{"name": "F", "value": "2"}]},
                    {"name": "c"},
                ]}}),
                json!({"spec": {"containers": [
                    {"name": "a", "image": "x", "env": [{"name": "E", "value": "1"}, {"name": "F", "value": "2"}]},
                    {"name": "c"},
                ]}}),
            ),
            (
                json!({"spec": {"volumes": [{"name": "a"}, {"name": "b"}]}}),
                json!({"spec": {"volumes": [{"$patch": "replace"}, {"name": "c"}]}}),
                json!({"spec": {"volumes": [{"name": "c"}]}}),
            ),
        ];
        for (before, patch, after) in table {
            assert_eq!(deployment(&before, &patch), Ok(after), "{patch}");
        }
    }

    #[test]
    fn a_list_of_a_kind_that_nobody_knows_is_replaced() {
        let (before, patch) = (
            json!({"spec": {"containers": [{"name": "a"}]}}),
            json!({"spec": {"containers": [{"name": "b"}]}}),
        );
        let of = Of { group: "example.com", kind: "Rollout" };
        assert_eq!(apply(of, &before, &patch), Ok(patch.clone()));
        let ports = |port: i64| json!({"spec": {"ports": [{"port": port, "name": "x"}]}});
        let service = apply(Of { group: "", kind: "Service" }, &ports(80), &ports(443)).unwrap();
        assert_eq!(service["spec"]["ports"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn what_cannot_be_merged_is_named_by_its_place() {
        let table = [
            (
                json!({"spec": {"containers": [{"image": "secret"}]}}),
                "spec.containers[0]: an element of this list needs its name",
            ),
            (
                json!({"spec": {"containers": ["secret"]}}),
                "spec.containers[0]: an element of this list is a map",
            ),
            (json!({"spec": {"$patch": "mangle"}}), "spec: unknown directive $patch"),
            (json!({"$setElementOrder/a": []}), "the patch: the directive $setElementOrder/a is not known"),
            (json!({"spec": {"$retainKeys": 1}}), "spec: $retainKeys is a list"),
        ];
        for (patch, error) in table {
            assert_eq!(deployment(&json!({"spec": {}}), &patch), Err(error.to_owned()));
        }
    }
}
