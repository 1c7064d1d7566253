//! Removes fields from a value.

use serde_json::{Map, Value};

use super::{
    element::Element,
    fieldset::FieldSet,
    node::{Form, Node},
};

/// Removes the members of `set` from `value`. A container that becomes empty is null.
pub fn remove(node: Node<'_>, value: Value, set: &FieldSet) -> Value {
    match node.form(Some(&value)) {
        Form::Scalar(_) => value,
        Form::AtomicList | Form::AtomicMap => Value::Null,
        Form::Map => {
            let Value::Object(mut members) = value else { return Value::Null };
            for step in set.steps() {
                let Element::Field(name) = &step.element else { continue };
                if step.member {
                    members.remove(name.as_ref());
                } else if let Some(member) = members.get_mut(name.as_ref()) {
                    *member = remove(node.member_or_deduced(name), std::mem::take(member), &step.below);
                }
            }
            none_if_empty(members)
        }
        Form::List(list) => {
            let Value::Array(items) = value else { return Value::Null };
            let keep = |item: Value| {
                let Some(step) = list.element_of(&item).ok().and_then(|element| set.step(&element)) else {
                    return Some(item);
                };
                (!step.member).then(|| remove(list.element, item, &step.below))
            };
            let items: Vec<_> = items.into_iter().filter_map(keep).collect();
            if items.is_empty() { Value::Null } else { Value::Array(items) }
        }
    }
}

fn none_if_empty(members: Map<String, Value>) -> Value {
    if members.is_empty() { Value::Null } else { Value::Object(members) }
}
