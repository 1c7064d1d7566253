//! The pods that a DaemonSet creates and deletes, node by node. Pure: no I/O, no clock.
//!
//! First every node gets its desired pods ([`manage`]). Only when nothing is left to do there, pods of an
//! old template are replaced ([`roll`]): either an old pod is deleted and the next reconcile creates the new one, or, with
//! `maxSurge`, the new pod is created beside it and the old one is deleted when the new one is available.

#![warn(clippy::arithmetic_side_effects)]

use jiff::Timestamp;

/// The health of a pod, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DaemonPodHealth {
    Failed,
    Succeeded,
    Unready,
    /// Ready, but not for `minReadySeconds` yet.
    Ready,
    Available,
}

/// A pod that is bound to a node or created for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonPod {
    pub name: String,
    pub health: DaemonPodHealth,
    pub is_deleting: bool,
    /// Bound to the node, as opposed to created for it.
    pub is_bound: bool,
    pub created: Option<Timestamp>,
    /// Created from the newest template.
    pub is_updated: bool,
}

impl DaemonPod {
    /// The order of a node's pods: the first is the one to keep.
    fn rank(&self) -> (bool, Option<Timestamp>, &str) {
        (!self.is_bound, self.created, &self.name)
    }

    fn is_available(&self) -> bool {
        self.health == DaemonPodHealth::Available
    }
}

/// A node, with the pods of the set that are bound to it or created for it.
#[derive(Clone, Debug, Default)]
pub struct NodePods {
    pub node: String,
    /// A pod should run here; an existing one may continue.
    pub should_run: bool,
    pub may_continue: bool,
    /// The node exists.
    pub exists: bool,
    pub pods: Vec<DaemonPod>,
}

impl NodePods {
    /// The pods that continue to run, oldest first.
    fn remaining_pods(&self) -> Vec<&DaemonPod> {
        let lasts = |member: &&DaemonPod| !member.is_deleting && member.health > DaemonPodHealth::Succeeded;
        let mut lasting: Vec<_> = self.pods.iter().filter(lasts).collect();
        lasting.sort_by(|a, b| a.rank().cmp(&b.rank()));
        lasting
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonSetPlan {
    /// Names of nodes.
    pub create: Vec<String>,
    pub delete: Vec<String>,
    /// Pods that have terminated, with their nodes: their replacement is subject to backoff.
    pub ended: Vec<EndedPod>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedPod {
    pub pod: String,
    pub node: String,
    pub has_failed: bool,
}

/// One pod per node, or none. With `surges` an old and a new pod may coexist.
pub fn manage(sites: &[NodePods], surges: bool) -> DaemonSetPlan {
    let mut plan = DaemonSetPlan::default();
    for site in sites {
        let names =
            |members: &[&DaemonPod]| members.iter().map(|member| member.name.clone()).collect::<Vec<_>>();
        if !site.exists {
            // No other controller deletes unbound pods created for a node that is gone.
            let stranded: Vec<_> = site.pods.iter().filter(|m| !m.is_bound && !m.is_deleting).collect();
            plan.delete.extend(names(&stranded));
        } else if site.should_run && site.pods.is_empty() {
            plan.create.push(site.node.clone());
        } else if site.may_continue {
            let ended = site.pods.iter().filter(|m| !m.is_deleting && m.health <= DaemonPodHealth::Succeeded);
            plan.ended.extend(ended.map(|member| EndedPod {
                pod: member.name.clone(),
                node: site.node.clone(),
                has_failed: member.health == DaemonPodHealth::Failed,
            }));
            let lasting = site.remaining_pods();
            if !surges {
                plan.delete.extend(names(lasting.get(1..).unwrap_or_default()));
            } else if lasting.is_empty() && site.should_run {
                plan.create.push(site.node.clone());
            } else {
                plan.delete.extend(names(&pods_to_delete(&lasting)));
            }
        } else {
            let unwanted: Vec<_> = site.pods.iter().filter(|member| !member.is_deleting).collect();
            plan.delete.extend(names(&unwanted));
        }
    }
    plan
}

/// The pods to delete on a node that may have two: all but the oldest new and the oldest old one. The old one is deleted too if it
/// is not ready, or if the new one is available.
fn pods_to_delete<'a>(lasting: &[&'a DaemonPod]) -> Vec<&'a DaemonPod> {
    let mut firsts: [Option<&DaemonPod>; 2] = [None, None];
    let mut superfluous = Vec::new();
    for member in lasting {
        match &mut firsts[usize::from(member.is_updated)] {
            Some(_) => superfluous.push(*member),
            first => *first = Some(member),
        }
    }
    if let [Some(old), Some(new)] = firsts
        && (old.health < DaemonPodHealth::Ready || new.is_available())
    {
        superfluous.push(old);
    }
    superfluous
}

