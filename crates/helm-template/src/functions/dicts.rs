//! Dict functions: construction, mutation in place, merging, lookup.
//!
//! Go iterates over maps in random order; here `keys` and `values` are always sorted by key.

use std::borrow::Cow;

use super::arguments::{FunctionResult, map, printed, text};
use super::merge::{MergePrecedence, merge};
use crate::exec::{FunctionBody, FunctionRow, Machine};
use crate::stack::grow_for_value;
use crate::value::{List, Map, Str, Type, Value};

const ANY: &[Type] = &[Type::Any];
const MAP: &[Type] = &[Type::Map];
const MAPS: &[Type] = &[Type::Map, Type::Map];
const KEY: &[Type] = &[Type::Map, Type::String];

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    ("dict",     ANY,  true,  FunctionBody::Machine(dict)),
    ("get",      KEY,  false, FunctionBody::Plain(|args| Ok(map(&args[0]).get(&text(&args[1])).unwrap_or_else(|| "".into())))),
    ("set",      &[Type::Map, Type::String, Type::Any], false, FunctionBody::Machine(set)),
    ("unset",    KEY,  false, FunctionBody::Machine(unset)),
    ("hasKey",   KEY,  false, FunctionBody::Plain(|args| Ok(map(&args[0]).contains(&text(&args[1])).into()))),
    ("pluck",    &[Type::String, Type::Map], true, FunctionBody::Plain(pluck)),
    ("keys",     MAP,  true,  FunctionBody::Plain(keys)),
    ("values",   MAP,  false, FunctionBody::Plain(values)),
    ("pick",     KEY,  true,  FunctionBody::Plain(pick)),
    ("omit",     KEY,  true,  FunctionBody::Machine(omit)),
    ("dig",      ANY,  true,  FunctionBody::Plain(dig)),
    ("deepCopy", ANY,  false, FunctionBody::Machine(|machine, args| deep_copy(machine, &args[0]))),
    ("mustDeepCopy",       ANY,  false, FunctionBody::Machine(|machine, args| deep_copy(machine, &args[0]))),
    ("merge",              MAPS, true, FunctionBody::Machine(|machine, args| merge_all(machine, args, MergePrecedence::Destination))),
    ("mustMerge",          MAPS, true, FunctionBody::Machine(|machine, args| merge_all(machine, args, MergePrecedence::Destination))),
    ("mergeOverwrite",     MAPS, true, FunctionBody::Machine(|machine, args| merge_all(machine, args, MergePrecedence::Source))),
    ("mustMergeOverwrite", MAPS, true, FunctionBody::Machine(|machine, args| merge_all(machine, args, MergePrecedence::Source))),
];

/// Maximum nesting of values that are copied or merged.
pub(super) const MAX_DEPTH: usize = 1_000;

pub(super) fn too_deep_error() -> Str {
    format!("values are nested more than {MAX_DEPTH} deep").into()
}

fn to_key(value: &Value) -> Str {
    match value {
        Value::String(key) => key.clone(),
        value => printed(value).into(),
    }
}

fn dict(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    let has_parts = |key: &&Value| matches!(key, Value::List(_) | Value::Map(_) | Value::Object(_));
    for key in args.iter().step_by(2).filter(has_parts) {
        machine.charge_bytes(key.extent())?;
    }
    let entry = |pair: &[Value]| {
        let value = pair.get(1).cloned().unwrap_or_else(|| "".into());
        (pair.first().map_or_else(|| "".into(), to_key), value)
    };
    Ok(Map::from_entries(args.chunks(2).map(entry)).into())
}

fn set(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    let Some(map) = args[0].as_map().filter(|map| !map.is_nil()) else {
        return Err("assignment to entry in nil map".into());
    };
    machine.charge(steps_to_move(map))?;
    machine.charge_bytes(size_of::<(Str, Value)>())?;
    machine.record_insertion(map, &args[2]);
    map.insert(to_key(&args[1]), args[2].clone());
    Ok(map.plain().into())
}

/// Cost of an insertion or removal, which moves all later entries.
pub(super) fn steps_to_move(map: &Map) -> u64 {
    map.len() as u64 / 16
}

fn unset(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    let map = map(&args[0]);
    machine.charge(steps_to_move(&map))?;
    map.remove(&text(&args[1]));
    Ok(map.plain().into())
}

