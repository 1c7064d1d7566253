//! Readiness of custom resources, e.g. of operators or Knative, from their `Ready` condition.
//!
//! The kinds are not known in advance, and the platform itself may not read them. So there is one watch per kind, namespace and identity
//! of a release whose record names such objects. It ends with the last release that needs it.
//!
//! Invariants: a watch that is rejected, or whose kind is no longer served, ends with one log line. The next deployment of the release
//! restarts it; so does the next full reconcile if the kind was not served. There are at most [`MAX_WATCHES`] watches, and
//! [`MAX_WATCHES_PER_NAMESPACE`] for the releases of one namespace. Objects beyond that count as ready, and the status says that their
//! readiness is unknown.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use domain::actor::Impersonation;
use futures::{StreamExt, future};
use kube::Api;
use kube::core::DynamicObject;
use kube::runtime::watcher::Config;
use kube_access::controller::isolate;
use kube_access::{CacheEvent, Clients, WatchCache};
use kube_apply::{Discovery, ObjectId};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{HELM_SELECTOR, object_id, owning_release, unready_reason};
use crate::key::ReleaseKey;

/// Maximum number of watches.
const MAX_WATCHES: usize = 512;
/// Maximum number of watches for the releases of one namespace, so that no tenant uses all of them.
const MAX_WATCHES_PER_NAMESPACE: usize = 16;

/// Time limit for the initial sync of a watch.
const SYNC_TIMEOUT: Duration = Duration::from_secs(10);

/// Kubernetes' own groups with a dot in their name. All groups without a dot are its own.
const BUILTIN_GROUPS: &[&str] = &[
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "metrics.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Whether objects of this kind are custom resources.
pub(crate) fn is_custom(id: &ObjectId) -> bool {
    id.group.contains('.') && !BUILTIN_GROUPS.contains(&id.group.as_str())
}

/// The readiness of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// Not ready, with the reason.
    NotReady(Arc<str>),
    /// The readiness cannot be determined, with the reason.
    Unknown(Arc<str>),
}

/// When an ended watch is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    /// Not in this reconcile.
    Never,
    /// If its kind was not served.
    IfNotServed,
    /// Always: permissions and kinds may have changed.
    Always,
}

/// The key of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WatchKey {
    group: String,
    kind: String,
    namespace: Option<String>,
    impersonation: Impersonation,
}

impl WatchKey {
    fn matches(&self, id: &ObjectId) -> bool {
        self.group == id.group && self.kind == id.kind && self.namespace == id.namespace
    }
}

/// The watches of all releases.
pub(crate) struct CustomResourceWatches {
    clients: Clients,
    discovery: Discovery,
    /// Receives the releases whose readiness changed.
    changed: mpsc::UnboundedSender<ReleaseKey>,
    registry: Mutex<WatchRegistry>,
}

#[derive(Default)]
struct WatchRegistry {
    watches: HashMap<WatchKey, ResourceWatch>,
    watch_keys: HashMap<ReleaseKey, Vec<WatchKey>>,
}

struct ResourceWatch {
    /// The releases that need it.
    releases: ReleaseKeys,
    state: Arc<watch::Sender<WatchState>>,
    /// `None` if the kind is not served.
    #[cfg_attr(not(test), expect(dead_code, reason = "it ends when this is dropped"))]
    task: Option<AbortOnDropHandle<()>>,
}

type ReleaseKeys = Arc<Mutex<BTreeSet<ReleaseKey>>>;

/// The current state of a watch.
#[derive(Default)]
struct WatchState {
    phase: WatchPhase,
    objects: BTreeMap<ObjectId, Option<Arc<str>>>,
}

#[derive(Clone, Default)]
enum WatchPhase {
    /// The initial list is not complete.
    #[default]
    Syncing,
    Synced,
    /// The kind is not served.
    NotServed,
    /// The API server rejected the watch, with its message.
    Rejected(Arc<str>),
}

impl CustomResourceWatches {
    pub fn new(clients: Clients, discovery: Discovery, changed: mpsc::UnboundedSender<ReleaseKey>) -> Self {
        Self { clients, discovery, changed, registry: Mutex::default() }
    }