/// The one new and the one old pod of a node; `None` if there are more.
fn new_and_old_pod(site: &NodePods) -> Option<(Option<&DaemonPod>, Option<&DaemonPod>)> {
    let mut found = (None, None);
    for member in site.pods.iter().filter(|member| !member.is_deleting) {
        let place = if member.is_updated { &mut found.0 } else { &mut found.1 };
        if place.replace(member).is_some() {
            return None;
        }
    }
    Some(found)
}

/// Replaces pods of an old template, with at most `unavailable` nodes without an available pod, or at most
/// `surge` nodes with two pods.
pub fn roll(sites: &[NodePods], (unavailable, surge): (usize, usize)) -> DaemonSetPlan {
    let sites = || sites.iter().filter(|site| site.should_run || !site.pods.is_empty());
    if surge == 0 {
        return DaemonSetPlan { delete: pods_to_replace(sites(), unavailable), ..DaemonSetPlan::default() };
    }
    let mut plan = DaemonSetPlan::default();
    let (mut doubled, mut available) = (0_usize, 0_usize);
    let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
    for site in sites() {
        let Some((new, old)) = new_and_old_pod(site) else {
            doubled = doubled.saturating_add(1);
            continue;
        };
        available = available.saturating_add(usize::from(old.or(new).is_some_and(DaemonPod::is_available)));
        match (new, old) {
            (_, None) => {}
            (Some(new), Some(old)) if new.is_available() => plan.delete.push(old.name.clone()),
            (Some(_), Some(_)) => doubled = doubled.saturating_add(1),
            (None, Some(old)) => match (old.is_available(), site.should_run) {
                (false, false) => plan.delete.push(old.name.clone()),
                (false, true) => plan.create.push(site.node.clone()),
                (true, false) => misplaced.push(old.name.clone()),
                (true, true) => candidates.push(site.node.clone()),
            },
        }
    }
    // A pod on a node that should have none is deleted when the desired nodes have available pods.
    let wanted = sites().filter(|site| site.should_run).count();
    plan.delete.extend(misplaced.into_iter().take(available.saturating_sub(wanted)));
    plan.create.extend(candidates.into_iter().take(surge.saturating_sub(doubled)));
    plan
}

