//! Lists of releases, from memory: those that were asked for, those that were written by hand, and those that the helm command
//! line made.
//!
//! Fed by watches of requests, of releases and of the metadata of Helm's records; a record itself is read only for the chart of
//! one that nobody else tells of. Modules in reading order: what is told of one ([`row`]), in which order and from where
//! ([`order`]), which are meant ([`query`]), and all of them ([`table`]).

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

/// The list, for as long as somebody has it.
pub(crate) struct List {
    table: Arc<Table>,
    _following: TaskHandle,
}

/// What rows are made of.
struct Sources {
    requests: Feed<HelmRequest>,
    releases: Feed<HelmRelease>,
    records: Records,
    /// The charts of those that only Helm's records tell of, at a revision.
    charts: Mutex<HashMap<Key, (i64, ChartView)>>,
    /// Whose chart is still to be read.
    unread: mpsc::UnboundedSender<(Key, i64)>,
}

/// So many records are read at once for their charts.
const READING: usize = 4;

impl List {
    /// The feeds have told all that there is. `storage` gives the records of a namespace.
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

    /// Changes whenever anything is heard of any release.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.table.changes()
    }
}

/// The releases that changed.
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

/// Enters every release that changes. One that cannot be entered keeps no other out; the subscription outlives a restart, so that no
/// deletion is missed.
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
            // Whoever receives it lives as long as the list.
            let _ = self.unread.send((key.clone(), newest.revision));
        }
        let chart = known.map(|(_, chart)| chart).unwrap_or_default();
        Some(Row { chart, ..Row::of_record(key, &newest) })
    }

    /// Reads which chart a revision has. One that cannot be read is read again when it changes.
    async fn read(&self, storage: &Storage, key: Key, revision: i64) -> Option<Key> {
        let stored = storage.get(&key.name, revision).await.ok().flatten()?;
        let chart = ChartView::of_record(&stored.record);
        self.charts.lock().insert(key.clone(), (revision, chart));
        Some(key)
    }
}

impl Releases {
    /// The releases that they may see. A workspace or a namespace that is not theirs is refused.
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
            // What a former workspace of the namespace left behind is not the new owner's.
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
