//! Watch-fed cache of one kind, shared by all readers in the process (client-go: shared informer).
//!
//! A [`WatchCache`] holds a projection of every object in memory, so reads make no API call. Subscribers get a snapshot and then every
//! change. While the cluster is unreachable, reads return the last state, [`WatchCache::stale_for`] reports its age, and the watch is
//! retried.
//!
//! Invariants: the events of a subscriber, applied in order, yield the state of [`WatchCache::list`]. Events of a slow subscriber are
//! coalesced per object, so its queue never exceeds the number of objects.
//!
//! See also: [`store`] for the cached objects and subscriber queues, [`watcher`] for the list-and-watch loop.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Api, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::controller::{TaskHandle, runtime};
use store::ObjectStore;
use watcher::ObjectDetail;

mod store;
#[cfg(test)]
mod tests;
mod tolerant;
mod watcher;

/// A change of one object.
#[derive(Debug, PartialEq, Eq)]
pub enum CacheEvent<P> {
    /// The object was created or changed.
    Applied(Arc<P>),
    /// The object was deleted; this is its last state.
    Deleted(Arc<P>),
}

/// Watch-fed cache of `P`, which is the object or a projection of it. Cheap to clone; clones share state. The watch ends when the last
/// clone is dropped.
pub struct WatchCache<P>(Arc<CacheTask<P>>);

struct CacheTask<P> {
    shared: Arc<SharedCache<P>>,
    _task: TaskHandle,
}

struct SharedCache<P> {
    store: Mutex<ObjectStore<P>>,
    health: watch::Sender<WatchHealth>,
    rejection: watch::Sender<Option<WatchRejected>>,
}

/// The API server rejects the watch with a client error: forbidden, or no such kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchRejected {
    pub code: u16,
    pub message: String,
}

/// State of the watch.
#[derive(Clone, Copy)]
struct WatchHealth {
    /// The first list is complete.
    is_synced: bool,
    /// The watch is connected.
    is_connected: bool,
    /// Time of the last response or event from the API server.
    last_response: Instant,
}

impl<K> WatchCache<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Starts a cache of whole objects. `slim` removes fields that no reader needs; `metadata.managedFields` is never parsed.
    ///
    /// The client of `api` must come from [`crate::Clients`], which enforces request timeouts. Only the selectors, the page size and the
    /// watch timeout of `config` are used.
    pub fn start(api: Api<K>, config: Config, slim: fn(&mut K)) -> Self {
        Self::start_projected(api, config, move |mut object| {
            slim(&mut object);
            object
        })
    }
}

impl<P: Send + Sync + 'static> WatchCache<P> {
    /// Starts a cache of projections: `keep` maps each object to the value that is cached. Otherwise as [`WatchCache::start`].
    pub fn start_projected<K>(
        api: Api<K>,
        config: Config,
        keep: impl Fn(K) -> P + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        Self::start_watch(api, config, ObjectDetail::Full, keep)
    }

    /// Starts a cache of projections of metadata. The API server sends only `PartialObjectMetadata`.
    pub fn start_metadata<K>(
        api: Api<PartialObjectMeta<K>>,
        config: Config,
        keep: impl Fn(PartialObjectMeta<K>) -> P + Send + Sync + 'static,
    ) -> Self
    where
        PartialObjectMeta<K>: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        Self::start_watch(api, config, ObjectDetail::Metadata, keep)
    }

    fn start_watch<K>(
        api: Api<K>,
        config: Config,
        sent: ObjectDetail,
        keep: impl Fn(K) -> P + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let health = WatchHealth { is_synced: false, is_connected: false, last_response: Instant::now() };
        let shared = Arc::new(SharedCache {
            store: Mutex::default(),
            health: watch::Sender::new(health),
            rejection: watch::Sender::new(None),
        });
        let (keep, followed, path): (watcher::Projection<K, P>, _, _) =
            (Arc::new(keep), shared.clone(), api.resource_url().to_owned());
        let task = runtime().spawn("cache", &path, move || {
            // After a panic the cache is stale until the next list.
            followed.set_disconnected(None);
            watcher::run(api.clone(), config.clone(), sent, keep.clone(), followed.clone())
        });
        Self(Arc::new(CacheTask { shared, _task: task }))
    }
}

impl<P> WatchCache<P> {
    /// The object `name`, for cluster-scoped kinds or a watch of one namespace.
    pub fn get(&self, name: &str) -> Option<Arc<P>> {
        self.0.shared.store.lock().get_by_name(name)
    }

    /// The object `name` in `namespace`.
    pub fn get_namespaced(&self, namespace: &str, name: &str) -> Option<Arc<P>> {
        self.0.shared.store.lock().get(namespace, name)
    }

    /// All objects, sorted by name.
    pub fn list(&self) -> Vec<Arc<P>> {
        self.0.shared.store.lock().list()
    }

    /// Subscribes to a snapshot followed by every change. The stream ends when the cache is dropped.
    pub fn subscribe(&self) -> CacheEvents<P> {
        let id = self.0.shared.store.lock().subscribe();
        CacheEvents { shared: self.0.shared.clone(), id }
    }

    /// As [`WatchCache::subscribe`] for one object, which need not exist yet. `namespace` is empty for cluster-scoped kinds.
    pub fn subscribe_to(&self, namespace: &str, name: &str) -> CacheEvents<P> {
        let id = self.0.shared.store.lock().subscribe_to(namespace, name);
        CacheEvents { shared: self.0.shared.clone(), id }
    }

    /// Resolves when the first list is complete.
    pub async fn wait_until_synced(&self) {
        let mut health = self.0.shared.health.subscribe();
        // The sender lives as long as this cache, so the wait cannot fail.
        let _ = health.wait_for(|health| health.is_synced).await;
    }

    /// Resolves when the API server rejects the watch. The cache keeps retrying until it is dropped.
    pub fn wait_until_rejected(&self) -> impl Future<Output = WatchRejected> + use<P> {
        let mut refusal = self.0.shared.rejection.subscribe();
        async move {
            let refused = refusal.wait_for(Option::is_some).await.ok().and_then(|refused| refused.clone());
            match refused {
                Some(refused) => refused,
                // The cache was dropped.
                None => std::future::pending().await,
            }
        }
    }

    /// Time since the last response while the watch is disconnected; `None` while it is connected.
    pub fn stale_for(&self) -> Option<Duration> {
        let WatchHealth { is_connected: alive, last_response: heard, .. } = *self.0.shared.health.borrow();
        (!alive).then(|| heard.elapsed())
    }
}

impl<P> Clone for WatchCache<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P> Drop for CacheTask<P> {
    fn drop(&mut self) {
        self.shared.store.lock().end();
    }
}

/// Event stream of one subscriber.
pub struct CacheEvents<P> {
    shared: Arc<SharedCache<P>>,
    id: u64,
}

impl<P> Stream for CacheEvents<P> {
    type Item = CacheEvent<P>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<CacheEvent<P>>> {
        self.shared.store.lock().poll(self.id, context)
    }
}

impl<P> Drop for CacheEvents<P> {
    fn drop(&mut self) {
        self.shared.store.lock().unsubscribe(self.id);
    }
}