fn pods_to_replace<'a>(sites: impl Iterator<Item = &'a NodePods>, allowed: usize) -> Vec<String> {
    let mut missing = 0_usize;
    let (mut broken, mut candidates) = (Vec::new(), Vec::new());
    for site in sites {
        match new_and_old_pod(site) {
            Some((None, Some(old))) if old.is_available() => candidates.push(old.name.clone()),
            Some((None, Some(old))) => {
                broken.push(old.name.clone());
                missing = missing.saturating_add(1);
            }
            Some((Some(new), None)) => missing = missing.saturating_add(usize::from(!new.is_available())),
            // None, or too many: `manage` corrects that first.
            _ => missing = missing.saturating_add(1),
        }
    }
    // Pods that are not available can be replaced at any time.
    broken.extend(candidates.into_iter().take(allowed.saturating_sub(missing)));
    broken
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DaemonSetCounts {
    pub desired: i64,
    pub current: i64,
    pub misscheduled: i64,
    pub ready: i64,
    pub available: i64,
    pub updated: i64,
}

pub fn count(sites: &[NodePods]) -> DaemonSetCounts {
    let mut counts = DaemonSetCounts::default();
    for site in sites.iter().filter(|site| site.exists) {
        let first = site.pods.iter().min_by(|a, b| a.rank().cmp(&b.rank()));
        if !site.should_run {
            counts.misscheduled = counts.misscheduled.saturating_add(i64::from(first.is_some()));
            continue;
        }
        counts.desired = counts.desired.saturating_add(1);
        if let Some(first) = first {
            counts.current = counts.current.saturating_add(1);
            counts.ready = counts.ready.saturating_add(i64::from(first.health >= DaemonPodHealth::Ready));
            counts.available = counts.available.saturating_add(i64::from(first.is_available()));
            counts.updated = counts.updated.saturating_add(i64::from(first.is_updated));
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notation: nodes `a`, `b`, ... separated by blanks. Pods: `A` available, `R` ready, `U` unready, `F` failed; lower case
    /// for the old template; a following `!` means being deleted. Prefixes: `-` no pod is desired here,
    /// `~` but an existing one may continue, `0` the node does not exist. Pods are named after their node and number.
    fn parse_nodes(picture: &str) -> Vec<NodePods> {
        let mut sites = Vec::new();
        for (text, node) in picture.split(' ').zip('a'..) {
            let mut site = NodePods {
                node: node.to_string(),
                should_run: true,
                may_continue: true,
                exists: true,
                ..NodePods::default()
            };
            for sign in text.chars() {
                let health = match sign.to_ascii_uppercase() {
                    '-' => {
                        (site.should_run, site.may_continue) = (false, false);
                        continue;
                    }
                    '~' => {
                        site.should_run = false;
                        continue;
                    }
                    '0' => {
                        (site.should_run, site.may_continue, site.exists) = (false, false, false);
                        continue;
                    }
                    '!' => {
                        site.pods.last_mut().unwrap().is_deleting = true;
                        continue;
                    }
                    '.' => continue,
                    'F' => DaemonPodHealth::Failed,
                    'U' => DaemonPodHealth::Unready,
                    'R' => DaemonPodHealth::Ready,
                    _ => DaemonPodHealth::Available,
                };
                let name = format!("{node}{}", site.pods.len());
                let updated = sign.is_ascii_uppercase();
                let placed = site.exists;
                site.pods.push(DaemonPod {
                    name,
                    health,
                    is_deleting: false,
                    is_bound: placed,
                    created: None,
                    is_updated: updated,
                });
            }
            sites.push(site);
        }
        sites
    }

    fn render_plan(plan: &DaemonSetPlan) -> String {
        let ended: Vec<_> = plan.ended.iter().map(|ended| ended.pod.as_str()).collect();
        let parts = [("+", plan.create.join(" ")), ("-", plan.delete.join(" ")), ("x", ended.join(" "))];
        let filled = parts.iter().filter(|(_, names)| !names.is_empty());
        filled.map(|(sign, names)| format!("{sign}{names}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn manage_creates_one_pod_per_desired_node() {
        let table = [
            (". A -.", "+a"),
            ("-A ~A ~.", "-a0"),
            ("AA Aa", "-a1 b1"),
            ("F U!", "xa0"),
            ("0U 0.", "-a0"),
            ("A! -A!", ""),
        ];
        for (picture, expected) in table {
            assert_eq!(render_plan(&manage(&parse_nodes(picture), false)), expected, "{picture}");
        }
    }

    #[test]
    fn manage_allows_two_pods_with_surge() {
        let table = [
            ("aU", ""),
            ("aA", "-a0"),
            ("uU", "-a0"),
            ("aaU", "-a1"),
            ("aUU", "-a2"),
            ("A! .", "+a b"),
            ("F", "+a xa0"),
        ];
        for (picture, expected) in table {
            assert_eq!(render_plan(&manage(&parse_nodes(picture), true)), expected, "{picture}");
        }
    }

    #[test]
    fn roll_deletes_old_pods_within_max_unavailable() {
        let table = [
            ("a a a", 1, "-a0"),
            ("a a a", 2, "-a0 b0"),
            ("U a a", 1, ""),
            (". a a", 1, ""),
            ("a! a a", 1, ""),
            ("A a a", 1, "-b0"),
            ("A A A", 1, ""),
            ("u a a", 1, "-a0"),
            ("u a u", 3, "-a0 c0 b0"),
        ];
        for (picture, unavailable, expected) in table {
            assert_eq!(
                render_plan(&roll(&parse_nodes(picture), (unavailable, 0))),
                expected,
                "{picture} {unavailable}"
            );
        }
    }

    #[test]
    fn roll_creates_new_pods_within_max_surge() {
        let table = [
            ("a a a", 1, "+a"),
            ("aU a a", 1, ""),
            ("aA a a", 1, "+b -a0"),
            ("A a u", 1, "+c b"),
            ("a A ~a", 1, "+a -c0"),
            ("a U ~a", 1, "+a"),
            ("a A ~u", 1, "+a -c0"),
        ];
        for (picture, surge, expected) in table {
            assert_eq!(render_plan(&roll(&parse_nodes(picture), (0, surge))), expected, "{picture} {surge}");
        }
    }

    #[test]
    fn pods_are_counted_by_node() {
        let counts = count(&parse_nodes("A a R . ~A 0U"));
        assert_eq!(
            counts,
            DaemonSetCounts { desired: 4, current: 3, misscheduled: 1, ready: 3, available: 2, updated: 2 }
        );
    }
}
