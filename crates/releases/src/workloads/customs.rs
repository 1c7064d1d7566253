//! Readiness of custom resources, e.g. of operators or Knative, from their `Ready` condition.
//!
//! The kinds are not known in advance, and the platform itself may not read them. So there is one watch per kind, namespace and identity
//! of a release whose record names such objects. It ends with the last release that needs it.
//!
//! Invariants: a watch that is rejected, or whose kind is no longer served, ends with one log line. The next deployment of the release
//! restarts it; so does the next full reconcile if the kind was not served. There are at most [`MOST`] watches, and [`MOST_OF_ONE`] for
//! the releases of one namespace. Objects beyond that count as ready, and the status says that their readiness is unknown.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use domain::actor::Impersonation;
use futures::{StreamExt, future};
use kube::Api;
use kube::core::DynamicObject;
use kube::runtime::watcher::Config;
use kube_access::controller::isolate;
use kube_access::{Change, Clients, Feed};
use kube_apply::{Discovery, Id};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{OF_HELM, id_of, release_of, stands};
use crate::key::Key;

/// Maximum number of watches.
const MOST: usize = 512;
/// Maximum number of watches for the releases of one namespace, so that no tenant uses all of them.
const MOST_OF_ONE: usize = 16;

/// Time limit for the initial sync of a watch.
const PATIENCE: Duration = Duration::from_secs(10);

/// Kubernetes' own groups with a dot in their name. All groups without a dot are its own.
const OWN: &[&str] = &[
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
pub(crate) fn is_custom(id: &Id) -> bool {
    id.group.contains('.') && !OWN.contains(&id.group.as_str())
}

/// The readiness of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    Ready,
    /// Not ready, with the reason.
    NotReady(Arc<str>),
    /// The readiness cannot be determined, with the reason.
    Unknown(Arc<str>),
}

/// When an ended watch is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// Not in this reconcile.
    Never,
    /// If its kind was not served.
    Served,
    /// Always: permissions and kinds may have changed.
    Always,
}

/// The key of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    group: String,
    kind: String,
    namespace: Option<String>,
    acts_as: Impersonation,
}

impl Place {
    fn is_of(&self, id: &Id) -> bool {
        self.group == id.group && self.kind == id.kind && self.namespace == id.namespace
    }
}

/// The watches of all releases.
pub(crate) struct Customs {
    clients: Clients,
    discovery: Discovery,
    /// Receives the releases whose readiness changed.
    changed: mpsc::UnboundedSender<Key>,
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    watches: HashMap<Place, Watching>,
    places: HashMap<Key, Vec<Place>>,
}

struct Watching {
    /// The releases that need it.
    releases: Releases,
    told: Arc<watch::Sender<Told>>,
    /// `None` if the kind is not served.
    #[cfg_attr(not(test), expect(dead_code, reason = "it ends when this is dropped"))]
    task: Option<AbortOnDropHandle<()>>,
}

type Releases = Arc<Mutex<BTreeSet<Key>>>;

/// The current state of a watch.
#[derive(Default)]
struct Told {
    state: State,
    objects: BTreeMap<Id, Option<Arc<str>>>,
}

#[derive(Clone, Default)]
enum State {
    /// The initial list is not complete.
    #[default]
    Begun,
    Stands,
    /// The kind is not served.
    NotServed,
    /// The API server rejected the watch, with its message.
    Refused(Arc<str>),
}

impl Customs {
    pub fn new(clients: Clients, discovery: Discovery, changed: mpsc::UnboundedSender<Key>) -> Self {
        Self { clients, discovery, changed, all: Mutex::default() }
    }

