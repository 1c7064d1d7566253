//! The next steps of a StatefulSet. Pure: no I/O, no clock.
//!
//! Pods are created in ascending order of their ordinals, deleted in descending order, and replaced in descending order down to the
//! partition. With `OrderedReady` one step is taken at a time, and each pod must be available before the next step. With `Parallel` all
//! pods are created and deleted at once, but still replaced one after the other.
//!
//! As in Kubernetes, an ordered set waits even for a pod that can never become ready: a broken template is fixed by a new template *and* by
//! deleting the broken pod.

#![warn(clippy::arithmetic_side_effects)]

use std::ops::Range;

/// Progress of a pod, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatefulPodHealth {
    /// Succeeded or failed.
    Finished,
    Pending,
    Unready,
    /// Ready, but not for `minReadySeconds` yet.
    Ready,
    Available,
}

/// An existing pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatefulPod {
    pub ordinal: i64,
    /// Whether the pod has the update revision (`is_updated`) and the current revision (`is_current`); both if they are equal.
    pub is_updated: bool,
    pub is_current: bool,
    pub health: StatefulPodHealth,
    pub is_deleting: bool,
}

impl StatefulPod {
    fn is_unavailable(&self) -> bool {
        self.is_deleting || self.health < StatefulPodHealth::Available
    }
}

/// The desired state.
#[derive(Clone, Debug)]
pub struct DesiredSet {
    pub ordinals: Range<i64>,
    pub is_ordered: bool,
    pub is_rolling: bool,
    /// Pods with lower ordinals are not replaced.
    pub first_updated: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatefulPodAction {
    /// Create the pod, and its claims before it.
    Create(i64),
    /// Create missing claims.
    CreateClaims(i64),
    /// Restore the labels that identify the pod, and the owner references of its claims.
    Repair(i64),
    /// Set the owner references of the claims of a pod that is scaled down.
    SetClaimOwners(i64),
    Delete(i64),
    /// Delete the pod, to create it again from the newest template.
    Replace(i64),
}

/// Maximum number of pods created by one plan. Their creation triggers another reconcile.
const MAX_CREATED: usize = 500;

/// Returns the next steps, in order; `members` are sorted by ordinal.
pub fn plan(aim: &DesiredSet, members: &[StatefulPod]) -> Vec<StatefulPodAction> {
    let mut steps = Vec::new();
    let member = |ordinal| {
        let at = members.binary_search_by_key(&ordinal, |member| member.ordinal).ok()?;
        members.get(at)
    };
    let mut created: usize = 0;
    for ordinal in aim.ordinals.clone() {
        let wait = match member(ordinal) {
            None if created == MAX_CREATED => break,
            None => {
                created = created.saturating_add(1);
                steps.push(StatefulPodAction::Create(ordinal));
                true
            }
            Some(member) if member.health == StatefulPodHealth::Finished => {
                if !member.is_deleting {
                    steps.push(StatefulPodAction::Delete(ordinal));
                }
                true
            }
            Some(member) => {
                if member.health == StatefulPodHealth::Pending {
                    steps.push(StatefulPodAction::CreateClaims(ordinal));
                }
                if !(aim.is_ordered && member.is_unavailable()) {
                    steps.push(StatefulPodAction::Repair(ordinal));
                }
                member.is_unavailable()
            }
        };
        if wait && aim.is_ordered {
            return steps;
        }
    }
    if scale_down(aim, members, &mut steps) && aim.is_rolling {
        steps.extend(next_replacement(aim, member));
    }
    steps
}

/// Deletes excess pods. Returns whether pods may be replaced after that.
fn scale_down(aim: &DesiredSet, members: &[StatefulPod], steps: &mut Vec<StatefulPodAction>) -> bool {
    let condemned = || members.iter().rev().filter(|member| !aim.ordinals.contains(&member.ordinal));
    steps.extend(condemned().map(|member| StatefulPodAction::SetClaimOwners(member.ordinal)));
    // An unavailable pod blocks the others, unless it is itself the next to delete.
    let first_unavailable = members
        .iter()
        .filter(|member| member.is_unavailable())
        .min_by_key(|member| (!aim.ordinals.contains(&member.ordinal), member.ordinal));
    for member in condemned() {
        let blocked = member.health < StatefulPodHealth::Available && Some(member) != first_unavailable;
        if aim.is_ordered && (member.is_deleting || blocked) {
            return false;
        }
        if !member.is_deleting {
            steps.push(StatefulPodAction::Delete(member.ordinal));
            if aim.is_ordered {
                return false;
            }
        }
    }
    true
}

/// Returns the next pod to replace: the highest one of an old revision, if all above it are available.
fn next_replacement<'a>(
    aim: &DesiredSet,
    member: impl Fn(i64) -> Option<&'a StatefulPod>,
) -> Option<StatefulPodAction> {
    for ordinal in aim.ordinals.clone().rev().take_while(|ordinal| *ordinal >= aim.first_updated) {
        let member = member(ordinal)?;
        if !member.is_updated && !member.is_deleting {
            return Some(StatefulPodAction::Replace(ordinal));
        }
        if member.is_unavailable() {
            return None;
        }
    }
    None
}

