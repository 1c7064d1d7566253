//! How far a value reaches: what contains itself, or one map in very many places, must not be gone through.

use std::collections::HashMap;

use super::Value;

/// Lists and maps inside each other.
const MAX_DEPTH: usize = 1_000;

/// Values in all, each counted wherever it stands.
const MAX_SIZE: usize = 50_000_000;

impl Value {
    /// Going through all of it would never end, or as good as never. Only lists and maps are looked at, and each once.
    pub fn is_endless(&self) -> bool {
        match self {
            Self::List(_) | Self::Map(_) => {
                Extent::default().size(self, 0).is_none_or(|size| size > MAX_SIZE)
            }
            _ => false,
        }
    }
}

#[derive(Default)]
struct Extent {
    /// The sizes of lists and maps that were met, by place; `None` of those that are being looked at.
    known: HashMap<usize, Option<usize>>,
}

impl Extent {
    /// How many values there are; `None` if they contain themselves or go too deep.
    fn size(&mut self, value: &Value, depth: usize) -> Option<usize> {
        let place = match value {
            Value::List(list) if !list.is_empty() => list.address(),
            Value::Map(map) if !map.is_empty() => map.address(),
            _ => return Some(1),
        };
        if depth > MAX_DEPTH {
            return None;
        }
        if let Some(known) = self.known.get(&place) {
            return *known;
        }
        self.known.insert(place, None);
        let mut size: usize = 1;
        match value {
            Value::List(list) => {
                for item in list.iter() {
                    size = size.saturating_add(self.size(item, depth + 1)?);
                }
            }
            Value::Map(map) => {
                for (_, item) in map.entries().iter() {
                    size = size.saturating_add(self.size(item, depth + 1)?);
                }
            }
            _ => {}
        }
        self.known.insert(place, Some(size));
        Some(size)
    }
}

#[cfg(test)]
mod tests {
    use crate::value::{List, Map, Value};

    #[test]
    fn what_has_no_end() {
        let map = Map::new();
        map.insert("list", List::any([Value::Map(map.clone())]).into());
        assert!(Value::Map(map.clone()).is_endless());
        map.remove("list");
        assert!(!Value::Map(map).is_endless());

        let nested = |depth, copies: usize| {
            (0..depth).fold(Value::Int(1), |inner, _| List::any(vec![inner; copies]).into())
        };
        for (depth, copies, endless) in [(900, 1, false), (1_100, 1, true), (20, 2, false), (64, 2, true)] {
            assert_eq!(nested(depth, copies).is_endless(), endless, "{depth} {copies}");
        }
    }
}
