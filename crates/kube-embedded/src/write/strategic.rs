//! Strategic merge patch: a merge patch that merges some lists element by element.
//!
//! [`Field::patch`] says which lists, and by which key. A patch may contain directives: `$patch` in a map or in a list element,
//! `$retainKeys`, `$setElementOrder/<list>` and `$deleteFromPrimitiveList/<list>`. Error texts and status codes (400, 422 or 500) are those
//! of Kubernetes.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::json_patch::{drop_nulls, not_applicable_error};
use crate::{
    error::{ApiError, Result},
    go,
    schema::types::{Field, PatchStrategy, Shape, TypeRef},
};

const PATCH_DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";

type Object = Map<String, Value>;

/// Returns the document after `patch`. Added parts may contain nulls and directives; decoding drops them.
pub fn apply(ty: TypeRef<'_>, doc: &Value, patch: &Value) -> Result<Value> {
    let changes = match patch {
        Value::Object(changes) => changes.clone(),
        Value::Null => Object::new(),
        other => {
            let kind = go::json_kind(other);
            let message =
                format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}");
            return Err(ApiError::bad_request(message));
        }
    };
    let original = doc.as_object().cloned().unwrap_or_default();
    merge_map(Some(ty), original, changes).map(Value::Object)
}

/// Errors for which Kubernetes has no client-visible status: 500.
fn internal_error(message: String) -> ApiError {
    ApiError::new(500, "", message)
}

fn no_merge_key(element: &Object, key: &str) -> ApiError {
    let element = go::format_v(&Value::Object(element.clone()));
    internal_error(format!("map: {element} does not contain declared merge key: {key}"))
}

fn bad_type(expected: &str, actual: &Value) -> ApiError {
    let actual = if actual.is_null() { "%!s(<nil>)" } else { go::type_name(actual) };
    internal_error(format!("expected a {expected}, but received a {actual}"))
}

fn merge_map(ty: Option<TypeRef<'_>>, mut original: Object, mut patch: Object) -> Result<Object> {
    if let Some(directive) = patch.get(PATCH_DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(PATCH_DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            _ => {
                let directive = go::format_s(directive);
                let patch = go::format_v(&Value::Object(patch));
                Err(internal_error(format!("unknown patch type: {directive} in map: {patch}")))
            }
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order_lists(ty, &mut original, &mut patch)?;

    for (name, mut change) in patch {
        let deleting = name.starts_with(DELETE_FROM);
        let name = if deleting {
            directive_list_name(&name, DELETE_FROM, "primitive list")?.to_owned()
        } else {
            name
        };
        if change.is_null() {
            original.remove(&name);
            continue;
        }
        match (original.get_mut(&name), &mut change) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let (below, how) = lookup(ty, &name)?;
                if how.replace {
                    *old = std::mem::take(new);
                    continue;
                }
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

/// Returns type and patch strategy of the field `name`. Fields below open schemas have no type.
fn lookup<'a>(ty: Option<TypeRef<'a>>, name: &str) -> Result<(Option<TypeRef<'a>>, &'a PatchStrategy)> {
    const PLAIN: &PatchStrategy =
        &PatchStrategy { merge: false, retain_keys: false, replace: false, merge_key: None };
    let Some(ty) = ty else { return Ok((None, PLAIN)) };
    match ty.shape() {
        Shape::Struct(body) if body.field(name).is_none() && body.preserve_unknown => Ok((None, PLAIN)),
        Shape::Struct(_) | Shape::Any => match ty.field(name) {
            Some(Field { ty: below, patch, .. }) => Ok((Some(ty.with_id(*below)), patch)),
            None => Err(internal_error(format!(
                "unable to find api field in struct {} for the json field \"{name}\"",
                ty.short_name()
            ))),
        },
        other => {
            let kind = if matches!(other, Shape::Map(_)) { "map" } else { "slice" };
            Err(internal_error(format!(
                "merging an object in json but data type is not struct, instead is: {kind}"
            )))
        }
    }
}

/// Returns the list name of a directive such as `$setElementOrder/containers`.
fn directive_list_name<'a>(name: &'a str, directive: &str, what: &str) -> Result<&'a str> {
    let bad = || ApiError::bad_request(format!("invalid patch format of {what}"));
    name.strip_prefix(directive).and_then(|rest| rest.strip_prefix('/')).ok_or_else(bad)
}

/// Applies `$retainKeys`, which removes the other members of a map and must list all members that the patch sets.
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

/// Merges every list with a `$setElementOrder` directive, and removes list and directive from the patch.
fn order_lists(ty: Option<TypeRef<'_>>, original: &mut Object, patch: &mut Object) -> Result<()> {
    let directives: Vec<String> =
        patch.keys().filter(|name| name.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let Some(order) = patch.remove(&directive) else { continue };
        let Value::Array(order) = order else { return Err(bad_type("[]interface {}", &order)) };
        let name = directive_list_name(&directive, ELEMENT_ORDER, "setElementOrder list")?;
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
        let ordered = order_elements(merged, &order, &before, key)?;
        original.insert(name.to_owned(), Value::Array(ordered));
        patch.remove(name);
    }
    Ok(())
}

/// Checks that the elements of the patch are in the order list, in the same order.
fn check_order(changes: &[Value], order: &[Value], key: Option<&str>) -> Result<()> {
    if changes.is_empty() || order.is_empty() {
        return Ok(());
    }
    let directive = |change: &Value| change.get(PATCH_DIRECTIVE).cloned();
    if let (Some(_), Some(other)) = (key, changes.iter().find(|change| !change.is_object())) {
        return Err(bad_type("map[string]interface {}", other));
    }
    // Deletions and other directives have no position in the order.
    let deleted = |change: &&Value| key.is_some() && directive(change).is_some_and(|it| it == "delete");
    let mut left = changes.iter().filter(|change| !deleted(change)).peekable();
    let mut wanted = order.iter().peekable();
    while let (Some(change), Some(next)) = (left.peek(), wanted.peek()) {
        if directive(change).is_some() {
            left.next();
            continue;
        }
        if key_of(change, key)? == key_of(next, key)? {
            left.next();
        }
        wanted.next();
    }
    if left.peek().is_some() {
        let lists = (go::format_v(&Value::from(changes)), go::format_v(&Value::from(order)));
        return Err(internal_error(format!(
            "The order in patch list:\n{}\n doesn't match {ELEMENT_ORDER} list:\n{}\n",
            lists.0, lists.1
        )));
    }
    Ok(())
}

/// Returns the identity of an element: its merge key, or the value itself.
fn key_of<'a>(element: &'a Value, key: Option<&str>) -> Result<&'a Value> {
    let Some(key) = key else { return Ok(element) };
    let element = element.as_object().ok_or_else(|| bad_type("map[string]interface {}", element))?;
    element.get(key).ok_or_else(|| no_merge_key(element, key))
}