    /// Watches the custom resources among these objects, and stops other watches of the release. Returns when their readiness is known or
    /// cannot be determined now.
    pub async fn follow(&self, key: &Key, objects: &[Id], acts_as: &Impersonation, again: Again) {
        let mut places: Vec<Place> = Vec::new();
        for id in objects.iter().filter(|id| is_custom(id)) {
            if !places.iter().any(|place| place.is_of(id)) {
                let Id { group, kind, namespace, .. } = id.clone();
                places.push(Place { group, kind, namespace, acts_as: acts_as.clone() });
            }
        }
        let begun = self.begin(key, places, again);
        let told = begun.into_iter().map(|mut told| async move {
            // A watch that ended has no further state.
            let _ = told.wait_for(|told| !matches!(told.state, State::Begun)).await;
        });
        // Slower watches report later.
        let _ = timeout(PATIENCE, future::join_all(told)).await;
    }

    fn begin(&self, key: &Key, places: Vec<Place>, again: Again) -> Vec<watch::Receiver<Told>> {
        let mut all = self.all.lock();
        if places.is_empty() && !all.places.contains_key(key) {
            return Vec::new();
        }
        all.leave(key, |place| !places.contains(place));
        let mut begun = Vec::new();
        let mut kept = Vec::new();
        for place in places {
            let watching = match all.watches.remove(&place) {
                Some(watching) if !watching.is_over(again) => watching,
                Some(Watching { releases, .. }) => self.watch(&place, releases),
                None if all.has_room(key) => self.watch(&place, Releases::default()),
                None => {
                    tracing::info!(release = %key, kind = place.kind, "too many kinds are watched already");
                    continue;
                }
            };
            watching.releases.lock().insert(key.clone());
            begun.push(watching.told.subscribe());
            all.watches.insert(place.clone(), watching);
            kept.push(place);
        }
        if !kept.is_empty() {
            all.places.insert(key.clone(), kept);
        }
        begun
    }

    fn watch(&self, place: &Place, releases: Releases) -> Watching {
        let told = Arc::new(watch::Sender::new(Told::default()));
        let Some(kind) = self.discovery.preferred(&place.group, &place.kind) else {
            told.send_modify(|told| told.state = State::NotServed);
            return Watching { releases, told, task: None };
        };
        let client = self.clients.acting_as(&place.acts_as);
        let api: Api<DynamicObject> = match &place.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &kind.resource),
            None => Api::all_with(client, &kind.resource),
        };
        let feed = Feed::keeping(api, Config::default().labels(OF_HELM), move |object| Seen {
            id: id_of(&kind.resource, &object),
            release: release_of(&object),
            stands: stands(&kind.resource, &object),
        });
        let follower =
            Follower { told: told.clone(), releases: releases.clone(), changed: self.changed.clone() };
        let (discovery, own) = (self.discovery.clone(), self.clients.own());
        // A panic ends only this watch. It counts as rejected and is restarted by the next deployment.
        let task = tokio::spawn(async move {
            let (told, releases, changed) =
                (follower.told.clone(), follower.releases.clone(), follower.changed.clone());
            if let Err(error) = isolate(follower.follow(feed, discovery, own)).await {
                tracing::error!(%error, "the watch of a custom kind panicked");
                Follower { told, releases, changed }.turn(State::Refused("it cannot be watched".into()));
            }
        });
        Watching { releases, told, task: Some(AbortOnDropHandle::new(task)) }
    }

    /// The readiness of a custom resource of a release.
    pub fn stands(&self, key: &Key, id: &Id) -> Stands {
        let all = self.all.lock();
        let place = all.places.get(key).and_then(|places| places.iter().find(|place| place.is_of(id)));
        let Some(watching) = place.and_then(|place| all.watches.get(place)) else {
            return Stands::Unknown("too many kinds are watched already".into());
        };
        let told = watching.told.borrow();
        match (&told.state, told.objects.get(id)) {
            (State::Begun, None) => Stands::Unknown("it has not been heard of yet".into()),
            (State::NotServed, _) => Stands::NotReady("the cluster serves no such kind".into()),
            (State::Refused(why), _) => Stands::Unknown(why.clone()),
            (State::Stands, None) => Stands::NotReady("not there".into()),
            (_, Some(None)) => Stands::Ready,
            (_, Some(Some(why))) => Stands::NotReady(why.clone()),
        }
    }

    /// Stops the watches of a deleted release.
    pub fn forget(&self, key: &Key) {
        self.all.lock().leave(key, |_| true);
    }

    /// The number of watches, and how many of them are running.
    #[cfg(test)]
    pub fn count(&self) -> (usize, usize) {
        let all = self.all.lock();
        let going = |watching: &&Watching| watching.task.as_ref().is_some_and(|task| !task.is_finished());
        (all.watches.len(), all.watches.values().filter(going).count())
    }
}

