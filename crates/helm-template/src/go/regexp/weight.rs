//! Cost estimate of a search with an expression.
//!
//! A search usually costs one table lookup per character. The lazy DFA builds this table from sets of NFA states. Some expressions
//! have so many such sets that the table does not help; every state is then visited for each character.

use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

/// Below this number of wide states, the number of state sets stays small.
const FEW: u64 = 8;

/// Worst-case NFA states visited per character; zero if the table suffices.
pub fn places_for_each(syntax: &Hir) -> u64 {
    let Weight { wide, places } = weigh(syntax);
    if wide < FEW { 0 } else { places }
}

/// Counts of NFA states.
#[derive(Clone, Copy, Default)]
struct Weight {
    /// States that match more than one character, are optional, or repeat.
    wide: u64,
    places: u64,
}

impl Weight {
    fn and(self, other: Self) -> Self {
        Self { wide: self.wide.saturating_add(other.wide), places: self.places.saturating_add(other.places) }
    }
}

/// Recursion depth is limited by the translation that produced the syntax.
fn weigh(syntax: &Hir) -> Weight {
    match syntax.kind() {
        HirKind::Empty | HirKind::Look(_) => Weight::default(),
        HirKind::Literal(literal) => Weight { wide: 0, places: literal.0.len() as u64 },
        // In UTF-8 every range takes one or two states.
        HirKind::Class(Class::Unicode(set)) => Weight { wide: 1, places: set.ranges().len().max(1) as u64 },
        HirKind::Class(Class::Bytes(_)) => Weight { wide: 1, places: 1 },
        HirKind::Repetition(Repetition { min, max, sub, .. }) => {
            let Weight { wide, places } = weigh(sub);
            let copies = u64::from(max.unwrap_or_else(|| 1.max(*min)));
            // An optional item adds an alternative path.
            let optional = copies.saturating_sub(u64::from(*min));
            let places = places.saturating_mul(copies).saturating_add(optional);
            Weight { wide: if copies > 1 { places } else { wide }, places }
        }
        HirKind::Capture(capture) => weigh(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(weigh).fold(Weight::default(), Weight::and)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_expressions_need_no_more_than_a_table() {
        let table: &[(&str, u64)] = &[
            ("[^a-zA-Z0-9]+", 0),
            ("^(production|staging|development)$", 0),
            (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", 0),
            ("[ab]*a[ab]{20}c", 24),
            ("a{1,10}b", 20),
            ("(a{30}){30}", 900),
        ];
        for (pattern, expected) in table {
            let syntax = regex_syntax::parse(pattern).unwrap();
            assert_eq!(places_for_each(&syntax), *expected, "{pattern}");
        }
    }
}
