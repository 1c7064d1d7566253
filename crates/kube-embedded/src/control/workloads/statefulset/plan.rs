//! What is to be done next for a StatefulSet. Pure.
//!
//! Pods are made from the lowest number up, taken away from the highest down, and replaced from the highest down to
//! the partition. An ordered set does one thing and waits for each pod to be available; a parallel one makes and takes
//! away all it can at once, but also replaces one after the other.
//!
//! As in Kubernetes, an ordered set waits even for a pod that can never become ready: a broken template is mended by
//! another template *and* by deleting the broken pod.

#![warn(clippy::arithmetic_side_effects)]

use std::ops::Range;

/// How far a pod has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// It has ended, in whatever way.
    Finished,
    Pending,
    Unready,
    /// Ready, but not for long enough.
    Ready,
    Available,
}

/// A pod that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub ordinal: i64,
    /// It was made from the newest template, from that which the set comes from, or from both when they are one.
    pub is_updated: bool,
    pub is_current: bool,
    pub health: Health,
    pub deleting: bool,
}

impl Member {
    fn is_unavailable(&self) -> bool {
        self.deleting || self.health < Health::Available
    }
}

/// What the plan depends on.
#[derive(Clone, Debug)]
pub struct Aim {
    pub ordinals: Range<i64>,
    pub ordered: bool,
    pub rolls: bool,
    /// Pods below it are not replaced.
    pub first_updated: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make the pod, and its claims before it.
    Create(i64),
    /// Make claims that are missing.
    Furnish(i64),
    /// Give the pod and its claims back what marks them as the set's.
    Mend(i64),
    /// Let the claims of a pod that goes follow it, or not.
    Condemn(i64),
    Delete(i64),
    /// Delete, to be made anew from the newest template.
    Replace(i64),
}

/// Pods that one plan creates. Their creation is a reason to plan again.
const MOST_CREATED: usize = 500;

/// The next steps, in order; `members` are in the order of their numbers.
pub fn plan(aim: &Aim, members: &[Member]) -> Vec<Step> {
    let mut steps = Vec::new();
    let member = |ordinal| {
        let at = members.binary_search_by_key(&ordinal, |member| member.ordinal).ok()?;
        members.get(at)
    };
    let mut created: usize = 0;
    for ordinal in aim.ordinals.clone() {
        let wait = match member(ordinal) {
            None if created == MOST_CREATED => break,
            None => {
                created = created.saturating_add(1);
                steps.push(Step::Create(ordinal));
                true
            }
            Some(member) if member.health == Health::Finished => {
                if !member.deleting {
                    steps.push(Step::Delete(ordinal));
                }
                true
            }
            Some(member) => {
                if member.health == Health::Pending {
                    steps.push(Step::Furnish(ordinal));
                }
                if !(aim.ordered && member.is_unavailable()) {
                    steps.push(Step::Mend(ordinal));
                }
                member.is_unavailable()
            }
        };
        if wait && aim.ordered {
            return steps;
        }
    }
    if take_away(aim, members, &mut steps) && aim.rolls {
        steps.extend(replace(aim, member));
    }
    steps
}

/// The pods that are too many. Answers whether one may go on to replace others.
fn take_away(aim: &Aim, members: &[Member], steps: &mut Vec<Step>) -> bool {
    let condemned = || members.iter().rev().filter(|member| !aim.ordinals.contains(&member.ordinal));
    steps.extend(condemned().map(|member| Step::Condemn(member.ordinal)));
    // One that is not available holds the others up, unless it is itself the next to go.
    let first_unavailable = members
        .iter()
        .filter(|member| member.is_unavailable())
        .min_by_key(|member| (!aim.ordinals.contains(&member.ordinal), member.ordinal));
    for member in condemned() {
        let blocked = member.health < Health::Available && Some(member) != first_unavailable;
        if aim.ordered && (member.deleting || blocked) {
            return false;
        }
        if !member.deleting {
            steps.push(Step::Delete(member.ordinal));
            if aim.ordered {
                return false;
            }
        }
    }
    true
}

/// The pod that is replaced next: the highest old one, once all above it are available.
fn replace<'a>(aim: &Aim, member: impl Fn(i64) -> Option<&'a Member>) -> Option<Step> {
    for ordinal in aim.ordinals.clone().rev().take_while(|ordinal| *ordinal >= aim.first_updated) {
        let member = member(ordinal)?;
        if !member.is_updated && !member.deleting {
            return Some(Step::Replace(ordinal));
        }
        if member.is_unavailable() {
            return None;
        }
    }
    None
}

/// How many pods there are of each sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub replicas: i64,
    pub ready: i64,
    pub available: i64,
    pub current: i64,
    pub updated: i64,
}

