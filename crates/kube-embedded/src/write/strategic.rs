//! Strategic merge patch: a merge patch that knows which lists are merged element by element.
//!
//! Which ones, and by which key, stands in [`Field::patch`]. A patch may carry directives: `$patch` in a
//! map or in a list element, `$retainKeys`, `$setElementOrder/<list>` and
//! `$deleteFromPrimitiveList/<list>`. What a mistake is called, and whether it is the client's (400, 422) or
//! just an error (500), is Kubernetes' choice.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{go, json_patch::drop_nulls};
use crate::{
    error::{ApiError, Result},
    schema::types::{Field, Patch, Shape, TypeRef},
};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";

type Object = Map<String, Value>;

/// The document after `patch`. Nulls and directives may be left in what was added; decoding drops them.
pub fn apply(ty: TypeRef<'_>, doc: &Value, patch: &Value) -> Result<Value> {
    let Value::Object(changes) = patch else {
        return Err(ApiError::bad_request(
            "json: cannot unmarshal patch into Go value of type map[string]interface {}",
        ));
    };
    let original = doc.as_object().cloned().unwrap_or_default();
    merge_map(Some(ty), original, changes.clone()).map(Value::Object)
}

/// Failures that Kubernetes has no words for towards the client.
fn failed(message: String) -> ApiError {
    ApiError::new(500, "", message)
}

fn no_merge_key(element: &Object, key: &str) -> ApiError {
    let element = go::plain(&Value::Object(element.clone()));
    failed(format!("map: {element} does not contain declared merge key: {key}"))
}

fn bad_type(expected: &str, actual: &Value) -> ApiError {
    failed(format!("expected a {expected}, but received a {}", go::type_name(actual)))
}

fn merge_map(ty: Option<TypeRef<'_>>, mut original: Object, mut patch: Object) -> Result<Object> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            _ => {
                let directive = go::text(directive);
                let patch = go::plain(&Value::Object(patch));
                Err(failed(format!("unknown patch type: {directive} in map: {patch}")))
            }
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order_lists(ty, &mut original, &mut patch)?;

    for (name, mut change) in patch {
        let deleting = name.starts_with(DELETE_FROM);
        let name = if deleting { listed(&name, DELETE_FROM, "primitive list")?.to_owned() } else { name };
        if change.is_null() {
            original.remove(&name);
            continue;
        }
        match (original.get_mut(&name), &mut change) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let (below, _) = lookup(ty, &name)?;
                *old = merge_map(below, std::mem::take(old), std::mem::take(new))?;
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                let (below, how) = lookup(ty, &name)?;
                if how.merge || deleting {
                    let element = below.and_then(TypeRef::element);
                    let key = how.merge_key.as_deref();
                    *old = merge_list(element, std::mem::take(old), std::mem::take(new), key, deleting)?;
                } else {
                    *old = std::mem::take(new);
                }
            }
            _ if deleting => {}
            _ => {
                drop_nulls(&mut change);
                if drop_directives(&mut change) {
                    original.insert(name, change);
                } else {
                    original.remove(&name);
                }
            }
        }
    }
    Ok(original)
}

/// What is below `name`, and how it is patched. Nothing is known below what the schema leaves open.
fn lookup<'a>(ty: Option<TypeRef<'a>>, name: &str) -> Result<(Option<TypeRef<'a>>, &'a Patch)> {
    const PLAIN: &Patch = &Patch { merge: false, retain_keys: false, merge_key: None };
    let Some(ty) = ty else { return Ok((None, PLAIN)) };
    match ty.shape() {
        Shape::Struct(body) => match body.field(name) {
            Some(Field { ty: below, patch, .. }) => Ok((Some(ty.follow(*below)), patch)),
            None if body.preserve_unknown => Ok((None, PLAIN)),
            None => Err(failed(format!(
                "unable to find api field in struct {} for the json field \"{name}\"",
                ty.short_name()
            ))),
        },
        Shape::Map(map) => Ok((Some(ty.follow(map.value)), PLAIN)),
        _ => Ok((None, PLAIN)),
    }
}

/// The list that a directive such as `$setElementOrder/containers` is about.
fn listed<'a>(name: &'a str, directive: &str, what: &str) -> Result<&'a str> {
    let bad = || ApiError::bad_request(format!("invalid patch format of {what}"));
    name.strip_prefix(directive).and_then(|rest| rest.strip_prefix('/')).ok_or_else(bad)
}

