//! List-and-watch loop of a cache: lists, watches from the list's version, and lists again when necessary.
//!
//! `kube::runtime::watcher` does the same, but it reports a reconnected watch only after the next event, and one object that fails to
//! decode blocks all others. Here such an object counts as absent and is logged; so is one whose projection panics.
//!
//! Watch events are not trusted. Duplicates and late events are detected by resourceVersion (`Store::is_news`). Where versions
//! cannot decide, and after every [`LISTED_EVERY`] watches in any case, everything is listed again, so that missed events are
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

use super::readable::{Page, Readable, Unreadable};
use super::store::{Heard, News};
use super::{Refusal, Shared};
use crate::controller::runtime::isolate_sync;
use crate::verb::declare;

/// Timeout of one watch in seconds. The next watch proves that the API server still responds.
const WATCH: u32 = 30;
/// Time after the watch timeout at which a watch that has not ended counts as broken.
const GRACE: Duration = Duration::from_secs(5);
/// Backoff after the first failure, and its maximum.
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Number of watches after which everything is listed again: an hour at 30 s each. Listing tens of thousands of objects is expensive.
const LISTED_EVERY: u32 = if cfg!(test) { 3 } else { 120 };
/// A watch that lasted this long resets the backoff.
const A_WHILE: Duration = Duration::from_secs(1);

/// Why a watch ended early.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("the cluster refused or did not answer: {0}")]
    Call(#[from] kube::Error),
    #[error("the cluster ended the watch: {0}")]
    Told(Box<Status>),
    #[error("the watch has fallen silent")]
    Silent,
    #[error("the list has no version to watch from")]
    NoVersion,
    #[error("the watch told of an object that may be gone since")]
    Disorder,
}

impl Lost {
    /// Whether the watch cannot resume from its version, so that a list is needed.
    fn is_gone(&self) -> bool {
        match self {
            Self::Call(kube::Error::Api(status)) | Self::Told(status) => status.code == 410,
            Self::Disorder => true,
            _ => false,
        }
    }

    /// The rejection, if retrying cannot succeed until RBAC or the installed kinds change.
    fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Call(kube::Error::Api(status)) | Self::Told(status) => matches!(status.code, 400..=405)
                .then(|| Refusal { code: status.code, message: status.message.clone() }),
            _ => None,
        }
    }
}

/// Runs the loop until it is dropped.
pub(super) async fn follow<K, P>(
    api: Api<K>,
    config: Config,
    sent: Sent,
    keep: Keep<K, P>,
    shared: Arc<Shared<P>>,
) -> Infallible
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let request = Request::new(api.resource_url());
    let mut follower = Follower {
        client: api.into_client(),
        request,
        config,
        sent,
        keep,
        shared,
        version: None,
        watches: 0,
        lost: false,
    };
    let mut pause = PAUSE;
    loop {
        let begun = Instant::now();
        if let Err(lost) = follower.watch().await {
            follower.lose(&lost);
        }
        // A watch that lasted for a while is restarted without backoff.
        if begun.elapsed() >= A_WHILE {
            pause = PAUSE;
        } else {
            sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause.saturating_mul(2));
        }
    }
}

/// Which part of each object the API server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Whole,
    Metadata,
}

/// Projection of an object to its cached value.
pub(super) type Keep<K, P> = Arc<dyn Fn(K) -> P + Send + Sync>;

struct Follower<K, P> {
    client: kube::Client,
    request: Request,
    config: Config,
    sent: Sent,
    keep: Keep<K, P>,
    shared: Arc<Shared<P>>,
    /// Version up to which all events were applied. `None`: a list is needed.
    version: Option<String>,
    /// Watches since the last list.
    watches: u32,
    /// Whether the current outage has been logged.
    lost: bool,
}

