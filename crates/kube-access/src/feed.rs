//! One watch of one kind, for everybody in the process who wants to know.
//!
//! A [`Feed`] keeps what it last heard in memory, so that a question costs no call, and tells subscribers of every
//! change. When the cluster does not answer it goes on answering, says for how long it has heard nothing
//! ([`Feed::stale_for`]), and catches up by itself.
//!
//! Always true: what a subscriber has been told, in order, ends at what [`Feed::all`] says. A slow one misses steps on
//! the way and no end, so that what waits for it never grows beyond what there is.
//! Elsewhere: what is kept and told ([`store`]), how it is heard ([`follow`]).

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

/// What happened to one object.
#[derive(Debug, PartialEq, Eq)]
pub enum Change<P> {
    /// It is new, or it changed.
    Applied(Arc<P>),
    /// It is gone; this is how it was last seen.
    Deleted(Arc<P>),
}

/// What a watch says, kept up to date: of each object a `P`, which is the object itself or what somebody needs of it. Clones are
/// the same feed; the watch ends with the last of them.
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

/// What the cluster says of a watch that it does not let anybody have: it may not be, or there is no such kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: u16,
    pub message: String,
}

/// What is known of the watch.
#[derive(Clone, Copy)]
struct Health {
    /// Everything has been heard once.
    synced: bool,
    /// The watch stands.
    alive: bool,
    /// When the cluster last said anything.
    heard: Instant,
}

impl<K> Feed<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Begins to watch. `slim` takes off each object what nobody will ask for; `metadata.managedFields` is not even read.
    ///
    /// The client of `api` is one of [`crate::Clients`], which gives up on a cluster that does not answer. Of `config` the selectors, the size of a page and the length of a watch count.
    pub fn start(api: Api<K>, config: Config, slim: fn(&mut K)) -> Self {
        Self::keeping(api, config, move |mut object| {
            slim(&mut object);
            object
        })
    }
}

impl<P: Send + Sync + 'static> Feed<P> {
    /// Begins to watch, and keeps of each object what `keep` makes of it, and nothing else. As [`Feed::start`] for the rest.
    pub fn keeping<K>(api: Api<K>, config: Config, keep: impl Fn(K) -> P + Send + Sync + 'static) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        Self::following(api, config, Sent::Whole, keep)
    }

    /// Begins to watch what is said about objects, and keeps what `keep` makes of that. What they hold is not even sent.
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
            // After a panic nothing is heard until everything has been listed anew.
            followed.lost(None);
            follow::follow(api.clone(), config.clone(), sent, keep.clone(), followed.clone())
        });
        Self(Arc::new(Watching { shared, _task: task }))
    }
}

impl<P> Feed<P> {
    /// The object of that name, where a feed has one namespace or none.
    pub fn get(&self, name: &str) -> Option<Arc<P>> {
        self.0.shared.store.lock().named(name)
    }

    /// The object of that name in that namespace.
    pub fn get_in(&self, namespace: &str, name: &str) -> Option<Arc<P>> {
        self.0.shared.store.lock().get(namespace, name)
    }

    /// All objects, by name.
    pub fn all(&self) -> Vec<Arc<P>> {
        self.0.shared.store.lock().all()
    }

    /// First what there is, then every change. Ends with the feed.
    pub fn changes(&self) -> Changes<P> {
        let id = self.0.shared.store.lock().subscribe();
        Changes { shared: self.0.shared.clone(), id }
    }

    /// The same of one object alone, whether it exists yet or not. `namespace` is empty for kinds without one.
    pub fn changes_of(&self, namespace: &str, name: &str) -> Changes<P> {
        let id = self.0.shared.store.lock().subscribe_to(namespace, name);
        Changes { shared: self.0.shared.clone(), id }
    }

    /// Resolves when all that there was has been heard once.
    pub async fn synced(&self) {
        let mut health = self.0.shared.health.subscribe();
        // The sender lives as long as this feed.
        let _ = health.wait_for(|health| health.synced).await;
    }

    /// Resolves when the cluster refuses the watch. The feed goes on trying: who does not want that drops it.
    pub fn refused(&self) -> impl Future<Output = Refusal> + use<P> {
        let mut refusal = self.0.shared.refusal.subscribe();
        async move {
            let refused = refusal.wait_for(Option::is_some).await.ok().and_then(|refused| refused.clone());
            match refused {
                Some(refused) => refused,
                // The feed is gone.
                None => std::future::pending().await,
            }
        }
    }

    /// For how long nothing has been heard; nothing while the watch stands.
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

/// What a subscriber is told.
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
