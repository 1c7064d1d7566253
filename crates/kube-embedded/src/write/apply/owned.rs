//! The field set of a value: the fields that its applier owns.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    element::Element,
    fieldset::FieldSet,
    node::{Form, Node},
};

/// Returns all leaves of `value`, its list elements and its map keys.
pub fn field_set(node: Node<'_>, value: &Value) -> FieldSet {
    below(node, value).0
}

/// Returns the field set below, and whether the value itself is a leaf.
fn below(node: Node<'_>, value: &Value) -> (FieldSet, bool) {
    let mut set = FieldSet::default();
    match node.form(Some(value)) {
        Form::Scalar(_) | Form::AtomicMap | Form::AtomicList => return (set, true),
        Form::Map => {
            for (name, member) in value.as_object().into_iter().flatten() {
                let (children, own) = below(node.member_or_deduced(name), member);
                let empty = match member {
                    Value::Null => true,
                    Value::Object(members) => members.is_empty(),
                    _ => false,
                };
                set.push(Element::field(name), own || empty || node.declared(name).is_none(), children);
            }
        }
        Form::List(list) => {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            let mut known: Vec<_> =
                items.iter().filter_map(|item| Some((list.element_of(item).ok()?, item))).collect();
            known.sort_by(|a, b| a.0.cmp(&b.0));
            let mut seen = BTreeSet::new();
            let twice: BTreeSet<_> =
                known.iter().map(|(element, _)| element).filter(|e| !seen.insert(*e)).collect();
            for (element, item) in &known {
                // Duplicates are owned as a whole.
                let children =
                    if twice.contains(element) { FieldSet::default() } else { below(list.element, item).0 };
                set.push(element.clone(), true, children);
            }
        }
    }
    (set, false)
}

/// Adds every declared field that leads to a member; map keys and list elements are not added.
pub fn with_named_fields(set: &FieldSet, node: Option<Node<'_>>) -> FieldSet {
    let mut out = FieldSet::default();
    for step in set.steps() {
        let named = match (&step.element, node) {
            (Element::Field(name), Some(node)) => !step.below.is_empty() && node.declared(name).is_some(),
            _ => false,
        };
        let next = match &step.element {
            Element::Field(name) => node.map(|node| node.member_or_deduced(name)),
            Element::Key(_) => node.and_then(|node| node.follow(&step.element)),
            Element::Value(_) | Element::Index(_) => None,
        };
        out.push(step.element.clone(), step.member || named, with_named_fields(&step.below, next));
    }
    out
}

/// Adapts a set to a schema in which a field has become atomic: the owner of a part owns the whole.
pub fn reconciled(set: &FieldSet, node: Node<'_>) -> FieldSet {
    let mut out = FieldSet::default();
    for step in set.steps() {
        let Some(next) = node.follow(&step.element) else {
            out.push(step.element.clone(), step.member, step.below.clone());
            continue;
        };
        let whole = matches!(next.form(None), Form::AtomicMap | Form::AtomicList);
        if whole && !step.below.is_empty() {
            out.push(step.element.clone(), true, FieldSet::default());
        } else if next.is_free_form() {
            out.push(step.element.clone(), step.member, step.below.clone());
        } else {
            out.push(step.element.clone(), step.member, reconciled(&step.below, next));
        }
    }
    out
}
