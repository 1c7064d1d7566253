//! Deep equality of values.

use std::collections::HashSet;

use super::{List, Map, Value};
use crate::stack::grow_for_value;

/// `reflect.DeepEqual`: same type and recursively equal.
pub fn deep_equal(a: &Value, b: &Value) -> bool {
    deep_equal_counted(a, b).0
}

/// Like [`deep_equal`]. Also returns the number of values visited.
pub(crate) fn deep_equal_counted(a: &Value, b: &Value) -> (bool, u64) {
    let mut comparison = Comparison::default();
    let same = comparison.equal(a, b, 0);
    (same, comparison.visits)
}

/// Below this depth, visited pairs are recorded, because values may contain themselves or share one map in many places.
const UNTRACKED_DEPTH: usize = 8;

/// Bytes of an object compared per visit.
const BYTES_PER_VISIT: u64 = 64;

/// Values nested deeper than this compare as different.
const MAX_DEPTH: usize = 1_000;

/// The state of one comparison.
#[derive(Default)]
struct Comparison {
    /// Pairs that are being compared or were found equal; as in Go, they are not compared again.
    visited_pairs: HashSet<(usize, usize)>,
    visits: u64,
}

impl Comparison {
    #[expect(clippy::float_cmp, reason = "equal means equal")]
    fn equal(&mut self, a: &Value, b: &Value, depth: usize) -> bool {
        self.visits += 1;
        match (a, b) {
            (Value::Nil | Value::Null, Value::Nil | Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) | (Value::Int64(a), Value::Int64(b)) => a == b,
            (Value::Uint8(a), Value::Uint8(b)) => a == b,
            (Value::Uint64(a), Value::Uint64(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a == b,
            (Value::Complex(a, b), Value::Complex(c, d)) => (a, b) == (c, d),
            (Value::String(a), Value::String(b)) => a == b,
            (Value::Bytes(a), Value::Bytes(b)) | (Value::Raw(a), Value::Raw(b)) => a == b,
            (Value::List(a), Value::List(b)) => self.equal_lists(a, b, depth),
            (Value::Map(a), Value::Map(b)) => self.equal_maps(a, b, depth),
            (Value::Object(a), Value::Object(b)) => {
                self.visits += a.extent() as u64 / BYTES_PER_VISIT;
                a.equals(b.as_ref())
            }
            _ => false,
        }
    }

    fn equal_lists(&mut self, a: &List, b: &List, depth: usize) -> bool {
        if a.type_name() != b.type_name() || a.is_nil() != b.is_nil() || a.len() != b.len() {
            return false;
        }
        if a.ptr_eq(b) || !self.is_new((a.address(), b.address()), depth) {
            return true;
        }
        let mut pairs = a.iter().zip(b.iter());
        depth < MAX_DEPTH && grow_for_value(|| pairs.all(|(a, b)| self.equal(a, b, depth + 1)))
    }

    fn equal_maps(&mut self, a: &Map, b: &Map, depth: usize) -> bool {
        if a.type_name() != b.type_name() || a.is_nil() != b.is_nil() || a.len() != b.len() {
            return false;
        }
        if a.ptr_eq(b) || !self.is_new((a.address(), b.address()), depth) {
            return true;
        }
        let (a, b) = (a.entries(), b.entries());
        let mut pairs = a.iter().zip(b.iter());
        depth < MAX_DEPTH
            && grow_for_value(|| pairs.all(|(a, b)| a.0 == b.0 && self.equal(&a.1, &b.1, depth + 1)))
    }

    fn is_new(&mut self, pair: (usize, usize), depth: usize) -> bool {
        depth < UNTRACKED_DEPTH || self.visited_pairs.insert(pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> Value {
        (0..depth).fold(Value::Int(1), |inner, _| List::any([inner.clone(), inner]).into())
    }

    #[test]
    fn cyclic_values_are_compared_once() {
        let loops = || {
            let map = Map::new();
            map.insert("self", map.clone().into());
            map
        };
        let (a, b) = (loops(), loops());
        assert!(deep_equal(&a.clone().into(), &b.clone().into()));
        b.insert("more", Value::Int(1));
        assert!(!deep_equal(&a.clone().into(), &b.clone().into()));
        // Breaks the reference cycle so that the map is freed.
        a.remove("self");
        b.remove("self");
    }

    #[test]
    fn shared_values_are_compared_once() {
        assert!(deep_equal(&nested(60), &nested(60)));
        assert!(!deep_equal(&nested(60), &nested(61)));
    }

    #[test]
    fn nil_list_differs_from_empty_list() {
        assert!(!deep_equal(&List::nil().into(), &List::any([]).into()));
        assert!(!deep_equal(&List::strings(["a"]).into(), &List::any(["a".into()]).into()));
        assert!(deep_equal(&List::nil().into(), &List::nil().into()));
    }
}
