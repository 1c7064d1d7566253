//! `merge` and `mergeOverwrite`, as `mergo` merges maps.
//!
//! The first map is changed in place. What it takes from another it shares with it: a map that comes in whole is
//! the same map in both afterwards.

use super::defaults::is_empty;
use super::dicts::{MAX_DEPTH, steps_to_move, too_deep};
use crate::exec::Machine;
use crate::value::{Map, Str, Value};

/// Which value is kept where both maps have one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Win {
    /// Ours, unless it is empty; a nil never comes in.
    First,
    /// Theirs, be it empty or nil.
    Last,
}

/// Looking for a key, and putting it into its place.
const STEPS_FOR_ENTRY: u64 = 8;

pub(super) fn merge(
    machine: &mut Machine<'_>,
    into: &Map,
    from: &Map,
    win: Win,
    depth: usize,
) -> Result<(), Str> {
    if into.is(from) {
        return Ok(());
    }
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    // What is merged may be part of what it is merged into, and change meanwhile.
    for (key, theirs) in from.snapshot() {
        machine.wrote(size_of::<Value>())?;
        machine.charge(STEPS_FOR_ENTRY)?;
        let ours = into.get(&key).unwrap_or_default();
        let take = match (&ours, &theirs) {
            (_, Value::Nil | Value::Null) => win == Win::Last,
            (Value::Map(ours), Value::Map(theirs)) => {
                merge(machine, ours, theirs, win, depth + 1)?;
                ours.is_empty()
            }
            _ => win == Win::Last || is_empty(&ours),
        };
        if take && from.is_any() && !into.is_any() {
            return Err(UNFIT.into());
        }
        if take {
            machine.charge(steps_to_move(into))?;
            machine.put_into(into, &theirs);
            into.insert(key, theirs);
        }
    }
    Ok(())
}

/// What Go says of a value of any type for a map of texts.
const UNFIT: &str = "reflect.Value.SetMapIndex: value of type interface {} is not assignable to type string";