/// Number of pods per state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatefulSetCounts {
    pub replicas: i64,
    pub ready: i64,
    pub available: i64,
    pub current: i64,
    pub updated: i64,
}

pub fn count(members: &[StatefulPod]) -> StatefulSetCounts {
    let of = |wanted: fn(&StatefulPod) -> bool| {
        i64::try_from(members.iter().filter(|member| wanted(member)).count()).unwrap_or(i64::MAX)
    };
    StatefulSetCounts {
        replicas: of(|_| true),
        ready: of(|member| member.health >= StatefulPodHealth::Ready),
        available: of(|member| member.health == StatefulPodHealth::Available),
        current: of(|member| member.is_current && !member.is_deleting),
        updated: of(|member| member.is_updated && !member.is_deleting),
    }
}

#[cfg(test)]
mod tests {
    use super::StatefulPodAction::*;
    use super::*;

    /// Notation: `A` available, `R` ready, `U` unready, `P` pending, `F` finished; lower case for the old revision; a following `!` means
    /// being deleted; `.` means no pod.
    fn parse_pods(picture: &str) -> Vec<StatefulPod> {
        let mut members: Vec<StatefulPod> = Vec::new();
        let mut ordinal = 0;
        for sign in picture.chars() {
            let health = match sign.to_ascii_uppercase() {
                '!' => {
                    members.last_mut().unwrap().is_deleting = true;
                    continue;
                }
                'F' => StatefulPodHealth::Finished,
                'P' => StatefulPodHealth::Pending,
                'U' => StatefulPodHealth::Unready,
                'R' => StatefulPodHealth::Ready,
                _ => StatefulPodHealth::Available,
            };
            if sign != '.' {
                let is_updated = sign.is_ascii_uppercase();
                members.push(StatefulPod {
                    ordinal,
                    is_updated,
                    is_current: !is_updated,
                    health,
                    is_deleting: false,
                });
            }
            ordinal = ordinal.saturating_add(1);
        }
        members
    }

    fn desired(replicas: i64, ordered: bool) -> DesiredSet {
        DesiredSet { ordinals: 0..replicas, is_ordered: ordered, is_rolling: true, first_updated: 0 }
    }

    /// Returns the steps that create, delete or replace pods.
    fn pod_actions(aim: &DesiredSet, picture: &str) -> Vec<StatefulPodAction> {
        let mut steps = plan(aim, &parse_pods(picture));
        steps.retain(|step| matches!(step, Create(_) | Delete(_) | Replace(_)));
        steps
    }

    #[test]
    fn parallel_set_of_two_billion_replicas_is_planned_in_parts() {
        let most = desired(i64::from(i32::MAX), false);
        let steps = pod_actions(&most, "A.A");
        assert_eq!((steps.len(), steps[0], steps[499]), (500, Create(1), Create(501)));
    }

