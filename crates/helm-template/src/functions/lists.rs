//! List functions: construction, slicing, searching.
//!
//! No function changes a list in place. A `must` function has the same result and error as its plain twin: in Go one returns the
//! error and the other panics with it, which a template cannot distinguish.

use std::borrow::Cow;

use super::arguments::{FunctionResult, NIL_POINTER, int};
use super::defaults::is_empty;
use super::numbers::to_int;
use crate::exec::{FunctionBody, FunctionRow, Machine};
use crate::value::{Kind, List, Str, Type, Value, deep_equal_counted};

const ANY: &[Type] = &[Type::Any];
const TWO: &[Type] = &[Type::Any, Type::Any];
const SIZED: &[Type] = &[Type::Int, Type::Any];

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    ("list",        ANY,   true,  FunctionBody::Plain(list)),
    ("tuple",       ANY,   true,  FunctionBody::Plain(list)),
    ("append",      TWO,   false, FunctionBody::Plain(push)),
    ("push",        TWO,   false, FunctionBody::Plain(push)),
    ("mustAppend",  TWO,   false, FunctionBody::Plain(push)),
    ("mustPush",    TWO,   false, FunctionBody::Plain(push)),
    ("prepend",     TWO,   false, FunctionBody::Plain(prepend)),
    ("mustPrepend", TWO,   false, FunctionBody::Plain(prepend)),
    ("first",       ANY,   false, FunctionBody::Plain(first)),
    ("mustFirst",   ANY,   false, FunctionBody::Plain(first)),
    ("rest",        ANY,   false, FunctionBody::Plain(rest)),
    ("mustRest",    ANY,   false, FunctionBody::Plain(rest)),
    ("last",        ANY,   false, FunctionBody::Plain(last)),
    ("mustLast",    ANY,   false, FunctionBody::Plain(last)),
    ("initial",     ANY,   false, FunctionBody::Plain(initial)),
    ("mustInitial", ANY,   false, FunctionBody::Plain(initial)),
    ("reverse",     ANY,   false, FunctionBody::Plain(reverse)),
    ("mustReverse", ANY,   false, FunctionBody::Plain(reverse)),
    ("uniq",        ANY,   false, FunctionBody::Machine(uniq)),
    ("mustUniq",    ANY,   false, FunctionBody::Machine(uniq)),
    ("without",     TWO,   true,  FunctionBody::Machine(without)),
    ("mustWithout", TWO,   true,  FunctionBody::Machine(without)),
    ("has",         TWO,   false, FunctionBody::Machine(has)),
    ("mustHas",     TWO,   false, FunctionBody::Machine(has)),
    ("compact",     ANY,   false, FunctionBody::Plain(compact)),
    ("mustCompact", ANY,   false, FunctionBody::Plain(compact)),
    ("slice",       TWO,   true,  FunctionBody::Plain(slice)),
    ("mustSlice",   TWO,   true,  FunctionBody::Plain(slice)),
    ("concat",      ANY,   true,  FunctionBody::Plain(concat)),
    ("chunk",       SIZED, false, FunctionBody::Plain(chunk)),
    ("mustChunk",   SIZED, false, FunctionBody::Plain(chunk)),
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
fn items_or_kind_error<'v>(value: &'v Value, refusal: &str) -> Result<Cow<'v, [Value]>, Str> {
    items(value, |kind| format!("{refusal} type {kind}"))
}

fn any_list(items: impl IntoIterator<Item = Value>) -> FunctionResult {
    Ok(List::any(items).into())
}

fn list(args: &[Value]) -> FunctionResult {
    any_list(args.iter().cloned())
}

fn push(args: &[Value]) -> FunctionResult {
    let items = items_or_kind_error(&args[0], "Cannot push on")?;
    any_list(items.iter().chain([&args[1]]).cloned())
}

fn prepend(args: &[Value]) -> FunctionResult {
    let items = items_or_kind_error(&args[0], "Cannot prepend on")?;
    any_list([&args[1]].into_iter().chain(items.iter()).cloned())
}

fn first(args: &[Value]) -> FunctionResult {
    Ok(items_or_kind_error(&args[0], "Cannot find first on")?.first().cloned().unwrap_or_default())
}

fn last(args: &[Value]) -> FunctionResult {
    Ok(items_or_kind_error(&args[0], "Cannot find last on")?.last().cloned().unwrap_or_default())
}

/// All elements but the first. The rest of an empty list is nil.
fn rest(args: &[Value]) -> FunctionResult {
    match items_or_kind_error(&args[0], "Cannot find rest on")?.split_first() {
        Some((_, rest)) => any_list(rest.iter().cloned()),
        None => Ok(List::nil().into()),
    }
}

fn initial(args: &[Value]) -> FunctionResult {
    match items_or_kind_error(&args[0], "Cannot find initial on")?.split_last() {
        Some((_, rest)) => any_list(rest.iter().cloned()),
        None => Ok(List::nil().into()),
    }
}

fn reverse(args: &[Value]) -> FunctionResult {
    any_list(items_or_kind_error(&args[0], "Cannot find reverse on")?.iter().rev().cloned())
}

/// Whether the value is in the list. Every comparison is charged: comparing a list with itself is quadratic.
fn contains_value(machine: &mut Machine<'_>, value: &Value, items: &[Value]) -> Result<bool, Str> {
    for item in items {
        let (same, looked) = deep_equal_counted(value, item);
        machine.charge(looked)?;
        if same {
            return Ok(true);
        }
    }
    Ok(false)
}

fn uniq(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    let mut unique: Vec<Value> = Vec::new();
    for item in items_or_kind_error(&args[0], "Cannot find uniq on")?.iter() {
        if !contains_value(machine, item, &unique)? {
            unique.push(item.clone());
        }
    }
    any_list(unique)
}

fn without(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    let mut left = Vec::new();
    for item in items_or_kind_error(&args[0], "Cannot find without on")?.iter() {
        if !contains_value(machine, item, &args[1..])? {
            left.push(item.clone());
        }
    }
    any_list(left)
}

fn has(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    if args[1].is_nil() {
        return Ok(false.into());
    }
    let items = items_or_kind_error(&args[1], "Cannot find has on")?;
    Ok(contains_value(machine, &args[0], &items)?.into())
}

fn compact(args: &[Value]) -> FunctionResult {
    any_list(
        items_or_kind_error(&args[0], "Cannot compact on")?.iter().filter(|item| !is_empty(item)).cloned(),
    )
}

/// sprig's `slice`, which replaces Go's built-in. It does not accept strings.
fn slice(args: &[Value]) -> FunctionResult {
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
fn concat(args: &[Value]) -> FunctionResult {
    let mut all = Vec::new();
    for list in args {
        all.extend_from_slice(&items(list, |kind| format!("Cannot concat type {kind} as list"))?);
    }
    if all.is_empty() { Ok(List::nil().into()) } else { any_list(all) }
}

/// Splits a list into lists of `size` elements.
fn chunk(args: &[Value]) -> FunctionResult {
    let items = items_or_kind_error(&args[1], "Cannot chunk")?;
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
