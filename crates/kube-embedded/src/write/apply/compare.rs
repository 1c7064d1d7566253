//! Comparison of two values of a type.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    element::{self, PathElement},
    fieldset::FieldSet,
    node::{AssociativeList, TypeNode, ValueForm},
};

/// Paths that only one value has, or that both have with different values.
#[derive(Default, Clone, Debug, PartialEq)]
pub struct Difference {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

impl Difference {
    /// Adds the differences below an element to this level.
    fn push(&mut self, element: &PathElement, mark: ValueChange, below: Self) {
        self.added.push(element.clone(), mark == ValueChange::Added, below.added);
        self.modified.push(element.clone(), mark == ValueChange::Modified, below.modified);
        self.removed.push(element.clone(), mark == ValueChange::Removed, below.removed);
    }
}

/// The change of the value itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueChange {
    Unchanged,
    Added,
    Modified,
    Removed,
}

pub fn compare(node: TypeNode<'_>, old: &Value, new: &Value) -> Result<Difference, String> {
    let mut out = Difference::default();
    compare_node(node, Some(old), Some(new), &mut out)?;
    Ok(out)
}

fn compare_node(
    node: TypeNode<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    out: &mut Difference,
) -> Result<ValueChange, String> {
    let mark = match (old, new) {
        (None, None) => return Ok(ValueChange::Unchanged),
        (None, Some(_)) => ValueChange::Added,
        (Some(_), None) => ValueChange::Removed,
        (Some(_), Some(_)) => ValueChange::Unchanged,
    };
    let form = node.form(new.or(old));
    let mut own = compare_as(node, form, old, new, out)?;
    if let (Some(old_value), Some(_)) = (old, new) {
        let old_form = node.form(Some(old_value));
        // The form has changed, which only an open type allows: the value is compared in both forms.
        if std::mem::discriminant(&old_form) != std::mem::discriminant(&form)
            && compare_as(node, old_form, old, new, out)? == ValueChange::Modified
        {
            own = ValueChange::Modified;
        }
    }
    Ok(if mark == ValueChange::Unchanged { own } else { mark })
}

fn compare_as(
    node: TypeNode<'_>,
    form: ValueForm<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    out: &mut Difference,
) -> Result<ValueChange, String> {
    match form {
        ValueForm::Scalar(_) | ValueForm::AtomicList | ValueForm::AtomicMap => {}
        ValueForm::Map => {
            let empty = serde_json::Map::new();
            let members = |value: Option<&Value>| {
                value.and_then(Value::as_object).is_none_or(serde_json::Map::is_empty)
            };
            if !(members(old) && members(new)) {
                let old = old.and_then(Value::as_object).unwrap_or(&empty);
                let new = new.and_then(Value::as_object).unwrap_or(&empty);
                compare_members(node, old, new, out)?;
                return Ok(ValueChange::Unchanged);
            }
        }
        ValueForm::List(list) => {
            let items = |value: Option<&Value>| value.and_then(Value::as_array).is_none_or(Vec::is_empty);
            if !(items(old) && items(new)) {
                let old = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let new = new.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                if old != new {
                    compare_items(list, old, new, out)?;
                }
                return Ok(ValueChange::Unchanged);
            }
        }
    }
    // A leaf. Two empty lists or maps are leaves as well, so that null and empty differ.
    Ok(match (old, new) {
        (Some(old), Some(new)) if !is_same(old, new) => ValueChange::Modified,
        _ => ValueChange::Unchanged,
    })
}

fn is_same(old: &Value, new: &Value) -> bool {
    old == new || element::compare(old, new).is_eq()
}

fn compare_members(
    node: TypeNode<'_>,
    old: &serde_json::Map<String, Value>,
    new: &serde_json::Map<String, Value>,
    out: &mut Difference,
) -> Result<(), String> {
    let mut visit = |name: &str, old: Option<&Value>, new: Option<&Value>| {
        let mut below = Difference::default();
        let mark = compare_node(node.member_or_deduced(name), old, new, &mut below)?;
        if mark != ValueChange::Unchanged || below != Difference::default() {
            out.push(&PathElement::field(name), mark, below);
        }
        Ok::<_, String>(())
    };
    // Sorted, because appending to a set is cheap.
    let names: BTreeSet<&String> = new.keys().chain(old.keys()).collect();
    for name in names {
        visit(name, old.get(name), new.get(name))?;
    }
    Ok(())
}

fn compare_items(
    list: AssociativeList<'_>,
    old: &[Value],
    new: &[Value],
    out: &mut Difference,
) -> Result<(), String> {
    let mut pairs: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for (element, item) in list.elements(old)? {
        pairs.entry(element).or_default().0.push(item);
    }
    for (element, item) in list.elements(new)? {
        pairs.entry(element).or_default().1.push(item);
    }
    for (element, (old, new)) in pairs {
        let mut below = Difference::default();
        let item = |items: &[&'_ Value]| items.len() < 2;
        let mark = match (item(&old), item(&new)) {
            (true, true) => {
                compare_node(list.element, old.first().copied(), new.first().copied(), &mut below)?
            }
            // Duplicates are compared as one value.
            (false, false) if old == new => ValueChange::Unchanged,
            (false, false) => ValueChange::Modified,
            (false, true) => {
                let mark = compare_node(list.element, None, new.first().copied(), &mut below)?;
                out.push(&element, mark, std::mem::take(&mut below));
                ValueChange::Removed
            }
            (true, false) => {
                let mark = compare_node(list.element, old.first().copied(), None, &mut below)?;
                out.push(&element, mark, std::mem::take(&mut below));
                ValueChange::Added
            }
        };
        if mark != ValueChange::Unchanged || below != Difference::default() {
            out.push(&element, mark, below);
        }
    }
    Ok(())
}