    #[test]
    fn ordered_set_takes_one_action_and_waits() {
        let table: &[(i64, &str, &[StatefulPodAction])] = &[
            (3, "", &[Create(0)]),
            (3, "P", &[]),
            (3, "U", &[]),
            (3, "R", &[]),
            (3, "A", &[Create(1)]),
            (3, "AA!", &[]),
            (3, "A.A", &[Create(1)]),
            (3, "AFA", &[Delete(1)]),
            (3, "AF!A", &[]),
            (3, "AAA", &[]),
            // Scale-down: from the highest ordinal, each after the previous one is gone.
            (1, "AAA", &[Delete(2)]),
            (1, "AAA!", &[]),
            (1, "AA", &[Delete(1)]),
            (0, "A", &[Delete(0)]),
            (1, "UAA", &[]),
            (1, "AUA", &[Delete(2)]),
            (1, "AAU", &[Delete(2)]),
            (1, "AUU", &[]),
            // New template: from the highest ordinal, each after the previous one is available.
            (3, "aaa", &[Replace(2)]),
            (3, "aaa!", &[]),
            (3, "aa", &[Create(2)]),
            (3, "aaU", &[]),
            (3, "aaA", &[Replace(1)]),
            (3, "aAA", &[Replace(0)]),
            (2, "aaA", &[Delete(2)]),
            // A broken pod blocks, even with a new template.
            (3, "aau", &[]),
        ];
        for (replicas, picture, expected) in table {
            assert_eq!(
                pod_actions(&desired(*replicas, true), picture),
                *expected,
                "{replicas} of {picture:?}"
            );
        }
    }

    #[test]
    fn parallel_set_scales_at_once_and_replaces_one_by_one() {
        let table: &[(i64, &str, &[StatefulPodAction])] = &[
            (3, "", &[Create(0), Create(1), Create(2)]),
            (3, "PF", &[Delete(1), Create(2)]),
            (1, "UAUA!", &[Delete(2), Delete(1)]),
            (3, "aaa", &[Replace(2)]),
            (3, "uaU", &[]),
            (3, "uua", &[Replace(2)]),
            (3, "uaA", &[Replace(1)]),
            (3, "auA", &[Replace(1)]),
        ];
        for (replicas, picture, expected) in table {
            assert_eq!(
                pod_actions(&desired(*replicas, false), picture),
                *expected,
                "{replicas} of {picture:?}"
            );
        }
    }

    #[test]
    fn partition_and_on_delete_keep_old_pods() {
        let partitioned = DesiredSet { first_updated: 2, ..desired(3, true) };
        assert_eq!(pod_actions(&partitioned, "aaa"), [Replace(2)]);
        assert_eq!(pod_actions(&partitioned, "aaA"), []);
        let by_hand = DesiredSet { is_rolling: false, ..desired(3, true) };
        assert_eq!(pod_actions(&by_hand, "aaa"), []);
        let later = DesiredSet { ordinals: 2..4, first_updated: 2, ..desired(0, true) };
        assert_eq!(pod_actions(&later, "..aa"), [Replace(3)]);
        assert_eq!(pod_actions(&later, "AAAA"), [Delete(1)], "what lies before the start goes, too");
    }

    #[test]
    fn plan_repairs_claims() {
        assert_eq!(plan(&desired(1, true), &parse_pods("P")), [CreateClaims(0)]);
        assert_eq!(plan(&desired(1, false), &parse_pods("P")), [CreateClaims(0), Repair(0)]);
        assert_eq!(plan(&desired(1, true), &parse_pods("AA")), [Repair(0), SetClaimOwners(1), Delete(1)]);
    }

    #[test]
    fn pods_are_counted() {
        let counts = count(&parse_pods("aaRU!P"));
        assert_eq!(counts, StatefulSetCounts { replicas: 5, ready: 3, available: 2, current: 2, updated: 2 });
    }
}
