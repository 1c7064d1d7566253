//! The order of groups and versions.
//!
//! Discovery lists them in this order, and clients use the first version.

use std::{cmp::Ordering, cmp::Reverse};

use crate::schema::builtin;

/// The position of a built-in group; custom groups come after all of them.
pub fn group_rank(group: &str) -> usize {
    builtin::group_order().iter().position(|known| **known == *group).unwrap_or(usize::MAX)
}

/// Orders versions: `v2` before `v1` before `v2beta1` before `v1alpha1`; other names come last,
/// alphabetically.
pub fn compare(a: &str, b: &str) -> Ordering {
    match (parse_version(a), parse_version(b)) {
        (Some(a), Some(b)) => Reverse(a).cmp(&Reverse(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stability, major and minor number.
fn parse_version(version: &str) -> Option<(Stability, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let (stability, word) = if rest.contains("alpha") {
        (Stability::Alpha, "alpha")
    } else if rest.contains("beta") {
        (Stability::Beta, "beta")
    } else {
        return Some((Stability::Stable, number(rest)?, 0));
    };
    let (major, minor) = rest.split_once(word)?;
    Some((stability, number(major)?, number(minor)?))
}

fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Alpha,
    Beta,
    Stable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first_and_newer_before_older() {
        let mut versions = [
            "foo10", "v1alpha1", "v3beta1", "v10", "v1", "v2beta2", "v1beta10", "v03", "foo1", "v2", "v1x",
            "v2beta10",
        ];
        versions.sort_by(|a, b| compare(a, b));
        assert_eq!(
            versions,
            [
                "v10", "v03", "v2", "v1", "v3beta1", "v2beta10", "v2beta2", "v1beta10", "v1alpha1", "foo1",
                "foo10", "v1x"
            ]
        );
    }

    #[test]
    fn custom_groups_come_after_built_in_ones() {
        assert!(group_rank("apps") < group_rank("batch"));
        assert!(group_rank("flowcontrol.apiserver.k8s.io") < group_rank("a.example.com"));
    }
}
