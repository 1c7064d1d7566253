//! Index of releases for lists, in memory: requested releases, hand-written ones, and releases of the `helm` command.
//!
//! Fed by watches of requests, of releases and of the metadata of Helm's records. A record itself is read only for the chart of a release
//! that has no `HelmRelease` and no request.
//!
//! Modules:
//!
//! * [`row`]: one release in a list.
//! * [`order`]: sort orders and cursors.
//! * [`query`]: filters and options of a list.
//! * [`table`]: all rows in every order.

pub mod order;
pub mod query;
pub mod row;
pub mod table;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use domain::ids::truncate_for_error;
use domain::roles::Capability;
use domain::{AccessScope, Actor};
use futures::stream::{self, BoxStream, StreamExt};
use helm_release::Storage;
use kube_access::controller::runtime::isolate_sync;
use kube_access::controller::{TaskHandle, runtime};
use kube_access::{CacheEvent, WatchCache};
use kube_types::{HelmRelease, HelmRequest};
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};

use crate::Releases;
use crate::controller::{event_object, receiver_stream};
use crate::helm_records::{HelmRecordCache, RecordLabels};
use crate::key::ReleaseKey;
use crate::service::view::ChartView;
use crate::service::{Error, HOST_CLUSTER, request_name};
use crate::tenant_directory;
pub use order::{Cursor, Sort};
pub use query::{Facet, Query};
pub use row::ReleaseRow;
pub use table::Page;
use table::Table;

/// The index. Its task ends when it is dropped.
pub(crate) struct ReleaseIndex {
    table: Arc<Table>,
    _task: TaskHandle,
}

/// The caches from which rows are built.
struct IndexSources {
    requests: WatchCache<HelmRequest>,
    releases: WatchCache<HelmRelease>,
    records: HelmRecordCache,
    /// The charts of releases that exist only in Helm records, with their revision.
    charts: Mutex<HashMap<ReleaseKey, (i64, ChartView)>>,
    /// Releases whose chart has to be read from the record.
    chart_reads: mpsc::UnboundedSender<(ReleaseKey, i64)>,
}

/// Maximum number of concurrent reads of records.
const MAX_CONCURRENT_READS: usize = 4;

impl ReleaseIndex {
    /// Starts the index. The caches must be synced. `storage` returns the Helm storage of a namespace.
    pub fn start(
        requests: &WatchCache<HelmRequest>,
        releases: &WatchCache<HelmRelease>,
        marks: &WatchCache<Option<RecordLabels>>,
        storage: impl Fn(&str) -> Storage + Send + Sync + 'static,
    ) -> Self {
        let (unread, asked) = mpsc::unbounded_channel();
        let sources = Arc::new(IndexSources {
            requests: requests.clone(),
            releases: releases.clone(),
            records: HelmRecordCache::default(),
            charts: Mutex::default(),
            chart_reads: unread,
        });
        let of_marks = marks
            .list()
            .into_iter()
            .filter_map(|mark| sources.records.apply_event(&CacheEvent::Applied(mark)));
        let known: HashSet<ReleaseKey> = of_marks
            .chain(releases.list().iter().map(|release| ReleaseKey::from_object(&**release)))
            .chain(requests.list().iter().map(|request| release_key(request)))
            .collect();
        let table = Arc::new(Table::default());
        for key in known {
            table.put(&key, sources.build_row(&key));
        }
        let reader = sources.clone();
        let read = receiver_stream(asked)
            .map(move |(key, revision)| {
                let (storage, reader) = (storage(&key.namespace), reader.clone());
                async move { reader.read_chart(&storage, key, revision).await }
            })
            .buffer_unordered(MAX_CONCURRENT_READS);
        let changed = Arc::new(AsyncMutex::new(changed_keys(&sources, marks, read.boxed())));
        let entered = table.clone();
        let start = move || apply_changes(entered.clone(), sources.clone(), changed.clone());
        Self { table, _task: runtime().spawn("release-index", "", start) }
    }

    /// A counter that changes with every event of any release.
    pub fn watch_changes(&self) -> watch::Receiver<u64> {
        self.table.watch_changes()
    }
}

/// A stream of the keys of changed releases.
type ChangedKeys = stream::SelectAll<BoxStream<'static, Option<ReleaseKey>>>;

