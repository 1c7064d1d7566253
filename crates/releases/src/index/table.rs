//! All rows in every sort order, updated incrementally: a page costs one scan and no sorting.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::watch;

use super::order::{Cursor, Sort};
use super::query::{DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, PageStart, Query};
use super::row::ReleaseRow;
use crate::key::ReleaseKey;

/// The maximum number of values per facet.
const MAX_FACET_VALUES: usize = 100;

#[derive(Default)]
pub(crate) struct Table {
    inner: RwLock<TableState>,
    events: watch::Sender<u64>,
}

#[derive(Default)]
struct TableState {
    rows: HashMap<ReleaseKey, Arc<ReleaseRow>>,
    orders: [Vec<Arc<ReleaseRow>>; Sort::ALL.len()],
    /// The number of changes.
    changes: u64,
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page {
    pub rows: Vec<Arc<ReleaseRow>>,
    /// The number of matching rows on all pages.
    pub total: usize,
    /// The offset of the first row.
    pub offset: usize,
    /// The start of the next page; `None` on the last page.
    pub next: Option<Cursor>,
    /// Counts per value of each requested facet.
    pub facets: BTreeMap<&'static str, BTreeMap<String, usize>>,
    /// A counter that grows with each change of any release.
    pub seq: u64,
}

impl Table {
    /// Sets or removes the row of a release.
    pub fn put(&self, key: &ReleaseKey, row: Option<ReleaseRow>) {
        let mut inner = self.inner.write();
        let inner = &mut *inner;
        if inner.rows.get(key).map(|row| &**row) == row.as_ref() {
            return;
        }
        inner.changes = inner.changes.wrapping_add(1);
        if let Some(old) = inner.rows.remove(key) {
            for (sort, order) in Sort::ALL.into_iter().zip(&mut inner.orders) {
                if let Ok(at) = order.binary_search_by(|row| sort.compare_rows(row, &old)) {
                    order.remove(at);
                }
            }
        }
        if let Some(row) = row.map(Arc::new) {
            for (sort, order) in Sort::ALL.into_iter().zip(&mut inner.orders) {
                let at = order.partition_point(|other| sort.compare_rows(other, &row).is_lt());
                order.insert(at, row.clone());
            }
            inner.rows.insert(key.clone(), row);
        }
    }

    /// Notifies subscribers of an event, whether or not a row changed.
    pub fn notify(&self) {
        self.events.send_modify(|heard| *heard = heard.wrapping_add(1));
    }

    pub fn watch_changes(&self) -> watch::Receiver<u64> {
        self.events.subscribe()
    }

    /// Returns one page. `may_see` decides on the visibility of a row.
    pub fn page(&self, query: &Query, may_see: impl FnMut(&ReleaseRow) -> bool) -> Page {
        let inner = self.inner.read();
        let order = &inner.orders[query.sort as usize];
        let mut scan = PageScan::new(query, may_see);
        for at in 0..order.len() {
            let at = if query.descending { order.len().saturating_sub(at).saturating_sub(1) } else { at };
            scan.visit(&order[at]);
        }
        scan.into_page(inner.changes)
    }
}

/// One scan over all rows.
struct PageScan<'a, F> {
    query: &'a Query,
    is_visible: F,
    limit: usize,
    rows: Vec<Arc<ReleaseRow>>,
    /// Matching rows so far.
    total: usize,
    first_offset: Option<usize>,
    counts: Vec<HashMap<&'a str, usize>>,
}

impl<'a, F: FnMut(&ReleaseRow) -> bool> PageScan<'a, F> {
    fn new(query: &'a Query, may_see: F) -> Self {
        let limit = if query.limit == 0 { DEFAULT_PAGE_SIZE } else { query.limit.min(MAX_PAGE_SIZE) };
        let counts = query.facets.iter().map(|_| HashMap::new()).collect();
        Self {
            query,
            is_visible: may_see,
            limit,
            rows: Vec::with_capacity(limit),
            total: 0,
            first_offset: None,
            counts,
        }
    }

    fn visit(&mut self, row: &'a Arc<ReleaseRow>) {
        if !self.query.matches(row) || !(self.is_visible)(row) {
            return;
        }
        let has_status = self.query.matches_status(row);
        for (facet, counts) in self.query.facets.iter().zip(&mut self.counts) {
            // The status facet ignores the status filter, so that it shows what each status would match.
            if has_status || *facet == super::query::Facet::Status {
                let count = counts.entry(facet.row_value(row)).or_default();
                *count = count.saturating_add(1);
            }
        }
        if !has_status {
            return;
        }
        let begun = match &self.query.start {
            PageStart::Offset(at) => self.total >= *at,
            PageStart::Cursor(cursor) => cursor.is_before(row, self.query.sort, self.query.descending),
        };
        if begun && self.rows.len() < self.limit {
            self.first_offset.get_or_insert(self.total);
            self.rows.push(row.clone());
        }
        self.total = self.total.saturating_add(1);
    }

    fn into_page(self, seq: u64) -> Page {
        let at = self.first_offset.unwrap_or(self.total);
        let more = at.saturating_add(self.rows.len()) < self.total;
        let last = self.rows.last().filter(|_| more);
        let facets = self.query.facets.iter().zip(self.counts).map(|(facet, counts)| {
            let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
            counts.sort_unstable_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
            counts.truncate(MAX_FACET_VALUES);
            (facet.as_str(), counts.into_iter().map(|(value, count)| (value.to_owned(), count)).collect())
        });
        Page {
            next: last.map(|row| Cursor::after(row, self.query.sort, self.query.descending)),
            facets: facets.collect(),
            rows: self.rows,
            total: self.total,
            offset: at,
            seq,
        }
    }
}
