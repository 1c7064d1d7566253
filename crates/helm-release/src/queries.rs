//! Read queries on releases, answered as Helm does.
//!
//! Nothing here writes. Lists are filtered by the labels of record Secrets; only the records on the returned page are
//! decoded.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use domain::clock::Clock;
use domain::error::ErrorKind;
use futures::stream::{self, StreamExt, TryStreamExt};
use helm_chart::values::{self, ChartTree};
use helm_engine::output;
use helm_template::budget::Budget;
use helm_template::data::{Data, Members};
use helm_template::profile::Profile;
use helm_template::value::Value;
use kube::Client;
use regex::Regex;

use crate::record::{HelmTime, Record, Status};
use crate::storage::{
    ListScope, RecordMeta, Storage, StorageError, StoredRecord, list_metadata, newest_revisions,
};

/// Records fetched concurrently.
const MAX_CONCURRENT: usize = 16;

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
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Storage(error) => error.kind(),
            Self::Values { .. } => ErrorKind::Internal,
        }
    }
}

/// Row of a release list or of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionSummary {
    pub name: String,
    pub namespace: String,
    pub revision: i64,
    pub updated: HelmTime,
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
pub struct ListOptions {
    pub scope: ListScope,
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
pub struct ListResult {
    pub releases: Vec<RevisionSummary>,
    /// Number of releases without offset and limit.
    pub total: usize,
    /// Records that could not be decoded, with the reason.
    pub damaged: Vec<String>,
}

impl ListOptions {
    /// The defaults of Helm 4's `helm list`.
    pub fn new(scope: ListScope) -> Self {
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

impl RevisionSummary {
    pub fn from_record(record: &Record) -> Self {
        let chart = record.chart.metadata();
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
pub async fn get(storage: &Storage, name: &str, revision: Option<i64>) -> Result<StoredRecord, QueryError> {
    let found = match revision {
        Some(revision) => storage.get(name, revision).await?,
        None => storage.newest(name).await?,
    };
    found.ok_or_else(|| QueryError::NotFound { name: name.to_owned(), revision })
}

/// Returns the newest `limit` revisions of a release, oldest first.
pub async fn history(
    storage: &Storage,
    name: &str,
    limit: usize,
) -> Result<Vec<RevisionSummary>, QueryError> {
    let entries = storage.entries(name).await?;
    if entries.is_empty() {
        return Err(QueryError::NotFound { name: name.to_owned(), revision: None });
    }
    let mut history = Vec::new();
    for entry in &entries[entries.len().saturating_sub(limit)..] {
        history.push(RevisionSummary::from_record(&entry.decode()?));
    }
    Ok(history)
}

/// User values merged over chart defaults, as shown by `helm get values --all`.
pub fn all_values(record: &Record, profile: Profile) -> Result<Members, QueryError> {
    coalesce_values(record, profile).map_err(|why| QueryError::Values { name: record.name.clone(), why })
}

/// User values merged over the chart's defaults.
pub(crate) fn coalesce_values(record: &Record, profile: Profile) -> Result<Members, String> {
    let defaults = record.chart.values().map_err(|error| error.to_string())?;
    let chart = ValuesTree { name: &record.chart.metadata().name, values: &defaults };
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
struct ValuesTree<'c> {
    name: &'c str,
    values: &'c Members,
}

impl ChartTree for ValuesTree<'_> {
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
        output::write_document(&mut text, (&hook.path, &hook.manifest.clone().into()));
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Lists releases.
pub async fn list(
    client: &Client,
    clock: &Arc<dyn Clock>,
    options: &ListOptions,
) -> Result<ListResult, StorageError> {
    let mut found = filter_records(client, options).await?;
    let total = found.len();
    if !options.by_date {
        found.sort_by(|a, b| (&a.name, &a.namespace).cmp(&(&b.name, &b.namespace)));
        if options.reverse {
            found.reverse();
        }
        found = paginate(found, options);
    }
    let mut listed = load_summaries(client, clock, found).await?;
    if options.by_date {
        // Newest first, as in Helm.
        listed.releases.sort_by_key(|release| std::cmp::Reverse(release.updated.timestamp()));
        if options.reverse {
            listed.releases.reverse();
        }
        listed.releases = paginate(listed.releases, options);
    }
    Ok(ListResult { total, ..listed })
}

/// Record metadata that passes all filters.
async fn filter_records(client: &Client, options: &ListOptions) -> Result<Vec<RecordMeta>, StorageError> {
    let mut found = list_metadata(client, &options.scope, "").await?;
    // A superseded revision is never the newest, so a filter for superseded alone keeps all revisions.
    if options.states != BTreeSet::from([Status::Superseded]) {
        found = newest_revisions(found);
    }
    found.retain(|head| {
        options.states.contains(&head.status)
            && options.name.as_ref().is_none_or(|name| name.is_match(&head.name))
    });
    if !options.selector.is_empty() {
        // The newest revision is chosen among all records before the selector applies; the cluster evaluates the
        // selector.
        let key = |head: &RecordMeta| (head.namespace.clone(), head.name.clone(), head.revision);
        let selected = list_metadata(client, &options.scope, &options.selector).await?;
        let selected: HashSet<_> = selected.iter().map(key).collect();
        found.retain(|head| selected.contains(&key(head)));
    }
    Ok(found)
}

fn paginate<T>(all: Vec<T>, options: &ListOptions) -> Vec<T> {
    let limit = if options.limit == 0 { usize::MAX } else { options.limit };
    all.into_iter().skip(options.offset).take(limit).collect()
}

/// Decodes records in order. Records deleted since the list are skipped.
async fn load_summaries(
    client: &Client,
    clock: &Arc<dyn Clock>,
    heads: Vec<RecordMeta>,
) -> Result<ListResult, StorageError> {
    let fetch = |head: RecordMeta| async move {
        let storage = Storage::new(client.clone(), &head.namespace, clock.clone());
        let entry = storage.fetch(&head.name, head.revision).await?;
        Ok::<_, StorageError>(match entry.map(|entry| entry.decode()) {
            None => (None, None),
            Some(Ok(record)) => (Some(RevisionSummary::from_record(&record)), None),
            Some(Err(error)) => (None, Some(format!("{}: {error}", head.namespace))),
        })
    };
    let mut listed = ListResult::default();
    let mut fetched = stream::iter(heads.into_iter().map(fetch)).buffered(MAX_CONCURRENT);
    while let Some((summary, damage)) = fetched.try_next().await? {
        listed.releases.extend(summary);
        listed.damaged.extend(damage);
    }
    Ok(listed)
}