impl<K, P> Follower<K, P>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Lists if necessary, then watches until the watch ends.
    async fn watch(&mut self) -> Result<(), Lost> {
        let version = match &self.version {
            Some(version) if self.watches < LISTED_EVERY => version.clone(),
            _ => self.list().await?,
        };
        let length = self.config.timeout.unwrap_or(WATCH);
        let params = WatchParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            timeout: Some(length),
            bookmarks: true,
            send_initial_events: false,
        };
        let request = match self.sent {
            Sent::Whole => self.request.watch(&params, &version),
            Sent::Metadata => self.request.watch_metadata(&params, &version),
        };
        let request = declare(request.map_err(kube::Error::BuildRequest)?, "watch");
        let events = self.client.request_events::<Readable<K>>(request).await?;
        self.watches = self.watches.saturating_add(1);
        self.shared.heard();
        if std::mem::take(&mut self.lost) {
            tracing::info!(path = self.request.url_path, "the watch stands again");
        }
        let ends = Instant::now() + Duration::from_secs(length.into()) + GRACE;
        let mut events = pin!(events);
        loop {
            let event = match timeout_at(ends, events.try_next()).await {
                Err(_) => return Err(Lost::Silent),
                Ok(event) => event?,
            };
            self.shared.heard();
            match event {
                None => return Ok(()),
                Some(WatchEvent::Error(status)) => return Err(Lost::Told(Box::new(*status))),
                Some(WatchEvent::Bookmark(mark)) => self.advance(Some(&mark.metadata.resource_version)),
                Some(WatchEvent::Deleted(object)) => self.remove(object.meta()),
                Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) => match self.readable(object)
                {
                    Ok(heard) => self.apply(heard)?,
                    Err(meta) => self.remove(&meta),
                },
            }
        }
    }

    /// Lists all objects and returns the version of the list.
    async fn list(&mut self) -> Result<String, Lost> {
        let mut params = ListParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            limit: self.config.page_size,
            ..ListParams::default()
        };
        let mut unheard = self.shared.store.lock().names();
        let version = loop {
            let request = match self.sent {
                Sent::Whole => self.request.list(&params),
                Sent::Metadata => self.request.list_metadata(&params),
            };
            let request = declare(request.map_err(kube::Error::BuildRequest)?, "list");
            // Not `request`: it logs bodies that it cannot parse.
            let page = self.client.request_text(request).await?;
            let page: Page<'_> = serde_json::from_str(&page).map_err(kube::Error::SerdeError)?;
            // Objects are parsed one at a time: at most one full object is in memory beside the projections, and never a whole list of tens
            // of thousands.
            for text in page.items.unwrap_or_default() {
                let object = Readable::read(text).map_err(kube::Error::SerdeError)?;
                if let Ok(heard) = self.readable(object) {
                    self.shared.store.lock().hear(heard, &mut unheard);
                }
            }
            match page.metadata.continue_.filter(|more| !more.is_empty()) {
                Some(more) => params.continue_token = Some(more),
                None => break page.metadata.resource_version.ok_or(Lost::NoVersion)?,
            }
        };
        self.version = Some(version.clone());
        self.watches = 0;
        self.shared.store.lock().forget(unheard);
        self.shared.synced();
        Ok(version)
    }

    fn lose(&mut self, lost: &Lost) {
        self.shared.lost(lost.refusal());
        if lost.is_gone() {
            self.version = None;
        }
        let path = &self.request.url_path;
        if std::mem::replace(&mut self.lost, true) {
            tracing::debug!(path, error = %lost, "the watch does not stand yet");
        } else {
            tracing::warn!(path, error = %lost, "lost the watch");
        }
    }

    fn apply(&mut self, heard: Heard<P>) -> Result<(), Lost> {
        let version = heard.version.clone();
        let late = self.is_late(version.as_deref());
        let mut store = self.shared.store.lock();
        match store.is_news(&heard) {
            // Either the object was deleted since, or its creation was missed. Only a list can tell.
            News::Unknown if late => return Err(Lost::Disorder),
            News::Old if late => {}
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
        number(version).zip(number(self.version.as_deref())).is_some_and(|(this, newest)| this <= newest)
    }

    /// Moves the version forward to `version`; never back.
    fn advance(&mut self, version: Option<&str>) {
        if !self.is_late(version) {
            self.version = version.map(str::to_owned);
        }
    }

    /// The projection of an object, or the metadata of one that cannot be decoded or projected.
    fn readable(&self, object: Readable<K>) -> Result<Heard<P>, Box<ObjectMeta>> {
        match object.0 {
            Ok(object) => {
                let metadata = object.meta();
                let metadata = ObjectMeta {
                    name: metadata.name.clone(),
                    namespace: metadata.namespace.clone(),
                    resource_version: metadata.resource_version.clone(),
                    ..ObjectMeta::default()
                };
                let heard = isolate_sync(|| Heard::of(object, &*self.keep));
                heard.map_err(|panicked| self.absent(Box::new(metadata), &panicked.to_string()))
            }
            Err(Unreadable { metadata, why }) => Err(self.absent(metadata, &why)),
        }
    }

    fn absent(&self, metadata: Box<ObjectMeta>, error: &str) -> Box<ObjectMeta> {
        let (path, name) = (&self.request.url_path, metadata.name.as_deref().unwrap_or_default());
        tracing::warn!(path, name, error, "an object cannot be read, and counts as absent");
        metadata
    }
}

fn number(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

impl<P> Shared<P> {
    fn heard(&self) {
        self.health.send_modify(|health| (health.alive, health.heard) = (true, Instant::now()));
        self.refusal.send_if_modified(|refusal| refusal.take().is_some());
    }

    fn synced(&self) {
        self.health.send_modify(|health| health.synced = true);
    }

    pub(super) fn lost(&self, refusal: Option<Refusal>) {
        self.health.send_modify(|health| health.alive = false);
        self.refusal.send_replace(refusal);
    }
}
