//! Lists: Go slices, as far as templates can observe them.

use std::ops::Deref;
use std::rc::Rc;

use super::{Str, Type, Value, iterative_drop};

/// The element type of a list, which is part of its Go type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElementType {
    Any,
    /// A nil of the same Go type as [`ElementType::Any`].
    NilAny,
    /// `[][]interface {}`.
    Lists,
    String,
    /// A nil of type `[]string`.
    NilStrings,
    Int,
    /// A named list type.
    Named(&'static NamedList),
    /// A nil of a named list type.
    NilNamed(&'static NamedList),
}

/// A named list type, possibly with methods.
pub struct NamedList {
    pub name: &'static str,
    pub method: fn(&str) -> Option<ListMethod>,
}

/// A method of a list type.
pub struct ListMethod {
    pub params: &'static [Type],
    pub run: fn(&List, &[Value]) -> Result<Value, Str>,
}

impl std::fmt::Debug for NamedList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for NamedList {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for NamedList {}

/// A typed Go slice. Cheap to clone; clones share elements.
#[derive(Clone)]
pub struct List {
    element_type: ElementType,
    items: Rc<[Value]>,
}

impl List {
    /// `[]interface {}`.
    pub fn any(items: impl IntoIterator<Item = Value>) -> Self {
        Self { element_type: ElementType::Any, items: items.into_iter().map(Value::boxed).collect() }
    }

    /// A nil of type `[]interface {}`: empty, and `null` in JSON and YAML.
    pub fn nil() -> Self {
        Self { element_type: ElementType::NilAny, items: Rc::new([]) }
    }

    /// `[][]interface {}`.
    pub fn lists(items: impl IntoIterator<Item = List>) -> Self {
        Self { element_type: ElementType::Lists, items: items.into_iter().map(Value::List).collect() }
    }

    /// A `[]string` of values that are already strings.
    pub fn texts(items: impl IntoIterator<Item = Value>) -> Self {
        Self { element_type: ElementType::String, items: items.into_iter().collect() }
    }

    /// `[]string`.
    pub fn strings<T: Into<Str>>(items: impl IntoIterator<Item = T>) -> Self {
        Self {
            element_type: ElementType::String,
            items: items.into_iter().map(|item| Value::String(item.into())).collect(),
        }
    }

    /// A nil of type `[]string`.
    pub fn nil_strings() -> Self {
        Self { element_type: ElementType::NilStrings, items: Rc::new([]) }
    }

    /// `[]int`.
    pub fn ints(items: impl IntoIterator<Item = i64>) -> Self {
        Self { element_type: ElementType::Int, items: items.into_iter().map(Value::Int).collect() }
    }

    /// A list of a named type.
    pub fn named(of: &'static NamedList, items: impl IntoIterator<Item = Value>) -> Self {
        Self { element_type: ElementType::Named(of), items: items.into_iter().collect() }
    }

    /// A nil of a named type.
    pub fn nil_named(of: &'static NamedList) -> Self {
        Self { element_type: ElementType::NilNamed(of), items: Rc::new([]) }
    }

    pub fn method(&self, name: &str) -> Option<ListMethod> {
        match self.element_type {
            ElementType::Named(of) | ElementType::NilNamed(of) => (of.method)(name),
            _ => None,
        }
    }

    /// A sublist of the same type.
    #[must_use]
    pub fn slice(&self, from: usize, to: usize) -> Self {
        Self { element_type: self.element_type, items: self.items[from..to].into() }
    }

    /// A list of the same type with other elements.
    #[must_use]
    pub(crate) fn like(&self, items: Vec<Value>) -> Self {
        Self { element_type: self.element_type, items: items.into() }
    }

    /// Whether elements can be of any type, so that a nil element is [`Value::Null`].
    pub fn is_any(&self) -> bool {
        matches!(self.element_type, ElementType::Any | ElementType::NilAny)
    }

    /// Whether this is a `[]string`.
    pub fn is_strings(&self) -> bool {
        matches!(self.element_type, ElementType::String | ElementType::NilStrings)
    }

    /// Whether the list is nil.
    pub fn is_nil(&self) -> bool {
        matches!(self.element_type, ElementType::NilAny | ElementType::NilStrings | ElementType::NilNamed(_))
    }

    pub fn type_name(&self) -> &'static str {
        match self.element_type {
            ElementType::Any | ElementType::NilAny => "[]interface {}",
            ElementType::Lists => "[][]interface {}",
            ElementType::String | ElementType::NilStrings => "[]string",
            ElementType::Int => "[]int",
            ElementType::Named(of) | ElementType::NilNamed(of) => of.name,
        }
    }

    /// The address of the elements. Two lists with the same address and length are identical.
    pub(super) fn address(&self) -> usize {
        self.items.as_ptr().addr()
    }

    /// Whether this is the only reference to the elements.
    pub(super) fn is_unique(&self) -> bool {
        Rc::strong_count(&self.items) == 1
    }

    /// Moves the nested values into `taken`, if this is the only reference.
    pub(super) fn detach_nested(&mut self, taken: &mut Vec<Value>) {
        if let Some(items) = Rc::get_mut(&mut self.items) {
            iterative_drop::take_nested(items.iter_mut(), taken);
        }
    }

    /// Whether both share the same elements, not only equal ones.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.items, &other.items)
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let mut taken = Vec::new();
        self.detach_nested(&mut taken);
        iterative_drop::drop_iteratively(taken);
    }
}

impl Deref for List {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.items
    }
}
