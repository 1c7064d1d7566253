//! Sort orders of lists, and page cursors.
//!
//! Invariant: every order is total. A client that continues from a cursor misses none and sees none twice, whatever is added or removed
//! in between.

use std::cmp::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::row::ReleaseRow;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Name,
    Namespace,
    State,
    Chart,
    Updated,
    Revision,
}

impl Sort {
    pub const ALL: [Self; 6] =
        [Self::Name, Self::Namespace, Self::State, Self::Chart, Self::Updated, Self::Revision];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Namespace => "namespace",
            Self::State => "state",
            Self::Chart => "chart",
            Self::Updated => "updated",
            Self::Revision => "revision",
        }
    }

    /// Compares two releases.
    pub(super) fn compare_rows(self, one: &ReleaseRow, other: &ReleaseRow) -> Ordering {
        self.compare_keys(&SortKey::from_row(one), &SortKey::from_row(other))
    }

    fn compare_keys(self, one: &SortKey<'_>, other: &SortKey<'_>) -> Ordering {
        let by = match self {
            Self::Name => Ordering::Equal,
            Self::Namespace => one.namespace.cmp(other.namespace),
            Self::State => one.state.cmp(other.state),
            Self::Chart => one.chart.cmp(&other.chart),
            Self::Updated => one.updated.cmp(&other.updated),
            Self::Revision => one.revision.cmp(&other.revision),
        };
        by.then_with(|| one.name.cmp(other.name)).then_with(|| one.namespace.cmp(other.namespace))
    }
}

/// The sort keys of a release.
struct SortKey<'a> {
    namespace: &'a str,
    name: &'a str,
    state: &'a str,
    chart: (&'a str, &'a str),
    updated: Option<Timestamp>,
    revision: i64,
}

impl<'a> SortKey<'a> {
    fn from_row(row: &'a ReleaseRow) -> Self {
        Self {
            namespace: &row.key.namespace,
            name: &row.key.name,
            state: row.state,
            chart: (&row.chart.name, &row.chart.version),
            updated: row.updated,
            revision: row.revision,
        }
    }
}

/// The end of a page: the sort keys of its last release at that time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    #[serde(rename = "o")]
    order: String,
    #[serde(rename = "s")]
    namespace: String,
    #[serde(rename = "n")]
    name: String,
    #[serde(rename = "t", default, skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(rename = "v", default, skip_serializing_if = "String::is_empty")]
    chart_version: String,
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    updated: Option<Timestamp>,
    #[serde(rename = "r", default)]
    revision: i64,
}

impl Cursor {
    /// A cursor after this row in this order.
    pub fn after(row: &ReleaseRow, sort: Sort, descending: bool) -> Self {
        let text = match sort {
            Sort::State => row.state,
            Sort::Chart => &row.chart.name,
            Sort::Name | Sort::Namespace | Sort::Updated | Sort::Revision => "",
        };
        Self {
            order: order(sort, descending),
            namespace: row.key.namespace.to_string(),
            name: row.key.name.to_string(),
            text: text.to_owned(),
            chart_version: if sort == Sort::Chart { row.chart.version.clone() } else { String::new() },
            updated: row.updated.filter(|_| sort == Sort::Updated),
            revision: if sort == Sort::Revision { row.revision } else { 0 },
        }
    }

    /// Whether a row comes after the cursor. The order must be the one that the cursor was created for.
    pub(super) fn is_before(&self, row: &ReleaseRow, sort: Sort, descending: bool) -> bool {
        let spot = SortKey {
            namespace: &self.namespace,
            name: &self.name,
            state: &self.text,
            chart: (&self.text, &self.chart_version),
            updated: self.updated,
            revision: self.revision,
        };
        let after = sort.compare_keys(&SortKey::from_row(row), &spot);
        if descending { after == Ordering::Less } else { after == Ordering::Greater }
    }

    pub fn matches_order(&self, sort: Sort, descending: bool) -> bool {
        self.order == order(sort, descending)
    }

    /// The opaque text for the client.
    pub fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).expect("a cursor is texts and numbers"))
    }

    pub fn decode(text: &str) -> Option<Self> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
    }
}

fn order(sort: Sort, descending: bool) -> String {
    let sign = if descending { "-" } else { "" };
    format!("{sign}{}", sort.as_str())
}
