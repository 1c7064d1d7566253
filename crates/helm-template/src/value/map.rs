//! Maps: shared, and sorted by key, which is the order that templates observe.

use std::cell::{Ref, RefCell};
use std::rc::{Rc, Weak};

use super::{Str, Value, iterative_drop};

/// The Go type of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MapType {
    Any,
    /// A nil `map[string]interface {}`.
    Nil,
    Strings,
    /// A nil `map[string]string`.
    NilStrings,
    /// A named type over `map[string]interface {}`.
    Named(&'static str),
}

/// A Go map with string keys. Cheap to clone; clones share entries, so changes are visible to all.
#[derive(Clone)]
pub struct Map {
    map_type: MapType,
    entries: Rc<RefCell<Vec<(Str, Value)>>>,
}

impl Default for Map {
    fn default() -> Self {
        Self::new()
    }
}

impl Map {
    /// An empty `map[string]interface {}`.
    pub fn new() -> Self {
        Self::with_type(MapType::Any, Vec::new())
    }

    /// A nil of type `map[string]interface {}`: empty, and `null` in JSON and YAML. Callers must check for nil before inserting.
    pub fn nil() -> Self {
        Self::with_type(MapType::Nil, Vec::new())
    }

    /// An empty `map[string]string`.
    pub fn strings() -> Self {
        Self::with_type(MapType::Strings, Vec::new())
    }

    /// A `map[string]string` of values that are already strings.
    pub(crate) fn from_strings(entries: impl IntoIterator<Item = (Str, Value)>) -> Self {
        let mut map = Self::from_entries(entries);
        map.map_type = MapType::Strings;
        map
    }

    /// A nil of type `map[string]string`: empty, and `null` in JSON and YAML. No function inserts into maps of this type.
    pub fn nil_strings() -> Self {
        Self::with_type(MapType::NilStrings, Vec::new())
    }

    /// Whether the map is nil.
    pub fn is_nil(&self) -> bool {
        matches!(self.map_type, MapType::Nil | MapType::NilStrings)
    }

    /// A map of these entries. Of several entries with the same key, the last wins.
    pub fn from_entries(entries: impl IntoIterator<Item = (Str, Value)>) -> Self {
        let mut entries: Vec<_> = entries.into_iter().map(|(key, value)| (key, value.boxed())).collect();
        // A stable sort keeps the last of equal keys last.
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries.reverse();
        entries.dedup_by(|a, b| a.0 == b.0);
        entries.reverse();
        Self::with_type(MapType::Any, entries)
    }