impl All {
    /// Stops the matching watches of a release unless another release needs them.
    fn leave(&mut self, key: &Key, such: impl Fn(&Place) -> bool) {
        for place in self.places.remove(key).unwrap_or_default().into_iter().filter(|place| such(place)) {
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

    fn has_room(&self, key: &Key) -> bool {
        let of_namespace = |watching: &&Watching| {
            watching.releases.lock().iter().any(|release| release.namespace == key.namespace)
        };
        self.watches.len() < MOST && self.watches.values().filter(of_namespace).count() < MOST_OF_ONE
    }
}

impl Watching {
    /// Whether the watch has ended and must be restarted.
    fn is_over(&self, again: Again) -> bool {
        match self.told.borrow().state {
            State::Begun | State::Stands => false,
            State::NotServed => again != Again::Never,
            State::Refused(_) => again == Again::Always,
        }
    }
}

/// The projection of a custom resource.
struct Seen {
    id: Id,
    /// The release that its annotations name.
    release: Option<Key>,
    stands: Option<Arc<str>>,
}

/// The task of one watch.
struct Follower {
    told: Arc<watch::Sender<Told>>,
    releases: Releases,
    changed: mpsc::UnboundedSender<Key>,
}

impl Follower {
    /// Runs until the API server rejects the watch. The cache logs it.
    async fn follow(self, feed: Feed<Seen>, discovery: Discovery, own: kube::Client) {
        let refused = feed.refused();
        let told = async {
            feed.synced().await;
            feed.all().iter().for_each(|seen| self.enter(seen));
            self.turn(State::Stands);
            let mut changes = feed.changes();
            while let Some(change) = changes.next().await {
                match change {
                    Change::Applied(seen) => self.enter(&seen),
                    Change::Deleted(seen) => self.remove(&seen),
                }
            }
        };
        let refused = tokio::select! {
            refused = refused => refused,
            () = told => return,
        };
        drop(feed);
        if refused.code == 404 {
            // Refreshes discovery, so that the kind is not found again.
            if let Err(error) = discovery.read_again(&own).await {
                tracing::debug!(%error, "cannot read which kinds there are");
            }
            self.turn(State::NotServed);
        } else {
            self.turn(State::Refused(refused.message.as_str().into()));
        }
    }

    fn enter(&self, seen: &Seen) {
        let changed = self.told.send_if_modified(|told| {
            told.objects.insert(seen.id.clone(), seen.stands.clone()).as_ref() != Some(&seen.stands)
        });
        if changed {
            self.wake(seen);
        }
    }

    fn remove(&self, seen: &Seen) {
        self.told.send_modify(|told| drop(told.objects.remove(&seen.id)));
        self.wake(seen);
    }

    /// Requeues the release that an object's annotations name, if it uses this watch.
    fn wake(&self, seen: &Seen) {
        if let Some(key) = seen.release.as_ref().filter(|key| self.releases.lock().contains(key)) {
            // The receiver lives as long as the release queue.
            let _ = self.changed.send(key.clone());
        }
    }

    fn turn(&self, state: State) {
        self.told.send_modify(|told| told.state = state);
        for key in self.releases.lock().iter() {
            let _ = self.changed.send(key.clone());
        }
    }
}
