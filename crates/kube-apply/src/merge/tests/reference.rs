//! The former merge with quadratic time, as a reference for the linear one.

use serde_json::{Map, Value};

use super::super::keys::{MergePath, MergeStrategy};
use super::super::{items, without_nulls};

pub fn three_way(last: &Value, new: &Value, live: &Value) -> Value {
    merge(last, new, live, MergePath::root(new))
}
fn merge(last: &Value, new: &Value, live: &Value, place: MergePath<'_>) -> Value {
    match (new, live) {
        (Value::Object(new), Value::Object(live)) if place.strategy != MergeStrategy::Replace => {
            let none = Map::new();
            merge_maps(last.as_object().unwrap_or(&none), new, live, place)
        }
        (Value::Array(new), Value::Array(live)) => match place.strategy {
            MergeStrategy::ByKey(key) | MergeStrategy::ByKeyRetaining(key) => {
                merge_by_key(key, items(last), new, live, place)
            }
            MergeStrategy::Set => merge_set(items(last), new, live),
            MergeStrategy::Plain | MergeStrategy::Replace | MergeStrategy::RetainKeys => new.clone().into(),
        },
        _ => without_nulls(new),
    }
}

fn merge_maps(
    last: &Map<String, Value>,
    new: &Map<String, Value>,
    live: &Map<String, Value>,
    place: MergePath<'_>,
) -> Value {
    let mut merged = live.clone();
    for key in last.keys().filter(|key| !new.contains_key(*key)) {
        merged.remove(key);
    }
    for (key, value) in new {
        // A null removes the field, regardless of its owner.
        if value.is_null() {
            merged.remove(key);
            continue;
        }
        let below = match live.get(key) {
            Some(there) => merge(last.get(key).unwrap_or(&Value::Null), value, there, place.child(key)),
            None => without_nulls(value),
        };
        merged.insert(key.clone(), below);
    }
    // A union type: choosing another member removes the fields of the previous one. Defaults are set again by the
    // server.
    if matches!(place.strategy, MergeStrategy::RetainKeys | MergeStrategy::ByKeyRetaining(_)) {
        merged.retain(|key, _| new.contains_key(key));
    }
    Value::Object(merged)
}
fn merge_by_key(key: &str, last: &[Value], new: &[Value], live: &[Value], place: MergePath<'_>) -> Value {
    if ![last, new, live].into_iter().all(|list| is_keyed(key, list)) {
        return new.to_vec().into();
    }
    let find = |list: &'_ [Value], name: &Value| list.iter().position(|item| item[key] == *name);
    let nothing = Value::Null;
    let wanted = new.iter().map(|item| {
        let there = find(live, &item[key]).map_or(&nothing, |at| &live[at]);
        let before = find(last, &item[key]).map_or(&nothing, |at| &last[at]);
        (find(live, &item[key]), merge(before, item, there, place.item()))
    });
    let wanted: Vec<_> = wanted.collect();
    let stays = |item: &Value| find(new, &item[key]).is_none() && find(last, &item[key]).is_none();
    let others = live.iter().enumerate().filter(|(_, item)| stays(item)).map(|(at, item)| (at, item.clone()));
    interleave(wanted, others).into()
}
fn is_keyed(key: &str, list: &[Value]) -> bool {
    let names: Vec<_> = list.iter().map(|item| item.get(key).unwrap_or(&Value::Null)).collect();
    names.iter().enumerate().all(|(at, name)| !name.is_null() && !names[..at].contains(name))
}
fn merge_set(last: &[Value], new: &[Value], live: &[Value]) -> Value {
    let wanted: Vec<_> =
        new.iter().map(|word| (live.iter().position(|there| there == word), word.clone())).collect();
    let stays = |word: &Value| !new.contains(word) && !last.contains(word);
    if new.iter().all(|word| live.contains(word)) && live.iter().all(|word| new.contains(word) || stays(word))
    {
        return live.to_vec().into();
    }
    let others = live.iter().enumerate().filter(|(_, word)| stays(word)).map(|(at, word)| (at, word.clone()));
    interleave(wanted, others).into()
}
fn interleave(
    wanted: Vec<(Option<usize>, Value)>,
    others: impl Iterator<Item = (usize, Value)>,
) -> Vec<Value> {
    let mut others = others.peekable();
    let mut merged = Vec::new();
    for (stood, item) in wanted {
        while let Some((_, other)) = others.next_if(|(at, _)| stood.is_some_and(|stood| *at < stood)) {
            merged.push(other);
        }
        merged.push(item);
    }
    merged.extend(others.map(|(_, other)| other));
    merged
}
