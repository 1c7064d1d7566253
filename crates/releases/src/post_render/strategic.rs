//! Strategic merge patches: maps are merged, lists are merged if their kind has a merge key, null removes.
//!
//! `$patch: replace` and `$patch: delete` work in maps and in list elements, `$retainKeys` and `$deleteFromPrimitiveList` as in
//! Kubernetes. New elements are appended, as by the API server. `$setElementOrder`, which only tools write, is rejected.

use helm_template::budget::{Budget, VALUE_BYTES};
use kube_apply::merge::keys::{MergePath, MergeStrategy};
use serde_json::{Map, Value};

use super::accounting;

const PATCH_DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_PREFIX: &str = "$deleteFromPrimitiveList/";

type Fields = Map<String, Value>;

/// Whether the patch deletes the object.
pub fn is_deletion(patch: &Value) -> bool {
    patch[PATCH_DIRECTIVE] == "delete"
}

/// Applies a patch. The object's kind determines how lists are merged. An error names the path, never a value.
pub fn apply(object: &Value, patch: &Value, budget: &Budget<'_>) -> Result<Value, String> {
    let (Value::Object(fields), Value::Object(patch)) = (object, patch) else {
        return Err("a strategic merge patch must be a map".to_owned());
    };
    accounting::charge_copy(budget, accounting::bytes(object))?;
    let merge = StrategicMerge { budget };
    merge.merge_map(fields.clone(), patch, MergePath::root(object), "").map(Value::Object)
}

/// A merge that charges its copies and comparisons to a budget.
#[derive(Clone, Copy)]
struct StrategicMerge<'b> {
    budget: &'b Budget<'b>,
}

impl StrategicMerge<'_> {
    /// `at` is the path for errors.
    fn merge_map(
        self,
        mut below: Fields,
        patch: &Fields,
        place: MergePath<'_>,
        at: &str,
    ) -> Result<Fields, String> {
        match patch.get(PATCH_DIRECTIVE).map(Value::as_str) {
            None | Some(Some("merge")) => {}
            Some(Some("replace")) => return self.copy_map(patch),
            Some(Some("delete")) => return Ok(Fields::new()),
            Some(_) => return Err(format!("{}: unknown directive {PATCH_DIRECTIVE}", display_path(at))),
        }
        if let Some(kept) = patch.get(RETAIN_KEYS) {
            let kept = kept
                .as_array()
                .ok_or_else(|| format!("{}: {RETAIN_KEYS} must be a list", display_path(at)))?;
            accounting::charge_compare(self.budget, below.len().saturating_mul(kept.len()))?;
            below.retain(|key, _| kept.iter().any(|name| name == key));
        }
        for (key, change) in patch {
            if key == PATCH_DIRECTIVE || key == RETAIN_KEYS {
                continue;
            }
            if let Some(list) = key.strip_prefix(DELETE_FROM_PREFIX) {
                let gone =
                    change.as_array().ok_or_else(|| format!("{}: {key} must be a list", display_path(at)))?;
                if let Some(Value::Array(items)) = below.get_mut(list) {
                    accounting::charge_compare(self.budget, items.len().saturating_mul(gone.len()))?;
                    items.retain(|item| !gone.contains(item));
                }
                continue;
            }
            if key.starts_with('$') {
                return Err(format!("{}: unknown directive {key}", display_path(at)));
            }
            accounting::charge_copy(
                self.budget,
                key.len().saturating_mul(2).saturating_add(at.len()).saturating_add(VALUE_BYTES),
            )?;
            let inside = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
            let before = below.remove(key);
            if let Some(merged) = self.merge_field(before, change, place.child(key), &inside)? {
                below.insert(key.clone(), merged);
            }
        }
        Ok(below)
    }

    fn merge_field(
        self,
        before: Option<Value>,
        change: &Value,
        place: MergePath<'_>,
        at: &str,
    ) -> Result<Option<Value>, String> {
        Ok(Some(match (before, change) {
            (_, Value::Null) => return Ok(None),
            (_, change) if place.strategy == MergeStrategy::Replace => self.copy_value(change)?,
            (Some(Value::Object(below)), Value::Object(patch)) => {
                self.merge_map(below, patch, place, at)?.into()
            }
            // A new map is merged into an empty one, so that its directives are removed.
            (_, Value::Object(patch)) => self.merge_map(Fields::new(), patch, place, at)?.into(),
            (Some(Value::Array(before)), Value::Array(patch)) => {
                self.merge_list(before, patch, place, at)?.into()
            }
            (_, Value::Array(patch)) => self.merge_list(Vec::new(), patch, place, at)?.into(),
            (_, other) => {
                accounting::charge_copy(self.budget, accounting::bytes(other))?;
                other.clone()
            }
        }))
    }

    fn merge_list(
        self,
        before: Vec<Value>,
        patch: &[Value],
        place: MergePath<'_>,
        at: &str,
    ) -> Result<Vec<Value>, String> {
        match place.strategy {
            // Other fields are removed only by `$retainKeys` in the patch.
            MergeStrategy::ByKey(by) | MergeStrategy::ByKeyRetaining(by) => {
                self.merge_elements(before, patch, by, place, at)
            }
            MergeStrategy::Set => {
                let mut items = before;
                for item in patch {
                    accounting::charge_compare(self.budget, items.len())?;
                    if !items.contains(item) {
                        accounting::charge_copy(self.budget, accounting::bytes(item))?;
                        items.push(item.clone());
                    }
                }
                Ok(items)
            }
            MergeStrategy::Plain | MergeStrategy::Replace | MergeStrategy::RetainKeys => patch
                .iter()
                .filter(|item| item.get(PATCH_DIRECTIVE).is_none())
                .map(|item| self.copy_value(item))
                .collect(),
        }
    }

    fn merge_elements(
        self,
        before: Vec<Value>,
        patch: &[Value],
        by: &str,
        place: MergePath<'_>,
        list: &str,
    ) -> Result<Vec<Value>, String> {
        let replaces = |item: &Value| item[PATCH_DIRECTIVE] == "replace" && item.get(by).is_none();
        let mut items = if patch.iter().any(replaces) { Vec::new() } else { before };
        for (index, element) in patch.iter().enumerate().filter(|(_, item)| !replaces(item)) {
            let at = format!("{list}[{index}]");
            let Value::Object(element) = element else {
                return Err(format!("{at}: elements of this list must be maps"));
            };
            let Some(id) = element.get(by) else {
                return Err(format!("{at}: elements of this list must have {by}"));
            };
            accounting::charge_compare(self.budget, items.len().saturating_mul(2))?;
            let found = items.iter().position(|item| item.get(by) == Some(id));
            if element.get(PATCH_DIRECTIVE).is_some_and(|directive| directive == "delete") {
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
            let merged = Value::Object(self.merge_map(below, element, place.item(), &at)?);
            match found {
                Some(found) => items[found] = merged,
                None => items.push(merged),
            }
        }
        Ok(items)
    }

    /// Copies a map of the patch without directives and nulls.
    fn copy_map(self, patch: &Fields) -> Result<Fields, String> {
        let kept = patch.iter().filter(|(key, value)| !key.starts_with('$') && !value.is_null());
        kept.map(|(key, value)| {
            accounting::charge_copy(self.budget, key.len())?;
            Ok((key.clone(), self.copy_value(value)?))
        })
        .collect()
    }

    fn copy_value(self, value: &Value) -> Result<Value, String> {
        accounting::charge_copy(self.budget, VALUE_BYTES)?;
        Ok(match value {
            Value::Object(fields) => Value::Object(self.copy_map(fields)?),
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.copy_value(item)).collect::<Result<_, _>>()?)
            }
            other => {
                accounting::charge_copy(self.budget, accounting::bytes(other))?;
                other.clone()
            }
        })
    }
}

