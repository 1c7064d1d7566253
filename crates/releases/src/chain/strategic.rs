//! Strategic merge patches: maps are merged, lists are merged if their kind has a merge key, null removes.
//!
//! `$patch: replace` and `$patch: delete` work in maps and in list elements, `$retainKeys` and `$deleteFromPrimitiveList` as in
//! Kubernetes. New elements are appended, as by the API server. `$setElementOrder`, which only tools write, is rejected.

use helm_template::budget::{Budget, VALUE_BYTES};
use kube_apply::merge::keys::{How, Place};
use serde_json::{Map, Value};

use super::size;

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

type Fields = Map<String, Value>;

/// Whether the patch deletes the object.
pub fn deletes(patch: &Value) -> bool {
    patch[DIRECTIVE] == "delete"
}

/// Applies a patch. The object's kind determines how lists are merged. An error names the path, never a value.
pub fn apply(object: &Value, patch: &Value, budget: &Budget<'_>) -> Result<Value, String> {
    let (Value::Object(fields), Value::Object(patch)) = (object, patch) else {
        return Err("a strategic merge patch is a map".to_owned());
    };
    size::copy(budget, size::bytes(object))?;
    let merge = Merge { budget };
    merge.map(fields.clone(), patch, Place::of(object), "").map(Value::Object)
}

/// A merge that charges its copies and comparisons to a budget.
#[derive(Clone, Copy)]
struct Merge<'b> {
    budget: &'b Budget<'b>,
}

