//! The field set of a value: the fields that its applier owns.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    element::PathElement,
    fieldset::FieldSet,
    node::{TypeNode, ValueForm},
};

/// Returns all leaves of `value`, its list elements and its map keys.
pub fn field_set(node: TypeNode<'_>, value: &Value) -> FieldSet {
    collect(node, value).0
}

/// Returns the field set below, and whether the value itself is a leaf.
fn collect(node: TypeNode<'_>, value: &Value) -> (FieldSet, bool) {
    let mut set = FieldSet::default();
    match node.form(Some(value)) {
        ValueForm::Scalar(_) | ValueForm::AtomicMap | ValueForm::AtomicList => return (set, true),
        ValueForm::Map => {
            for (name, member) in value.as_object().into_iter().flatten() {
                let (children, own) = collect(node.member_or_deduced(name), member);
                let empty = match member {
                    Value::Null => true,
                    Value::Object(members) => members.is_empty(),
                    _ => false,
                };
                set.push(PathElement::field(name), own || empty || node.declared(name).is_none(), children);
            }
        }
        ValueForm::List(list) => {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            let mut known: Vec<_> =
                items.iter().filter_map(|item| Some((list.identity_of(item).ok()?, item))).collect();
            known.sort_by(|a, b| a.0.cmp(&b.0));
            let mut seen = BTreeSet::new();
            let twice: BTreeSet<_> =
                known.iter().map(|(element, _)| element).filter(|e| !seen.insert(*e)).collect();
            for (element, item) in &known {
                // Duplicates are owned as a whole.
                let children =
                    if twice.contains(element) { FieldSet::default() } else { collect(list.element, item).0 };
                set.push(element.clone(), true, children);
            }
        }
    }
    (set, false)
}

/// Adds every declared field that leads to a member; map keys and list elements are not added.
pub fn with_declared_fields(set: &FieldSet, node: Option<TypeNode<'_>>) -> FieldSet {
    let mut out = FieldSet::default();
    for step in set.nodes() {
        let named = match (&step.element, node) {
            (PathElement::Field(name), Some(node)) => {
                !step.children.is_empty() && node.declared(name).is_some()
            }
            _ => false,
        };
        let next = match &step.element {
            PathElement::Field(name) => node.map(|node| node.member_or_deduced(name)),
            PathElement::Key(_) => node.and_then(|node| node.descend(&step.element)),
            PathElement::Value(_) | PathElement::Index(_) => None,
        };
        out.push(step.element.clone(), step.is_member || named, with_declared_fields(&step.children, next));
    }
    out
}

/// Adapts a set to a schema in which a field has become atomic: the owner of a part owns the whole.
pub fn reconcile_with_schema(set: &FieldSet, node: TypeNode<'_>) -> FieldSet {
    let mut out = FieldSet::default();
    for step in set.nodes() {
        let Some(next) = node.descend(&step.element) else {
            out.push(step.element.clone(), step.is_member, step.children.clone());
            continue;
        };
        let whole = matches!(next.form(None), ValueForm::AtomicMap | ValueForm::AtomicList);
        if whole && !step.children.is_empty() {
            out.push(step.element.clone(), true, FieldSet::default());
        } else if next.is_free_form() {
            out.push(step.element.clone(), step.is_member, step.children.clone());
        } else {
            out.push(step.element.clone(), step.is_member, reconcile_with_schema(&step.children, next));
        }
    }
    out
}
