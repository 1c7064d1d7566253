//! The slices that a Service should have, computed from the existing ones. Pure: no I/O, no clock.
//!
//! As few slices as possible change: endpoints stay in their slice, new ones first fill slices that change anyway, and a
//! slice that would be deleted is reused before another is created.

#![warn(clippy::arithmetic_side_effects)]

use std::collections::HashMap;
use std::sync::Arc;

use super::slice::{Endpoint, Port, Slice, sorted_ports};

/// Capacity of one slice.
const MAX_ENDPOINTS_PER_SLICE: usize = 100;

/// The endpoints with one set of ports.
#[derive(Debug)]
pub struct PortGroup {
    /// Sorted.
    pub ports: Vec<Port>,
    pub endpoints: Vec<Endpoint>,
}

/// The content of a slice.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SliceContent {
    pub ports: Vec<Port>,
    pub endpoints: Vec<Endpoint>,
}

/// A write; the number is the index of an existing slice.
#[derive(Debug, PartialEq, Eq)]
pub enum SliceWrite {
    Create(SliceContent),
    Update(usize, SliceContent),
    Delete(usize),
}

#[derive(Default)]
struct SlicePlan {
    create: Vec<SliceContent>,
    update: Vec<(usize, SliceContent)>,
    delete: Vec<usize>,
}

/// Returns the writes that lead from `existing` to `desired`. `is_stale` reports slices whose labels must be updated.
pub fn plan(
    desired: Vec<PortGroup>,
    existing: &[Arc<Slice>],
    is_stale: impl Fn(&Slice) -> bool,
) -> Vec<SliceWrite> {
    let mut by_ports: HashMap<Vec<Port>, Vec<usize>> = HashMap::new();
    for (at, slice) in existing.iter().enumerate() {
        by_ports.entry(sorted_ports(slice.ports.clone().unwrap_or_default())).or_default().push(at);
    }
    let mut plan = SlicePlan::default();
    for group in desired {
        let own = by_ports.remove(&group.ports).unwrap_or_default();
        plan.plan_group(group, &own, existing, &is_stale);
    }
    plan.delete.extend(by_ports.into_values().flatten());
    plan.delete.sort_unstable();
    if plan.create.is_empty() && plan.delete.len() == existing.len() {
        // A Service has at least one slice, which may be empty.
        let is_empty = |slice: &Slice| {
            slice.ports.as_ref().is_none_or(Vec::is_empty)
                && slice.endpoints.as_ref().is_none_or(Vec::is_empty)
                && !is_stale(slice)
        };
        match existing {
            [only] if is_empty(only) => plan.delete.clear(),
            _ => plan.create.push(SliceContent::default()),
        }
    }
    plan.into_writes()
}

impl SlicePlan {
    /// Places the endpoints of one group; `own` are its existing slices.
    fn plan_group(
        &mut self,
        group: PortGroup,
        own: &[usize],
        existing: &[Arc<Slice>],
        is_stale: &impl Fn(&Slice) -> bool,
    ) {
        let PortGroup { ports, endpoints } = group;
        let places: HashMap<_, usize> =
            endpoints.iter().enumerate().map(|(at, endpoint)| (endpoint.identity(), at)).collect();
        let mut left: Vec<Option<Endpoint>> = endpoints.into_iter().map(Some).collect();
        let mut unchanged: Vec<usize> = Vec::new();
        let mut changed: Vec<(usize, SliceContent)> = Vec::new();
        for &at in own {
            let before = existing[at].endpoints.as_deref().unwrap_or_default();
            let still = before.iter().filter_map(|old| left[*places.get(&old.identity())?].take());
            let kept: Vec<Endpoint> = still.collect();
            if kept.is_empty() && !before.is_empty() {
                self.delete.push(at);
            } else if kept != before || is_stale(&existing[at]) {
                changed.push((at, SliceContent { ports: ports.clone(), endpoints: kept }));
            } else {
                unchanged.push(at);
            }
        }
        let mut left: Vec<Endpoint> = left.into_iter().flatten().collect();
        // The fullest first.
        changed.sort_by_key(|(_, content)| std::cmp::Reverse(content.endpoints.len()));
        for (_, content) in &mut changed {
            fill(&mut content.endpoints, &mut left);
        }
        while !left.is_empty() {
            let size = |at: usize| existing[at].endpoints.as_ref().map_or(0, Vec::len);
            let roomy = (0..unchanged.len())
                .filter(|&n| size(unchanged[n]).saturating_add(left.len()) <= MAX_ENDPOINTS_PER_SLICE);
            let best =
                roomy.max_by_key(|&n| size(unchanged[n])).filter(|_| left.len() < MAX_ENDPOINTS_PER_SLICE);
            let mut content = SliceContent { ports: ports.clone(), endpoints: Vec::new() };
            if let Some(best) = best {
                let at = unchanged.swap_remove(best);
                content.endpoints = existing[at].endpoints.clone().unwrap_or_default();
                fill(&mut content.endpoints, &mut left);
                changed.push((at, content));
            } else {
                fill(&mut content.endpoints, &mut left);
                self.create.push(content);
            }
        }
        self.update.append(&mut changed);
    }

