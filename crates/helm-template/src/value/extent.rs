//! Size of values, computed without traversing cycles or repeated references.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Str, Value};
use crate::stack::grow_for_value;

/// Minimum size of any value.
const LEAF: usize = 1;

/// Maximum nesting of lists and maps.
const MAX_DEPTH: usize = 1_000;

/// Maximum printed size in bytes, as [`Value::extent`] counts it.
pub(crate) const MAX_PRINTED: usize = 64 << 20;

impl Value {
    /// Whether a full traversal would not end in reasonable time. Only lists and maps can be endless; each is visited once.
    pub fn is_cyclic_or_too_deep(&self) -> bool {
        match self {
            Self::List(_) | Self::Map(_) => self.extent() > MAX_PRINTED,
            _ => false,
        }
    }

    /// Approximate printed size in bytes; shared values count once per reference. Returns `usize::MAX` for a value that contains itself
    /// or is nested too deeply.
    pub fn extent(&self) -> usize {
        Extent::default().size(self, 0).unwrap_or(usize::MAX)
    }

    /// The number of values in it, including itself; shared values count once per reference. Returns `usize::MAX` for a value that
    /// contains itself or is nested too deeply.
    pub fn count(&self) -> usize {
        let mut nodes = Extent { counts_text_bytes: false, ..Extent::default() };
        nodes.size(self, 0).unwrap_or(usize::MAX)
    }

    /// The total extent of several values, and the number of values visited.
    pub(crate) fn extent_of_all(values: &[Self]) -> (usize, u64) {
        values.iter().fold((0, 0), |(extent, looked), value| {
            let mut further = Extent::default();
            let size = further.size(value, 0).unwrap_or(usize::MAX);
            (extent.saturating_add(size), looked + further.visits)
        })
    }

    /// Bytes allocated for this value if it is new, that is, not shared. For a list or map only its slots are counted.
    pub(crate) fn allocated_bytes(&self) -> usize {
        match self {
            Self::String(text) if Arc::strong_count(text) == 1 => text.len(),
            Self::Raw(bytes) | Self::Bytes(bytes) if Arc::strong_count(bytes) == 1 => bytes.len(),
            Self::List(list) if list.is_unique() => list.len() * size_of::<Self>(),
            Self::Map(map) if map.is_unique() => map.len() * size_of::<(Str, Self)>(),
            _ => 0,
        }
    }

    /// Input size for functions: the bytes of a string or the elements of a list.
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::String(text) => text.len(),
            Self::Raw(bytes) | Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            _ => 0,
        }
    }
}

/// The state of one size computation.
struct Extent {
    /// Whether the bytes of texts count, not only the number of values.
    counts_text_bytes: bool,
    /// Sizes of visited lists and maps by address; `None` while being computed.
    sizes: HashMap<usize, Option<usize>>,
    /// The number of values visited.
    visits: u64,
}

impl Default for Extent {
    fn default() -> Self {
        Self { counts_text_bytes: true, sizes: HashMap::new(), visits: 0 }
    }
}

impl Extent {
    /// Returns `None` if the value contains itself or is nested too deeply.
    fn size(&mut self, value: &Value, depth: usize) -> Option<usize> {
        self.visits += 1;
        let place = match value {
            Value::List(list) if !list.is_empty() => list.address(),
            Value::Map(map) if !map.is_empty() => map.address(),
            _ if !self.counts_text_bytes => return Some(LEAF),
            Value::String(text) => return Some(text.len().saturating_add(LEAF)),
            Value::Raw(bytes) | Value::Bytes(bytes) => return Some(bytes.len().saturating_mul(4)),
            Value::Object(object) => return Some(object.extent()),
            _ => return Some(LEAF),
        };
        if depth > MAX_DEPTH {
            return None;
        }
        if let Some(known) = self.sizes.get(&place) {
            return *known;
        }
        self.sizes.insert(place, None);
        let size = grow_for_value(|| self.nested_size(value, depth))?;
        self.sizes.insert(place, Some(size));
        Some(size)
    }

    fn nested_size(&mut self, value: &Value, depth: usize) -> Option<usize> {
        let mut size = LEAF;
        match value {
            Value::List(list) => {
                for item in list.iter() {
                    size = size.saturating_add(self.size(item, depth + 1)?);
                }
            }
            Value::Map(map) => {
                for (key, item) in map.entries().iter() {
                    let key = if self.counts_text_bytes { key.len() } else { 0 };
                    size = size.saturating_add(key).saturating_add(self.size(item, depth + 1)?);
                }
            }
            _ => {}
        }
        Some(size)
    }
}

#[cfg(test)]
mod tests {
    use crate::value::{List, Map, Value};

    #[test]
    fn is_endless_detects_cycles() {
        let map = Map::new();
        map.insert("list", List::any([Value::Map(map.clone())]).into());
        assert!(Value::Map(map.clone()).is_cyclic_or_too_deep());
        map.remove("list");
        assert!(!Value::Map(map).is_cyclic_or_too_deep());

        let nested = |depth, copies: usize| {
            (0..depth).fold(Value::Int(1), |inner, _| List::any(vec![inner; copies]).into())
        };
        for (depth, copies, endless) in [(900, 1, false), (1_100, 1, true), (20, 2, false), (64, 2, true)] {
            assert_eq!(nested(depth, copies).is_cyclic_or_too_deep(), endless, "{depth} {copies}");
        }
    }
}