/// Checks that all elements have the same type, which cannot be a list. Returns whether they are maps.
fn element_kind(original: &[Value], patch: &[Value]) -> Result<bool> {
    let mut first = None;
    for element in original.iter().chain(patch) {
        let kind = go::type_name(element);
        if element.is_array() && first.is_none() {
            return Err(not_applicable_error());
        }
        if *first.get_or_insert(kind) != kind || element.is_null() {
            let lists = go::format_v(&Value::from(vec![Value::from(original), Value::from(patch)]));
            return Err(internal_error(format!("list element types are not identical: {lists}")));
        }
    }
    match first {
        Some(kind) => Ok(kind.starts_with("map")),
        None => Err(internal_error("no elements in any of the given slices".to_owned())),
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
        return order_elements(merged, &patch, &original, key);
    }
    let Some(key) = key else {
        return Err(internal_error("cannot merge lists without merge key for struct".to_owned()));
    };
    let (original, patch) = apply_directives(original, patch, key)?;
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
    order_elements(merged, &patch, &original, Some(key))
}

/// Applies the `$patch` directives of a list; returns the remaining elements of the original and of the patch.
fn apply_directives(original: Vec<Value>, patch: Vec<Value>, key: &str) -> Result<(Vec<Value>, Vec<Value>)> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut gone = HashSet::new();
    let mut replace = false;
    for change in patch {
        let Some(directive) = change.get(PATCH_DIRECTIVE) else {
            plain.push(change);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                gone.insert(key_of(&change, Some(key))?.clone());
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(internal_error("merging lists cannot yet be specified in the patch".to_owned()));
            }
            _ => {
                let message = format!(
                    "unknown patch type: {} in map: {}",
                    go::format_s(directive),
                    go::format_v(&change)
                );
                return Err(internal_error(message));
            }
        }
    }
    if replace {
        return Ok((plain, Vec::new()));
    }
    let stays = |item: &Value| item.get(key).is_none_or(|known| !gone.contains(known));
    Ok((original.into_iter().filter(stays).collect(), plain))
}