pub fn count(members: &[Member]) -> Counts {
    let of = |wanted: fn(&Member) -> bool| {
        i64::try_from(members.iter().filter(|member| wanted(member)).count()).unwrap_or(i64::MAX)
    };
    Counts {
        replicas: of(|_| true),
        ready: of(|member| member.health >= Health::Ready),
        available: of(|member| member.health == Health::Available),
        current: of(|member| member.is_current && !member.deleting),
        updated: of(|member| member.is_updated && !member.deleting),
    }
}

#[cfg(test)]
mod tests {
    use super::Step::*;
    use super::*;

    /// `A` available, `R` ready, `U` unready, `P` pending, `F` finished; small letters are of the old revision, `!` after
    /// one says that it is being deleted, `.` that there is no pod.
    fn members(picture: &str) -> Vec<Member> {
        let mut members: Vec<Member> = Vec::new();
        let mut ordinal = 0;
        for sign in picture.chars() {
            let health = match sign.to_ascii_uppercase() {
                '!' => {
                    members.last_mut().unwrap().deleting = true;
                    continue;
                }
                'F' => Health::Finished,
                'P' => Health::Pending,
                'U' => Health::Unready,
                'R' => Health::Ready,
                _ => Health::Available,
            };
            if sign != '.' {
                let is_updated = sign.is_ascii_uppercase();
                members.push(Member {
                    ordinal,
                    is_updated,
                    is_current: !is_updated,
                    health,
                    deleting: false,
                });
            }
            ordinal = ordinal.saturating_add(1);
        }
        members
    }

    fn aim(replicas: i64, ordered: bool) -> Aim {
        Aim { ordinals: 0..replicas, ordered, rolls: true, first_updated: 0 }
    }

    /// The steps but for those that only look after what is there.
    fn acts(aim: &Aim, picture: &str) -> Vec<Step> {
        let mut steps = plan(aim, &members(picture));
        steps.retain(|step| matches!(step, Create(_) | Delete(_) | Replace(_)));
        steps
    }

    #[test]
    fn parallel_set_of_two_billion_replicas_is_planned_in_parts() {
        let most = aim(i64::from(i32::MAX), false);
        let steps = acts(&most, "A.A");
        assert_eq!((steps.len(), steps[0], steps[499]), (500, Create(1), Create(501)));
    }

    #[test]
    fn an_ordered_set_does_one_thing_and_waits() {
        let table: &[(i64, &str, &[Step])] = &[
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
            // Fewer: from the highest, each when the one before has gone.
            (1, "AAA", &[Delete(2)]),
            (1, "AAA!", &[]),
            (1, "AA", &[Delete(1)]),
            (0, "A", &[Delete(0)]),
            (1, "UAA", &[]),
            (1, "AUA", &[Delete(2)]),
            (1, "AAU", &[Delete(2)]),
            (1, "AUU", &[]),
            // A new template: from the highest, each when the one before is available.
            (3, "aaa", &[Replace(2)]),
            (3, "aaa!", &[]),
            (3, "aa", &[Create(2)]),
            (3, "aaU", &[]),
            (3, "aaA", &[Replace(1)]),
            (3, "aAA", &[Replace(0)]),
            (2, "aaA", &[Delete(2)]),
            // A broken pod is waited for, whatever the template says now.
            (3, "aau", &[]),
        ];
        for (replicas, picture, expected) in table {
            assert_eq!(acts(&aim(*replicas, true), picture), *expected, "{replicas} of {picture:?}");
        }
    }

    #[test]
    fn a_parallel_set_makes_and_takes_away_at_once_and_replaces_one_by_one() {
        let table: &[(i64, &str, &[Step])] = &[
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
            assert_eq!(acts(&aim(*replicas, false), picture), *expected, "{replicas} of {picture:?}");
        }
    }

    #[test]
    fn a_partition_and_deletion_by_hand_keep_old_pods() {
        let partitioned = Aim { first_updated: 2, ..aim(3, true) };
        assert_eq!(acts(&partitioned, "aaa"), [Replace(2)]);
        assert_eq!(acts(&partitioned, "aaA"), []);
        let by_hand = Aim { rolls: false, ..aim(3, true) };
        assert_eq!(acts(&by_hand, "aaa"), []);
        let later = Aim { ordinals: 2..4, first_updated: 2, ..aim(0, true) };
        assert_eq!(acts(&later, "..aa"), [Replace(3)]);
        assert_eq!(acts(&later, "AAAA"), [Delete(1)], "what lies before the start goes, too");
    }

    #[test]
    fn claims_are_looked_after() {
        assert_eq!(plan(&aim(1, true), &members("P")), [Furnish(0)]);
        assert_eq!(plan(&aim(1, false), &members("P")), [Furnish(0), Mend(0)]);
        assert_eq!(plan(&aim(1, true), &members("AA")), [Mend(0), Condemn(1), Delete(1)]);
    }

    #[test]
    fn pods_are_counted() {
        let counts = count(&members("aaRU!P"));
        assert_eq!(counts, Counts { replicas: 5, ready: 3, available: 2, current: 2, updated: 2 });
    }
}
