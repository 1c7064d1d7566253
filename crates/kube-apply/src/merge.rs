//! Helm 3's three-way merge of the last manifest, the new manifest and the live object.
//!
//! Fields that the new manifest dropped are removed, fields it contains are set, all other live fields stay. Helm
//! computes a strategic merge patch from Go struct tags. Here the result is computed, with the tags that matter in
//! [`keys`], and the difference is sent as a plain merge patch with the `resourceVersion` it was computed for. The
//! result is the same.
//!
//! Pure: no I/O, no clock.

pub mod keys;
mod lists;

use serde_json::{Map, Value};

use keys::{MergePath, MergeStrategy};

/// Merges the last manifest, the new manifest and the live object.
pub fn three_way(last: &Value, new: &Value, live: &Value) -> Value {
    let place = MergePath::root(new);
    merge(last, new, live, place)
}

/// The merge patch from `live` to `wanted`; `None` if they are equal.
pub fn merge_patch(live: &Value, wanted: &Value) -> Option<Value> {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            let mut patch = Map::new();
            for key in live.keys().filter(|key| !wanted.contains_key(*key)) {
                patch.insert(key.clone(), Value::Null);
            }
            for (key, value) in wanted {
                match live.get(key) {
                    Some(there) => {
                        if let Some(below) = merge_patch(there, value) {
                            patch.insert(key.clone(), below);
                        }
                    }
                    None => _ = patch.insert(key.clone(), value.clone()),
                }
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        _ => (live != wanted).then(|| wanted.clone()),
    }
}

/// Merges one value at a path.
fn merge(last: &Value, new: &Value, live: &Value, place: MergePath<'_>) -> Value {
    match (new, live) {
        (Value::Object(new), Value::Object(live)) if place.strategy != MergeStrategy::Replace => {
            let none = Map::new();
            merge_maps(last.as_object().unwrap_or(&none), new, live, place)
        }
        (Value::Array(new), Value::Array(live)) => match place.strategy {
            MergeStrategy::ByKey(key) | MergeStrategy::ByKeyRetaining(key) => {
                lists::merge_by_key(key, items(last), new, live, place)
            }
            MergeStrategy::Set => lists::merge_set(items(last), new, live),
            MergeStrategy::Plain | MergeStrategy::Replace | MergeStrategy::RetainKeys => new.clone().into(),
        },
        _ => without_nulls(new),
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn merge_maps(
    last: &Map<String, Value>,
    new: &Map<String, Value>,
    live: &Map<String, Value>,
    place: MergePath<'_>,
) -> Value {
    // A union type: choosing another member removes the fields of the previous one. Defaults are set again by the
    // server.
    let retain = matches!(place.strategy, MergeStrategy::RetainKeys | MergeStrategy::ByKeyRetaining(_));
    let stays = |key: &str| !retain && !new.contains_key(key) && !last.contains_key(key);
    let others = live.iter().filter(|(key, _)| stays(key));
    let mut merged: Map<_, _> = others.map(|(key, value)| (key.clone(), value.clone())).collect();
    // A null removes the field, regardless of its owner.
    for (key, value) in new.iter().filter(|(_, value)| !value.is_null()) {
        let below = match live.get(key) {
            Some(there) => merge(last.get(key).unwrap_or(&Value::Null), value, there, place.child(key)),
            None => without_nulls(value),
        };
        merged.insert(key.clone(), below);
    }
    Value::Object(merged)
}

/// A new value without its nulls, which set nothing.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
