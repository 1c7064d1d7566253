//! Pagination. A page costs time proportional to its size, not to the list's.
//!
//! The continue token is the name of the last row, prefixed with its namespace for namespaced kinds. Rows that exist
//! throughout are listed exactly once, whatever is created and deleted between pages.

use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use crate::Namespaces;
use crate::cache::{CachedObject, FleetCache, ObjectTable};
use crate::job::{CronJob, Job};
use crate::pod::Pod;
use crate::rows::{CronJobRow, JobRow, NodeRow, PodRow, WorkloadRow};
use crate::view::{FleetView, measured_usage, node_allocation};
use crate::workload::Workload;

/// Requested page.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// The previous page's continue token.
    pub after: Option<&'a str>,
    pub limit: usize,
}

/// Rows and the continue token, which is empty after the last page.
pub type PageResult<R> = (Vec<R>, String);

impl FleetView<'_> {
    /// `GET /nodes`
    pub fn nodes_page(&self, page: Page<'_>) -> PageResult<NodeRow> {
        let mut found: Vec<_> = {
            let state = self.fleet.0.cache.read();
            let after = page.after.map_or(Unbounded, Excluded);
            let nodes = self.visible_nodes(&state).into_iter();
            let nodes = nodes
                .flat_map(|nodes| nodes.by_name.range::<str, _>((after, Unbounded)))
                .map(|(_, node)| node);
            nodes
                .take(page.limit.saturating_add(1))
                .map(|node| (node.clone(), node_allocation(&state, node), measured_usage(&state, node)))
                .collect()
        };
        let rest = continue_token(&mut found, page, |(node, ..)| node.name.to_string());
        (found.iter().map(|(node, load, used)| node.row(load, *used)).collect(), rest)
    }

    /// `GET /deployments`
    pub fn deployments_page(&self, page: Page<'_>) -> PageResult<WorkloadRow> {
        self.page_of(page, |state| &state.deployments, Workload::row)
    }

    /// `GET /statefulsets`
    pub fn statefulsets_page(&self, page: Page<'_>) -> PageResult<WorkloadRow> {
        self.page_of(page, |state| &state.stateful_sets, Workload::row)
    }

    /// `GET /daemonsets`
    pub fn daemonsets_page(&self, page: Page<'_>) -> PageResult<WorkloadRow> {
        self.page_of(page, |state| &state.daemon_sets, Workload::row)
    }

    /// `GET /jobs`
    pub fn jobs_page(&self, page: Page<'_>) -> PageResult<JobRow> {
        self.page_of(page, |state| &state.jobs, Job::row)
    }

    /// `GET /cronjobs`
    pub fn cronjobs_page(&self, page: Page<'_>) -> PageResult<CronJobRow> {
        self.page_of(page, |state| &state.cron_jobs, CronJob::row)
    }

    /// `GET /pods`
    pub fn pods_page(&self, page: Page<'_>) -> PageResult<PodRow> {
        self.page_of(page, |state| &state.pods, Pod::row)
    }

    fn page_of<T: CachedObject, R>(
        &self,
        page: Page<'_>,
        table: fn(&FleetCache) -> &ObjectTable<T>,
        row: fn(&T) -> R,
    ) -> PageResult<R> {
        let (found, rest) = read_page(table(&self.fleet.0.cache.read()), self.visibility.namespaces, page);
        (found.iter().map(|object| row(object)).collect(), rest)
    }
}

/// Sorted by namespace and name.
fn read_page<T: CachedObject>(
    table: &ObjectTable<T>,
    namespaces: Namespaces<'_>,
    page: Page<'_>,
) -> PageResult<Arc<T>> {
    let after = page.after.map(|place| place.split_once('/').unwrap_or((place, "")));
    let mut names: Vec<&str> = match namespaces {
        Namespaces::All => table.namespaces().collect(),
        Namespaces::Only(names) => names.iter().map(String::as_str).collect(),
    };
    names.sort_unstable();
    let names = names.into_iter().filter(|name| after.is_none_or(|(namespace, _)| *name >= namespace));
    let of = |name| {
        let last = after.filter(|(namespace, _)| *namespace == name).map(|(_, last)| last);
        table.list_after(name, last)
    };
    let mut found: Vec<Arc<T>> = names.flat_map(of).take(page.limit.saturating_add(1)).cloned().collect();
    let rest = continue_token(&mut found, page, |object| {
        format!("{}/{}", object.head().namespace, object.head().name)
    });
    (found, rest)
}

/// One more row than requested was read: if it exists, there is another page after the last returned row.
fn continue_token<T>(found: &mut Vec<T>, page: Page<'_>, to_token: impl Fn(&T) -> String) -> String {
    if found.len() <= page.limit {
        return String::new();
    }
    found.truncate(page.limit);
    found.last().map(to_token).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::interner::StringInterner;

    fn table(names: &BTreeSet<(u8, u8)>) -> ObjectTable<Pod> {
        let (mut table, words) = (ObjectTable::default(), StringInterner::default());
        for (namespace, name) in names {
            let told =
                json!({"metadata": {"name": format!("p{name}"), "namespace": format!("x{namespace}")}});
            table.put(Arc::new(Pod::from_object(serde_json::from_value(told).unwrap(), &words)));
        }
        table
    }

    proptest! {
        #[test]
        fn page_after_page_everything_is_seen_once_and_in_order(
            names in prop::collection::btree_set((0..6u8, 0..9u8), 0..40),
            limit in 1..7usize,
            own in prop::option::of(0..6u8),
            leaves in 0..6u8,
        ) {
            let mut table = table(&names);
            let own = own.map(|namespace| [format!("x{namespace}")]);
            let whose = own.as_ref().map_or(Namespaces::All, |names| Namespaces::Only(names));
            let (mut seen, mut after) = (Vec::new(), String::new());
            loop {
                let page = Page { after: Some(&*after).filter(|after| !after.is_empty()), limit };
                let (found, rest) = read_page(&table, whose, page);
                prop_assert!(found.len() <= limit);
                seen.extend(found.iter().map(|pod| (pod.head.namespace.to_string(), pod.head.name.to_string())));
                if rest.is_empty() {
                    break;
                }
                prop_assert_eq!(found.len(), limit);
                // The last row of a page may be deleted before the next page is read.
                let (namespace, name) = rest.split_once('/').unwrap();
                if namespace == format!("x{leaves}") {
                    table.remove(namespace, name);
                }
                after = rest;
            }
            let named = names.iter().map(|(namespace, name)| (format!("x{namespace}"), format!("p{name}")));
            let expected: Vec<_> = named.filter(|(namespace, _)| own.as_ref().is_none_or(|own| own[0] == *namespace)).collect();
            prop_assert_eq!(seen, expected);
        }
    }

    #[test]
    fn forged_continue_token_shows_only_visible_namespaces() {
        let table = table(&BTreeSet::from([(1, 1), (2, 1), (3, 1)]));
        let own = ["x2".to_owned()];
        for after in ["x1/p1", "x1", "", "/", "x2/", "x2/p0"] {
            let (found, rest) =
                read_page(&table, Namespaces::Only(&own), Page { after: Some(after), limit: 10 });
            let names: Vec<_> = found.iter().map(|pod| &*pod.head.namespace).collect();
            assert_eq!((names, rest.as_str()), (vec!["x2"], ""), "{after}");
        }
    }
}
