//! List functions: construction, slicing, searching.
//!
//! No function changes a list in place. A `must` function has the same result and error as its plain twin: in Go one returns the
//! error and the other panics with it, which a template cannot distinguish.

use std::borrow::Cow;

use super::arguments::{Done, NIL_POINTER, int};
use super::defaults::is_empty;
use super::numbers::to_int;
use crate::exec::{Machine, Row, Run};
use crate::value::{Kind, List, Str, Type, Value, deep_equal_counted};

const ANY: &[Type] = &[Type::Any];
const TWO: &[Type] = &[Type::Any, Type::Any];
const SIZED: &[Type] = &[Type::Int, Type::Any];

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
    ("list",        ANY,   true,  Run::Plain(list)),
    ("tuple",       ANY,   true,  Run::Plain(list)),
    ("append",      TWO,   false, Run::Plain(push)),
    ("push",        TWO,   false, Run::Plain(push)),
    ("mustAppend",  TWO,   false, Run::Plain(push)),
    ("mustPush",    TWO,   false, Run::Plain(push)),
    ("prepend",     TWO,   false, Run::Plain(prepend)),
    ("mustPrepend", TWO,   false, Run::Plain(prepend)),
    ("first",       ANY,   false, Run::Plain(first)),
    ("mustFirst",   ANY,   false, Run::Plain(first)),
    ("rest",        ANY,   false, Run::Plain(rest)),
    ("mustRest",    ANY,   false, Run::Plain(rest)),
    ("last",        ANY,   false, Run::Plain(last)),
    ("mustLast",    ANY,   false, Run::Plain(last)),
    ("initial",     ANY,   false, Run::Plain(initial)),
    ("mustInitial", ANY,   false, Run::Plain(initial)),
    ("reverse",     ANY,   false, Run::Plain(reverse)),
    ("mustReverse", ANY,   false, Run::Plain(reverse)),
    ("uniq",        ANY,   false, Run::Machine(uniq)),
    ("mustUniq",    ANY,   false, Run::Machine(uniq)),
    ("without",     TWO,   true,  Run::Machine(without)),
    ("mustWithout", TWO,   true,  Run::Machine(without)),
    ("has",         TWO,   false, Run::Machine(has)),
    ("mustHas",     TWO,   false, Run::Machine(has)),
    ("compact",     ANY,   false, Run::Plain(compact)),
    ("mustCompact", ANY,   false, Run::Plain(compact)),
    ("slice",       TWO,   true,  Run::Plain(slice)),
    ("mustSlice",   TWO,   true,  Run::Plain(slice)),
    ("concat",      ANY,   true,  Run::Plain(concat)),
    ("chunk",       SIZED, false, Run::Plain(chunk)),
    ("mustChunk",   SIZED, false, Run::Plain(chunk)),
];

/// The elements of any Go list type. `cannot` makes the error message for other types.
fn items(value: &Value, cannot: impl Fn(&str) -> String) -> Result<Cow<'_, [Value]>, Str> {
    match value {
        Value::List(list) => Ok(Cow::Borrowed(list)),
        Value::Bytes(bytes) => Ok(bytes.iter().map(|byte| Value::Uint8(*byte)).collect()),
        Value::Object(object) if object.kind() == Kind::Slice => {
            Ok(object.entries().unwrap_or_default().into_iter().map(|(_, item)| item).collect())
        }
        Value::Nil | Value::Null => Err(NIL_POINTER.into()),
        other => Err(cannot(other.kind().name()).into()),
    }
}

/// Like [`items`], with an error message that ends in the kind of the value.
fn items_to<'v>(value: &'v Value, refusal: &str) -> Result<Cow<'v, [Value]>, Str> {
    items(value, |kind| format!("{refusal} type {kind}"))
}

fn any(items: impl IntoIterator<Item = Value>) -> Done {
    Ok(List::any(items).into())
}

fn list(args: &[Value]) -> Done {
    any(args.iter().cloned())
}

fn push(args: &[Value]) -> Done {
    let items = items_to(&args[0], "Cannot push on")?;
    any(items.iter().chain([&args[1]]).cloned())
}

fn prepend(args: &[Value]) -> Done {
    let items = items_to(&args[0], "Cannot prepend on")?;
    any([&args[1]].into_iter().chain(items.iter()).cloned())
}

