//! The leaves of values by JSON pointer: scalars, empty maps and empty lists.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Included, Unbounded};

use helm_template::data::{Data, Members};

/// Memory of a map entry besides its key, and of a list item.
const ENTRY_BYTES: usize = 112;
const ITEM_BYTES: usize = 32;
/// Memory of a text besides its bytes.
const TEXT_BYTES: usize = 16;

pub fn collect(values: &Members) -> BTreeMap<String, Data> {
    let mut found = BTreeMap::new();
    for (key, value) in values {
        collect_leaves(value, &child_pointer("", key), &mut found);
    }
    found
}

/// The total bytes of all pointers and texts, computed without building them. A long key counts once for each leaf below it.
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
            // Capacity for the digits of an index.
            items
                .iter()
                .fold(0_usize, |sum, item| sum.saturating_add(bytes_below(item, pointer.saturating_add(8))))
        }
        Data::String(text) => pointer.saturating_add(text.len()),
        _ => pointer,
    }
}

/// Approximate memory of parsed values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Maps and lists, which each copy has.
    pub structure: usize,
    /// Texts, which copies share.
    pub texts: usize,
}

impl Weight {
    pub fn from_values(values: &Members) -> Self {
        let mut weight = Self::default();
        weight.add_members(values);
        weight
    }

    /// The total for this number of copies.
    pub fn bytes(self, copies: usize) -> usize {
        self.structure.saturating_mul(copies).saturating_add(self.texts)
    }

    fn add_members(&mut self, members: &Members) {
        for (key, value) in members {
            self.structure = self.structure.saturating_add(ENTRY_BYTES);
            self.add_text(key);
            self.add(value);
        }
    }

    fn add_text(&mut self, text: &str) {
        self.texts = self.texts.saturating_add(text.len()).saturating_add(TEXT_BYTES);
    }

    fn add(&mut self, value: &Data) {
        match value {
            Data::Map(members) => self.add_members(members),
            Data::List(items) => {
                self.structure = self.structure.saturating_add(items.len().saturating_mul(ITEM_BYTES));
                for item in items {
                    self.add(item);
                }
            }
            Data::String(text) => self.add_text(text),
            Data::Null | Data::Bool(_) | Data::Int(_) | Data::Float(_) => {}
        }
    }
}

/// The pointer of a member or element.
pub fn child_pointer(pointer: &str, key: &str) -> String {
    let mut below = pointer.to_owned();
    push_key(&mut below, key);
    below
}

fn push_key(pointer: &mut String, key: &str) {
    pointer.push('/');
    for letter in key.chars() {
        match letter {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}

fn collect_leaves(value: &Data, pointer: &str, found: &mut BTreeMap<String, Data>) {
    match value {
        Data::Map(members) if !members.is_empty() => {
            for (key, value) in members {
                collect_leaves(value, &child_pointer(pointer, key), found);
            }
        }
        Data::List(items) if !items.is_empty() => {
            for (index, value) in items.iter().enumerate() {
                collect_leaves(value, &child_pointer(pointer, &index.to_string()), found);
            }
        }
        leaf => drop(found.insert(pointer.to_owned(), leaf.clone())),
    }
}

/// The leaves at or below these pointers. Other subtrees are not visited.
pub fn leaves_below<'v>(values: &'v Members, places: &BTreeSet<String>) -> Vec<&'v Data> {
    let mut search = LeafSearch { places, pointer: String::new(), found: Vec::new() };
    if !places.is_empty() {
        search.visit_members(values, places.contains(""));
    }
    search.found
}

struct LeafSearch<'v, 'p> {
    places: &'p BTreeSet<String>,
    pointer: String,
    found: Vec<&'v Data>,
}

impl<'v> LeafSearch<'v, '_> {
    fn visit_members(&mut self, members: &'v Members, inside: bool) {
        for (key, value) in members {
            self.visit_child(key, value, inside);
        }
    }

    fn visit_child(&mut self, key: &str, value: &'v Data, inside: bool) {
        if inside {
            return self.visit(value, true);
        }
        let length = self.pointer.len();
        push_key(&mut self.pointer, key);
        let pointer = self.pointer.as_str();
        let next = self.places.range::<str, _>((Included(pointer), Unbounded)).next();
        if let Some(place) = next.filter(|place| place.starts_with(pointer)) {
            let inside = place.len() == pointer.len();
            self.visit(value, inside);
        }
        self.pointer.truncate(length);
    }

    fn visit(&mut self, value: &'v Data, inside: bool) {
        match value {
            Data::Map(members) if !members.is_empty() => self.visit_members(members, inside),
            Data::List(items) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    self.visit_child(&index.to_string(), item, inside);
                }
            }
            leaf if inside => self.found.push(leaf),
            _ => {}
        }
    }
}
