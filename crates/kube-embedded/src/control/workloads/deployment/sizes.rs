//! The replicas of each `ReplicaSet` of a Deployment. Pure: no I/O, no clock.
//!
//! A rolling update alternates: the new set is scaled up as far as `maxSurge` allows, then the old sets are scaled down as far as
//! availability allows, unavailable pods first. If the Deployment is scaled during a rollout
//! or while it is paused, all its sets are scaled in proportion.

#![warn(clippy::arithmetic_side_effects)]

use std::cmp::Reverse;

use super::revision;
use super::view::Deployment;
use crate::control::workloads::replicaset::view::ReplicaSet;

/// The `ReplicaSets` of a Deployment, oldest first.
pub struct ReplicaSets<'a> {
    pub all: Vec<&'a ReplicaSet>,
    /// The index of the set with the Deployment's template.
    pub current: Option<usize>,
}

/// Scales the set at `index` to `replicas` pods. If the size is right, only its annotations need an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetScale {
    pub index: usize,
    pub replicas: i64,
}

impl<'a> ReplicaSets<'a> {
    pub fn current(&self) -> Option<&'a ReplicaSet> {
        self.current.map(|at| self.all[at])
    }

    pub fn is_current(&self, at: usize) -> bool {
        self.current == Some(at)
    }

    /// The old sets, then the new one.
    pub fn in_order(&self) -> impl Iterator<Item = (usize, &'a ReplicaSet)> {
        self.old().chain(self.current.map(|at| (at, self.all[at])))
    }

    pub fn old(&self) -> impl Iterator<Item = (usize, &'a ReplicaSet)> {
        self.all.iter().copied().enumerate().filter(|(at, _)| !self.is_current(*at))
    }

    fn active(&self) -> impl Iterator<Item = (usize, &'a ReplicaSet)> {
        self.in_order().filter(|(_, set)| set.spec.replicas > 0)
    }

    /// The sum of the sets' replicas.
    pub fn total_replicas(&self) -> i64 {
        self.all.iter().map(|set| set.spec.replicas).sum()
    }

    pub fn available(&self) -> i64 {
        self.all.iter().map(|set| set.status.available_replicas).sum()
    }

    /// Whether the Deployment was scaled: an active set records another number of desired replicas.
    pub fn is_scaled(&self, deployment: &Deployment) -> bool {
        let noted = self.active().filter_map(|(_, set)| revision::desired(set));
        noted.into_iter().any(|desired| desired != deployment.spec.replicas)
    }
}

/// The initial replicas of the new set.
pub fn initial_size(deployment: &Deployment, sets: &ReplicaSets<'_>) -> i64 {
    max_size(deployment, sets, 0)
}

/// The size up to which a new set of `size` can grow.
fn max_size(deployment: &Deployment, sets: &ReplicaSets<'_>, size: i64) -> i64 {
    if !deployment.is_rolling() {
        return deployment.spec.replicas;
    }
    let room = deployment.max_replicas().saturating_sub(sets.total_replicas()).max(0);
    size.saturating_add(room.min(deployment.spec.replicas.saturating_sub(size)))
}

/// One step of a rolling update: scale up, or else down.
pub fn rolling_step(deployment: &Deployment, sets: &ReplicaSets<'_>) -> Vec<SetScale> {
    let (Some(at), Some(new)) = (sets.current, sets.current()) else { return Vec::new() };
    let (size, wanted) = (new.spec.replicas, deployment.spec.replicas);
    let to = if size > wanted { wanted } else { max_size(deployment, sets, size) };
    if to != size {
        return vec![SetScale { index: at, replicas: to }];
    }
    shrink_old(deployment, sets, new)
}

fn shrink_old(deployment: &Deployment, sets: &ReplicaSets<'_>, new: &ReplicaSet) -> Vec<SetScale> {
    let needed = deployment.spec.replicas.saturating_sub(deployment.max_unavailable());
    let starting = new.spec.replicas.saturating_sub(new.status.available_replicas);
    let mut sizes = Vec::new();
    // Unavailable pods of the new set must not cost available pods of the old ones.
    let mut excess = sets.total_replicas().saturating_sub(needed).saturating_sub(starting);
    if excess <= 0 {
        return sizes;
    }
    let mut old: Vec<_> = sets.old().map(|(at, set)| (at, set, set.spec.replicas)).collect();
    for (at, set, size) in &mut old {
        let by = size.saturating_sub(set.status.available_replicas).min(excess);
        if by > 0 {
            (*size, excess) = (size.saturating_sub(by), excess.saturating_sub(by));
            sizes.push(SetScale { index: *at, replicas: *size });
        }
    }
    let mut spare = sets.available().saturating_sub(needed);
    for (at, _, size) in &mut old {
        let by = spare.min(*size);
        if by > 0 {
            (*size, spare) = (size.saturating_sub(by), spare.saturating_sub(by));
            sizes.push(SetScale { index: *at, replicas: *size });
        }
    }
    sizes
}

