//! The pods that a DaemonSet creates and deletes, node by node. Pure: no I/O, no clock.
//!
//! First every node gets its desired pods ([`manage`]). Only when nothing is left to do there, pods of an
//! old template are replaced ([`roll`]): either an old pod is deleted and the next reconcile creates the new one, or, with
//! `maxSurge`, the new pod is created beside it and the old one is deleted when the new one is available.

#![warn(clippy::arithmetic_side_effects)]

use jiff::Timestamp;

/// The health of a pod, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    Failed,
    Succeeded,
    Unready,
    /// Ready, but not for `minReadySeconds` yet.
    Ready,
    Available,
}

/// A pod that is bound to a node or created for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub health: Health,
    pub deleting: bool,
    /// Bound to the node, as opposed to created for it.
    pub placed: bool,
    pub created: Option<Timestamp>,
    /// Created from the newest template.
    pub updated: bool,
}

impl Member {
    /// The order of a node's pods: the first is the one to keep.
    fn rank(&self) -> (bool, Option<Timestamp>, &str) {
        (!self.placed, self.created, &self.name)
    }

    fn is_available(&self) -> bool {
        self.health == Health::Available
    }
}

/// A node, with the pods of the set that are bound to it or created for it.
#[derive(Clone, Debug, Default)]
pub struct Site {
    pub node: String,
    /// A pod should run here; an existing one may continue.
    pub wanted: bool,
    pub tolerated: bool,
    /// The node exists.
    pub exists: bool,
    pub members: Vec<Member>,
}

impl Site {
    /// The pods that continue to run, oldest first.
    fn lasting(&self) -> Vec<&Member> {
        let lasts = |member: &&Member| !member.deleting && member.health > Health::Succeeded;
        let mut lasting: Vec<_> = self.members.iter().filter(lasts).collect();
        lasting.sort_by(|a, b| a.rank().cmp(&b.rank()));
        lasting
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Names of nodes.
    pub create: Vec<String>,
    pub delete: Vec<String>,
    /// Pods that have terminated, with their nodes: their replacement is subject to backoff.
    pub ended: Vec<Ended>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub pod: String,
    pub node: String,
    pub failed: bool,
}

/// One pod per node, or none. With `surges` an old and a new pod may coexist.
pub fn manage(sites: &[Site], surges: bool) -> Plan {
    let mut plan = Plan::default();
    for site in sites {
        let names =
            |members: &[&Member]| members.iter().map(|member| member.name.clone()).collect::<Vec<_>>();
        if !site.exists {
            // No other controller deletes unbound pods created for a node that is gone.
            let stranded: Vec<_> = site.members.iter().filter(|m| !m.placed && !m.deleting).collect();
            plan.delete.extend(names(&stranded));
        } else if site.wanted && site.members.is_empty() {
            plan.create.push(site.node.clone());
        } else if site.tolerated {
            let ended = site.members.iter().filter(|m| !m.deleting && m.health <= Health::Succeeded);
            plan.ended.extend(ended.map(|member| Ended {
                pod: member.name.clone(),
                node: site.node.clone(),
                failed: member.health == Health::Failed,
            }));
            let lasting = site.lasting();
            if !surges {
                plan.delete.extend(names(lasting.get(1..).unwrap_or_default()));
            } else if lasting.is_empty() && site.wanted {
                plan.create.push(site.node.clone());
            } else {
                plan.delete.extend(names(&superfluous(&lasting)));
            }
        } else {
            let unwanted: Vec<_> = site.members.iter().filter(|member| !member.deleting).collect();
            plan.delete.extend(names(&unwanted));
        }
    }
    plan
}

/// The pods to delete on a node that may have two: all but the oldest new and the oldest old one. The old one is deleted too if it
/// is not ready, or if the new one is available.
fn superfluous<'a>(lasting: &[&'a Member]) -> Vec<&'a Member> {
    let mut firsts: [Option<&Member>; 2] = [None, None];
    let mut superfluous = Vec::new();
    for member in lasting {
        match &mut firsts[usize::from(member.updated)] {
            Some(_) => superfluous.push(*member),
            first => *first = Some(member),
        }
    }
    if let [Some(old), Some(new)] = firsts
        && (old.health < Health::Ready || new.is_available())
    {
        superfluous.push(old);
    }
    superfluous
}

/// The one new and the one old pod of a node; `None` if there are more.
fn pair(site: &Site) -> Option<(Option<&Member>, Option<&Member>)> {
    let mut found = (None, None);
    for member in site.members.iter().filter(|member| !member.deleting) {
        let place = if member.updated { &mut found.0 } else { &mut found.1 };
        if place.replace(member).is_some() {
            return None;
        }
    }
    Some(found)
}

