//! Properties of lists.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::status::StatusCategory;
use helm_release::Status;
use jiff::Timestamp;
use proptest::prelude::*;

use super::order::{Cursor, Sort};
use super::query::{self, Facet, PageStart, Query};
use super::row::ReleaseRow;
use super::table::Table;
use crate::helm_records::LatestRevision;
use crate::key::ReleaseKey;

fn row(namespace: &str, name: &str, revision: i64, chart: u8) -> ReleaseRow {
    let status = Status::ALL[usize::from(chart) % Status::ALL.len()];
    let since = Timestamp::from_second(revision * 7 % 5).ok();
    let newest = LatestRevision {
        revision,
        status,
        modified_at: since,
        spec_hash: None,
        operation: None,
        is_own: true,
    };
    let mut row = ReleaseRow::from_record(&ReleaseKey::new(namespace, name), &newest);
    row.chart.name = format!("chart-{}", chart % 3);
    row
}

fn put_row(table: &Table, row: ReleaseRow) {
    table.put(&row.key.clone(), Some(row));
}

/// Rows with few distinct names, so that the same rows change repeatedly.
fn rows() -> impl Strategy<Value = Vec<ReleaseRow>> {
    let one = ("[ab]", "[a-h]", 1..6i64, 0..9u8)
        .prop_map(|(namespace, name, revision, chart)| row(&namespace, &name, revision, chart));
    prop::collection::vec(one, 0..40)
}

fn orders() -> impl Strategy<Value = (Sort, bool)> {
    (prop::sample::select(Sort::ALL.to_vec()), any::<bool>())
}

proptest! {
    /// Rows that stay are visited exactly once, whatever else changes.
    #[test]
    fn paging_visits_each_exactly_once_under_change(
        stay in rows(), come in rows(), (sort, descending) in orders(), limit in 1..7usize,
    ) {
        let table = Table::default();
        // Rows that stay have their own namespace.
        let stay: Vec<ReleaseRow> = stay.into_iter().map(|row| ReleaseRow { key: ReleaseKey::new("stay", &row.key.name), ..row }).collect();
        for row in &stay {
            put_row(&table, row.clone());
        }
        let expected: BTreeSet<ReleaseKey> = stay.iter().map(|row| row.key.clone()).collect();
        let (mut seen, mut come) = (Vec::new(), come.into_iter());
        let mut query = Query { sort, descending, limit, ..Query::default() };
        loop {
            let page = table.page(&query, |_| true);
            prop_assert!(page.rows.len() <= limit);
            prop_assert!(seen.len() <= expected.len(), "it goes on for ever");
            seen.extend(page.rows.iter().map(|row| row.key.clone()).filter(|key| &*key.namespace == "stay"));
            let Some(next) = page.next else { break };
            let again = Cursor::decode(&next.encode());
            prop_assert_eq!(again.as_ref(), Some(&next));
            prop_assert!(next.matches_order(sort, descending));
            query.start = PageStart::Cursor(next);
            for _ in 0..3 {
                if let Some(row) = come.next() {
                    let gone = row.revision % 2 == 0;
                    table.put(&row.key.clone(), (!gone).then_some(row));
                }
            }
        }
        let unique: BTreeSet<ReleaseKey> = seen.iter().cloned().collect();
        prop_assert_eq!(unique.len(), seen.len(), "one was seen twice");
        prop_assert_eq!(unique, expected);
    }

    /// The maintained orders equal sorted ones, and a page by offset is a slice of them.
    #[test]
    fn what_is_kept_is_sorted(rows in rows(), (sort, descending) in orders(), at in 0..20usize) {
        let table = Table::default();
        for row in rows.clone() {
            put_row(&table, row);
        }
        let all = table.page(&Query { sort, descending, limit: 500, ..Query::default() }, |_| true);
        let mut sorted: Vec<Arc<ReleaseRow>> = all.rows.clone();
        sorted.sort_by(|one, other| sort.compare_rows(one, other));
        if descending {
            sorted.reverse();
        }
        prop_assert_eq!(&all.rows, &sorted);
        let keys: BTreeSet<ReleaseKey> = rows.iter().map(|row| row.key.clone()).collect();
        prop_assert_eq!(all.total, keys.len());
        let window = Query { sort, descending, limit: 3, start: PageStart::Offset(at), ..Query::default() };
        let window = table.page(&window, |_| true);
        let part: Vec<Arc<ReleaseRow>> = sorted.into_iter().skip(at).take(3).collect();
        prop_assert_eq!(window.rows, part);
        prop_assert_eq!(window.total, all.total);
    }
}