/// Scales all old sets to zero.
pub fn scale_old_to_zero(sets: &ReplicaSets<'_>) -> Vec<SetScale> {
    sets.old()
        .filter(|(_, set)| set.spec.replicas > 0)
        .map(|(at, _)| SetScale { index: at, replicas: 0 })
        .collect()
}

/// Scales the new set to the desired replicas.
pub fn scale_new_to_desired(deployment: &Deployment, sets: &ReplicaSets<'_>) -> Vec<SetScale> {
    let to = deployment.spec.replicas;
    let new = sets.in_order().filter(|(at, set)| sets.is_current(*at) && set.spec.replicas != to);
    new.map(|(at, _)| SetScale { index: at, replicas: to }).collect()
}

/// Scales the sets after a change of the replicas, or while the Deployment is paused.
pub fn scale_sets(deployment: &Deployment, sets: &ReplicaSets<'_>) -> Vec<SetScale> {
    let wanted = deployment.spec.replicas;
    let active: Vec<_> = sets.active().collect();
    let only = match active.as_slice() {
        [] => sets.current.or(sets.all.len().checked_sub(1)),
        [(at, _)] => Some(*at),
        _ => None,
    };
    if let Some(at) = only {
        return if sets.all[at].spec.replicas == wanted {
            Vec::new()
        } else {
            vec![SetScale { index: at, replicas: wanted }]
        };
    }
    if sets.current().is_some_and(|new| is_saturated(deployment, new)) {
        return scale_old_to_zero(sets);
    }
    if deployment.is_rolling() { scale_in_proportion(deployment, sets, active) } else { Vec::new() }
}

fn is_saturated(deployment: &Deployment, set: &ReplicaSet) -> bool {
    [Some(set.spec.replicas), revision::desired(set), Some(set.status.available_replicas)]
        .iter()
        .all(|count| *count == Some(deployment.spec.replicas))
}

fn scale_in_proportion(
    deployment: &Deployment,
    sets: &ReplicaSets<'_>,
    mut active: Vec<(usize, &ReplicaSet)>,
) -> Vec<SetScale> {
    let allowed = if deployment.spec.replicas > 0 { deployment.max_replicas() } else { 0 };
    let add = allowed.saturating_sub(sets.total_replicas());
    // The largest first, which gets the remainder; of equal ones the newest when growing, the oldest when shrinking.
    match add {
        0 => {}
        1.. => active.sort_by_key(|(at, set)| (Reverse(set.spec.replicas), Reverse(*at))),
        _ => active.sort_by_key(|(at, set)| (Reverse(set.spec.replicas), *at)),
    }
    let mut rest = add;
    let mut sizes: Vec<SetScale> = Vec::new();
    for (at, set) in &active {
        let share = proportional_change(deployment, set);
        let by = match rest {
            0 => 0,
            1.. => share.min(rest),
            _ => share.max(rest),
        };
        rest = rest.saturating_sub(by);
        sizes.push(SetScale { index: *at, replicas: set.spec.replicas.saturating_add(by) });
    }
    if let Some(largest) = sizes.first_mut() {
        largest.replicas = largest.replicas.saturating_add(rest).max(0);
    }
    sizes.retain(|size| {
        let set = sets.all[size.index];
        set.spec.replicas != size.replicas || !revision::has_current_size(set, deployment)
    });
    sizes
}

