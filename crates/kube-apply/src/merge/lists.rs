//! Lists whose items are known by a field, and lists of words.

use serde_json::Value;

use super::keys::Place;
use super::merge;

/// Items with the same key are one item. Those that only the cluster has stay, where they stood among the others.
pub fn merge_by_key(key: &str, last: &[Value], new: &[Value], live: &[Value], place: Place<'_>) -> Value {
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

/// Whether each item can be told from the others. If not (one port for two protocols) the list is as it is wanted.
fn is_keyed(key: &str, list: &[Value]) -> bool {
    let names: Vec<_> = list.iter().map(|item| item.get(key).unwrap_or(&Value::Null)).collect();
    names.iter().enumerate().all(|(at, name)| !name.is_null() && !names[..at].contains(name))
}

/// Each word once; those that only the cluster has stay.
pub fn merge_set(last: &[Value], new: &[Value], live: &[Value]) -> Value {
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

/// The wanted items in their order, and among them the others: each before the first wanted item that stood behind it.
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
