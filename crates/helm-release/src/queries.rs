//! Read queries on releases, answered as Helm does.
//!
//! Nothing here writes. Lists are filtered by the labels of record Secrets; only the records on the returned page are
//! decoded.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use domain::clock::Clock;
use domain::failure::Kind;
use futures::stream::{self, StreamExt, TryStreamExt};
use helm_chart::values::{self, Tree};
use helm_engine::output;
use helm_template::budget::Budget;
use helm_template::data::{Data, Members};
use helm_template::profile::Profile;
use helm_template::value::Value;
use kube::Client;
use regex::Regex;

use crate::record::{Moment, Record, Status};
use crate::storage::{Head, Scope, Storage, StorageError, Stored, heads, newest};

/// Records fetched concurrently.
const AT_ONCE: usize = 16;

/// Error of a query.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    #[error("release: not found")]
    NotFound { name: String, revision: Option<i64> },
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("the values of release `{name}` cannot be worked out: {why}")]
    Values { name: String, why: String },
}

impl QueryError {
    pub fn kind(&self) -> Kind {
        match self {
            Self::NotFound { .. } => Kind::NotFound,
            Self::Storage(error) => error.kind(),
            Self::Values { .. } => Kind::Internal,
        }
    }
}

/// Row of a release list or of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub name: String,
    pub namespace: String,
    pub revision: i64,
    pub updated: Moment,
    pub status: Status,
    /// `nginx`
    pub chart: String,
    pub chart_version: String,
    pub app_version: String,
    pub description: String,
    /// The revision that was restored, or zero.
    pub rollback_revision: i64,
    pub labels: BTreeMap<String, String>,
}

/// Options of a list: filters, order, page.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub scope: Scope,
    /// Only releases whose name matches.
    pub name: Option<Regex>,
    /// Only releases whose newest revision has one of these statuses.
    pub states: BTreeSet<Status>,
    /// Label selector over user labels; may be empty.
    pub selector: String,
    pub by_date: bool,
    pub reverse: bool,
    pub offset: usize,
    /// Zero for no limit.
    pub limit: usize,
}

/// Result of a list.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    pub releases: Vec<Summary>,
    /// Number of releases without offset and limit.
    pub total: usize,
    /// Records that could not be decoded, with the reason.
    pub damaged: Vec<String>,
}

impl Wanted {
    /// The defaults of Helm 4's `helm list`.
    pub fn new(scope: Scope) -> Self {
        Self {
            scope,
            name: None,
            states: BTreeSet::from(Status::ALL),
            selector: String::new(),
            by_date: false,
            reverse: false,
            offset: 0,
            limit: 256,
        }
    }
}

impl Summary {
    pub fn of(record: &Record) -> Self {
        let chart = record.chart.head();
        Self {
            name: record.name.clone(),
            namespace: record.namespace.clone(),
            revision: record.version,
            updated: record.info.last_deployed,
            status: record.info.status,
            chart: chart.name,
            chart_version: chart.version,
            app_version: chart.app_version,
            description: record.info.description.clone(),
            rollback_revision: record.info.rollback_revision,
            labels: record.labels.clone(),
        }
    }
}

/// Returns one revision of a release, the newest if `revision` is `None`.
pub async fn get(storage: &Storage, name: &str, revision: Option<i64>) -> Result<Stored, QueryError> {
    let found = match revision {
        Some(revision) => storage.get(name, revision).await?,
        None => storage.last(name).await?,
    };
    found.ok_or_else(|| QueryError::NotFound { name: name.to_owned(), revision })
}

/// Returns the newest `most` revisions of a release, oldest first.
pub async fn history(storage: &Storage, name: &str, most: usize) -> Result<Vec<Summary>, QueryError> {
    let entries = storage.entries(name).await?;
    if entries.is_empty() {
        return Err(QueryError::NotFound { name: name.to_owned(), revision: None });
    }
    let mut history = Vec::new();
    for entry in &entries[entries.len().saturating_sub(most)..] {
        history.push(Summary::of(&entry.peek()?));
    }
    Ok(history)
}

/// User values merged over chart defaults, as shown by `helm get values --all`.
pub fn all_values(record: &Record, profile: Profile) -> Result<Members, QueryError> {
    coalesced(record, profile).map_err(|why| QueryError::Values { name: record.name.clone(), why })
}

