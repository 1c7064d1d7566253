//! Iterative destruction of deeply nested values.
//!
//! Dropping a value recursively drops its elements. A template can nest lists as deeply as its step budget allows, which is deeper
//! than the stack. Therefore the elements of a list or map are moved out and dropped one by one.

use super::Value;

impl Value {
    fn holds_values(&self) -> bool {
        matches!(self, Self::List(_) | Self::Map(_))
    }

    /// Moves the unshared nested lists and maps of a value that is about to be dropped into `taken`.
    fn detach_nested(&mut self, taken: &mut Vec<Value>) {
        match self {
            Self::List(list) => list.detach_nested(taken),
            Self::Map(map) => map.detach_nested(taken),
            _ => {}
        }
    }
}

/// Moves the nested lists and maps out of values that are about to be dropped.
pub(super) fn take_nested<'v>(values: impl Iterator<Item = &'v mut Value>, taken: &mut Vec<Value>) {
    taken.extend(values.filter(|value| value.holds_values()).map(std::mem::take));
}

/// Drops the values iteratively.
pub(super) fn drop_iteratively(mut taken: Vec<Value>) {
    while let Some(mut value) = taken.pop() {
        value.detach_nested(&mut taken);
    }
}

#[cfg(test)]
mod tests {
    use crate::value::{List, Map, Value};

    const DEEP: usize = 200_000;

    #[test]
    fn deeply_nested_value_drops_without_stack_overflow() {
        let lists = (0..DEEP).fold(Value::Nil, |inner, _| List::any([inner, Value::Int(1)]).into());
        let maps = (0..DEEP).fold(Value::Nil, |inner, _| Map::from_entries([("a".into(), inner)]).into());
        let shared = List::any([lists.clone(), maps.clone()]);
        drop((lists, maps));
        assert!(matches!(shared[0], Value::List(_)));
    }
}