    /// A `map[string]interface {}` of entries that are already sorted.
    pub(crate) fn sorted(entries: Vec<(Str, Value)>) -> Self {
        debug_assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "keys out of order");
        Self::with_type(MapType::Any, entries)
    }

    fn with_type(flavour: MapType, entries: Vec<(Str, Value)>) -> Self {
        Self { map_type: flavour, entries: Rc::new(RefCell::new(entries)) }
    }

    /// A map of the same type with other, already sorted entries.
    #[must_use]
    pub(crate) fn like(&self, entries: Vec<(Str, Value)>) -> Self {
        Self::with_type(self.map_type, entries)
    }

    /// The same shared map under a named type.
    #[must_use]
    pub fn named(&self, name: &'static str) -> Self {
        Self { map_type: MapType::Named(name), entries: self.entries.clone() }
    }

    /// The same shared map as a plain `map[string]interface {}`.
    #[must_use]
    pub fn plain(&self) -> Self {
        let flavour = if self.map_type == MapType::Nil { MapType::Nil } else { MapType::Any };
        Self { map_type: flavour, entries: self.entries.clone() }
    }

    pub fn type_name(&self) -> &'static str {
        match self.map_type {
            MapType::Any | MapType::Nil => "map[string]interface {}",
            MapType::Strings | MapType::NilStrings => "map[string]string",
            MapType::Named(name) => name,
        }
    }

    /// The value of a missing entry.
    pub fn missing_value(&self) -> Value {
        match self.map_type {
            MapType::Strings | MapType::NilStrings => Value::String("".into()),
            MapType::Any | MapType::Nil | MapType::Named(_) => Value::Null,
        }
    }

    /// Whether entries can be of any type.
    pub fn is_any(&self) -> bool {
        !matches!(self.map_type, MapType::Strings | MapType::NilStrings)
    }

    /// The name of the type, if it is a named type.
    pub fn type_name_if_named(&self) -> Option<&'static str> {
        match self.map_type {
            MapType::Named(name) => Some(name),
            _ => None,
        }
    }

    /// Whether the map has a named type.
    pub fn is_named(&self) -> bool {
        matches!(self.map_type, MapType::Named(_))
    }

    pub fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.borrow().is_empty()
    }

    pub fn get(&self, key: &str) -> Option<Value> {
        let entries = self.entries.borrow();
        search(&entries, key).ok().map(|at| entries[at].1.clone())
    }

    pub fn contains(&self, key: &str) -> bool {
        search(&self.entries.borrow(), key).is_ok()
    }

    pub fn insert(&self, key: impl Into<Str>, value: Value) {
        let (key, value) = (key.into(), value.boxed());
        let mut entries = self.entries.borrow_mut();
        match search(&entries, &key) {
            Ok(at) => entries[at].1 = value,
            Err(at) => entries.insert(at, (key, value)),
        }
    }

    pub fn remove(&self, key: &str) {
        let mut entries = self.entries.borrow_mut();
        if let Ok(at) = search(&entries, key) {
            entries.remove(at);
        }
    }

    /// The entries in key order. The map must not be changed while the reference is alive.
    pub fn entries(&self) -> Ref<'_, [(Str, Value)]> {
        Ref::map(self.entries.borrow(), Vec::as_slice)
    }

    /// A copy of the entries, unaffected by later changes.
    pub fn snapshot(&self) -> Vec<(Str, Value)> {
        self.entries.borrow().clone()
    }

    /// The address of the entries. Two maps with the same address are identical.
    pub(super) fn address(&self) -> usize {
        Rc::as_ptr(&self.entries).addr()
    }

    /// Whether this is the only reference to the entries.
    pub(super) fn is_unique(&self) -> bool {
        Rc::strong_count(&self.entries) == 1
    }

    /// Moves the nested values into `taken`, if this is the only reference.
    pub(super) fn detach_nested(&mut self, taken: &mut Vec<Value>) {
        // Weak references do not count: they can no longer be upgraded.
        if self.is_unique()
            && let Ok(mut entries) = self.entries.try_borrow_mut()
        {
            iterative_drop::take_nested(entries.iter_mut().map(|(_, value)| value), taken);
        }
    }

    /// A weak reference to this map.
    pub(crate) fn downgrade(&self) -> WeakMap {
        WeakMap(Rc::downgrade(&self.entries))
    }

    /// Whether both share the same entries, not only equal ones.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.entries, &other.entries)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let mut taken = Vec::new();
        self.detach_nested(&mut taken);
        iterative_drop::drop_iteratively(taken);
    }
}

/// A weak reference to a map.
pub(crate) struct WeakMap(Weak<RefCell<Vec<(Str, Value)>>>);

impl WeakMap {
    /// Unique per map for as long as this reference exists.
    pub fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }

    /// Removes all entries, which breaks reference cycles.
    pub fn clear(&self) {
        if let Some(entries) = self.0.upgrade()
            && let Ok(mut entries) = entries.try_borrow_mut()
        {
            let held = std::mem::take(&mut *entries);
            drop(entries);
            drop(held);
        }
    }
}

fn search(entries: &[(Str, Value)], key: &str) -> Result<usize, usize> {
    entries.binary_search_by(|(k, _)| k.as_ref().cmp(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_is_shared_and_sorted() {
        let entries = [("b", 1), ("a", 2), ("b", 3)];
        let map = Map::from_entries(entries.map(|(key, n)| (key.into(), Value::Int(n))));
        let same = map.named("Values");
        same.insert("c", Value::Nil);
        same.remove("a");
        let keys: Vec<_> =
            map.snapshot().into_iter().map(|(key, value)| (key, value.type_name().to_owned())).collect();
        assert_eq!(keys, [("b".into(), "int".to_owned()), ("c".into(), "<nil>".to_owned())]);
        assert!(matches!(map.get("b"), Some(Value::Int(3))));
        assert!(matches!(map.get("c"), Some(Value::Null)));
    }
}
