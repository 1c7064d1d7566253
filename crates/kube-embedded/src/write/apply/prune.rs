//! Removes fields from a value.

use serde_json::{Map, Value};

use super::{
    element::PathElement,
    fieldset::FieldSet,
    node::{TypeNode, ValueForm},
};

/// Removes the members of `set` from `value`. A container that becomes empty is null.
pub fn remove(node: TypeNode<'_>, value: Value, set: &FieldSet) -> Value {
    match node.form(Some(&value)) {
        ValueForm::Scalar(_) => value,
        ValueForm::AtomicList | ValueForm::AtomicMap => Value::Null,
        ValueForm::Map => {
            let Value::Object(mut members) = value else { return Value::Null };
            for step in set.nodes() {
                let PathElement::Field(name) = &step.element else { continue };
                if step.is_member {
                    members.remove(name.as_ref());
                } else if let Some(member) = members.get_mut(name.as_ref()) {
                    *member = remove(node.member_or_deduced(name), std::mem::take(member), &step.children);
                }
            }
            null_if_empty(members)
        }
        ValueForm::List(list) => {
            let Value::Array(items) = value else { return Value::Null };
            let keep = |item: Value| {
                let Some(step) = list.identity_of(&item).ok().and_then(|element| set.node(&element)) else {
                    return Some(item);
                };
                (!step.is_member).then(|| remove(list.element, item, &step.children))
            };
            let items: Vec<_> = items.into_iter().filter_map(keep).collect();
            if items.is_empty() { Value::Null } else { Value::Array(items) }
        }
    }
}

fn null_if_empty(members: Map<String, Value>) -> Value {
    if members.is_empty() { Value::Null } else { Value::Object(members) }
}
