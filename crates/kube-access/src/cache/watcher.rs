//! List-and-watch loop of a cache: lists, watches from the list's version, and lists again when necessary.
//!
//! `kube::runtime::watcher` does the same, but it reports a reconnected watch only after the next event, and one object that fails to
//! decode blocks all others. Here such an object counts as absent and is logged; so is one whose projection panics.
//!
//! Watch events are not trusted. Duplicates and late events are detected by resourceVersion (`ObjectStore::freshness`). Where versions
//! cannot decide, and after every [`RELIST_AFTER_WATCHES`] watches in any case, everything is listed again, so that missed events are
//! found.

use std::convert::Infallible;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::{ObjectMeta, Request, Status};
use kube::runtime::watcher::Config;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout_at};

use super::store::{Freshness, IncomingObject};
use super::tolerant::{ListPage, Tolerant, Undecodable};
use super::{SharedCache, WatchRejected};
use crate::controller::runtime::isolate_sync;
use crate::verb::declare;

/// Timeout of one watch in seconds. The next watch proves that the API server still responds.
const WATCH_TIMEOUT_SECS: u32 = 30;
/// Time after the watch timeout at which a watch that has not ended counts as broken.
const WATCH_GRACE_PERIOD: Duration = Duration::from_secs(5);
/// Backoff after the first failure, and its maximum.
const INITIAL_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// Number of watches after which everything is listed again: an hour at 30 s each. Listing tens of thousands of objects is expensive.
const RELIST_AFTER_WATCHES: u32 = if cfg!(test) { 3 } else { 120 };
/// A watch that lasted this long resets the backoff.
const BACKOFF_RESET_AFTER: Duration = Duration::from_secs(1);

/// Why a watch ended early.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error("the cluster refused or did not answer: {0}")]
    Request(#[from] kube::Error),
    #[error("the cluster ended the watch: {0}")]
    ErrorEvent(Box<Status>),
    #[error("no data from the watch within the idle timeout")]
    Timeout,
    #[error("the list has no resourceVersion to watch from")]
    NoVersion,
    #[error("the watch delivered an event out of order")]
    OutOfOrder,
}

impl WatchError {
    /// Whether the watch cannot resume from its version, so that a list is needed.
    fn needs_relist(&self) -> bool {
        match self {
            Self::Request(kube::Error::Api(status)) | Self::ErrorEvent(status) => status.code == 410,
            Self::OutOfOrder => true,
            _ => false,
        }
    }

    /// The rejection, if retrying cannot succeed until RBAC or the installed kinds change.
    fn rejection(&self) -> Option<WatchRejected> {
        match self {
            Self::Request(kube::Error::Api(status)) | Self::ErrorEvent(status) => {
                matches!(status.code, 400..=405)
                    .then(|| WatchRejected { code: status.code, message: status.message.clone() })
            }
            _ => None,
        }
    }
}

/// Runs the loop until it is dropped.
pub(super) async fn run<K, P>(
    api: Api<K>,
    config: Config,
    sent: ObjectDetail,
    keep: Projection<K, P>,
    shared: Arc<SharedCache<P>>,
) -> Infallible
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let request = Request::new(api.resource_url());
    let mut follower = ListWatcher {
        client: api.into_client(),
        request,
        config,
        detail: sent,
        projection: keep,
        shared,
        version: None,
        watches: 0,
        is_outage_logged: false,
    };
    let mut pause = INITIAL_BACKOFF;
    loop {
        let begun = Instant::now();
        if let Err(lost) = follower.watch().await {
            follower.handle_error(&lost);
        }
        // A watch that lasted for a while is restarted without backoff.
        if begun.elapsed() >= BACKOFF_RESET_AFTER {
            pause = INITIAL_BACKOFF;
        } else {
            sleep(pause).await;
            pause = MAX_BACKOFF.min(pause.saturating_mul(2));
        }
    }
}

/// Which part of each object the API server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectDetail {
    Full,
    Metadata,
}

/// Projection of an object to its cached value.
pub(super) type Projection<K, P> = Arc<dyn Fn(K) -> P + Send + Sync>;

struct ListWatcher<K, P> {
    client: kube::Client,
    request: Request,
    config: Config,
    detail: ObjectDetail,
    projection: Projection<K, P>,
    shared: Arc<SharedCache<P>>,
    /// Version up to which all events were applied. `None`: a list is needed.
    version: Option<String>,
    /// Watches since the last list.
    watches: u32,
    /// Whether the current outage has been logged.
    is_outage_logged: bool,
}

