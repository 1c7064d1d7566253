//! Helm 3's merge: from the last manifest, the new one and what is there, what should be there.
//!
//! What the last manifest had and the new one has not goes; what the new one has comes; everything else that is there
//! stays, whoever put it. Helm computes a patch that the cluster understands by the tags of its types. Here the outcome is
//! computed, with the few of those tags that matter in [`keys`], and the difference is sent as a plain merge patch that
//! names the version it was made for. The end is the same.
//!
//! Pure: no cluster.

pub mod keys;
mod lists;

use serde_json::{Map, Value};

use keys::{How, Place};

/// What should be there, from the last manifest, the new one, and what is there.
pub fn three_way(last: &Value, new: &Value, live: &Value) -> Value {
    let place = Place::of(new);
    merge(last, new, live, place)
}

/// The merge patch that makes `wanted` of `live`; nothing where they are equal.
pub fn difference(live: &Value, wanted: &Value) -> Option<Value> {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            let mut patch = Map::new();
            for key in live.keys().filter(|key| !wanted.contains_key(*key)) {
                patch.insert(key.clone(), Value::Null);
            }
            for (key, value) in wanted {
                match live.get(key) {
                    Some(there) => {
                        if let Some(below) = difference(there, value) {
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

/// One value of the object, at that place.
fn merge(last: &Value, new: &Value, live: &Value, place: Place<'_>) -> Value {
    match (new, live) {
        (Value::Object(new), Value::Object(live)) if place.how != How::Replace => {
            let none = Map::new();
            merge_maps(last.as_object().unwrap_or(&none), new, live, place)
        }
        (Value::Array(new), Value::Array(live)) => match place.how {
            How::By(key) | How::ByRetaining(key) => lists::merge_by_key(key, items(last), new, live, place),
            How::Set => lists::merge_set(items(last), new, live),
            How::Plain | How::Replace | How::Retain => new.clone().into(),
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
    place: Place<'_>,
) -> Value {
    // One of several: another choice takes the fields of the former one with it. Defaults are filled in again.
    let retain = matches!(place.how, How::Retain | How::ByRetaining(_));
    let stays = |key: &str| !retain && !new.contains_key(key) && !last.contains_key(key);
    let others = live.iter().filter(|(key, _)| stays(key));
    let mut merged: Map<_, _> = others.map(|(key, value)| (key.clone(), value.clone())).collect();
    // A null says that the field is not wanted, whoever set it.
    for (key, value) in new.iter().filter(|(_, value)| !value.is_null()) {
        let below = match live.get(key) {
            Some(there) => merge(last.get(key).unwrap_or(&Value::Null), value, there, place.below(key)),
            None => without_nulls(value),
        };
        merged.insert(key.clone(), below);
    }
    Value::Object(merged)
}

/// A value that was not there before. Its nulls ask for nothing.
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