fn first(args: &[Value]) -> Done {
    Ok(items_to(&args[0], "Cannot find first on")?.first().cloned().unwrap_or_default())
}

fn last(args: &[Value]) -> Done {
    Ok(items_to(&args[0], "Cannot find last on")?.last().cloned().unwrap_or_default())
}

/// All elements but the first. The rest of an empty list is nil.
fn rest(args: &[Value]) -> Done {
    match items_to(&args[0], "Cannot find rest on")?.split_first() {
        Some((_, rest)) => any(rest.iter().cloned()),
        None => Ok(List::nil().into()),
    }
}

fn initial(args: &[Value]) -> Done {
    match items_to(&args[0], "Cannot find initial on")?.split_last() {
        Some((_, rest)) => any(rest.iter().cloned()),
        None => Ok(List::nil().into()),
    }
}

fn reverse(args: &[Value]) -> Done {
    any(items_to(&args[0], "Cannot find reverse on")?.iter().rev().cloned())
}

/// Whether the value is in the list. Every comparison is charged: comparing a list with itself is quadratic.
fn among(machine: &mut Machine<'_>, value: &Value, items: &[Value]) -> Result<bool, Str> {
    for item in items {
        let (same, looked) = deep_equal_counted(value, item);
        machine.charge(looked)?;
        if same {
            return Ok(true);
        }
    }
    Ok(false)
}

fn uniq(machine: &mut Machine<'_>, args: &[Value]) -> Done {
    let mut unique: Vec<Value> = Vec::new();
    for item in items_to(&args[0], "Cannot find uniq on")?.iter() {
        if !among(machine, item, &unique)? {
            unique.push(item.clone());
        }
    }
    any(unique)
}

fn without(machine: &mut Machine<'_>, args: &[Value]) -> Done {
    let mut left = Vec::new();
    for item in items_to(&args[0], "Cannot find without on")?.iter() {
        if !among(machine, item, &args[1..])? {
            left.push(item.clone());
        }
    }
    any(left)
}

fn has(machine: &mut Machine<'_>, args: &[Value]) -> Done {
    if args[1].is_nil() {
        return Ok(false.into());
    }
    let items = items_to(&args[1], "Cannot find has on")?;
    Ok(among(machine, &args[0], &items)?.into())
}

fn compact(args: &[Value]) -> Done {
    any(items_to(&args[0], "Cannot compact on")?.iter().filter(|item| !is_empty(item)).cloned())
}

/// sprig's `slice`, which replaces Go's built-in. It does not accept strings.
fn slice(args: &[Value]) -> Done {
    let items = items(&args[0], |kind| format!("list should be type of slice or array but {kind}"))?;
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let bound = |at: usize, otherwise: usize| {
        args.get(at).map_or(Some(otherwise), |given| usize::try_from(to_int(given)).ok())
    };
    match (bound(1, 0), bound(2, items.len())) {
        (Some(from), Some(to)) if from <= to && to <= items.len() => Ok(match &args[0] {
            Value::List(list) => Value::List(list.slice(from, to)),
            Value::Bytes(bytes) => Value::Bytes(bytes[from..to].into()),
            _ => List::any(items[from..to].iter().cloned()).into(),
        }),
        _ => Err("reflect.Value.Slice: slice index out of bounds".into()),
    }
}

/// Concatenates lists. If all are empty, the result is nil.
fn concat(args: &[Value]) -> Done {
    let mut all = Vec::new();
    for list in args {
        all.extend_from_slice(&items(list, |kind| format!("Cannot concat type {kind} as list"))?);
    }
    if all.is_empty() { Ok(List::nil().into()) } else { any(all) }
}

/// Splits a list into lists of `size` elements.
fn chunk(args: &[Value]) -> Done {
    let items = items_to(&args[1], "Cannot chunk")?;
    let size = int(&args[0]);
    let size = match usize::try_from(size) {
        Ok(size) if size > 0 => size,
        // Go computes with a non-positive size, which results in no chunk, one chunk, or a panic for a negative length.
        Err(_) if items.len() > 1 && size.unsigned_abs() >= items.len() as u64 - 1 => {
            return Ok(List::lists([]).into());
        }
        Err(_) if items.len() == 1 && size < -1 => 1,
        _ => return Err("runtime error: makeslice: len out of range".into()),
    };
    Ok(List::lists(items.chunks(size).map(|chunk| List::any(chunk.iter().cloned()))).into())
}
