//! How a feed hears: it lists once, watches from there, and begins again where it must.
//!
//! `kube::runtime::watcher` does the same, but does not say that a watch stands again before something changes, and
//! a single object that cannot be read keeps it from all others. Here such an object counts as absent, and the log names it; so does one
//! whose projection panics.
//!
//! A watch need not be believed. What it says again or too late is held against the versions that are known (`Store::is_news`);
//! where those do not tell, and every [`LISTED_EVERY`] watches in any case, everything is listed anew, so that nothing that a watch
//! left out stays unknown.

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

/// For how long one watch goes on. The next one shows that the cluster still answers.
const WATCH: u32 = 30;
/// How much later than that a watch must have ended.
const GRACE: Duration = Duration::from_secs(5);
/// The pause after a first failure, and the longest.
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// So many watches follow one list: an hour of them. Tens of thousands of objects are no small thing to ask for.
const LISTED_EVERY: u32 = if cfg!(test) { 3 } else { 120 };
/// A watch that stood for so long did not fail at once.
const A_WHILE: Duration = Duration::from_secs(1);

/// Why a watch had to be given up.
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
    /// What happened since is not known any more: only a list can tell.
    fn is_gone(&self) -> bool {
        match self {
            Self::Call(kube::Error::Api(status)) | Self::Told(status) => status.code == 410,
            Self::Disorder => true,
            _ => false,
        }
    }

    /// Nothing but a change of somebody's rights, or of the kinds that there are, lets it succeed.
    fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Call(kube::Error::Api(status)) | Self::Told(status) => matches!(status.code, 400..=405)
                .then(|| Refusal { code: status.code, message: status.message.clone() }),
            _ => None,
        }
    }
}

/// Follows for as long as anybody wants to know.
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
        // One that stood for a while is begun again at once.
        if begun.elapsed() >= A_WHILE {
            pause = PAUSE;
        } else {
            sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause.saturating_mul(2));
        }
    }
}

/// How much of each object is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Whole,
    Metadata,
}

/// Makes of an object what is kept of it.
pub(super) type Keep<K, P> = Arc<dyn Fn(K) -> P + Send + Sync>;

struct Follower<K, P> {
    client: kube::Client,
    request: Request,
    config: Config,
    sent: Sent,
    keep: Keep<K, P>,
    shared: Arc<Shared<P>>,
    /// Up to where everything has been heard; none: a list is needed.
    version: Option<String>,
    /// How many watches there were since the last list.
    watches: u32,
    /// The log says that nothing is heard.
    lost: bool,
}

impl<K, P> Follower<K, P>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Lists if it must, and watches until the watch ends.
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

    /// Hears of all that there is, and since when it is so.
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
            // Not `request`: what that cannot read, it logs.
            let page = self.client.request_text(request).await?;
            let page: Page<'_> = serde_json::from_str(&page).map_err(kube::Error::SerdeError)?;
            // One after the other: of what is read and not kept there is never more than one object, and a list of tens of
            // thousands is never held as a whole.
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
            // Something of before a deletion that was heard of, or something that was never heard of: only a list can tell.
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
        // Of one that another has followed under its name nobody need be told again.
        if !(self.is_late(version) && store.is_newer(namespace, name, version)) {
            store.remove(namespace, name);
        }
        drop(store);
        self.advance(version);
    }

    /// Whether something newer was heard before. Versions of one kind grow; one that is no number is taken as it comes.
    fn is_late(&self, version: Option<&str>) -> bool {
        number(version).zip(number(self.version.as_deref())).is_some_and(|(this, newest)| this <= newest)
    }

    /// Everything has been heard up to this version, unless it was further already.
    fn advance(&mut self, version: Option<&str>) {
        if !self.is_late(version) {
            self.version = version.map(str::to_owned);
        }
    }

    /// The object as it is kept, or of one that cannot be read its metadata.
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
