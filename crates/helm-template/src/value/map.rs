//! Maps: shared, and sorted by key, which is the order that templates observe.

use std::cell::{Ref, RefCell};
use std::rc::{Rc, Weak};

use super::{Str, Value, free};

/// The Go type of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavour {
    Any,
    /// A nil `map[string]interface {}`.
    Nothing,
    Strings,
    /// A nil `map[string]string`.
    NoStrings,
    /// A named type over `map[string]interface {}`.
    Named(&'static str),
}

/// A Go map with string keys. Cheap to clone; clones share entries, so changes are visible to all.
#[derive(Clone)]
pub struct Map {
    flavour: Flavour,
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
        Self::of(Flavour::Any, Vec::new())
    }

    /// A nil of type `map[string]interface {}`: empty, and `null` in JSON and YAML. Callers must check for nil before inserting.
    pub fn nil() -> Self {
        Self::of(Flavour::Nothing, Vec::new())
    }

    /// An empty `map[string]string`.
    pub fn strings() -> Self {
        Self::of(Flavour::Strings, Vec::new())
    }

    /// A `map[string]string` of values that are already strings.
    pub(crate) fn strings_of(entries: impl IntoIterator<Item = (Str, Value)>) -> Self {
        let mut map = Self::from_entries(entries);
        map.flavour = Flavour::Strings;
        map
    }

    /// A nil of type `map[string]string`: empty, and `null` in JSON and YAML. No function inserts into maps of this type.
    pub fn nil_strings() -> Self {
        Self::of(Flavour::NoStrings, Vec::new())
    }

    /// Whether the map is nil.
    pub fn is_nil(&self) -> bool {
        matches!(self.flavour, Flavour::Nothing | Flavour::NoStrings)
    }

    /// A map of these entries. Of several entries with the same key, the last wins.
    pub fn from_entries(entries: impl IntoIterator<Item = (Str, Value)>) -> Self {
        let mut entries: Vec<_> = entries.into_iter().map(|(key, value)| (key, value.boxed())).collect();
        // A stable sort keeps the last of equal keys last.
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries.reverse();
        entries.dedup_by(|a, b| a.0 == b.0);
        entries.reverse();
        Self::of(Flavour::Any, entries)
    }

    /// A `map[string]interface {}` of entries that are already sorted.
    pub(crate) fn sorted(entries: Vec<(Str, Value)>) -> Self {
        debug_assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "keys out of order");
        Self::of(Flavour::Any, entries)
    }

    fn of(flavour: Flavour, entries: Vec<(Str, Value)>) -> Self {
        Self { flavour, entries: Rc::new(RefCell::new(entries)) }
    }

    /// A map of the same type with other, already sorted entries.
    #[must_use]
    pub(crate) fn like(&self, entries: Vec<(Str, Value)>) -> Self {
        Self::of(self.flavour, entries)
    }

    /// The same shared map under a named type.
    #[must_use]
    pub fn named(&self, name: &'static str) -> Self {
        Self { flavour: Flavour::Named(name), entries: self.entries.clone() }
    }

    /// The same shared map as a plain `map[string]interface {}`.
    #[must_use]
    pub fn plain(&self) -> Self {
        let flavour = if self.flavour == Flavour::Nothing { Flavour::Nothing } else { Flavour::Any };
        Self { flavour, entries: self.entries.clone() }
    }

    pub fn type_name(&self) -> &'static str {
        match self.flavour {
            Flavour::Any | Flavour::Nothing => "map[string]interface {}",
            Flavour::Strings | Flavour::NoStrings => "map[string]string",
            Flavour::Named(name) => name,
        }
    }

    /// The value of a missing entry.
    pub fn absent(&self) -> Value {
        match self.flavour {
            Flavour::Strings | Flavour::NoStrings => Value::String("".into()),
            Flavour::Any | Flavour::Nothing | Flavour::Named(_) => Value::Null,
        }
    }

    /// Whether entries can be of any type.
    pub fn is_any(&self) -> bool {
        !matches!(self.flavour, Flavour::Strings | Flavour::NoStrings)
    }

    /// The name of the type, if it is a named type.
    pub fn type_name_if_named(&self) -> Option<&'static str> {
        match self.flavour {
            Flavour::Named(name) => Some(name),
            _ => None,
        }
    }

    /// Whether the map has a named type.
    pub fn is_named(&self) -> bool {
        matches!(self.flavour, Flavour::Named(_))
    }

    pub fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.borrow().is_empty()
    }

    pub fn get(&self, key: &str) -> Option<Value> {
        let entries = self.entries.borrow();
        place(&entries, key).ok().map(|at| entries[at].1.clone())
    }

    pub fn contains(&self, key: &str) -> bool {
        place(&self.entries.borrow(), key).is_ok()
    }

    pub fn insert(&self, key: impl Into<Str>, value: Value) {
        let (key, value) = (key.into(), value.boxed());
        let mut entries = self.entries.borrow_mut();
        match place(&entries, &key) {
            Ok(at) => entries[at].1 = value,
            Err(at) => entries.insert(at, (key, value)),
        }
    }

    pub fn remove(&self, key: &str) {
        let mut entries = self.entries.borrow_mut();
        if let Ok(at) = place(&entries, key) {
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
    pub(super) fn is_sole(&self) -> bool {
        Rc::strong_count(&self.entries) == 1
    }

    /// Moves the nested values into `taken`, if this is the only reference.
    pub(super) fn give_up(&mut self, taken: &mut Vec<Value>) {
        // Weak references do not count: they can no longer be upgraded.
        if self.is_sole()
            && let Ok(mut entries) = self.entries.try_borrow_mut()
        {
            free::take_nested(entries.iter_mut().map(|(_, value)| value), taken);
        }
    }

    /// A weak reference to this map.
    pub(crate) fn trace(&self) -> Trace {
        Trace(Rc::downgrade(&self.entries))
    }

    /// Whether both share the same entries, not only equal ones.
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.entries, &other.entries)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let mut taken = Vec::new();
        self.give_up(&mut taken);
        free::free(taken);
    }
}

/// A weak reference to a map.
pub(crate) struct Trace(Weak<RefCell<Vec<(Str, Value)>>>);

impl Trace {
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

fn place(entries: &[(Str, Value)], key: &str) -> Result<usize, usize> {
    entries.binary_search_by(|(k, _)| k.as_ref().cmp(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_shared_and_sorted() {
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