impl Merge<'_> {
    /// `at` is the path for errors.
    fn map(self, mut below: Fields, patch: &Fields, place: Place<'_>, at: &str) -> Result<Fields, String> {
        match patch.get(DIRECTIVE).map(Value::as_str) {
            None | Some(Some("merge")) => {}
            Some(Some("replace")) => return self.plain(patch),
            Some(Some("delete")) => return Ok(Fields::new()),
            Some(_) => return Err(format!("{}: unknown directive {DIRECTIVE}", shown(at))),
        }
        if let Some(kept) = patch.get(RETAIN) {
            let kept = kept.as_array().ok_or_else(|| format!("{}: {RETAIN} is a list", shown(at)))?;
            size::compare(self.budget, below.len().saturating_mul(kept.len()))?;
            below.retain(|key, _| kept.iter().any(|name| name == key));
        }
        for (key, change) in patch {
            if key == DIRECTIVE || key == RETAIN {
                continue;
            }
            if let Some(list) = key.strip_prefix(DELETE_FROM) {
                let gone = change.as_array().ok_or_else(|| format!("{}: {key} is a list", shown(at)))?;
                if let Some(Value::Array(items)) = below.get_mut(list) {
                    size::compare(self.budget, items.len().saturating_mul(gone.len()))?;
                    items.retain(|item| !gone.contains(item));
                }
                continue;
            }
            if key.starts_with('$') {
                return Err(format!("{}: the directive {key} is not known", shown(at)));
            }
            size::copy(
                self.budget,
                key.len().saturating_mul(2).saturating_add(at.len()).saturating_add(VALUE_BYTES),
            )?;
            let inside = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
            let before = below.remove(key);
            if let Some(merged) = self.field(before, change, place.below(key), &inside)? {
                below.insert(key.clone(), merged);
            }
        }
        Ok(below)
    }

    fn field(
        self,
        before: Option<Value>,
        change: &Value,
        place: Place<'_>,
        at: &str,
    ) -> Result<Option<Value>, String> {
        Ok(Some(match (before, change) {
            (_, Value::Null) => return Ok(None),
            (_, change) if place.how == How::Replace => self.plain_value(change)?,
            (Some(Value::Object(below)), Value::Object(patch)) => self.map(below, patch, place, at)?.into(),
            // A new map is merged into an empty one, so that its directives are removed.
            (_, Value::Object(patch)) => self.map(Fields::new(), patch, place, at)?.into(),
            (Some(Value::Array(before)), Value::Array(patch)) => self.list(before, patch, place, at)?.into(),
            (_, Value::Array(patch)) => self.list(Vec::new(), patch, place, at)?.into(),
            (_, other) => {
                size::copy(self.budget, size::bytes(other))?;
                other.clone()
            }
        }))
    }

    fn list(
        self,
        before: Vec<Value>,
        patch: &[Value],
        place: Place<'_>,
        at: &str,
    ) -> Result<Vec<Value>, String> {
        match place.how {
            // Other fields are removed only by `$retainKeys` in the patch.
            How::By(by) | How::ByRetaining(by) => self.elements(before, patch, by, place, at),
            How::Set => {
                let mut items = before;
                for item in patch {
                    size::compare(self.budget, items.len())?;
                    if !items.contains(item) {
                        size::copy(self.budget, size::bytes(item))?;
                        items.push(item.clone());
                    }
                }
                Ok(items)
            }
            How::Plain | How::Replace | How::Retain => patch
                .iter()
                .filter(|item| item.get(DIRECTIVE).is_none())
                .map(|item| self.plain_value(item))
                .collect(),
        }
    }

    fn elements(
        self,
        before: Vec<Value>,
        patch: &[Value],
        by: &str,
        place: Place<'_>,
        list: &str,
    ) -> Result<Vec<Value>, String> {
        let replaces = |item: &Value| item[DIRECTIVE] == "replace" && item.get(by).is_none();
        let mut items = if patch.iter().any(replaces) { Vec::new() } else { before };
        for (index, element) in patch.iter().enumerate().filter(|(_, item)| !replaces(item)) {
            let at = format!("{list}[{index}]");
            let Value::Object(element) = element else {
                return Err(format!("{at}: an element of this list is a map"));
            };
            let Some(id) = element.get(by) else {
                return Err(format!("{at}: an element of this list needs its {by}"));
            };
            size::compare(self.budget, items.len().saturating_mul(2))?;
            let found = items.iter().position(|item| item.get(by) == Some(id));
            if element.get(DIRECTIVE).is_some_and(|directive| directive == "delete") {
                items.retain(|item| item.get(by) != Some(id));
                continue;
            }
            let below = match found {
                Some(found) => match items[found].take() {
                    Value::Object(below) => below,
                    _ => Fields::new(),
                },
                None => Fields::new(),
            };
            let merged = Value::Object(self.map(below, element, place.item(), &at)?);
            match found {
                Some(found) => items[found] = merged,
                None => items.push(merged),
            }
        }
        Ok(items)
    }

    /// Copies a map of the patch without directives and nulls.
    fn plain(self, patch: &Fields) -> Result<Fields, String> {
        let kept = patch.iter().filter(|(key, value)| !key.starts_with('$') && !value.is_null());
        kept.map(|(key, value)| {
            size::copy(self.budget, key.len())?;
            Ok((key.clone(), self.plain_value(value)?))
        })
        .collect()
    }

    fn plain_value(self, value: &Value) -> Result<Value, String> {
        size::copy(self.budget, VALUE_BYTES)?;
        Ok(match value {
            Value::Object(fields) => Value::Object(self.plain(fields)?),
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.plain_value(item)).collect::<Result<_, _>>()?)
            }
            other => {
                size::copy(self.budget, size::bytes(other))?;
                other.clone()
            }
        })
    }
}

fn shown(place: &str) -> &str {
    if place.is_empty() { "the patch" } else { place }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(api_version: &str, kind: &str, object: &Value) -> Value {
        let mut object = object.clone();
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object
    }

    /// The merged fields except `apiVersion` and `kind`.
    fn deployment(before: &Value, patch: &Value) -> Result<Value, String> {
        let mut after = apply(&of("apps/v1", "Deployment", before), patch, &Budget::default())?;
        let fields = after.as_object_mut().unwrap();
        fields.retain(|key, _| key != "apiVersion" && key != "kind");
        Ok(after)
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
        let rollout = |object| of("example.com/v1", "Rollout", object);
        assert_eq!(apply(&rollout(&before), &patch, &Budget::default()), Ok(rollout(&patch)));
        let ports = |port: i64| json!({"spec": {"ports": [{"port": port, "name": "x"}]}});
        let service = apply(&of("v1", "Service", &ports(80)), &ports(443), &Budget::default()).unwrap();
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
