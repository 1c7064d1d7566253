//! Lists: Go's slices, as far as templates can tell.

use std::ops::Deref;
use std::rc::Rc;

use super::{Str, Type, Value, free};

/// What a list can hold, which is part of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    Any,
    /// As [`Element::Any`], but there is no list at all: a nil of that type.
    None,
    /// Lists of anything.
    Lists,
    String,
    /// No list of strings at all.
    NoStrings,
    Int,
    /// Not of any type, but of the one that this says.
    Named(&'static NamedList),
    /// No list of that type at all.
    NoneNamed(&'static NamedList),
}

/// A type of lists with a name, and maybe with methods.
pub struct NamedList {
    pub name: &'static str,
    pub method: fn(&str) -> Option<ListMethod>,
}

/// What can be called on a list.
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

#[derive(Clone)]
pub struct List {
    of: Element,
    items: Rc<[Value]>,
}

impl List {
    /// `[]interface {}`.
    pub fn any(items: impl IntoIterator<Item = Value>) -> Self {
        Self { of: Element::Any, items: items.into_iter().map(Value::boxed).collect() }
    }

    /// A nil of type `[]interface {}`: empty, and `null` to JSON and YAML.
    pub fn nil() -> Self {
        Self { of: Element::None, items: Rc::new([]) }
    }

    /// `[][]interface {}`.
    pub fn lists(items: impl IntoIterator<Item = List>) -> Self {
        Self { of: Element::Lists, items: items.into_iter().map(Value::List).collect() }
    }

    /// `[]string` of values that are strings already.
    pub fn texts(items: impl IntoIterator<Item = Value>) -> Self {
        Self { of: Element::String, items: items.into_iter().collect() }
    }

    /// `[]string`.
    pub fn strings<T: Into<Str>>(items: impl IntoIterator<Item = T>) -> Self {
        Self {
            of: Element::String,
            items: items.into_iter().map(|item| Value::String(item.into())).collect(),
        }
    }

    /// A nil of type `[]string`.
    pub fn nil_strings() -> Self {
        Self { of: Element::NoStrings, items: Rc::new([]) }
    }

    /// `[]int`.
    pub fn ints(items: impl IntoIterator<Item = i64>) -> Self {
        Self { of: Element::Int, items: items.into_iter().map(Value::Int).collect() }
    }

    /// A list of a type with a name.
    pub fn named(of: &'static NamedList, items: impl IntoIterator<Item = Value>) -> Self {
        Self { of: Element::Named(of), items: items.into_iter().collect() }
    }

    /// A nil of a type with a name.
    pub fn nil_named(of: &'static NamedList) -> Self {
        Self { of: Element::NoneNamed(of), items: Rc::new([]) }
    }

    pub fn method(&self, name: &str) -> Option<ListMethod> {
        match self.of {
            Element::Named(of) | Element::NoneNamed(of) => (of.method)(name),
            _ => None,
        }
    }

    /// A part of it, of the same type.
    #[must_use]
    pub fn slice(&self, from: usize, to: usize) -> Self {
        Self { of: self.of, items: self.items[from..to].into() }
    }

    /// Other elements in a list of the same type.
    #[must_use]
    pub(crate) fn like(&self, items: Vec<Value>) -> Self {
        Self { of: self.of, items: items.into() }
    }

    /// Its elements can be of any type, so that a nil among them is [`Value::Null`].
    pub fn is_any(&self) -> bool {
        matches!(self.of, Element::Any | Element::None)
    }

    /// A `[]string`.
    pub fn is_strings(&self) -> bool {
        matches!(self.of, Element::String | Element::NoStrings)
    }

    /// There is no list at all.
    pub fn is_nil(&self) -> bool {
        matches!(self.of, Element::None | Element::NoStrings | Element::NoneNamed(_))
    }

    pub fn type_name(&self) -> &'static str {
        match self.of {
            Element::Any | Element::None => "[]interface {}",
            Element::Lists => "[][]interface {}",
            Element::String | Element::NoStrings => "[]string",
            Element::Int => "[]int",
            Element::Named(of) | Element::NoneNamed(of) => of.name,
        }
    }

    /// Where its elements are: two lists at one place with one length are the same.
    pub(super) fn address(&self) -> usize {
        self.items.as_ptr().addr()
    }

    /// Nobody else holds it.
    pub(super) fn is_sole(&self) -> bool {
        Rc::strong_count(&self.items) == 1
    }

    /// Moves what it holds into `taken`, if nobody else holds it.
    pub(super) fn give_up(&mut self, taken: &mut Vec<Value>) {
        if let Some(items) = Rc::get_mut(&mut self.items) {
            free::take_nested(items.iter_mut(), taken);
        }
    }

    /// The same list, not only an equal one.
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.items, &other.items)
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let mut taken = Vec::new();
        self.give_up(&mut taken);
        free::free(taken);
    }
}

impl Deref for List {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.items
    }
}