    fn into_writes(mut self) -> Vec<SliceWrite> {
        let reused = self.create.len().min(self.delete.len());
        let contents = self.create.drain(..reused).collect::<Vec<_>>();
        self.update.extend(self.delete.drain(..reused).zip(contents));
        let created = self.create.into_iter().map(SliceWrite::Create);
        let updated = self.update.into_iter().map(|(at, content)| SliceWrite::Update(at, content));
        created.chain(updated).chain(self.delete.into_iter().map(SliceWrite::Delete)).collect()
    }
}

/// Moves as many endpoints as fit, in order.
fn fill(slice: &mut Vec<Endpoint>, left: &mut Vec<Endpoint>) {
    let room = MAX_ENDPOINTS_PER_SLICE.saturating_sub(slice.len()).min(left.len());
    slice.extend(left.drain(..room));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::network::slice::EndpointConditions;

    fn ports(number: i64) -> Vec<Port> {
        vec![Port { number: Some(number), ..Port::default() }]
    }

    fn endpoint(number: usize) -> Endpoint {
        let conditions = EndpointConditions { ready: Some(true), ..EndpointConditions::default() };
        Endpoint { addresses: vec![format!("10.0.0.{number}")], conditions, ..Endpoint::default() }
    }

    fn group(port: i64, endpoints: impl IntoIterator<Item = usize>) -> PortGroup {
        PortGroup { ports: ports(port), endpoints: endpoints.into_iter().map(endpoint).collect() }
    }

    fn slice(port: i64, endpoints: impl IntoIterator<Item = usize>) -> Arc<Slice> {
        let PortGroup { ports, endpoints } = group(port, endpoints);
        Arc::new(Slice { ports: Some(ports), endpoints: Some(endpoints), ..Slice::default() })
    }

    fn empty() -> Arc<Slice> {
        Arc::new(Slice::default())
    }

    /// Notation: `+80:3` creates a slice for port 80 with three endpoints; `0=80:3` updates the first slice to that; `-0` deletes it.
    fn render_plan(wanted: Vec<PortGroup>, existing: &[Arc<Slice>]) -> String {
        let content = |content: &SliceContent| {
            let port = content.ports.first().and_then(|port| port.number).unwrap_or_default();
            format!("{port}:{}", content.endpoints.len())
        };
        let steps = plan(wanted, existing, |slice| slice.metadata.name == "stale");
        let drawn = steps.iter().map(|step| match step {
            SliceWrite::Create(made) => format!("+{}", content(made)),
            SliceWrite::Update(at, made) => format!("{at}={}", content(made)),
            SliceWrite::Delete(at) => format!("-{at}"),
        });
        drawn.collect::<Vec<_>>().join(" ")
    }

    /// Test case: name, desired groups, existing slices, expected writes.
    type PlanCase = (&'static str, Vec<PortGroup>, Vec<Arc<Slice>>, &'static str);

    #[test]
    fn plan_table() {
        let stale = |slice: Arc<Slice>| {
            let slice = Arc::into_inner(slice).unwrap();
            let metadata = crate::control::view::Meta { name: "stale".to_owned(), ..Default::default() };
            Arc::new(Slice { metadata, ..slice })
        };
        #[rustfmt::skip]
        let rows: Vec<PlanCase> = vec![
            ("nothing at all gives an empty slice", vec![], vec![], "+0:0"),
            ("which stays", vec![], vec![empty()], ""),
            ("unless its labels are old", vec![], vec![stale(empty())], "0=0:0"),
            ("the empty slice is used", vec![group(80, 0..1)], vec![empty()], "0=80:1"),
            ("nothing changes", vec![group(80, 0..2)], vec![slice(80, 0..2)], ""),
            ("labels change", vec![group(80, 0..2)], vec![stale(slice(80, 0..2))], "0=80:2"),
            ("one more", vec![group(80, 0..3)], vec![slice(80, 0..2)], "0=80:3"),
            ("one less", vec![group(80, 1..2)], vec![slice(80, 0..2)], "0=80:1"),
            ("the last goes", vec![], vec![slice(80, 0..1)], "0=0:0"),
            ("another port", vec![group(81, 0..1)], vec![slice(80, 0..1)], "0=81:1"),
            ("two sets of ports", vec![group(80, 0..1), group(81, 1..2)], vec![], "+80:1 +81:1"),
            ("one set goes", vec![group(80, 0..1)], vec![slice(80, 0..1), slice(81, 1..2)], "-1"),
            ("more than fit", vec![group(80, 0..250)], vec![], "+80:100 +80:100 +80:50"),
            ("the fullest that has room", vec![group(80, 0..6)], vec![slice(80, 0..2), slice(80, 2..5)], "1=80:4"),
            ("a slice that changes anyway", vec![group(80, 1..6)], vec![slice(80, 0..2), slice(80, 2..5)], "0=80:2"),
            ("an emptied slice goes", vec![group(80, 2..5)], vec![slice(80, 0..2), slice(80, 2..5)], "-0"),
            ("a full slice stays", vec![group(80, 0..101)], vec![slice(80, 0..100)], "+80:1"),
        ];
        for (what, wanted, existing, steps) in rows {
            assert_eq!(render_plan(wanted, &existing), steps, "{what}");
        }
    }
}
