//! Freeing values that are nested deeper than a stack reaches.
//!
//! A value is freed by freeing what it holds, and so on. A template can put lists into lists as often as it has steps,
//! and a stack is shorter than that: so what a list or a map holds is taken out of it and freed one after the other.

use super::Value;

impl Value {
    fn holds_values(&self) -> bool {
        matches!(self, Self::List(_) | Self::Map(_))
    }

    /// Moves the lists and maps that nobody else will see into `taken`: those of a value that is about to be freed.
    fn give_up(&mut self, taken: &mut Vec<Value>) {
        match self {
            Self::List(list) => list.give_up(taken),
            Self::Map(map) => map.give_up(taken),
            _ => {}
        }
    }
}

/// Takes the lists and maps out of values that are about to be freed.
pub(super) fn take_nested<'v>(values: impl Iterator<Item = &'v mut Value>, taken: &mut Vec<Value>) {
    taken.extend(values.filter(|value| value.holds_values()).map(std::mem::take));
}

/// Frees what was taken.
pub(super) fn free(mut taken: Vec<Value>) {
    while let Some(mut value) = taken.pop() {
        value.give_up(&mut taken);
    }
}

#[cfg(test)]
mod tests {
    use crate::value::{List, Map, Value};

    const DEEP: usize = 200_000;

    #[test]
    fn what_is_deeper_than_the_stack_is_freed() {
        let lists = (0..DEEP).fold(Value::Nil, |inner, _| List::any([inner, Value::Int(1)]).into());
        let maps = (0..DEEP).fold(Value::Nil, |inner, _| Map::from_entries([("a".into(), inner)]).into());
        let shared = List::any([lists.clone(), maps.clone()]);
        drop((lists, maps));
        assert!(matches!(shared[0], Value::List(_)));
    }
}