/// Orders a merged list: elements in `order` by that order, the others by their position in `before`, each in front of the first ordered
/// element that followed it there.
fn order_elements(
    merged: Vec<Value>,
    order: &[Value],
    before: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>> {
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
    sort_by_position(&mut others);

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

/// Sorts by position. Kubernetes' comparison returns true for elements without a position, so that its stable sort moves these to the front
/// in reverse order.
fn sort_by_position(items: &mut [(Option<usize>, Value)]) {
    const MAX_INSERTION_SORT_LEN: usize = 20; // up to this length Go's stable sort is an insertion sort
    if items.len() > MAX_INSERTION_SORT_LEN || items.iter().all(|(place, _)| place.is_some()) {
        items.sort_by_key(|(place, _)| *place);
        return;
    }
    for end in 1..items.len() {
        for at in (1..=end).rev() {
            let before = match (items[at].0, items[at - 1].0) {
                (Some(this), Some(that)) => this < that,
                _ => true,
            };
            if !before {
                break;
            }
            items.swap(at, at - 1);
        }
    }
}

/// Removes maps that contain `$patch`; returns false if the value is one itself.
fn drop_directives(value: &mut Value) -> bool {
    match value {
        Value::Object(members) => {
            if members.contains_key(PATCH_DIRECTIVE) {
                return false;
            }
            members.retain(|_, member| drop_directives(member));
        }
        Value::Array(items) => items.retain_mut(drop_directives),
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::types::{List, ListMerge, Mapping, Struct, Type, TypeArena, TypeId};

    /// The parts of the Pod type that the tests patch.
    fn pod() -> (TypeArena, TypeId) {
        fn list(types: &mut TypeArena, element: TypeId) -> TypeId {
            let shape = Shape::List(List { element, merge: ListMerge::Atomic });
            types.add(Type { name: "".into(), shape })
        }
        fn object(types: &mut TypeArena, name: &str, fields: &[(&str, TypeId, Option<&str>)]) -> TypeId {
            let mut fields: Vec<Field> = fields
                .iter()
                .map(|&(name, ty, merge)| Field {
                    name: name.into(),
                    ty,
                    required: false,
                    pointer: false,
                    omitempty: true,
                    numbers: Box::default(),
                    default: None,
                    patch: PatchStrategy {
                        merge: merge.is_some(),
                        retain_keys: false,
                        replace: name == "selector",
                        merge_key: merge.filter(|key| !key.is_empty()).map(Into::into),
                    },
                })
                .collect();
            fields.sort_by(|a, b| a.name.cmp(&b.name));
            types.add(Type {
                name: name.into(),
                shape: Shape::Struct(Struct { fields: fields.into(), ..Struct::default() }),
            })
        }
        let mut types = TypeArena::default();
        let text = types.add(Type { name: "".into(), shape: Shape::String });
        let dict =
            types.add(Type { name: "".into(), shape: Shape::Map(Mapping { value: text, atomic: false }) });
        let texts = list(&mut types, text);
        let env = object(&mut types, "EnvVar", &[("name", text, None), ("value", text, None)]);
        let envs = list(&mut types, env);
        let container = object(
            &mut types,
            "Container",
            &[
                ("name", text, None),
                ("image", text, None),
                ("args", texts, None),
                ("env", envs, Some("name")),
            ],
        );
        let containers = list(&mut types, container);
        let volume = object(
            &mut types,
            "Volume",
            &[("name", text, None), ("emptyDir", dict, None), ("configMap", dict, None)],
        );
        let volumes = list(&mut types, volume);
        let root = object(
            &mut types,
            "Pod",
            &[
                ("containers", containers, Some("name")),
                ("volumes", volumes, Some("name")),
                ("finalizers", texts, Some("")),
                ("labels", dict, None),
                ("selector", dict, None),
                ("plain", envs, None),
            ],
        );
        (types, root)
    }

    fn patched(doc: &Value, patch: &Value) -> Result<Value, (u16, String)> {
        let (types, root) = pod();
        apply(types.get(root), doc, patch).map_err(|error| (error.code, error.message))
    }

    #[test]
    fn lists_are_merged_by_key_and_directives() {
        let doc = json!({
            "containers": [{"name": "a", "image": "1", "args": ["x"], "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "1"}],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "finalizers": ["f1", "f2"],
            "labels": {"a": "1", "b": "2"},
            "selector": {"a": "1"},
            "plain": [{"name": "p"}],
        });
        let rows = [
            (
                "/containers",
                json!({"containers": [{"name": "b", "image": "2"}, {"name": "c"}]}),
                json!([{"name": "a", "image": "1", "args": ["x"], "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "2"}, {"name": "c"}]),
            ),
            (
                "/containers",
                json!({"containers": [{"name": "a", "$patch": "delete"}]}),
                json!([{"name": "b", "image": "1"}]),
            ),
            (
                "/containers",
                json!({"containers": [{"$patch": "replace"}, {"name": "z"}]}),
                json!([{"name": "z"}]),
            ),
            (
                "/containers/0/env",
                json!({"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": null}]}]}),
                json!([{"name": "Y", "value": "2"}, {"name": "X"}]),
            ),
            ("/containers/0/args", json!({"containers": [{"name": "a", "args": ["y"]}]}), json!(["y"])),
            (
                "/containers/0/name",
                json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
                json!("b"),
            ),
            (
                "/containers",
                json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "z"}], "containers": [{"name": "z"}, {"name": "a", "$patch": "delete"}]}),
                json!([{"name": "b", "image": "1"}, {"name": "z"}]),
            ),
            (
                "/volumes",
                json!({"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]}),
                json!([{"name": "v", "configMap": {"name": "c"}}]),
            ),
            ("/finalizers", json!({"finalizers": ["f3", "f1"]}), json!(["f3", "f1", "f2"])),
            ("/finalizers", json!({"$deleteFromPrimitiveList/finalizers": ["f1"]}), json!(["f2"])),
            ("/labels", json!({"labels": {"$patch": "replace", "c": "3"}}), json!({"c": "3"})),
            ("/labels", json!({"labels": {"$patch": "delete"}}), json!({})),
            ("/selector", json!({"selector": {"b": "2"}}), json!({"b": "2"})),
            ("/labels", json!({"labels": {"a": null, "n": null, "c": "3"}}), json!({"b": "2", "c": "3"})),
            ("/plain", json!({"plain": [{"name": "q", "value": "1"}]}), json!([{"name": "q", "value": "1"}])),
        ];
        for (at, patch, expected) in rows {
            let result = patched(&doc, &patch).unwrap();
            assert_eq!(result.pointer(at), Some(&expected), "{patch}");
        }
    }

    #[test]
    fn strategic_patch_errors_are_those_of_kubernetes() {
        let doc = json!({"containers": [{"name": "a"}], "finalizers": ["f1"], "labels": {"a": "1"}});
        let rows = [
            (
                json!({"containers": [{"image": "x"}]}),
                500,
                "map: map[image:x] does not contain declared merge key: name",
            ),
            (
                json!({"containers": [{"name": "a", "$patch": "explode"}]}),
                500,
                "unknown patch type: explode in map: map[$patch:explode name:a]",
            ),
            (
                json!({"containers": [{"$patch": "merge"}]}),
                500,
                "merging lists cannot yet be specified in the patch",
            ),
            (json!({"labels": {"$patch": 5}}), 500, "unknown patch type: %!s(int64=5) in map: map[$patch:5]"),
            (json!({"labels": {"$retainKeys": "x"}}), 400, "invalid patch format of retainKeys"),
            (json!({"labels": {"$retainKeys": ["b"], "a": "1"}}), 400, "invalid patch format of retainKeys"),
            (
                json!({"$setElementOrder/containers": null}),
                500,
                "expected a []interface {}, but received a %!s(<nil>)",
            ),
            (
                json!({"$setElementOrder/nothing": []}),
                500,
                "unable to find api field in struct Pod for the json field \"nothing\"",
            ),
            (json!({"$setElementOrder": []}), 400, "invalid patch format of setElementOrder list"),
            (json!({"$deleteFromPrimitiveList": []}), 400, "invalid patch format of primitive list"),
            (
                json!({"$setElementOrder/finalizers": ["f1"], "finalizers": ["f2"]}),
                500,
                "The order in patch list:\n[f2]\n doesn't match $setElementOrder list:\n[f1]\n",
            ),
            (json!({"finalizers": [1]}), 500, "list element types are not identical: [[f1] [1]]"),
        ];
        for (patch, code, message) in rows {
            assert_eq!(patched(&doc, &patch), Err((code, message.to_owned())), "{patch}");
        }
    }
}
