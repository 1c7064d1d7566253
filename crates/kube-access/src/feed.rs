//! Watch-fed cache of one kind, shared by all readers in the process (client-go: shared informer).
//!
//! A [`Feed`] holds a projection of every object in memory, so reads make no API call. Subscribers get a snapshot and then every change.
//! While the cluster is unreachable, reads return the last state, [`Feed::stale_for`] reports its age, and the watch is retried.
//!
//! Invariants: the events of a subscriber, applied in order, yield the state of [`Feed::all`]. Events of a slow subscriber are
//! coalesced per object, so its queue never exceeds the number of objects.
//!
//! See also: [`store`] for the cached objects and subscriber queues, [`follow`] for the list-and-watch loop.

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
use follow::Sent;
use store::Store;

mod follow;
mod readable;
mod store;
#[cfg(test)]
mod tests;

/// A change of one object.
#[derive(Debug, PartialEq, Eq)]
pub enum Change<P> {
    /// The object was created or changed.
    Applied(Arc<P>),
    /// The object was deleted; this is its last state.
    Deleted(Arc<P>),
}

/// Watch-fed cache of `P`, which is the object or a projection of it. Cheap to clone; clones share state. The watch ends when the last
/// clone is dropped.
pub struct Feed<P>(Arc<Watching<P>>);

struct Watching<P> {
    shared: Arc<Shared<P>>,
    _task: TaskHandle,
}

struct Shared<P> {
    store: Mutex<Store<P>>,
    health: watch::Sender<Health>,
    refusal: watch::Sender<Option<Refusal>>,
}

/// The API server rejects the watch with a client error: forbidden, or no such kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: u16,
    pub message: String,
}

/// State of the watch.
#[derive(Clone, Copy)]
struct Health {
    /// The first list is complete.
    synced: bool,
    /// The watch is connected.
    alive: bool,
    /// Time of the last response or event from the API server.
    heard: Instant,
}

impl<K> Feed<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Starts a cache of whole objects. `slim` removes fields that no reader needs; `metadata.managedFields` is never parsed.
    ///
    /// The client of `api` must come from [`crate::Clients`], which enforces request timeouts. Only the selectors, the page size and the
    /// watch timeout of `config` are used.
    pub fn start(api: Api<K>, config: Config, slim: fn(&mut K)) -> Self {
        Self::keeping(api, config, move |mut object| {
            slim(&mut object);
            object
        })
    }
}

impl<P: Send + Sync + 'static> Feed<P> {
    /// Starts a cache of projections: `keep` maps each object to the value that is cached. Otherwise as [`Feed::start`].
    pub fn keeping<K>(api: Api<K>, config: Config, keep: impl Fn(K) -> P + Send + Sync + 'static) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        Self::following(api, config, Sent::Whole, keep)
    }

    /// Starts a cache of projections of metadata. The API server sends only `PartialObjectMetadata`.
    pub fn of_metadata<K>(
        api: Api<PartialObjectMeta<K>>,
        config: Config,
        keep: impl Fn(PartialObjectMeta<K>) -> P + Send + Sync + 'static,
    ) -> Self
    where
        PartialObjectMeta<K>: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        Self::following(api, config, Sent::Metadata, keep)
    }

    fn following<K>(
        api: Api<K>,
        config: Config,
        sent: Sent,
        keep: impl Fn(K) -> P + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let health = Health { synced: false, alive: false, heard: Instant::now() };
        let shared = Arc::new(Shared {
            store: Mutex::default(),
            health: watch::Sender::new(health),
            refusal: watch::Sender::new(None),
        });
        let (keep, followed, path): (follow::Keep<K, P>, _, _) =
            (Arc::new(keep), shared.clone(), api.resource_url().to_owned());
        let task = runtime().spawn("cache", &path, move || {
            // After a panic the cache is stale until the next list.
            followed.lost(None);
            follow::follow(api.clone(), config.clone(), sent, keep.clone(), followed.clone())
        });
        Self(Arc::new(Watching { shared, _task: task }))
    }
}

impl<P> Feed<P> {
    /// The object `name`, for cluster-scoped kinds or a watch of one namespace.
    pub fn get(&self, name: &str) -> Option<Arc<P>> {
        self.0.shared.store.lock().named(name)
    }

    /// The object `name` in `namespace`.
    pub fn get_in(&self, namespace: &str, name: &str) -> Option<Arc<P>> {
        self.0.shared.store.lock().get(namespace, name)
    }

    /// All objects, sorted by name.
    pub fn all(&self) -> Vec<Arc<P>> {
        self.0.shared.store.lock().all()
    }

    /// Subscribes to a snapshot followed by every change. The stream ends when the cache is dropped.
    pub fn changes(&self) -> Changes<P> {
        let id = self.0.shared.store.lock().subscribe();
        Changes { shared: self.0.shared.clone(), id }
    }

    /// As [`Feed::changes`] for one object, which need not exist yet. `namespace` is empty for cluster-scoped kinds.
    pub fn changes_of(&self, namespace: &str, name: &str) -> Changes<P> {
        let id = self.0.shared.store.lock().subscribe_to(namespace, name);
        Changes { shared: self.0.shared.clone(), id }
    }

    /// Resolves when the first list is complete.
    pub async fn synced(&self) {
        let mut health = self.0.shared.health.subscribe();
        // The sender lives as long as this cache, so the wait cannot fail.
        let _ = health.wait_for(|health| health.synced).await;
    }

    /// Resolves when the API server rejects the watch. The cache keeps retrying until it is dropped.
    pub fn refused(&self) -> impl Future<Output = Refusal> + use<P> {
        let mut refusal = self.0.shared.refusal.subscribe();
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
        let Health { alive, heard, .. } = *self.0.shared.health.borrow();
        (!alive).then(|| heard.elapsed())
    }
}

impl<P> Clone for Feed<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P> Drop for Watching<P> {
    fn drop(&mut self) {
        self.shared.store.lock().end();
    }
}

/// Event stream of one subscriber.
pub struct Changes<P> {
    shared: Arc<Shared<P>>,
    id: u64,
}

impl<P> Stream for Changes<P> {
    type Item = Change<P>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Change<P>>> {
        self.shared.store.lock().poll(self.id, context)
    }
}

impl<P> Drop for Changes<P> {
    fn drop(&mut self) {
        self.shared.store.lock().unsubscribe(self.id);
    }
}