impl<K, P> ListWatcher<K, P>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Lists if necessary, then watches until the watch ends.
    async fn watch(&mut self) -> Result<(), WatchError> {
        let version = match &self.version {
            Some(version) if self.watches < RELIST_AFTER_WATCHES => version.clone(),
            _ => self.list().await?,
        };
        let length = self.config.timeout.unwrap_or(WATCH_TIMEOUT_SECS);
        let params = WatchParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            timeout: Some(length),
            bookmarks: true,
            send_initial_events: false,
        };
        let request = match self.detail {
            ObjectDetail::Full => self.request.watch(&params, &version),
            ObjectDetail::Metadata => self.request.watch_metadata(&params, &version),
        };
        let request = declare(request.map_err(kube::Error::BuildRequest)?, "watch");
        let events = self.client.request_events::<Tolerant<K>>(request).await?;
        self.watches = self.watches.saturating_add(1);
        self.shared.record_response();
        if std::mem::take(&mut self.is_outage_logged) {
            tracing::info!(path = self.request.url_path, "watch reestablished");
        }
        let ends = Instant::now() + Duration::from_secs(length.into()) + WATCH_GRACE_PERIOD;
        let mut events = pin!(events);
        loop {
            let event = match timeout_at(ends, events.try_next()).await {
                Err(_) => return Err(WatchError::Timeout),
                Ok(event) => event?,
            };
            self.shared.record_response();
            match event {
                None => return Ok(()),
                Some(WatchEvent::Error(status)) => return Err(WatchError::ErrorEvent(Box::new(*status))),
                Some(WatchEvent::Bookmark(mark)) => self.advance(Some(&mark.metadata.resource_version)),
                Some(WatchEvent::Deleted(object)) => self.remove(object.meta()),
                Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    match self.project(object) {
                        Ok(heard) => self.apply(heard)?,
                        Err(meta) => self.remove(&meta),
                    }
                }
            }
        }
    }

    /// Lists all objects and returns the version of the list.
    async fn list(&mut self) -> Result<String, WatchError> {
        let mut params = ListParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            limit: self.config.page_size,
            ..ListParams::default()
        };
        let mut unlisted = self.shared.store.lock().keys();
        let version = loop {
            let request = match self.detail {
                ObjectDetail::Full => self.request.list(&params),
                ObjectDetail::Metadata => self.request.list_metadata(&params),
            };
            let request = declare(request.map_err(kube::Error::BuildRequest)?, "list");
            // Not `request`: it logs bodies that it cannot parse.
            let page = self.client.request_text(request).await?;
            let page: ListPage<'_> = serde_json::from_str(&page).map_err(kube::Error::SerdeError)?;
            // Objects are parsed one at a time: at most one full object is in memory beside the projections, and never a whole list of tens
            // of thousands.
            for text in page.items.unwrap_or_default() {
                let object = Tolerant::decode(text).map_err(kube::Error::SerdeError)?;
                if let Ok(heard) = self.project(object) {
                    self.shared.store.lock().apply_listed(heard, &mut unlisted);
                }
            }
            match page.metadata.continue_.filter(|more| !more.is_empty()) {
                Some(more) => params.continue_token = Some(more),
                None => break page.metadata.resource_version.ok_or(WatchError::NoVersion)?,
            }
        };
        self.version = Some(version.clone());
        self.watches = 0;
        self.shared.store.lock().remove_unlisted(unlisted);
        self.shared.set_synced();
        Ok(version)
    }

    fn handle_error(&mut self, lost: &WatchError) {
        self.shared.set_disconnected(lost.rejection());
        if lost.needs_relist() {
            self.version = None;
        }
        let path = &self.request.url_path;
        if std::mem::replace(&mut self.is_outage_logged, true) {
            tracing::debug!(path, error = %lost, "cannot establish the watch yet");
        } else {
            tracing::warn!(path, error = %lost, "watch interrupted");
        }
    }

    fn apply(&mut self, heard: IncomingObject<P>) -> Result<(), WatchError> {
        let version = heard.version.clone();
        let late = self.is_late(version.as_deref());
        let mut store = self.shared.store.lock();
        match store.freshness(&heard) {
            // Either the object was deleted since, or its creation was missed. Only a list shows which.
            Freshness::Unknown if late => return Err(WatchError::OutOfOrder),
            Freshness::Stale if late => {}
            _ => store.apply(heard),
        }
        drop(store);
        self.advance(version.as_deref());
        Ok(())
    }

    fn remove(&mut self, meta: &ObjectMeta) {
        let version = meta.resource_version.as_deref();
        let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
        let mut store = self.shared.store.lock();
        // A late deletion must not remove an object that was recreated under the same name.
        if !(self.is_late(version) && store.is_newer(namespace, name, version)) {
            store.remove(namespace, name);
        }
        drop(store);
        self.advance(version);
    }

    /// Whether an event of this or a newer version was applied. Versions of one kind increase; one that is not a number is never late.
    fn is_late(&self, version: Option<&str>) -> bool {
        parse_version(version)
            .zip(parse_version(self.version.as_deref()))
            .is_some_and(|(this, newest)| this <= newest)
    }

    /// Moves the version forward to `version`; never back.
    fn advance(&mut self, version: Option<&str>) {
        if !self.is_late(version) {
            self.version = version.map(str::to_owned);
        }
    }

    /// The projection of an object, or the metadata of one that cannot be decoded or projected.
    fn project(&self, object: Tolerant<K>) -> Result<IncomingObject<P>, Box<ObjectMeta>> {
        match object.0 {
            Ok(object) => {
                let metadata = object.meta();
                let metadata = ObjectMeta {
                    name: metadata.name.clone(),
                    namespace: metadata.namespace.clone(),
                    resource_version: metadata.resource_version.clone(),
                    ..ObjectMeta::default()
                };
                let heard = isolate_sync(|| IncomingObject::new(object, &*self.projection));
                heard.map_err(|panicked| self.log_undecodable(Box::new(metadata), &panicked.to_string()))
            }
            Err(Undecodable { metadata, error: why }) => Err(self.log_undecodable(metadata, &why)),
        }
    }

    fn log_undecodable(&self, metadata: Box<ObjectMeta>, error: &str) -> Box<ObjectMeta> {
        let (path, name) = (&self.request.url_path, metadata.name.as_deref().unwrap_or_default());
        tracing::warn!(path, name, error, "cannot decode an object; it is treated as absent");
        metadata
    }
}

fn parse_version(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

impl<P> SharedCache<P> {
    fn record_response(&self) {
        self.health
            .send_modify(|health| (health.is_connected, health.last_response) = (true, Instant::now()));
        self.rejection.send_if_modified(|refusal| refusal.take().is_some());
    }

    fn set_synced(&self) {
        self.health.send_modify(|health| health.is_synced = true);
    }

    pub(super) fn set_disconnected(&self, refusal: Option<WatchRejected>) {
        self.health.send_modify(|health| health.is_connected = false);
        self.rejection.send_replace(refusal);
    }
}
