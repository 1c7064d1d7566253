//! How far a value reaches: what contains itself, or one map in very many places, must not be gone through.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Str, Value};
use crate::stack::deeper;

/// What any value takes at the least.
const LEAF: usize = 1;

/// Lists and maps inside each other.
const MAX_DEPTH: usize = 1_000;

/// Bytes in all, as [`Value::extent`] counts them.
pub(crate) const MAX_PRINTED: usize = 64 << 20;

impl Value {
    /// Going through all of it would never end, or as good as never. Only lists and maps are looked at, and each once.
    pub fn is_endless(&self) -> bool {
        match self {
            Self::List(_) | Self::Map(_) => self.extent() > MAX_PRINTED,
            _ => false,
        }
    }

    /// Roughly how many bytes it takes to write all of it down, what is shared as often as it stands there. What
    /// contains itself, or goes too deep, is as large as can be.
    pub fn extent(&self) -> usize {
        Extent::default().size(self, 0).unwrap_or(usize::MAX)
    }

    /// How many values it holds, itself included; what is shared counts as often as it stands there. What contains itself, or
    /// goes too deep, has as many as can be.
    pub fn count(&self) -> usize {
        let mut nodes = Extent { texts: false, ..Extent::default() };
        nodes.size(self, 0).unwrap_or(usize::MAX)
    }

    /// The extent of several values together, and at how many it had to look.
    pub(crate) fn extent_of_all(values: &[Self]) -> (usize, u64) {
        values.iter().fold((0, 0), |(extent, looked), value| {
            let mut further = Extent::default();
            let size = further.size(value, 0).unwrap_or(usize::MAX);
            (extent.saturating_add(size), looked + further.looked)
        })
    }

    /// The bytes that were needed to make it, if it is new: nobody else holds it. Of what a list or a map holds, only
    /// the places are counted.
    pub(crate) fn made(&self) -> usize {
        match self {
            Self::String(text) if Arc::strong_count(text) == 1 => text.len(),
            Self::Raw(bytes) | Self::Bytes(bytes) if Arc::strong_count(bytes) == 1 => bytes.len(),
            Self::List(list) if list.is_sole() => list.len() * size_of::<Self>(),
            Self::Map(map) if map.is_sole() => map.len() * size_of::<(Str, Self)>(),
            _ => 0,
        }
    }

    /// What there is to look at: the bytes of a text, the elements of a list.
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::String(text) => text.len(),
            Self::Raw(bytes) | Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            _ => 0,
        }
    }
}

struct Extent {
    /// The bytes of texts count, and not only the values.
    texts: bool,
    /// The sizes of lists and maps that were met, by place; `None` of those that are being looked at.
    known: HashMap<usize, Option<usize>>,
    /// How many values were met.
    looked: u64,
}

impl Default for Extent {
    fn default() -> Self {
        Self { texts: true, known: HashMap::new(), looked: 0 }
    }
}

impl Extent {
    /// `None` if it contains itself or goes too deep.
    fn size(&mut self, value: &Value, depth: usize) -> Option<usize> {
        self.looked += 1;
        let place = match value {
            Value::List(list) if !list.is_empty() => list.address(),
            Value::Map(map) if !map.is_empty() => map.address(),
            _ if !self.texts => return Some(LEAF),
            Value::String(text) => return Some(text.len().saturating_add(LEAF)),
            Value::Raw(bytes) | Value::Bytes(bytes) => return Some(bytes.len().saturating_mul(4)),
            Value::Object(object) => return Some(object.extent()),
            _ => return Some(LEAF),
        };
        if depth > MAX_DEPTH {
            return None;
        }
        if let Some(known) = self.known.get(&place) {
            return *known;
        }
        self.known.insert(place, None);
        let size = deeper(|| self.inside(value, depth))?;
        self.known.insert(place, Some(size));
        Some(size)
    }

    fn inside(&mut self, value: &Value, depth: usize) -> Option<usize> {
        let mut size = LEAF;
        match value {
            Value::List(list) => {
                for item in list.iter() {
                    size = size.saturating_add(self.size(item, depth + 1)?);
                }
            }
            Value::Map(map) => {
                for (key, item) in map.entries().iter() {
                    let key = if self.texts { key.len() } else { 0 };
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
