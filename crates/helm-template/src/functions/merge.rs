//! `merge` and `mergeOverwrite`, with the semantics of Go's `mergo` for maps.
//!
//! The first map is changed in place. A nested map that is taken over whole is shared by both maps afterwards.

use super::defaults::is_empty;
use super::dicts::{MAX_DEPTH, steps_to_move, too_deep_error};
use crate::exec::Machine;
use crate::value::{Map, Str, Value};

/// Precedence where both maps have a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MergePrecedence {
    /// The destination wins, unless its value is empty. A nil source value is ignored.
    Destination,
    /// The source wins, even if its value is empty or nil.
    Source,
}

/// Steps to look up a key and insert an entry.
const STEPS_FOR_ENTRY: u64 = 8;

/// Merges `from` into `into`, recursively for nested maps.
pub(super) fn merge(
    machine: &mut Machine<'_>,
    into: &Map,
    from: &Map,
    win: MergePrecedence,
    depth: usize,
) -> Result<(), Str> {
    if into.ptr_eq(from) {
        return Ok(());
    }
    if depth > MAX_DEPTH {
        return Err(too_deep_error());
    }
    // A snapshot, because `from` may be part of `into` and change during the merge.
    for (key, theirs) in from.snapshot() {
        machine.charge_bytes(size_of::<Value>())?;
        machine.charge(STEPS_FOR_ENTRY)?;
        let ours = into.get(&key).unwrap_or_default();
        let take = match (&ours, &theirs) {
            (_, Value::Nil | Value::Null) => win == MergePrecedence::Source,
            (Value::Map(ours), Value::Map(theirs)) => {
                merge(machine, ours, theirs, win, depth + 1)?;
                ours.is_empty()
            }
            _ => win == MergePrecedence::Source || is_empty(&ours),
        };
        if take && from.is_any() && !into.is_any() {
            return Err(NOT_ASSIGNABLE_ERROR.into());
        }
        if take {
            machine.charge(steps_to_move(into))?;
            machine.record_insertion(into, &theirs);
            into.insert(key, theirs);
        }
    }
    Ok(())
}

/// Go's error for assigning an `interface {}` value into a map of strings.
const NOT_ASSIGNABLE_ERROR: &str =
    "reflect.Value.SetMapIndex: value of type interface {} is not assignable to type string";
