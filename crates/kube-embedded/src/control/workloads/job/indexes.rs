//! Sets of completion indexes in the format of the Job status: `0,1,3-5`.

#![warn(clippy::arithmetic_side_effects)]

use std::fmt;

/// Sorted, inclusive, non-adjacent intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompletionIndexes(Vec<(i64, i64)>);

impl CompletionIndexes {
    /// Parses a list; indexes at or above `completions` are cut off, invalid parts are skipped.
    pub fn parse(text: &str, completions: i64) -> Self {
        let interval = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) =
                (first.parse().ok()?, last.parse::<i64>().ok()?.min(completions.saturating_sub(1)));
            (first < completions).then_some((first, last))
        };
        Self(text.split(',').filter_map(interval).collect()).union(&Self::default())
    }

    pub fn from_indexes(indexes: impl IntoIterator<Item = i64>) -> Self {
        Self(indexes.into_iter().map(|index| (index, index)).collect()).union(&Self::default())
    }

    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = [&self.0[..], &other.0[..]].concat();
        all.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    pub fn len(&self) -> i64 {
        self.0
            .iter()
            .fold(0, |sum, (first, last)| sum.saturating_add(last.saturating_sub(*first).saturating_add(1)))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, index: i64) -> bool {
        let position = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(position).is_some_and(|(first, _)| *first <= index)
    }

    /// The number of common indexes.
    pub fn intersection_len(&self, other: &Self) -> i64 {
        let (mut a, mut b, mut shared) = (0, 0, 0);
        while let (Some(x), Some(y)) = (self.0.get(a), other.0.get(b)) {
            let common = x.1.min(y.1).saturating_sub(x.0.max(y.0)).saturating_add(1);
            shared = common.max(0).saturating_add(shared);
            if x.1 <= y.1 {
                a = a.saturating_add(1);
            } else {
                b = b.saturating_add(1);
            }
        }
        shared
    }

    /// The first `count` indexes below `completions` that are not in the set.
    pub fn first_missing(&self, count: usize, completions: i64) -> Vec<i64> {
        let mut missing = Vec::new();
        let mut next = 0;
        for (first, last) in self.0.iter().copied().chain([(completions, completions)]) {
            let remaining = count.saturating_sub(missing.len());
            missing.extend((next..first.min(completions)).take(remaining));
            next = next.max(last.saturating_add(1));
        }
        missing
    }
}

impl fmt::Display for CompletionIndexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match last.saturating_sub(*first) {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn indexes_parse_and_format_as_kubernetes() {
        for (text, completions, again) in [
            ("", 5, ""),
            ("0,1,3-5", 10, "0,1,3-5"),
            ("0-1,2,4", 10, "0-2,4"),
            ("1-7,9", 5, "1-4"),
            ("x,3,2-y,5", 10, "3,5"),
        ] {
            assert_eq!(CompletionIndexes::parse(text, completions).to_string(), again, "{text}");
        }
    }

    proptest! {
        #[test]
        fn indexes_behave_as_sets(a in prop::collection::btree_set(0..30i64, 0..20),
                         b in prop::collection::btree_set(0..30i64, 0..20), count in 0..12usize) {
            let (x, y) = (CompletionIndexes::from_indexes(a.clone()), CompletionIndexes::from_indexes(b.clone()));
            let union: BTreeSet<_> = a.union(&b).copied().collect();
            prop_assert_eq!(x.union(&y), CompletionIndexes::from_indexes(union));
            prop_assert_eq!(usize::try_from(x.len()), Ok(a.len()));
            prop_assert_eq!(usize::try_from(x.intersection_len(&y)), Ok(a.intersection(&b).count()));
            prop_assert!((0..30).all(|index| x.contains(index) == a.contains(&index)));
            prop_assert_eq!(CompletionIndexes::parse(&x.to_string(), 30), x.clone());
            let missing: Vec<_> = (0..25).filter(|index| !a.contains(index)).take(count).collect();
            prop_assert_eq!(x.first_missing(count, 25), missing);
        }
    }
}
