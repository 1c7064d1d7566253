//! Index of releases for lists, in memory: requested ones, hand-written ones, and those of the `helm` command.
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

use domain::ids::shortened;
use domain::roles::Capability;
use domain::{Actor, Place};
use futures::stream::{self, BoxStream, StreamExt};
use helm_release::Storage;
use kube_access::controller::runtime::isolate_sync;
use kube_access::controller::{TaskHandle, runtime};
use kube_access::{Change, Feed};
use kube_types::{HelmRelease, HelmRequest};
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};

use crate::Releases;
use crate::acts::view::ChartView;
use crate::acts::{Error, HOST, request_name};
use crate::key::Key;
use crate::lead::{object, received};
use crate::people;
use crate::records::{Mark, Records};
pub use order::{Cursor, Sort};
pub use query::{Facet, Query};
pub use row::Row;
pub use table::Page;
use table::Table;

/// The index. Its task ends when it is dropped.
pub(crate) struct List {
    table: Arc<Table>,
    _following: TaskHandle,
}

/// The caches from which rows are built.
struct Sources {
    requests: Feed<HelmRequest>,
    releases: Feed<HelmRelease>,
    records: Records,
    /// The charts of releases that exist only in Helm records, with their revision.
    charts: Mutex<HashMap<Key, (i64, ChartView)>>,
    /// Releases whose chart has to be read from the record.
    unread: mpsc::UnboundedSender<(Key, i64)>,
}

/// Maximum number of concurrent reads of records.
const READING: usize = 4;

impl List {
    /// Starts the index. The caches must be synced. `storage` returns the Helm storage of a namespace.
    pub fn start(
        requests: &Feed<HelmRequest>,
        releases: &Feed<HelmRelease>,
        marks: &Feed<Option<Mark>>,
        storage: impl Fn(&str) -> Storage + Send + Sync + 'static,
    ) -> Self {
        let (unread, asked) = mpsc::unbounded_channel();
        let sources = Arc::new(Sources {
            requests: requests.clone(),
            releases: releases.clone(),
            records: Records::default(),
            charts: Mutex::default(),
            unread,
        });
        let of_marks =
            marks.all().into_iter().filter_map(|mark| sources.records.enter(&Change::Applied(mark)));
        let known: HashSet<Key> = of_marks
            .chain(releases.all().iter().map(|release| Key::of(&**release)))
            .chain(requests.all().iter().map(|request| released(request)))
            .collect();
        let table = Arc::new(Table::default());
        for key in known {
            table.put(&key, sources.row(&key));
        }
        let reader = sources.clone();
        let read = received(asked)
            .map(move |(key, revision)| {
                let (storage, reader) = (storage(&key.namespace), reader.clone());
                async move { reader.read(&storage, key, revision).await }
            })
            .buffer_unordered(READING);
        let changed = Arc::new(AsyncMutex::new(changed(&sources, marks, read.boxed())));
        let entered = table.clone();
        let start = move || follow(entered.clone(), sources.clone(), changed.clone());
        Self { table, _following: runtime().spawn("release-index", "", start) }
    }

    /// A counter that changes with every event of any release.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.table.changes()
    }
}

/// A stream of the keys of changed releases.
type Changed = stream::SelectAll<BoxStream<'static, Option<Key>>>;

fn changed(
    sources: &Arc<Sources>,
    marks: &Feed<Option<Mark>>,
    read: BoxStream<'static, Option<Key>>,
) -> Changed {
    let by_mark = sources.clone();
    stream::select_all([
        sources.releases.changes().map(|change| Some(Key::of(object(&change)))).boxed(),
        sources.requests.changes().map(|change| Some(released(object(&change)))).boxed(),
        marks.changes().map(move |change| by_mark.records.enter(&change)).boxed(),
        read,
    ])
}

/// Updates the row of every changed release. A panic for one row does not affect others. The subscription survives a restart of this
/// task, so that no deletion is missed.
async fn follow(table: Arc<Table>, sources: Arc<Sources>, changed: Arc<AsyncMutex<Changed>>) {
    let mut changed = changed.lock().await;
    while let Some(key) = changed.next().await {
        if let Some(key) = key {
            if let Err(error) = isolate_sync(|| table.put(&key, sources.row(&key))) {
                tracing::error!(release = %key, %error, "a release cannot be entered into the list");
            }
            table.tell();
        }
    }
}

fn released(request: &HelmRequest) -> Key {
    Key::new(&request.spec.namespace, &request.spec.release_name)
}

impl Sources {
    fn row(&self, key: &Key) -> Option<Row> {
        let request = self.requests.get(&request_name(HOST, &key.namespace, &key.name));
        if let Some(release) = self.releases.get_in(&key.namespace, &key.name) {
            let request = request.filter(|request| crate::requests::wanted::belongs(&release, request));
            return Some(Row::of(key, &release, request.as_deref()));
        }
        if let Some(request) = request {
            return Some(Row::of_request(key, &request));
        }
        let Some(newest) = self.records.newest(key) else {
            self.charts.lock().remove(key);
            return None;
        };
        let known = self.charts.lock().get(key).filter(|known| known.0 == newest.revision).cloned();
        if known.is_none() {
            // The receiver lives as long as the index.
            let _ = self.unread.send((key.clone(), newest.revision));
        }
        let chart = known.map(|(_, chart)| chart).unwrap_or_default();
        Some(Row { chart, ..Row::of_record(key, &newest) })
    }

    /// Reads the chart of a revision from its record. After a failure it is read again with the next change.
    async fn read(&self, storage: &Storage, key: Key, revision: i64) -> Option<Key> {
        let stored = storage.get(&key.name, revision).await.ok().flatten()?;
        let chart = ChartView::of_record(&stored.record);
        self.charts.lock().insert(key.clone(), (revision, chart));
        Some(key)
    }
}

impl Releases {
    /// Lists the releases that the actor may see. A workspace or namespace of others is rejected.
    pub fn list(&self, actor: &Actor, query: &Query) -> Result<Page, Error> {
        let people = &self.parts().people;
        let reads = |workspace: &domain::ids::WorkspaceName| {
            actor.may(Capability::ReadReleases, Place::Workspace(workspace)).is_ok()
        };
        if let Some(namespace) = &query.namespace {
            let theirs = people.workspace_of(namespace).filter(|workspace| reads(workspace));
            theirs.ok_or_else(|| Error::NotYours(shortened(namespace)))?;
        }
        if let Some(workspace) = &query.workspace {
            let theirs = workspace.parse().ok().filter(|workspace| reads(workspace));
            theirs.ok_or_else(|| Error::NoWorkspace(shortened(workspace)))?;
        }
        let mut known: HashMap<String, bool> = HashMap::new();
        Ok(self.parts().list.table.page(query, |row| {
            let namespace: &str = &row.key.namespace;
            // Leftovers of a former workspace do not belong to the new owner.
            if let Some((workspace, metadata)) = row.request.as_deref()
                && !people::is_of_owner(&**people, namespace, workspace, metadata)
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
