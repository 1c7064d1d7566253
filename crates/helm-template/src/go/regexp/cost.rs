//! Cost estimate of a search with an expression.
//!
//! A search usually costs one table lookup per character. The lazy DFA builds this table from sets of NFA states. Some expressions
//! have too many such sets for the table to help; every state is then visited for each character.

use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

/// Below this number of wide states, the number of state sets stays small.
const MAX_TABLE_STATES: u64 = 8;

/// Worst-case NFA states visited per character; zero if the table suffices.
pub fn states_per_char(syntax: &Hir) -> u64 {
    let StateCounts { wide, total: places } = count_states(syntax);
    if wide < MAX_TABLE_STATES { 0 } else { places }
}

/// Counts of NFA states.
#[derive(Clone, Copy, Default)]
struct StateCounts {
    /// States that match more than one character, are optional, or repeat.
    wide: u64,
    total: u64,
}

impl StateCounts {
    fn plus(self, other: Self) -> Self {
        Self { wide: self.wide.saturating_add(other.wide), total: self.total.saturating_add(other.total) }
    }
}

/// Recursion depth is limited by the translation that produced the syntax.
fn count_states(syntax: &Hir) -> StateCounts {
    match syntax.kind() {
        HirKind::Empty | HirKind::Look(_) => StateCounts::default(),
        HirKind::Literal(literal) => StateCounts { wide: 0, total: literal.0.len() as u64 },
        // In UTF-8 every range takes one or two states.
        HirKind::Class(Class::Unicode(set)) => {
            StateCounts { wide: 1, total: set.ranges().len().max(1) as u64 }
        }
        HirKind::Class(Class::Bytes(_)) => StateCounts { wide: 1, total: 1 },
        HirKind::Repetition(Repetition { min, max, sub, .. }) => {
            let StateCounts { wide, total: places } = count_states(sub);
            let copies = u64::from(max.unwrap_or_else(|| 1.max(*min)));
            // An optional item adds an alternative path.
            let optional = copies.saturating_sub(u64::from(*min));
            let places = places.saturating_mul(copies).saturating_add(optional);
            StateCounts { wide: if copies > 1 { places } else { wide }, total: places }
        }
        HirKind::Capture(capture) => count_states(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(count_states).fold(StateCounts::default(), StateCounts::plus)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_expressions_need_only_the_table() {
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
            assert_eq!(states_per_char(&syntax), *expected, "{pattern}");
        }
    }
}