fn changed_keys(
    sources: &Arc<IndexSources>,
    marks: &WatchCache<Option<RecordLabels>>,
    read: BoxStream<'static, Option<ReleaseKey>>,
) -> ChangedKeys {
    let by_mark = sources.clone();
    stream::select_all([
        sources
            .releases
            .subscribe()
            .map(|change| Some(ReleaseKey::from_object(event_object(&change))))
            .boxed(),
        sources.requests.subscribe().map(|change| Some(release_key(event_object(&change)))).boxed(),
        marks.subscribe().map(move |change| by_mark.records.apply_event(&change)).boxed(),
        read,
    ])
}

/// Updates the row of every changed release. A panic for one row does not affect others. The subscription survives a restart of this
/// task, so that no deletion is missed.
async fn apply_changes(table: Arc<Table>, sources: Arc<IndexSources>, changed: Arc<AsyncMutex<ChangedKeys>>) {
    let mut changed = changed.lock().await;
    while let Some(key) = changed.next().await {
        if let Some(key) = key {
            if let Err(error) = isolate_sync(|| table.put(&key, sources.build_row(&key))) {
                tracing::error!(release = %key, %error, "a release cannot be entered into the list");
            }
            table.notify();
        }
    }
}

fn release_key(request: &HelmRequest) -> ReleaseKey {
    ReleaseKey::new(&request.spec.namespace, &request.spec.release_name)
}

impl IndexSources {
    fn build_row(&self, key: &ReleaseKey) -> Option<ReleaseRow> {
        let request = self.requests.get(&request_name(HOST_CLUSTER, &key.namespace, &key.name));
        if let Some(release) = self.releases.get_namespaced(&key.namespace, &key.name) {
            let request =
                request.filter(|request| crate::requests::release_spec::is_owned_by(&release, request));
            return Some(ReleaseRow::from_release(key, &release, request.as_deref()));
        }
        if let Some(request) = request {
            return Some(ReleaseRow::from_request(key, &request));
        }
        let Some(newest) = self.records.latest(key) else {
            self.charts.lock().remove(key);
            return None;
        };
        let known = self.charts.lock().get(key).filter(|known| known.0 == newest.revision).cloned();
        if known.is_none() {
            // The receiver lives as long as the index.
            let _ = self.chart_reads.send((key.clone(), newest.revision));
        }
        let chart = known.map(|(_, chart)| chart).unwrap_or_default();
        Some(ReleaseRow { chart, ..ReleaseRow::from_record(key, &newest) })
    }

    /// Reads the chart of a revision from its record. After a failure it is read again with the next change.
    async fn read_chart(&self, storage: &Storage, key: ReleaseKey, revision: i64) -> Option<ReleaseKey> {
        let stored = storage.get(&key.name, revision).await.ok().flatten()?;
        let chart = ChartView::from_record(&stored.record);
        self.charts.lock().insert(key.clone(), (revision, chart));
        Some(key)
    }
}

impl Releases {
    /// Lists the releases that the actor may see. A workspace or namespace of others is rejected.
    pub fn list(&self, actor: &Actor, query: &Query) -> Result<Page, Error> {
        let people = &self.inner().tenants;
        let reads = |workspace: &domain::ids::WorkspaceName| {
            actor.authorize(Capability::ReadReleases, AccessScope::Workspace(workspace)).is_ok()
        };
        if let Some(namespace) = &query.namespace {
            let theirs = people.workspace_of(namespace).filter(|workspace| reads(workspace));
            theirs.ok_or_else(|| Error::NamespaceNotAccessible(truncate_for_error(namespace)))?;
        }
        if let Some(workspace) = &query.workspace {
            let theirs = workspace.parse().ok().filter(|workspace| reads(workspace));
            theirs.ok_or_else(|| Error::WorkspaceNotAccessible(truncate_for_error(workspace)))?;
        }
        let mut known: HashMap<String, bool> = HashMap::new();
        Ok(self.inner().index.table.page(query, |row| {
            let namespace: &str = &row.key.namespace;
            // Leftovers of a former workspace do not belong to the new owner.
            if let Some((workspace, metadata)) = row.request.as_deref()
                && !tenant_directory::is_of_namespace_owner(&**people, namespace, workspace, metadata)
            {
                return false;
            }
            if let Some(seen) = known.get(namespace) {
                return *seen;
            }
            let workspace = people.workspace_of(namespace).filter(|workspace| {
                query.workspace.as_deref().is_none_or(|wanted| wanted == workspace.as_str())
                    && reads(workspace)
            });
            known.insert(namespace.to_owned(), workspace.is_some());
            workspace.is_some()
        }))
    }
}