fn pluck(args: &[Value]) -> FunctionResult {
    let key = text(&args[0]);
    Ok(List::any(args[1..].iter().filter_map(|of| map(of).get(&key))).into())
}

fn keys(args: &[Value]) -> FunctionResult {
    let of = |arg: &Value| map(arg).entries().iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    Ok(List::strings(args.iter().flat_map(of)).into())
}

fn values(args: &[Value]) -> FunctionResult {
    Ok(List::any(map(&args[0]).entries().iter().map(|(_, value)| value.clone())).into())
}

fn pick(args: &[Value]) -> FunctionResult {
    let map = map(&args[0]);
    let entry = |key: &Value| map.get(&text(key)).map(|value| (to_key(key), value));
    Ok(Map::from_entries(args[1..].iter().filter_map(entry)).into())
}

fn omit(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    let omitted: Vec<_> = args[1..].iter().map(text).collect();
    let map = map(&args[0]);
    machine.charge((map.len() as u64).saturating_mul(args.len() as u64) / 4)?;
    let mut entries = map.snapshot();
    entries.retain(|(key, _)| !omitted.iter().any(|omit| omit.as_ref() == key.as_ref()));
    Ok(Map::sorted(entries).into())
}

/// Looks up nested keys. Arguments: the keys, a default for a missing key, and the map.
fn dig(args: &[Value]) -> FunctionResult {
    let [keys @ .., otherwise, map] = args else { return Err("dig needs at least three arguments".into()) };
    if keys.is_empty() {
        return Err("dig needs at least three arguments".into());
    }
    let mut found = map.clone();
    plain_map(&found)?;
    if let Some(other) = keys.iter().find(|key| key.string_bytes().is_none()) {
        return Err(wrong_type_error(other, "string"));
    }
    for key in keys {
        let next = plain_map(&found)?.get(&text(key));
        match next {
            Some(value) => found = value,
            None => return Ok(otherwise.clone()),
        }
    }
    Ok(found)
}

fn plain_map(value: &Value) -> Result<&Map, Str> {
    match value {
        Value::Map(map) if map.is_any() && !map.is_named() => Ok(map),
        other => Err(wrong_type_error(other, "map[string]interface {}")),
    }
}

fn wrong_type_error(value: &Value, wanted: &str) -> Str {
    let is = if value.is_nil() { "nil" } else { value.type_name() };
    format!("interface conversion: interface {{}} is {is}, not {wanted}").into()
}

fn merge_all(machine: &mut Machine<'_>, args: &[Value], win: MergePrecedence) -> FunctionResult {
    let mut into = map(&args[0]);
    for from in &args[1..] {
        if let Value::Map(from) = from {
            // A nil map is replaced by a new one; other holders of the nil map do not see it.
            if into.is_nil() && !from.is_nil() {
                into = Cow::Owned(Map::new());
            }
            merge(machine, &into, from, win, 0)?;
        }
    }
    Ok(into.plain().into())
}

fn deep_copy(machine: &mut Machine<'_>, value: &Value) -> FunctionResult {
    if value.is_nil() {
        return Err("reflect: call of reflect.Value.Type on zero Value".into());
    }
    copy(machine, value, 0)
}

/// Copies a value deeply. The copy is charged as output, because maps that are shared many times are small but their copies are not.
fn copy(machine: &mut Machine<'_>, value: &Value, depth: usize) -> FunctionResult {
    if depth > MAX_DEPTH {
        return Err(too_deep_error());
    }
    machine.charge_bytes(size_of::<Value>())?;
    Ok(match value {
        Value::List(list) => {
            let items = list.iter().map(|item| copy(machine, item, depth + 1));
            Value::List(list.like(grow_for_value(|| items.collect::<Result<Vec<_>, _>>())?))
        }
        Value::Map(map) => {
            let mut entries = map.snapshot();
            machine.charge_bytes(entries.len().saturating_mul(size_of::<Str>()))?;
            grow_for_value(|| {
                for (_, value) in &mut entries {
                    *value = copy(machine, value, depth + 1)?;
                }
                Ok::<_, Str>(())
            })?;
            Value::Map(map.like(entries))
        }
        other => other.clone(),
    })
}