/// `$retainKeys` clears the other members of a map, and must name all members that the patch sets.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<()> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || ApiError::bad_request("invalid patch format of retainKeys");
    let keys: HashSet<&str> = keys.as_array().ok_or_else(bad)?.iter().filter_map(Value::as_str).collect();
    let exempt = |name: &str| name.starts_with(DELETE_FROM) || name.starts_with(ELEMENT_ORDER);
    let known =
        |(name, value): (&String, &Value)| value.is_null() || exempt(name) || keys.contains(name.as_str());
    if !patch.iter().all(known) {
        return Err(bad());
    }
    original.retain(|name, _| keys.contains(name.as_str()));
    Ok(())
}

/// Merges every list that has a `$setElementOrder` beside it, and takes both out of the patch.
fn order_lists(ty: Option<TypeRef<'_>>, original: &mut Object, patch: &mut Object) -> Result<()> {
    let directives: Vec<String> =
        patch.keys().filter(|name| name.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let Some(order) = patch.remove(&directive) else { continue };
        let Value::Array(order) = order else { return Err(bad_type("[]interface {}", &order)) };
        let name = listed(&directive, ELEMENT_ORDER, "setElementOrder list")?;
        let list = |value: Option<&Value>| match value {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items.clone())),
            Some(other) => Err(bad_type("[]interface {}", other)),
        };
        let (live, changes) = (list(original.get(name))?, list(patch.get(name))?);
        let (below, how) = lookup(ty, name)?;
        let key = how.merge_key.as_deref();
        check_order(changes.as_deref().unwrap_or_default(), &order, key)?;

        let before = live.clone().unwrap_or_default();
        let keyed = element_kind(&before, changes.as_deref().unwrap_or_default());
        let merged = match (live, changes) {
            (None, None) => continue,
            (Some(live), None) => live,
            (None, Some(changes)) => {
                let mut added = Value::Array(changes);
                drop_directives(&mut added);
                let Value::Array(added) = added else { continue };
                added
            }
            (Some(live), Some(changes)) if how.merge => {
                merge_list(below.and_then(TypeRef::element), live, changes, key, false)?
            }
            (Some(_), Some(changes)) => changes,
        };
        keyed?;
        let ordered = arrange(merged, &order, &before, key)?;
        original.insert(name.to_owned(), Value::Array(ordered));
        patch.remove(name);
    }
    Ok(())
}

/// The elements that the patch sets must be in the order list, in the same order.
fn check_order(changes: &[Value], order: &[Value], key: Option<&str>) -> Result<()> {
    if changes.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut wanted = order.iter();
    for change in changes {
        if let Some(key) = key {
            let element = change.as_object().ok_or_else(|| bad_type("map[string]interface {}", change))?;
            if element.contains_key(DIRECTIVE) {
                continue;
            }
            key_of(change, Some(key))?;
        }
        let mut found = false;
        for candidate in wanted.by_ref() {
            if key_of(change, key)? == key_of(candidate, key)? {
                found = true;
                break;
            }
        }
        if !found {
            let lists = (go::plain(&Value::from(changes)), go::plain(&Value::from(order)));
            return Err(failed(format!(
                "The order in patch list:\n{}\n doesn't match {ELEMENT_ORDER} list:\n{}\n",
                lists.0, lists.1
            )));
        }
    }
    Ok(())
}

/// By what an element is recognised: its merge key, or itself.
fn key_of<'a>(element: &'a Value, key: Option<&str>) -> Result<&'a Value> {
    let Some(key) = key else { return Ok(element) };
    let element = element.as_object().ok_or_else(|| bad_type("map[string]interface {}", element))?;
    element.get(key).ok_or_else(|| no_merge_key(element, key))
}

/// All elements must be of one type, which cannot be a list. True for maps.
fn element_kind(original: &[Value], patch: &[Value]) -> Result<bool> {
    let mut first = None;
    for element in original.iter().chain(patch) {
        let kind = go::type_name(element);
        if element.is_array() && first.is_none() {
            return Err(ApiError::new(
                422,
                "Invalid",
                "the server rejected our request due to an error in our request",
            )
            .with_details(&[]));
        }
        if *first.get_or_insert(kind) != kind || element.is_null() {
            let lists = go::plain(&Value::from(vec![Value::from(original), Value::from(patch)]));
            return Err(failed(format!("list element types are not identical: {lists}")));
        }
    }
    match first {
        Some(kind) => Ok(kind.starts_with("map")),
        None => Err(failed("no elements in any of the given slices".to_owned())),
    }
}