/// User values merged over the chart's defaults.
pub(crate) fn coalesced(record: &Record, profile: Profile) -> Result<Members, String> {
    let defaults = record.chart.values().map_err(|error| error.to_string())?;
    let chart = Alone { name: &record.chart.head().name, values: &defaults };
    let values = values::coalesce(chart, &record.config, profile, &Budget::default(), &mut Vec::new())
        .map_err(|mismatch| mismatch.to_string())?;
    match Data::try_from(&Value::from(values)).map_err(|why| why.to_string())? {
        Data::Map(members) => Ok(members),
        // A map without entries may be nil.
        _ => Ok(Members::new()),
    }
}

/// Chart of a record as a tree without subcharts.
#[derive(Clone, Copy)]
struct Alone<'c> {
    name: &'c str,
    values: &'c Members,
}

impl Tree for Alone<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn values(&self) -> &Members {
        self.values
    }

    fn dependencies(&self) -> impl Iterator<Item = Self> {
        std::iter::empty()
    }
}

/// Hooks as `helm get hooks` prints them.
pub fn hooks_text(record: &Record) -> String {
    let mut text = Vec::new();
    for hook in &record.hooks {
        output::write(&mut text, (&hook.path, &hook.manifest.clone().into()));
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Lists releases.
pub async fn list(client: &Client, clock: &Arc<dyn Clock>, wanted: &Wanted) -> Result<Listed, StorageError> {
    let mut found = chosen(client, wanted).await?;
    let total = found.len();
    if !wanted.by_date {
        found.sort_by(|a, b| (&a.name, &a.namespace).cmp(&(&b.name, &b.namespace)));
        if wanted.reverse {
            found.reverse();
        }
        found = page(found, wanted);
    }
    let mut listed = open(client, clock, found).await?;
    if wanted.by_date {
        // Newest first, as in Helm.
        listed.releases.sort_by_key(|release| std::cmp::Reverse(release.updated.at()));
        if wanted.reverse {
            listed.releases.reverse();
        }
        listed.releases = page(listed.releases, wanted);
    }
    Ok(Listed { total, ..listed })
}

/// Record metadata that passes all filters.
async fn chosen(client: &Client, wanted: &Wanted) -> Result<Vec<Head>, StorageError> {
    let mut found = heads(client, &wanted.scope, "").await?;
    // A superseded revision is never the newest, so a filter for superseded alone keeps all revisions.
    if wanted.states != BTreeSet::from([Status::Superseded]) {
        found = newest(found);
    }
    found.retain(|head| {
        wanted.states.contains(&head.status)
            && wanted.name.as_ref().is_none_or(|name| name.is_match(&head.name))
    });
    if !wanted.selector.is_empty() {
        // The newest revision is chosen among all records before the selector applies; the cluster evaluates the
        // selector.
        let key = |head: &Head| (head.namespace.clone(), head.name.clone(), head.revision);
        let selected = heads(client, &wanted.scope, &wanted.selector).await?;
        let selected: HashSet<_> = selected.iter().map(key).collect();
        found.retain(|head| selected.contains(&key(head)));
    }
    Ok(found)
}

fn page<T>(all: Vec<T>, wanted: &Wanted) -> Vec<T> {
    let limit = if wanted.limit == 0 { usize::MAX } else { wanted.limit };
    all.into_iter().skip(wanted.offset).take(limit).collect()
}

/// Decodes records in order. Records deleted since the list are skipped.
async fn open(client: &Client, clock: &Arc<dyn Clock>, heads: Vec<Head>) -> Result<Listed, StorageError> {
    let fetch = |head: Head| async move {
        let storage = Storage::new(client.clone(), &head.namespace, clock.clone());
        let entry = storage.fetch(&head.name, head.revision).await?;
        Ok::<_, StorageError>(match entry.map(|entry| entry.peek()) {
            None => (None, None),
            Some(Ok(record)) => (Some(Summary::of(&record)), None),
            Some(Err(error)) => (None, Some(format!("{}: {error}", head.namespace))),
        })
    };
    let mut listed = Listed::default();
    let mut fetched = stream::iter(heads.into_iter().map(fetch)).buffered(AT_ONCE);
    while let Some((summary, damage)) = fetched.try_next().await? {
        listed.releases.extend(summary);
        listed.damaged.extend(damage);
    }
    Ok(listed)
}
