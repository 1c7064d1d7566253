//! Values leaf by leaf: what is no map or list, or an empty one, by its JSON pointer.

use std::collections::BTreeMap;

use helm_template::data::{Data, Members};

pub fn of(values: &Members) -> BTreeMap<String, Data> {
    let mut found = BTreeMap::new();
    for (key, value) in values {
        walk(value, &below("", key), &mut found);
    }
    found
}

/// The bytes of all pointers and texts, without making them: a long key counts for each leaf below it.
pub fn bytes(values: &Members) -> usize {
    values
        .iter()
        .fold(0, |sum, (key, value)| sum.saturating_add(bytes_below(value, key.len().saturating_add(1))))
}

fn bytes_below(value: &Data, pointer: usize) -> usize {
    match value {
        Data::Map(members) if !members.is_empty() => members.iter().fold(0_usize, |sum, (key, value)| {
            sum.saturating_add(bytes_below(value, pointer.saturating_add(key.len()).saturating_add(1)))
        }),
        Data::List(items) if !items.is_empty() => {
            // An index has some digits.
            items
                .iter()
                .fold(0_usize, |sum, item| sum.saturating_add(bytes_below(item, pointer.saturating_add(8))))
        }
        Data::String(text) => pointer.saturating_add(text.len()),
        _ => pointer,
    }
}

/// The pointer of a member or an element.
pub fn below(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn walk(value: &Data, pointer: &str, found: &mut BTreeMap<String, Data>) {
    match value {
        Data::Map(members) if !members.is_empty() => {
            for (key, value) in members {
                walk(value, &below(pointer, key), found);
            }
        }
        Data::List(items) if !items.is_empty() => {
            for (index, value) in items.iter().enumerate() {
                walk(value, &below(pointer, &index.to_string()), found);
            }
        }
        leaf => drop(found.insert(pointer.to_owned(), leaf.clone())),
    }
}
