//! Merges an applied object into the live one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::{
    element::PathElement,
    node::{AssociativeList, TypeNode, ValueForm},
};

/// Merges `body` into `live`. Removes nothing; `None` if the result is empty.
pub fn merge(node: TypeNode<'_>, live: Value, body: &Value) -> Result<Option<Value>, String> {
    match node.form(Some(body)) {
        ValueForm::Map => {
            let live = if let Value::Object(members) = live { members } else { Map::new() };
            merge_members(node, live, body)
        }
        ValueForm::List(list) => {
            let live = if let Value::Array(items) = live { items } else { Vec::new() };
            merge_items(list, live, body)
        }
        // A null in the body with an open type can only result in null.
        ValueForm::Scalar(_) | ValueForm::AtomicList | ValueForm::AtomicMap => Ok(Some(body.clone())),
    }
}

fn merge_members(
    node: TypeNode<'_>,
    live: Map<String, Value>,
    body: &Value,
) -> Result<Option<Value>, String> {
    let Some(body) = body.as_object().filter(|members| !members.is_empty()) else {
        // Two empty maps are a leaf, so that null and empty differ.
        return Ok(Some(if live.is_empty() { body.clone() } else { Value::Object(live) }));
    };
    let mut out = live;
    for (name, applied) in body {
        let merged = match out.remove(name) {
            Some(old) => merge(node.member_or_deduced(name), old, applied)?,
            None => Some(applied.clone()),
        };
        if let Some(merged) = merged {
            out.insert(name.clone(), merged);
        }
    }
    Ok((!out.is_empty()).then_some(Value::Object(out)))
}

/// Merges list elements: shared elements in the body's order; live-only elements keep their position as far as possible; body-only elements
/// follow their predecessor in the body.
fn merge_items(list: AssociativeList<'_>, live: Vec<Value>, body: &Value) -> Result<Option<Value>, String> {
    let items = body.as_array().map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        return Ok(Some(if live.is_empty() { body.clone() } else { Value::Array(live) }));
    }
    let body_items = list.elements(items)?;
    let body_at: BTreeMap<&PathElement, &Value> =
        body_items.iter().map(|(element, item)| (element, *item)).collect();
    let live_elements: Vec<PathElement> =
        list.elements(&live)?.into_iter().map(|(element, _)| element).collect();
    // A duplicate of the live list is replaced by the applied element instead of merged.
    let mut live_at: BTreeMap<&PathElement, Option<usize>> = BTreeMap::new();
    for (at, element) in live_elements.iter().enumerate() {
        live_at.entry(element).and_modify(|place| *place = None).or_insert(Some(at));
    }
    let mut shared: VecDeque<&PathElement> = body_items
        .iter()
        .map(|(element, _)| element)
        .filter(|element| live_at.contains_key(element))
        .collect();
    let mut live: Vec<Option<Value>> = live.into_iter().map(Some).collect();
    let mut merged_already = BTreeSet::new();
    let mut out = Vec::with_capacity(live.len().max(items.len()));
    let merge_one = |element: &PathElement, live: &mut Vec<Option<Value>>, out: &mut Vec<Value>| {
        let applied = body_at.get(element).copied().unwrap_or(&Value::Null);
        let old = match live_at.get(element) {
            Some(Some(at)) => live[*at].take(),
            Some(None) => Some(Value::Null),
            None => None,
        };
        let merged = match old {
            Some(old) => merge(list.element, old, applied)?,
            None => Some(applied.clone()),
        };
        out.extend(merged);
        Ok::<_, String>(())
    };

    let (mut l, mut r) = (0, 0);
    while l < live_elements.len() || r < body_items.len() {
        if let (Some(old), Some((new, _))) = (live_elements.get(l), body_items.get(r)) {
            if old == new {
                merged_already.insert(new);
                merge_one(new, &mut live, &mut out)?;
                l += 1;
                r += 1;
                shared.pop_front();
                continue;
            }
            if body_at.contains_key(old) && shared.front().is_some_and(|next| *next != old) {
                // Shared, but its position in the body comes later.
                l += 1;
                continue;
            }
        }
        if let Some(old) = live_elements.get(l) {
            if !body_at.contains_key(old) {
                out.extend(live[l].take());
                l += 1;
                continue;
            }
            if merged_already.contains(old) {
                l += 1;
            }
        }
        if let Some((new, _)) = body_items.get(r) {
            merged_already.insert(new);
            merge_one(new, &mut live, &mut out)?;
            r += 1;
            if shared.front() == Some(&new) {
                shared.pop_front();
            }
        }
    }
    Ok((!out.is_empty()).then_some(Value::Array(out)))
}
