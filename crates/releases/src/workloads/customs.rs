//! How objects of kinds that are not Kubernetes' own stand: those of an operator or of Knative, which say by a condition `Ready`
//! whether they are.
//!
//! Nobody knows beforehand which kinds these are, and the platform itself may read none of them. So there is a watch for each
//! kind and namespace that the record of some release names, as whoever that release acts as; it ends with the last release
//! that needs it.
//!
//! Always true: a watch that is refused, or whose kind is served no more, ends with one line in the log and is not begun
//! again before the release is deployed anew (or, for a kind that went, looked at whole). There are never more than [`MOST`]
//! of them, and [`MOST_OF_ONE`] for the releases of one namespace: what comes on top counts as ready, and the status says that
//! nobody knows.

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

/// So many watches there are at most.
const MOST: usize = 512;
/// Of them for the releases of one namespace, so that nobody takes them all.
const MOST_OF_ONE: usize = 16;

/// How long a watch may take to tell what there is.
const PATIENCE: Duration = Duration::from_secs(10);

/// Groups of Kubernetes' own with a dot in their name; those without are all its own.
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

/// Whether objects of this kind are looked at here.
pub(crate) fn is_custom(id: &Id) -> bool {
    id.group.contains('.') && !OWN.contains(&id.group.as_str())
}

/// How an object stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    Ready,
    /// For this reason it is not ready.
    NotReady(Arc<str>),
    /// For this reason nobody knows.
    Unknown(Arc<str>),
}

/// When a watch that has ended is begun again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// Not now.
    Never,
    /// If its kind was not served.
    Served,
    /// In any case: what was written may be of another time.
    Always,
}

/// What one watch is of.
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
    /// Whose objects stand otherwise than before.
    changed: mpsc::UnboundedSender<Key>,
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    watches: HashMap<Place, Watching>,
    places: HashMap<Key, Vec<Place>>,
}

struct Watching {
    /// Whose objects it is needed for.
    releases: Releases,
    told: Arc<watch::Sender<Told>>,
    /// None of a kind that is not served.
    #[cfg_attr(not(test), expect(dead_code, reason = "it ends when this is dropped"))]
    task: Option<AbortOnDropHandle<()>>,
}

type Releases = Arc<Mutex<BTreeSet<Key>>>;

/// What a watch has told.
#[derive(Default)]
struct Told {
    state: State,
    objects: BTreeMap<Id, Option<Arc<str>>>,
}

#[derive(Clone, Default)]
enum State {
    /// Not yet all that there is.
    #[default]
    Begun,
    Stands,
    /// There is no such kind.
    NotServed,
    /// It may not be watched, as the cluster says.
    Refused(Arc<str>),
}

impl Customs {
    pub fn new(clients: Clients, discovery: Discovery, changed: mpsc::UnboundedSender<Key>) -> Self {
        Self { clients, discovery, changed, all: Mutex::default() }
    }

    /// Watches those of a release's objects that are custom, and nothing else for it. Returns when it is known how they stand, or
    /// that this cannot be known now.
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
            // One that ends meanwhile has nothing more to tell.
            let _ = told.wait_for(|told| !matches!(told.state, State::Begun)).await;
        });
        // Whoever is slower is heard of later.
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
        // A panic ends this watch alone: it is told as refused, and begun anew when the release is next deployed.
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

    /// How a custom object of a release stands.
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

    /// There is no such release any more.
    pub fn forget(&self, key: &Key) {
        self.all.lock().leave(key, |_| true);
    }

    /// How many watches there are, and how many of them go on.
    #[cfg(test)]
    pub fn count(&self) -> (usize, usize) {
        let all = self.all.lock();
        let going = |watching: &&Watching| watching.task.as_ref().is_some_and(|task| !task.is_finished());
        (all.watches.len(), all.watches.values().filter(going).count())
    }
}

impl All {
    /// Ends what was watched for a release at such places, where nobody else needs it.
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
    /// Whether it has ended, and is to be begun again.
    fn is_over(&self, again: Again) -> bool {
        match self.told.borrow().state {
            State::Begun | State::Stands => false,
            State::NotServed => again != Again::Never,
            State::Refused(_) => again == Again::Always,
        }
    }
}

/// What is kept of a custom object.
struct Seen {
    id: Id,
    /// The release that it says it is of.
    release: Option<Key>,
    stands: Option<Arc<str>>,
}

/// One watch.
struct Follower {
    told: Arc<watch::Sender<Told>>,
    releases: Releases,
    changed: mpsc::UnboundedSender<Key>,
}

impl Follower {
    /// Until the cluster refuses it. The feed says so in the log.
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
            // Whoever looks for the kind next should not find it.
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

    /// Wakes the release that an object says it is of, if it is watched for that.
    fn wake(&self, seen: &Seen) {
        if let Some(key) = seen.release.as_ref().filter(|key| self.releases.lock().contains(key)) {
            // The receiver lives as long as the queue of releases.
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