fn display_path(place: &str) -> &str {
    if place.is_empty() { "the patch" } else { place }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with_type(api_version: &str, kind: &str, object: &Value) -> Value {
        let mut object = object.clone();
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object
    }

    /// The merged fields except `apiVersion` and `kind`.
    fn deployment(before: &Value, patch: &Value) -> Result<Value, String> {
        let mut after = apply(&with_type("apps/v1", "Deployment", before), patch, &Budget::default())?;
        let fields = after.as_object_mut().unwrap();
        fields.retain(|key, _| key != "apiVersion" && key != "kind");
        Ok(after)
    }

    #[test]
    fn maps_merge_and_lists_merge_or_replace() {
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
    fn lists_of_unknown_kinds_are_replaced() {
        let (before, patch) = (
            json!({"spec": {"containers": [{"name": "a"}]}}),
            json!({"spec": {"containers": [{"name": "b"}]}}),
        );
        let rollout = |object| with_type("example.com/v1", "Rollout", object);
        assert_eq!(apply(&rollout(&before), &patch, &Budget::default()), Ok(rollout(&patch)));
        let ports = |port: i64| json!({"spec": {"ports": [{"port": port, "name": "x"}]}});
        let service =
            apply(&with_type("v1", "Service", &ports(80)), &ports(443), &Budget::default()).unwrap();
        assert_eq!(service["spec"]["ports"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn merge_errors_name_the_path() {
        let table = [
            (
                json!({"spec": {"containers": [{"image": "secret"}]}}),
                "spec.containers[0]: elements of this list must have name",
            ),
            (
                json!({"spec": {"containers": ["secret"]}}),
                "spec.containers[0]: elements of this list must be maps",
            ),
            (json!({"spec": {"$patch": "mangle"}}), "spec: unknown directive $patch"),
            (json!({"$setElementOrder/a": []}), "the patch: unknown directive $setElementOrder/a"),
            (json!({"spec": {"$retainKeys": 1}}), "spec: $retainKeys must be a list"),
        ];
        for (patch, error) in table {
            assert_eq!(deployment(&json!({"spec": {}}), &patch), Err(error.to_owned()));
        }
    }
}
