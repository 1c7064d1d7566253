//! Maps: shared, and sorted by key, which is the order in which templates see them.

use std::cell::{Ref, RefCell};
use std::rc::Rc;

use super::{Str, Value};

/// A map's Go type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavour {
    Any,
    Strings,
    /// A type with a name of its own over `map[string]interface {}`.
    Named(&'static str),
}

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

    /// An empty `map[string]string`.
    pub fn strings() -> Self {
        Self::of(Flavour::Strings, Vec::new())
    }

    /// Of several entries with one key the last holds.
    pub fn from_entries(entries: impl IntoIterator<Item = (Str, Value)>) -> Self {
        let mut entries: Vec<_> = entries.into_iter().map(|(key, value)| (key, value.boxed())).collect();
        // Stable, so that of equal keys the last stays last.
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries.reverse();
        entries.dedup_by(|a, b| a.0 == b.0);
        entries.reverse();
        Self::of(Flavour::Any, entries)
    }

    /// A `map[string]interface {}` of entries that are in order already.
    pub(crate) fn sorted(entries: Vec<(Str, Value)>) -> Self {
        debug_assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "keys out of order");
        Self::of(Flavour::Any, entries)
    }

    fn of(flavour: Flavour, entries: Vec<(Str, Value)>) -> Self {
        Self { flavour, entries: Rc::new(RefCell::new(entries)) }
    }

    /// Other entries, in order already, in a map of the same type.
    #[must_use]
    pub(crate) fn like(&self, entries: Vec<(Str, Value)>) -> Self {
        Self::of(self.flavour, entries)
    }

    /// The same map, shared, under a type of this name.
    #[must_use]
    pub fn named(&self, name: &'static str) -> Self {
        Self { flavour: Flavour::Named(name), entries: self.entries.clone() }
    }

    /// The same map, shared, under the type of another.
    #[must_use]
    pub(crate) fn as_type_of(&self, other: &Self) -> Self {
        Self { flavour: other.flavour, entries: self.entries.clone() }
    }

    /// The same map, shared, as a plain `map[string]interface {}`.
    #[must_use]
    pub fn plain(&self) -> Self {
        Self { flavour: Flavour::Any, entries: self.entries.clone() }
    }

    pub fn type_name(&self) -> &'static str {
        match self.flavour {
            Flavour::Any => "map[string]interface {}",
            Flavour::Strings => "map[string]string",
            Flavour::Named(name) => name,
        }
    }

    /// What a missing entry reads as.
    pub fn absent(&self) -> Value {
        match self.flavour {
            Flavour::Strings => Value::String("".into()),
            Flavour::Any | Flavour::Named(_) => Value::Null,
        }
    }

    /// Its entries can be of any type.
    pub fn is_any(&self) -> bool {
        self.flavour != Flavour::Strings
    }

    /// It has a type name of its own.
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

    /// The entries in order. The map must not be changed while they are held.
    pub fn entries(&self) -> Ref<'_, [(Str, Value)]> {
        Ref::map(self.entries.borrow(), Vec::as_slice)
    }

    /// A copy of the entries, safe against changes meanwhile.
    pub fn snapshot(&self) -> Vec<(Str, Value)> {
        self.entries.borrow().clone()
    }

    /// Where its entries are: two maps at one place are the same.
    pub(super) fn address(&self) -> usize {
        Rc::as_ptr(&self.entries).addr()
    }

    /// The same map, not only an equal one.
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.entries, &other.entries)
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