#[test]
fn what_may_not_be_seen_is_not_counted_either() {
    let table = Table::default();
    for (namespace, name, chart) in [("ours", "a", 1), ("ours", "b", 4), ("ours", "c", 1), ("theirs", "d", 1)]
    {
        put_row(&table, row(namespace, name, 1, chart));
    }
    let facets = BTreeSet::from([Facet::Status, Facet::Chart, Facet::Namespace]);
    let query = Query { statuses: [StatusCategory::Bad].into(), facets, ..Query::default() };
    let page = table.page(&query, |row| &*row.key.namespace == "ours");
    assert_eq!(page.rows.iter().map(|row| &*row.key.name).collect::<Vec<_>>(), ["b"]);
    assert_eq!(page.total, 1);
    // The status facet ignores the status filter; the others respect it.
    assert_eq!(
        serde_json::to_string(&page.facets).unwrap(),
        r#"{"chart":{"chart-1":1},"namespace":{"ours":1},"status":{"bad":1,"good":2}}"#
    );
}

#[test]
fn sequence_grows_only_on_changes() {
    let table = Table::default();
    put_row(&table, row("ours", "a", 1, 1));
    let first = table.page(&Query::default(), |_| true).seq;
    put_row(&table, row("ours", "a", 1, 1));
    assert_eq!(table.page(&Query::default(), |_| true).seq, first);
    put_row(&table, row("ours", "a", 2, 1));
    let page = table.page(&Query::default(), |_| true);
    assert!(page.seq > first);
    assert_eq!(page.rows[0].revision, 2);
    table.put(&ReleaseKey::new("ours", "a"), None);
    assert_eq!(table.page(&Query::default(), |_| true).total, 0);
}

#[test]
fn selectors_filter_and_invalid_ones_are_named() {
    let mut web = row("ours", "web", 3, 1);
    web.labels.insert("tier".to_owned(), "front".to_owned());
    let table = Table::default();
    put_row(&table, web);
    put_row(&table, row("ours", "db", 1, 2));
    let names = |query: Query| {
        let page = table.page(&query, |_| true);
        page.rows.iter().map(|row| row.key.name.to_string()).collect::<Vec<_>>().join(" ")
    };
    let fields = |text: &str| Query { fields: query::parse_fields(text).unwrap(), ..Query::default() };
    let labels = |text: &str| Query { labels: query::parse_labels(text).unwrap(), ..Query::default() };
    assert_eq!(names(fields("chart=chart-1")), "web");
    assert_eq!(names(fields("chart!=chart-1, revision=1")), "db");
    assert_eq!(names(labels("tier in (front,back)")), "web");
    assert_eq!(names(labels("!tier")), "db");
    assert_eq!(names(Query { text: Some("we".to_owned()), ..Query::default() }), "web");
    for (refused, message) in [
        (
            query::parse_fields("colour=red").unwrap_err(),
            "unknown value `colour` of `field`: must be one of name, namespace, state",
        ),
        (query::parse_fields("chart").unwrap_err(), "`field` must have terms such as `chart=web`"),
        (query::parse_labels("a=b=c").unwrap_err(), "`label` is not a valid label selector"),
        (
            query::parse_sort("-size").unwrap_err(),
            "unknown value `size` of `sort`: must be one of name, namespace",
        ),
        (
            query::parse_statuses("good,great").unwrap_err(),
            "unknown value `great` of `status`: must be one of good, moving",
        ),
        (
            Facet::parse_list("colour").unwrap_err(),
            "unknown value `colour` of `facets`: must be one of status, state",
        ),
    ] {
        assert!(refused.to_string().starts_with(message), "{refused}");
    }
}

/// A page over ten thousand releases; `--nocapture` prints the time. A debug build takes about ten times as long.
#[test]
fn page_of_ten_thousand_rows_is_fast() {
    let table = Table::default();
    for number in 0..10_000i64 {
        let namespace = format!("ns-{}", number % 100);
        put_row(
            &table,
            row(&namespace, &format!("release-{number}"), number % 40, u8::try_from(number % 9).unwrap()),
        );
    }
    let query = Query {
        statuses: [StatusCategory::Good, StatusCategory::Bad].into(),
        text: Some("9".to_owned()),
        sort: Sort::Updated,
        descending: true,
        limit: 50,
        start: PageStart::Offset(100),
        facets: [Facet::Status, Facet::Chart].into(),
        ..Query::default()
    };
    let began = std::time::Instant::now();
    let rounds = 20;
    for _ in 0..rounds {
        assert_eq!(table.page(&query, |row| &*row.key.namespace != "ns-7").rows.len(), 50);
    }
    let took = began.elapsed() / rounds;
    println!("a page of 50 of 10,000: {took:?}");
    assert!(took < std::time::Duration::from_millis(500), "{took:?}");
}
