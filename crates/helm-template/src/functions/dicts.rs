//! Dict functions: construction, mutation in place, merging, lookup.
//!
//! Go iterates over maps in random order; here `keys` and `values` are always sorted by key.

use std::borrow::Cow;

use super::arguments::{Done, map, printed, text};
use super::merge::{Win, merge};
use crate::exec::{Machine, Row, Run};
use crate::stack::deeper;
use crate::value::{List, Map, Str, Type, Value};

const ANY: &[Type] = &[Type::Any];
const MAP: &[Type] = &[Type::Map];
const MAPS: &[Type] = &[Type::Map, Type::Map];
const KEY: &[Type] = &[Type::Map, Type::String];

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
    ("dict",     ANY,  true,  Run::Machine(dict)),
    ("get",      KEY,  false, Run::Plain(|args| Ok(map(&args[0]).get(&text(&args[1])).unwrap_or_else(|| "".into())))),
    ("set",      &[Type::Map, Type::String, Type::Any], false, Run::Machine(set)),
    ("unset",    KEY,  false, Run::Machine(unset)),
    ("hasKey",   KEY,  false, Run::Plain(|args| Ok(map(&args[0]).contains(&text(&args[1])).into()))),
    ("pluck",    &[Type::String, Type::Map], true, Run::Plain(pluck)),
    ("keys",     MAP,  true,  Run::Plain(keys)),
    ("values",   MAP,  false, Run::Plain(values)),
    ("pick",     KEY,  true,  Run::Plain(pick)),
    ("omit",     KEY,  true,  Run::Machine(omit)),
    ("dig",      ANY,  true,  Run::Plain(dig)),
    ("deepCopy", ANY,  false, Run::Machine(|machine, args| deep_copy(machine, &args[0]))),
    ("mustDeepCopy",       ANY,  false, Run::Machine(|machine, args| deep_copy(machine, &args[0]))),
    ("merge",              MAPS, true, Run::Machine(|machine, args| merge_all(machine, args, Win::First))),
    ("mustMerge",          MAPS, true, Run::Machine(|machine, args| merge_all(machine, args, Win::First))),
    ("mergeOverwrite",     MAPS, true, Run::Machine(|machine, args| merge_all(machine, args, Win::Last))),
    ("mustMergeOverwrite", MAPS, true, Run::Machine(|machine, args| merge_all(machine, args, Win::Last))),
];

/// Maximum nesting of values that are copied or merged.
pub(super) const MAX_DEPTH: usize = 1_000;

pub(super) fn too_deep() -> Str {
    format!("values are nested more than {MAX_DEPTH} deep").into()
}

fn key_of(value: &Value) -> Str {
    match value {
        Value::String(key) => key.clone(),
        value => printed(value).into(),
    }
}

fn dict(machine: &mut Machine<'_>, args: &[Value]) -> Done {
    let has_parts = |key: &&Value| matches!(key, Value::List(_) | Value::Map(_) | Value::Object(_));
    for key in args.iter().step_by(2).filter(has_parts) {
        machine.wrote(key.extent())?;
    }
    let entry = |pair: &[Value]| {
        let value = pair.get(1).cloned().unwrap_or_else(|| "".into());
        (pair.first().map_or_else(|| "".into(), key_of), value)
    };
    Ok(Map::from_entries(args.chunks(2).map(entry)).into())
}

fn set(machine: &mut Machine<'_>, args: &[Value]) -> Done {
    let Some(map) = args[0].as_map().filter(|map| !map.is_nil()) else {
        return Err("assignment to entry in nil map".into());
    };
    machine.charge(steps_to_move(map))?;
    machine.wrote(size_of::<(Str, Value)>())?;
    machine.put_into(map, &args[2]);
    map.insert(key_of(&args[1]), args[2].clone());
    Ok(map.plain().into())
}

/// Cost of an insertion or removal, which moves all later entries.
pub(super) fn steps_to_move(map: &Map) -> u64 {
    map.len() as u64 / 16
}

fn unset(machine: &mut Machine<'_>, args: &[Value]) -> Done {
    let map = map(&args[0]);
    machine.charge(steps_to_move(&map))?;
    map.remove(&text(&args[1]));
    Ok(map.plain().into())
}

fn pluck(args: &[Value]) -> Done {
    let key = text(&args[0]);
    Ok(List::any(args[1..].iter().filter_map(|of| map(of).get(&key))).into())
}

fn keys(args: &[Value]) -> Done {
    let of = |arg: &Value| map(arg).entries().iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    Ok(List::strings(args.iter().flat_map(of)).into())
}

fn values(args: &[Value]) -> Done {
    Ok(List::any(map(&args[0]).entries().iter().map(|(_, value)| value.clone())).into())
}

fn pick(args: &[Value]) -> Done {
    let map = map(&args[0]);
    let entry = |key: &Value| map.get(&text(key)).map(|value| (key_of(key), value));
    Ok(Map::from_entries(args[1..].iter().filter_map(entry)).into())
}

fn omit(machine: &mut Machine<'_>, args: &[Value]) -> Done {
    let omitted: Vec<_> = args[1..].iter().map(text).collect();
    let map = map(&args[0]);
    machine.charge((map.len() as u64).saturating_mul(args.len() as u64) / 4)?;
    let mut entries = map.snapshot();
    entries.retain(|(key, _)| !omitted.iter().any(|omit| omit.as_ref() == key.as_ref()));
    Ok(Map::sorted(entries).into())
}

/// Looks up nested keys. Arguments: the keys, a default for a missing key, and the map.
fn dig(args: &[Value]) -> Done {
    let [keys @ .., otherwise, map] = args else { return Err("dig needs at least three arguments".into()) };
    if keys.is_empty() {
        return Err("dig needs at least three arguments".into());
    }
    let mut found = map.clone();
    plain(&found)?;
    if let Some(other) = keys.iter().find(|key| key.string_bytes().is_none()) {
        return Err(not_a(other, "string"));
    }
    for key in keys {
        let next = plain(&found)?.get(&text(key));
        match next {
            Some(value) => found = value,
            None => return Ok(otherwise.clone()),
        }
    }
    Ok(found)
}

fn plain(value: &Value) -> Result<&Map, Str> {
    match value {
        Value::Map(map) if map.is_any() && !map.is_named() => Ok(map),
        other => Err(not_a(other, "map[string]interface {}")),
    }
}

fn not_a(value: &Value, wanted: &str) -> Str {
    let is = if value.is_nil() { "nil" } else { value.type_name() };
    format!("interface conversion: interface {{}} is {is}, not {wanted}").into()
}

fn merge_all(machine: &mut Machine<'_>, args: &[Value], win: Win) -> Done {
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

fn deep_copy(machine: &mut Machine<'_>, value: &Value) -> Done {
    if value.is_nil() {
        return Err("reflect: call of reflect.Value.Type on zero Value".into());
    }
    copy(machine, value, 0)
}

/// Copies a value deeply. The copy is charged as output, because maps that are shared many times are small but their copies are not.
fn copy(machine: &mut Machine<'_>, value: &Value, depth: usize) -> Done {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    machine.wrote(size_of::<Value>())?;
    Ok(match value {
        Value::List(list) => {
            let items = list.iter().map(|item| copy(machine, item, depth + 1));
            Value::List(list.like(deeper(|| items.collect::<Result<Vec<_>, _>>())?))
        }
        Value::Map(map) => {
            let mut entries = map.snapshot();
            machine.wrote(entries.len().saturating_mul(size_of::<Str>()))?;
            deeper(|| {
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
