//! Queries of release lists: filters, sort order and page.

use std::collections::BTreeSet;

use domain::status::StatusCategory;
use kube::core::{Selector, SelectorExt};

use super::order::{Cursor, Sort};
use super::row::ReleaseRow;
use crate::service::Error;

/// The default and the maximum page size.
pub const DEFAULT_PAGE_SIZE: usize = 100;
pub const MAX_PAGE_SIZE: usize = 500;

#[derive(Clone, Debug, Default)]
pub struct Query {
    pub workspace: Option<String>,
    pub namespace: Option<String>,
    /// Substring of the name, the namespace or the chart.
    pub text: Option<String>,
    /// Empty means any status.
    pub statuses: BTreeSet<StatusCategory>,
    pub labels: Selector,
    pub fields: Vec<FieldSelector>,
    pub sort: Sort,
    pub descending: bool,
    pub start: PageStart,
    /// The page size; 0 means the default.
    pub limit: usize,
    pub facets: BTreeSet<Facet>,
}

/// The start of a page.
#[derive(Clone, Debug)]
pub enum PageStart {
    /// An offset among the matching releases.
    Offset(usize),
    /// The cursor of the previous page.
    Cursor(Cursor),
}

impl Default for PageStart {
    fn default() -> Self {
        Self::Offset(0)
    }
}

/// A field selector: `name=value` or `name!=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSelector {
    name: FieldName,
    is_equal: bool,
    value: String,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($variant,)*
        }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            fn read(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text)
            }
        }
    };
}

words! {
    /// Fields of a field selector.
    FieldName {
        Name = "name",
        Namespace = "namespace",
        State = "state",
        Chart = "chart",
        ChartVersion = "chartVersion",
        AppVersion = "appVersion",
        Revision = "revision",
        By = "by",
    }
}

words! {
    /// Facets that are counted over all matching releases.
    Facet {
        Status = "status",
        State = "state",
        Chart = "chart",
        Namespace = "namespace",
    }
}

impl Facet {
    /// The value of a row for this facet.
    pub(super) fn row_value(self, row: &ReleaseRow) -> &str {
        match self {
            Self::Status => row.status.as_str(),
            Self::State => row.state,
            Self::Chart => &row.chart.name,
            Self::Namespace => &row.key.namespace,
        }
    }

    /// Parses a list such as `status,chart`.
    pub fn parse_list(text: &str) -> Result<BTreeSet<Self>, Error> {
        let read =
            |word| Self::read(word).ok_or_else(|| unknown_value("facets", word, Self::ALL, Self::as_str));
        split_list(text).map(read).collect()
    }
}

/// Parses a list such as `bad,attention`.
pub fn parse_statuses(text: &str) -> Result<BTreeSet<StatusCategory>, Error> {
    let read = |word| {
        StatusCategory::parse(word)
            .ok_or_else(|| unknown_value("status", word, &StatusCategory::ALL, StatusCategory::as_str))
    };
    split_list(text).map(read).collect()
}

/// Parses a sort order such as `-updated`: the key, and whether it is descending.
pub fn parse_sort(text: &str) -> Result<(Sort, bool), Error> {
    let (word, descending) = match text.strip_prefix('-') {
        Some(word) => (word, true),
        None => (text, false),
    };
    let known = Sort::ALL.into_iter().find(|sort| sort.as_str() == word);
    let known = known.ok_or_else(|| unknown_value("sort", word, &Sort::ALL, Sort::as_str))?;
    Ok((known, descending))
}

/// Parses a label selector in the syntax of kubectl.
pub fn parse_labels(text: &str) -> Result<Selector, Error> {
    let read = crate::post_render::selector::parse_label_selector(text);
    read.ok_or_else(|| Error::Invalid("`label` is not a valid label selector".to_owned()))
}

/// Parses field selectors such as `chart=web,state!=active`.
pub fn parse_fields(text: &str) -> Result<Vec<FieldSelector>, Error> {
    let read = |term: &str| {
        let split = term.split_once("!=").map(|(name, value)| (name, false, value));
        let equal = || term.split_once("==").or_else(|| term.split_once('='));
        let split = split.or_else(|| equal().map(|(name, value)| (name, true, value)));
        let (name, is, value) =
            split.ok_or_else(|| Error::Invalid("`field` must have terms such as `chart=web`".to_owned()))?;
        let name = name.trim();
        let name = FieldName::read(name)
            .ok_or_else(|| unknown_value("field", name, FieldName::ALL, FieldName::as_str))?;
        Ok(FieldSelector { name, is_equal: is, value: value.trim().to_owned() })
    };
    split_list(text).map(read).collect()
}

fn split_list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

fn unknown_value<T: Copy>(place: &str, word: &str, known: &[T], as_str: fn(T) -> &'static str) -> Error {
    let known: Vec<&str> = known.iter().map(|word| as_str(*word)).collect();
    let word = domain::ids::truncate_for_error(word);
    Error::Invalid(format!("unknown value `{word}` of `{place}`: must be one of {}", known.join(", ")))
}

impl Query {
    /// Whether a row matches all filters except status and visibility.
    pub(super) fn matches(&self, row: &ReleaseRow) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| *row.key.namespace == *wanted)
            && self.text.as_deref().is_none_or(|text| {
                row.key.name.contains(text)
                    || row.key.namespace.contains(text)
                    || row.chart.name.contains(text)
            })
            && self.fields.iter().all(|field| field.matches(row))
            && self.labels.matches(&row.labels)
    }

    pub(super) fn matches_status(&self, row: &ReleaseRow) -> bool {
        self.statuses.is_empty() || self.statuses.contains(&row.status)
    }
}

impl FieldSelector {
    fn matches(&self, row: &ReleaseRow) -> bool {
        let is = match self.name {
            FieldName::Name => *row.key.name == *self.value,
            FieldName::Namespace => *row.key.namespace == *self.value,
            FieldName::State => row.state == self.value,
            FieldName::Chart => row.chart.name == self.value,
            FieldName::ChartVersion => row.chart.version == self.value,
            FieldName::AppVersion => row.chart.app_version == self.value,
            FieldName::Revision => self.value.parse() == Ok(row.revision),
            FieldName::By => row.by == self.value,
        };
        is == self.is_equal
    }
}