/// The change of a set that keeps its proportion.
fn proportional_change(deployment: &Deployment, set: &ReplicaSet) -> i64 {
    let size = set.spec.replicas;
    if deployment.spec.replicas == 0 {
        return size.saturating_neg();
    }
    let noted = revision::max_replicas(set).filter(|most| *most > 0);
    let before = noted.unwrap_or(deployment.status.replicas);
    if before == 0 {
        return 0;
    }
    // Rounded to the nearest, halves up.
    let (part, whole) = (i128::from(size).saturating_mul(2), i128::from(before).saturating_mul(2));
    let grown =
        part.saturating_mul(deployment.max_replicas().into()).saturating_add(before.into()).div_euclid(whole);
    i64::try_from(grown).unwrap_or(i64::MAX).saturating_sub(size)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `replicas`, `maxSurge`, `maxUnavailable`.
    fn deployment(replicas: i64, surge: i64, unavailable: i64) -> Deployment {
        let strategy = json!({"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
        serde_json::from_value(json!({"spec": {"replicas": replicas, "strategy": strategy}})).unwrap()
    }

    /// Replicas, available replicas, and the recorded desired and maximum replicas.
    type TestSet = (i64, i64, i64, i64);

    fn set((size, available, desired, most): TestSet) -> ReplicaSet {
        let notes = json!({"deployment.kubernetes.io/desired-replicas": desired.to_string(),
            "deployment.kubernetes.io/max-replicas": most.to_string()});
        let value = json!({"metadata": {"annotations": notes}, "spec": {"replicas": size},
            "status": {"availableReplicas": available}});
        serde_json::from_value(value).unwrap()
    }

    /// The sizes after `change`; the last set is the new one.
    fn sizes_after(
        change: fn(&Deployment, &ReplicaSets<'_>) -> Vec<SetScale>,
        deployment: &Deployment,
        sets: &[TestSet],
    ) -> Vec<i64> {
        let views: Vec<_> = sets.iter().map(|found| set(*found)).collect();
        let mut sizes: Vec<_> = sets.iter().map(|set| set.0).collect();
        let sets = ReplicaSets { all: views.iter().collect(), current: views.len().checked_sub(1) };
        for size in change(deployment, &sets) {
            sizes[size.index] = size.replicas;
        }
        sizes
    }

    #[test]
    fn rolling_update_alternates_scale_up_and_down() {
        let asked = deployment(10, 3, 2);
        let roll = |sets: &[(i64, i64)]| {
            let sets: Vec<_> = sets.iter().map(|(size, available)| (*size, *available, 10, 13)).collect();
            sizes_after(rolling_step, &asked, &sets)
        };
        // Old sets and the new one, each with its available pods.
        assert_eq!(roll(&[(10, 10), (0, 0)]), [10, 3], "up by the surge");
        assert_eq!(roll(&[(10, 10), (3, 0)]), [8, 3], "down by what may be missing");
        assert_eq!(roll(&[(8, 8), (3, 0)]), [8, 5], "up again into the room that this made");
        assert_eq!(roll(&[(8, 8), (5, 0)]), [8, 5], "then pods must become available");
        assert_eq!(roll(&[(8, 8), (5, 2)]), [6, 5]);
        assert_eq!(roll(&[(0, 0), (9, 9)]), [0, 10]);
        assert_eq!(roll(&[(0, 0), (12, 12)]), [0, 10], "never more than are asked for");
        assert_eq!(roll(&[(8, 5), (5, 0)]), [8, 5], "unavailable new pods do not cost old ones");
        assert_eq!(roll(&[(8, 8), (5, 0), (0, 0)]), [8, 0, 0], "broken pods of a failed rollout go first");
        assert_eq!(roll(&[(4, 4), (8, 8), (1, 0)]), [0, 8, 1], "the oldest set goes first");
    }

    #[test]
    fn sets_grow_and_shrink_in_proportion() {
        let scale = |replicas: i64, surge: i64, sets: &[TestSet]| {
            sizes_after(scale_sets, &deployment(replicas, surge, 0), sets)
        };
        // Before: 10 desired, all in old and new sets.
        assert_eq!(scale(12, 0, &[(10, 10, 10, 10)]), [12], "a single set is simply scaled");
        assert_eq!(scale(20, 0, &[(5, 5, 10, 10), (5, 5, 10, 10)]), [10, 10]);
        assert_eq!(
            scale(5, 0, &[(5, 5, 10, 10), (5, 5, 10, 10)]),
            [2, 3],
            "the oldest of two equal ones gives more"
        );
        assert_eq!(scale(12, 0, &[(3, 3, 10, 10), (7, 7, 10, 10)]), [4, 8]);
        assert_eq!(scale(0, 0, &[(5, 5, 10, 10), (5, 5, 10, 10)]), [0, 0]);
        assert_eq!(scale(6, 2, &[(3, 3, 5, 7), (4, 1, 5, 7)]), [3, 5], "with the surge");
        assert_eq!(
            scale(10, 0, &[(1, 1, 10, 10), (10, 10, 10, 10)]),
            [0, 10],
            "a saturated new set needs no old ones"
        );
        assert_eq!(
            scale(7, 0, &[(0, 0, 3, 3), (0, 0, 3, 3)]),
            [0, 7],
            "with none at work the new one is scaled"
        );
    }

    #[test]
    fn set_with_stale_annotation_is_updated() {
        let views = [set((5, 5, 10, 10)), set((5, 5, 10, 10))];
        let sets = ReplicaSets { all: views.iter().collect(), current: Some(1) };
        assert_eq!(
            super::scale_sets(&deployment(9, 1, 0), &sets),
            [SetScale { index: 0, replicas: 5 }, SetScale { index: 1, replicas: 5 }]
        );
    }
}
