//! Merges lists by key and lists of unique strings, in linear time.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::keys::MergePath;
use super::merge;

/// Merges items with the same key. Items that only the live list has stay, in their relative order.
pub fn merge_by_key(key: &str, last: &[Value], new: &[Value], live: &[Value], place: MergePath<'_>) -> Value {
    let places = [last, new, live].map(|list| index_by_key(key, list));
    let [Some(lasts), Some(news), Some(lives)] = &places else {
        return new.to_vec().into();
    };
    let nothing = Value::Null;
    let wanted = new.iter().map(|item| {
        let place_live = lives.get(&item[key]).copied();
        let there = place_live.map_or(&nothing, |at| &live[at]);
        let before = lasts.get(&item[key]).map_or(&nothing, |&at| &last[at]);
        (place_live, merge(before, item, there, place.item()))
    });
    let wanted: Vec<_> = wanted.collect();
    let stays = |item: &Value| !news.contains_key(&item[key]) && !lasts.contains_key(&item[key]);
    let others = live.iter().enumerate().filter(|(_, item)| stays(item)).map(|(at, item)| (at, item.clone()));
    interleave(wanted, others).into()
}

/// Index of each item by its key; `None` if keys are missing or not unique (one port with two protocols). The new
/// list then replaces the live one.
fn index_by_key<'v>(key: &str, list: &'v [Value]) -> Option<HashMap<&'v Value, usize>> {
    let mut places = HashMap::with_capacity(list.len());
    for (at, item) in list.iter().enumerate() {
        let name = item.get(key).filter(|name| !name.is_null())?;
        if places.insert(name, at).is_some() {
            return None;
        }
    }
    Some(places)
}

/// Merges lists of unique strings. Strings that only the live list has stay.
pub fn merge_set(last: &[Value], new: &[Value], live: &[Value]) -> Value {
    let [lasts, news] = [last, new].map(|list| list.iter().collect::<HashSet<_>>());
    let mut lives = HashMap::with_capacity(live.len());
    for (at, word) in live.iter().enumerate() {
        lives.entry(word).or_insert(at);
    }
    let wanted: Vec<_> = new.iter().map(|word| (lives.get(word).copied(), word.clone())).collect();
    let stays = |word: &Value| !news.contains(word) && !lasts.contains(word);
    if new.iter().all(|word| lives.contains_key(word))
        && live.iter().all(|word| news.contains(word) || stays(word))
    {
        return live.to_vec().into();
    }
    let others = live.iter().enumerate().filter(|(_, word)| stays(word)).map(|(at, word)| (at, word.clone()));
    interleave(wanted, others).into()
}

/// The desired items in order, with the others between them: each before the first desired item that followed it.
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