    /// Watches the custom resources among these objects, and stops other watches of the release. Returns when their readiness is known or
    /// cannot be determined now.
    pub async fn ensure_watches(
        &self,
        key: &ReleaseKey,
        objects: &[ObjectId],
        acts_as: &Impersonation,
        again: RestartPolicy,
    ) {
        let mut places: Vec<WatchKey> = Vec::new();
        for id in objects.iter().filter(|id| is_custom(id)) {
            if !places.iter().any(|place| place.matches(id)) {
                let ObjectId { group, kind, namespace, .. } = id.clone();
                places.push(WatchKey { group, kind, namespace, impersonation: acts_as.clone() });
            }
        }
        let begun = self.start_watches(key, places, again);
        let waits = begun.into_iter().map(|mut told| async move {
            // A watch that ended has no further state.
            let _ = told.wait_for(|told| !matches!(told.phase, WatchPhase::Syncing)).await;
        });
        // Slower watches report later.
        let _ = timeout(SYNC_TIMEOUT, future::join_all(waits)).await;
    }

    fn start_watches(
        &self,
        key: &ReleaseKey,
        places: Vec<WatchKey>,
        again: RestartPolicy,
    ) -> Vec<watch::Receiver<WatchState>> {
        let mut all = self.registry.lock();
        if places.is_empty() && !all.watch_keys.contains_key(key) {
            return Vec::new();
        }
        all.stop_unused(key, |place| !places.contains(place));
        let mut begun = Vec::new();
        let mut watched = Vec::new();
        for place in places {
            let watching = match all.watches.remove(&place) {
                Some(watching) if !watching.must_restart(again) => watching,
                Some(ResourceWatch { releases, .. }) => self.start_watch(&place, releases),
                None if all.has_capacity(key) => self.start_watch(&place, ReleaseKeys::default()),
                None => {
                    tracing::info!(release = %key, kind = place.kind, "limit of watched kinds reached");
                    continue;
                }
            };
            watching.releases.lock().insert(key.clone());
            begun.push(watching.state.subscribe());
            all.watches.insert(place.clone(), watching);
            watched.push(place);
        }
        if !watched.is_empty() {
            all.watch_keys.insert(key.clone(), watched);
        }
        begun
    }

    fn start_watch(&self, key: &WatchKey, releases: ReleaseKeys) -> ResourceWatch {
        let state = Arc::new(watch::Sender::new(WatchState::default()));
        let Some(kind) = self.discovery.preferred(&key.group, &key.kind) else {
            state.send_modify(|told| told.phase = WatchPhase::NotServed);
            return ResourceWatch { releases, state, task: None };
        };
        let client = self.clients.impersonating(&key.impersonation);
        let api: Api<DynamicObject> = match &key.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &kind.resource),
            None => Api::all_with(client, &kind.resource),
        };
        let feed = WatchCache::start_projected(api, Config::default().labels(HELM_SELECTOR), move |object| {
            ObservedResource {
                id: object_id(&kind.resource, &object),
                release: owning_release(&object),
                unready_reason: unready_reason(&kind.resource, &object),
            }
        });
        let follower = ResourceFollower {
            state: state.clone(),
            releases: releases.clone(),
            changed: self.changed.clone(),
        };
        let (discovery, own) = (self.discovery.clone(), self.clients.platform());
        // A panic ends only this watch. It counts as rejected and is restarted by the next deployment.
        let task = tokio::spawn(async move {
            let (told, releases, changed) =
                (follower.state.clone(), follower.releases.clone(), follower.changed.clone());
            if let Err(error) = isolate(follower.run(feed, discovery, own)).await {
                tracing::error!(%error, "watch of a custom resource kind panicked");
                ResourceFollower { state: told, releases, changed }
                    .set_phase(WatchPhase::Rejected("it cannot be watched".into()));
            }
        });
        ResourceWatch { releases, state, task: Some(AbortOnDropHandle::new(task)) }
    }

    /// The readiness of a custom resource of a release.
    pub fn readiness(&self, key: &ReleaseKey, id: &ObjectId) -> Readiness {
        let all = self.registry.lock();
        let place = all.watch_keys.get(key).and_then(|places| places.iter().find(|place| place.matches(id)));
        let Some(watching) = place.and_then(|place| all.watches.get(place)) else {
            return Readiness::Unknown("limit of watched kinds reached".into());
        };
        let state = watching.state.borrow();
        match (&state.phase, state.objects.get(id)) {
            (WatchPhase::Syncing, None) => Readiness::Unknown("not observed yet".into()),
            (WatchPhase::NotServed, _) => Readiness::NotReady("the cluster does not serve this kind".into()),
            (WatchPhase::Rejected(why), _) => Readiness::Unknown(why.clone()),
            (WatchPhase::Synced, None) => Readiness::NotReady("not found".into()),
            (_, Some(None)) => Readiness::Ready,
            (_, Some(Some(why))) => Readiness::NotReady(why.clone()),
        }
    }

    /// Stops the watches of a deleted release.
    pub fn remove(&self, key: &ReleaseKey) {
        self.registry.lock().stop_unused(key, |_| true);
    }

    /// The number of watches, and how many of them are running.
    #[cfg(test)]
    pub fn watch_counts(&self) -> (usize, usize) {
        let all = self.registry.lock();
        let going =
            |watching: &&ResourceWatch| watching.task.as_ref().is_some_and(|task| !task.is_finished());
        (all.watches.len(), all.watches.values().filter(going).count())
    }
}