/// Replaces pods of an old template, with at most `unavailable` nodes without an available pod, or at most
/// `surge` nodes with two pods.
pub fn roll(sites: &[Site], (unavailable, surge): (usize, usize)) -> Plan {
    let sites = || sites.iter().filter(|site| site.wanted || !site.members.is_empty());
    if surge == 0 {
        return Plan { delete: replace(sites(), unavailable), ..Plan::default() };
    }
    let mut plan = Plan::default();
    let (mut doubled, mut available) = (0_usize, 0_usize);
    let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
    for site in sites() {
        let Some((new, old)) = pair(site) else {
            doubled = doubled.saturating_add(1);
            continue;
        };
        available = available.saturating_add(usize::from(old.or(new).is_some_and(Member::is_available)));
        match (new, old) {
            (_, None) => {}
            (Some(new), Some(old)) if new.is_available() => plan.delete.push(old.name.clone()),
            (Some(_), Some(_)) => doubled = doubled.saturating_add(1),
            (None, Some(old)) => match (old.is_available(), site.wanted) {
                (false, false) => plan.delete.push(old.name.clone()),
                (false, true) => plan.create.push(site.node.clone()),
                (true, false) => misplaced.push(old.name.clone()),
                (true, true) => candidates.push(site.node.clone()),
            },
        }
    }
    // A pod on a node that should have none is deleted when the desired nodes have available pods.
    let wanted = sites().filter(|site| site.wanted).count();
    plan.delete.extend(misplaced.into_iter().take(available.saturating_sub(wanted)));
    plan.create.extend(candidates.into_iter().take(surge.saturating_sub(doubled)));
    plan
}

fn replace<'a>(sites: impl Iterator<Item = &'a Site>, allowed: usize) -> Vec<String> {
    let mut missing = 0_usize;
    let (mut broken, mut candidates) = (Vec::new(), Vec::new());
    for site in sites {
        match pair(site) {
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
pub struct Counts {
    pub desired: i64,
    pub current: i64,
    pub misscheduled: i64,
    pub ready: i64,
    pub available: i64,
    pub updated: i64,
}

pub fn count(sites: &[Site]) -> Counts {
    let mut counts = Counts::default();
    for site in sites.iter().filter(|site| site.exists) {
        let first = site.members.iter().min_by(|a, b| a.rank().cmp(&b.rank()));
        if !site.wanted {
            counts.misscheduled = counts.misscheduled.saturating_add(i64::from(first.is_some()));
            continue;
        }
        counts.desired = counts.desired.saturating_add(1);
        if let Some(first) = first {
            counts.current = counts.current.saturating_add(1);
            counts.ready = counts.ready.saturating_add(i64::from(first.health >= Health::Ready));
            counts.available = counts.available.saturating_add(i64::from(first.is_available()));
            counts.updated = counts.updated.saturating_add(i64::from(first.updated));
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
    fn sites(picture: &str) -> Vec<Site> {
        let mut sites = Vec::new();
        for (text, node) in picture.split(' ').zip('a'..) {
            let mut site = Site {
                node: node.to_string(),
                wanted: true,
                tolerated: true,
                exists: true,
                ..Site::default()
            };
            for sign in text.chars() {
                let health = match sign.to_ascii_uppercase() {
                    '-' => {
                        (site.wanted, site.tolerated) = (false, false);
                        continue;
                    }
                    '~' => {
                        site.wanted = false;
                        continue;
                    }
                    '0' => {
                        (site.wanted, site.tolerated, site.exists) = (false, false, false);
                        continue;
                    }
                    '!' => {
                        site.members.last_mut().unwrap().deleting = true;
                        continue;
                    }
                    '.' => continue,
                    'F' => Health::Failed,
                    'U' => Health::Unready,
                    'R' => Health::Ready,
                    _ => Health::Available,
                };
                let name = format!("{node}{}", site.members.len());
                let updated = sign.is_ascii_uppercase();
                let placed = site.exists;
                site.members.push(Member { name, health, deleting: false, placed, created: None, updated });
            }
            sites.push(site);
        }
        sites
    }

    fn text(plan: &Plan) -> String {
        let ended: Vec<_> = plan.ended.iter().map(|ended| ended.pod.as_str()).collect();
        let parts = [("+", plan.create.join(" ")), ("-", plan.delete.join(" ")), ("x", ended.join(" "))];
        let filled = parts.iter().filter(|(_, names)| !names.is_empty());
        filled.map(|(sign, names)| format!("{sign}{names}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_node_has_what_it_should_have() {
        let table = [
            (". A -.", "+a"),
            ("-A ~A ~.", "-a0"),
            ("AA Aa", "-a1 b1"),
            ("F U!", "xa0"),
            ("0U 0.", "-a0"),
            ("A! -A!", ""),
        ];
        for (picture, expected) in table {
            assert_eq!(text(&manage(&sites(picture), false)), expected, "{picture}");
        }
    }

    #[test]
    fn two_pods_may_meet_where_there_is_a_surge() {
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
            assert_eq!(text(&manage(&sites(picture), true)), expected, "{picture}");
        }
    }

    #[test]
    fn old_pods_go_as_far_as_availability_allows() {
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
            assert_eq!(text(&roll(&sites(picture), (unavailable, 0))), expected, "{picture} {unavailable}");
        }
    }

    #[test]
    fn new_pods_come_as_far_as_the_surge_allows() {
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
            assert_eq!(text(&roll(&sites(picture), (0, surge))), expected, "{picture} {surge}");
        }
    }

    #[test]
    fn pods_are_counted_by_node() {
        let counts = count(&sites("A a R . ~A 0U"));
        assert_eq!(
            counts,
            Counts { desired: 4, current: 3, misscheduled: 1, ready: 3, available: 2, updated: 2 }
        );
    }
}