fn merge_list(
    element: Option<TypeRef<'_>>,
    original: Vec<Value>,
    patch: Vec<Value>,
    key: Option<&str>,
    deleting: bool,
) -> Result<Vec<Value>> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if !element_kind(&original, &patch)? {
        if deleting {
            let gone: HashSet<&Value> = patch.iter().collect();
            return Ok(original.into_iter().filter(|item| !gone.contains(item)).collect());
        }
        let mut seen = HashSet::new();
        let both = original.iter().chain(&patch);
        let merged = both.filter(|item| seen.insert(*item)).cloned().collect();
        return arrange(merged, &patch, &original, key);
    }
    let Some(key) = key else {
        return Err(failed("cannot merge lists without merge key for struct".to_owned()));
    };
    let (original, patch) = heed_directives(original, patch, key)?;
    let mut merged = original.clone();
    let mut places: HashMap<Value, usize> = HashMap::new();
    for (at, item) in merged.iter().enumerate() {
        if let Some(known) = item.get(key) {
            places.entry(known.clone()).or_insert(at);
        }
    }
    for change in &patch {
        let known = key_of(change, Some(key))?;
        if let Some(&at) = places.get(known) {
            let old = merged[at].as_object_mut().map(std::mem::take).unwrap_or_default();
            let new = change.as_object().cloned().unwrap_or_default();
            merged[at] = Value::Object(merge_map(element, old, new)?);
        } else {
            places.insert(known.clone(), merged.len());
            merged.push(change.clone());
        }
    }
    arrange(merged, &patch, &original, Some(key))
}

/// Carries out the `$patch` elements of a list: what remains of the original and of the patch.
fn heed_directives(original: Vec<Value>, patch: Vec<Value>, key: &str) -> Result<(Vec<Value>, Vec<Value>)> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut gone = HashSet::new();
    let mut replace = false;
    for change in patch {
        let Some(directive) = change.get(DIRECTIVE) else {
            plain.push(change);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                gone.insert(key_of(&change, Some(key))?.clone());
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(failed("merging lists cannot yet be specified in the patch".to_owned()));
            }
            _ => {
                let message =
                    format!("unknown patch type: {} in map: {}", go::text(directive), go::plain(&change));
                return Err(failed(message));
            }
        }
    }
    if replace {
        return Ok((plain, Vec::new()));
    }
    let stays = |item: &Value| item.get(key).is_none_or(|known| !gone.contains(known));
    Ok((original.into_iter().filter(stays).collect(), plain))
}

/// Orders a merged list: elements of `order` as they stand there, the others as they stood `before`, each
/// of these in front of the first ordered element that stood behind it.
fn arrange(merged: Vec<Value>, order: &[Value], before: &[Value], key: Option<&str>) -> Result<Vec<Value>> {
    let index = |list: &[Value]| {
        let mut places: HashMap<Value, usize> = HashMap::new();
        for (at, item) in list.iter().enumerate() {
            places.entry(key_of(item, key)?.clone()).or_insert(at);
        }
        Ok::<_, ApiError>(places)
    };
    let (wanted, lived) = (index(order)?, index(before)?);
    let mut ordered = Vec::new();
    let mut others = Vec::new();
    for item in merged {
        let known = key_of(&item, key)?;
        let place = lived.get(known).copied();
        match wanted.get(known).copied() {
            Some(at) => ordered.push((at, place, item)),
            None => others.push((place, item)),
        }
    }
    ordered.sort_by_key(|(at, ..)| *at);
    others.sort_by_key(|(place, _)| place.unwrap_or(usize::MAX));

    let mut out = Vec::with_capacity(ordered.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, place, item) in ordered {
        while let Some((_, other)) =
            others.next_if(|(other, _)| matches!((other, place), (Some(o), Some(p)) if *o < p))
        {
            out.push(other);
        }
        out.push(item);
    }
    out.extend(others.map(|(_, item)| item));
    Ok(out)
}

/// Takes out maps that carry `$patch`; false if the value is one itself.
fn drop_directives(value: &mut Value) -> bool {
    match value {
        Value::Object(members) => {
            if members.contains_key(DIRECTIVE) {
                return false;
            }
            members.retain(|_, member| drop_directives(member));
        }
        Value::Array(items) => items.retain_mut(drop_directives),
        _ => {}
    }
    true
}
