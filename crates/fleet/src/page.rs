//! A page of a list: so many rows, from where the page before ended. Walking on costs what the page costs, not what there is.
//!
//! A place is the name of the last row (with its namespace before it, where rows of several are told), so that what stays is
//! seen once, whatever comes and goes meanwhile.

use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use crate::Namespaces;
use crate::job::{CronJob, Job};
use crate::look::{Look, load, used};
use crate::pod::Pod;
use crate::rows::{CronJobRow, JobRow, NodeRow, PodRow, WorkloadRow};
use crate::state::{Kept, State, Table};
use crate::workload::Workload;

/// Which part of a list.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Where the page before ended, as it said.
    pub after: Option<&'a str>,
    pub limit: usize,
}

/// Rows, and where they end; empty where there are no more.
pub type Part<R> = (Vec<R>, String);

impl Look<'_> {
    /// `GET /nodes`
    pub fn nodes_page(&self, page: Page<'_>) -> Part<NodeRow> {
        let mut found: Vec<_> = {
            let state = self.fleet.0.state.read();
            let after = page.after.map_or(Unbounded, Excluded);
            let nodes = self.nodes_of(&state).into_iter();
            let nodes = nodes
                .flat_map(|nodes| nodes.by_name.range::<str, _>((after, Unbounded)))
                .map(|(_, node)| node);
            nodes
                .take(page.limit.saturating_add(1))
                .map(|node| (node.clone(), load(&state, node), used(&state, node)))
                .collect()
        };
        let rest = rest(&mut found, page, |(node, ..)| node.name.to_string());
        (found.iter().map(|(node, load, used)| node.row(load, *used)).collect(), rest)
    }

    /// `GET /deployments`
    pub fn deployments_page(&self, page: Page<'_>) -> Part<WorkloadRow> {
        self.part(page, |state| &state.deployments, Workload::row)
    }

    /// `GET /statefulsets`
    pub fn statefulsets_page(&self, page: Page<'_>) -> Part<WorkloadRow> {
        self.part(page, |state| &state.stateful_sets, Workload::row)
    }

    /// `GET /daemonsets`
    pub fn daemonsets_page(&self, page: Page<'_>) -> Part<WorkloadRow> {
        self.part(page, |state| &state.daemon_sets, Workload::row)
    }

    /// `GET /jobs`
    pub fn jobs_page(&self, page: Page<'_>) -> Part<JobRow> {
        self.part(page, |state| &state.jobs, Job::row)
    }

    /// `GET /cronjobs`
    pub fn cronjobs_page(&self, page: Page<'_>) -> Part<CronJobRow> {
        self.part(page, |state| &state.cron_jobs, CronJob::row)
    }

    /// `GET /pods`
    pub fn pods_page(&self, page: Page<'_>) -> Part<PodRow> {
        self.part(page, |state| &state.pods, Pod::row)
    }

    /// By namespace, then by name.
    fn part<T: Kept, R>(&self, page: Page<'_>, table: fn(&State) -> &Table<T>, row: fn(&T) -> R) -> Part<R> {
        let after = page.after.map(|place| place.split_once('/').unwrap_or((place, "")));
        let mut found: Vec<Arc<T>> = {
            let state = self.fleet.0.state.read();
            let table = table(&state);
            let mut names: Vec<&str> = match self.whose.namespaces {
                Namespaces::All => table.namespaces().collect(),
                Namespaces::Of(names) => names.iter().map(String::as_str).collect(),
            };
            names.sort_unstable();
            let names =
                names.into_iter().filter(|name| after.is_none_or(|(namespace, _)| *name >= namespace));
            let of = |name| {
                table.after(name, after.filter(|(namespace, _)| *namespace == name).map(|(_, last)| last))
            };
            names.flat_map(of).take(page.limit.saturating_add(1)).cloned().collect()
        };
        let rest =
            rest(&mut found, page, |object| format!("{}/{}", object.head().namespace, object.head().name));
        (found.iter().map(|object| row(object)).collect(), rest)
    }
}

/// One more than wanted was looked for: if it is there, the page has a rest, and the last that is told says where.
fn rest<T>(found: &mut Vec<T>, page: Page<'_>, place: impl Fn(&T) -> String) -> String {
    if found.len() <= page.limit {
        return String::new();
    }
    found.truncate(page.limit);
    found.last().map(place).unwrap_or_default()
}

#[cfg(test)]
mod tests;