impl WatchRegistry {
    /// Stops the matching watches of a release unless another release needs them.
    fn stop_unused(&mut self, key: &ReleaseKey, such: impl Fn(&WatchKey) -> bool) {
        for place in self.watch_keys.remove(key).unwrap_or_default().into_iter().filter(|place| such(place)) {
            let needed = self.watches.get(&place).is_some_and(|watching| {
                let mut releases = watching.releases.lock();
                releases.remove(key);
                !releases.is_empty()
            });
            if !needed {
                self.watches.remove(&place);
            }
        }
    }

    fn has_capacity(&self, key: &ReleaseKey) -> bool {
        let of_namespace = |watching: &&ResourceWatch| {
            watching.releases.lock().iter().any(|release| release.namespace == key.namespace)
        };
        self.watches.len() < MAX_WATCHES
            && self.watches.values().filter(of_namespace).count() < MAX_WATCHES_PER_NAMESPACE
    }
}

impl ResourceWatch {
    /// Whether the watch has ended and must be restarted.
    fn must_restart(&self, again: RestartPolicy) -> bool {
        match self.state.borrow().phase {
            WatchPhase::Syncing | WatchPhase::Synced => false,
            WatchPhase::NotServed => again != RestartPolicy::Never,
            WatchPhase::Rejected(_) => again == RestartPolicy::Always,
        }
    }
}

/// The projection of a custom resource.
struct ObservedResource {
    id: ObjectId,
    /// The release that its annotations name.
    release: Option<ReleaseKey>,
    unready_reason: Option<Arc<str>>,
}

/// The task of one watch.
struct ResourceFollower {
    state: Arc<watch::Sender<WatchState>>,
    releases: ReleaseKeys,
    changed: mpsc::UnboundedSender<ReleaseKey>,
}

impl ResourceFollower {
    /// Runs until the API server rejects the watch. The cache logs it.
    async fn run(self, feed: WatchCache<ObservedResource>, discovery: Discovery, own: kube::Client) {
        let refused = feed.wait_until_rejected();
        let follow = async {
            feed.wait_until_synced().await;
            feed.list().iter().for_each(|seen| self.apply(seen));
            self.set_phase(WatchPhase::Synced);
            let mut changes = feed.subscribe();
            while let Some(change) = changes.next().await {
                match change {
                    CacheEvent::Applied(seen) => self.apply(&seen),
                    CacheEvent::Deleted(seen) => self.remove(&seen),
                }
            }
        };
        let refused = tokio::select! {
            refused = refused => refused,
            () = follow => return,
        };
        drop(feed);
        if refused.code == 404 {
            // Refreshes discovery, so that the kind is not found again.
            if let Err(error) = discovery.refresh(&own).await {
                tracing::debug!(%error, "cannot list the served kinds");
            }
            self.set_phase(WatchPhase::NotServed);
        } else {
            self.set_phase(WatchPhase::Rejected(refused.message.as_str().into()));
        }
    }

    fn apply(&self, resource: &ObservedResource) {
        let changed = self.state.send_if_modified(|told| {
            told.objects.insert(resource.id.clone(), resource.unready_reason.clone()).as_ref()
                != Some(&resource.unready_reason)
        });
        if changed {
            self.requeue_release(resource);
        }
    }

    fn remove(&self, resource: &ObservedResource) {
        self.state.send_modify(|told| drop(told.objects.remove(&resource.id)));
        self.requeue_release(resource);
    }

    /// Requeues the release that an object's annotations name, if it uses this watch.
    fn requeue_release(&self, resource: &ObservedResource) {
        if let Some(key) = resource.release.as_ref().filter(|key| self.releases.lock().contains(key)) {
            // The receiver lives as long as the release queue.
            let _ = self.changed.send(key.clone());
        }
    }

    fn set_phase(&self, state: WatchPhase) {
        self.state.send_modify(|told| told.phase = state);
        for key in self.releases.lock().iter() {
            let _ = self.changed.send(key.clone());
        }
    }
}
