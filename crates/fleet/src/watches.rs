//! Watches of all kinds, and their application to the cache.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::{apps, batch, core};
use kube::Api;
use kube::core::ApiResource;
use kube::runtime::watcher::Config;
use kube_access::cache::CacheEvents;
use kube_access::controller::runtime::isolate_sync;
use kube_access::controller::{TaskHandle, runtime};
use kube_access::{CacheEvent, WatchCache};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, watch};

use crate::cache::{CachedObject, FleetCache};
use crate::interner::StringInterner;
use crate::job::{CronJob, Job};
use crate::node::Node;
use crate::partial_object::PartialObject;
use crate::pod::Pod;
use crate::workload::Workload;
use crate::{job, pod, workload};

pub(crate) type SharedCache = Arc<RwLock<FleetCache>>;

/// Kinds watched from the start, in the order of the overview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchedKind {
    Pods,
    Nodes,
    Deployments,
    StatefulSets,
    Jobs,
    DaemonSets,
    CronJobs,
}

use WatchedKind::*;

impl WatchedKind {
    pub const ALL: &[Self] = &[Pods, Nodes, Deployments, StatefulSets, Jobs, DaemonSets, CronJobs];

    pub fn name(self) -> &'static str {
        match self {
            Pods => "pods",
            Nodes => "nodes",
            Deployments => "deployments",
            StatefulSets => "statefulsets",
            Jobs => "jobs",
            DaemonSets => "daemonsets",
            CronJobs => "cronjobs",
        }
    }
}

/// Page size of initial lists. Memory used while reading a page is only partly freed, because cached objects are
/// allocated in between.
const LIST_PAGE_SIZE: u32 = 100;

/// All watches.
pub(crate) struct Watches {
    pods: CachedWatch<Pod>,
    pub nodes: CachedWatch<Node>,
    deployments: CachedWatch<Workload>,
    stateful_sets: CachedWatch<Workload>,
    daemon_sets: CachedWatch<Workload>,
    jobs: CachedWatch<Job>,
    cron_jobs: CachedWatch<CronJob>,
}

/// A watch that updates the cache.
pub(crate) struct CachedWatch<P> {
    pub cache: WatchCache<P>,
    /// Whether the initial list is in the cache.
    synced: watch::Receiver<bool>,
}

impl Watches {
    /// Starts the watches and the tasks that apply their events.
    pub fn start(client: &kube::Client, state: &SharedCache, tasks: &mut Vec<TaskHandle>) -> Self {
        let words = StringInterner::default();
        let mut start = WatchStarter { client, state, tasks };
        let with = |words: &StringInterner| words.clone();
        let (of_pods, of_nodes, of_jobs, of_crons) = (with(&words), with(&words), with(&words), with(&words));
        let (of_deployments, of_stateful, of_daemons) = (with(&words), with(&words), with(&words));
        Self {
            nodes: start.start_watch::<core::v1::Node, _, _, _>(
                move |told| Node::from_object(&told, &of_nodes),
                |state, change| match change {
                    CacheEvent::Applied(node) => state.put_node(&node),
                    CacheEvent::Deleted(node) => state.remove_node(&node.name),
                },
            ),
            pods: start.start_watch::<core::v1::Pod, _, _, _>(
                move |told: pod::PodObject| Pod::from_object(told, &of_pods),
                |state, change| match change {
                    CacheEvent::Applied(pod) => state.put_pod(pod),
                    CacheEvent::Deleted(pod) => state.remove_pod(&pod.head.namespace, &pod.head.name),
                },
            ),
            deployments: start.start_watch::<apps::v1::Deployment, _, _, _>(
                move |told| Workload::from_object(&told, &of_deployments),
                |state, change| apply_event(&mut state.deployments, change),
            ),
            stateful_sets: start.start_watch::<apps::v1::StatefulSet, _, _, _>(
                move |told| Workload::from_object(&told, &of_stateful),
                |state, change| apply_event(&mut state.stateful_sets, change),
            ),
            daemon_sets: start.start_watch::<apps::v1::DaemonSet, _, _, _>(
                move |told: workload::DaemonSetObject| Workload::from_daemon_set(&told, &of_daemons),
                |state, change| apply_event(&mut state.daemon_sets, change),
            ),
            jobs: start.start_watch::<batch::v1::Job, _, _, _>(
                move |told: job::JobObject| Job::from_object(&told, &of_jobs),
                |state, change| apply_event(&mut state.jobs, change),
            ),
            cron_jobs: start.start_watch::<batch::v1::CronJob, _, _, _>(
                move |told: job::CronJobObject| CronJob::from_object(&told, &of_crons),
                |state, change| apply_event(&mut state.cron_jobs, change),
            ),
        }
    }

    /// Resolves when the initial list of this kind is in the cache.
    pub async fn wait_until_synced(&self, kind: WatchedKind) {
        let mut known = self.sync_state(kind).clone();
        // If the task has ended, waiting ends too.
        let _ = known.wait_for(|known| *known).await;
    }

    /// Whether the initial list of this kind is in the cache.
    pub fn is_synced(&self, kind: WatchedKind) -> bool {
        *self.sync_state(kind).borrow()
    }

    /// How long the watch of this kind has been down; `None` while it is up.
    pub fn stale_for(&self, kind: WatchedKind) -> Option<Duration> {
        match kind {
            Pods => self.pods.cache.stale_for(),
            Nodes => self.nodes.cache.stale_for(),
            Deployments => self.deployments.cache.stale_for(),
            StatefulSets => self.stateful_sets.cache.stale_for(),
            Jobs => self.jobs.cache.stale_for(),
            DaemonSets => self.daemon_sets.cache.stale_for(),
            CronJobs => self.cron_jobs.cache.stale_for(),
        }
    }

    fn sync_state(&self, kind: WatchedKind) -> &watch::Receiver<bool> {
        match kind {
            Pods => &self.pods.synced,
            Nodes => &self.nodes.synced,
            Deployments => &self.deployments.synced,
            StatefulSets => &self.stateful_sets.synced,
            Jobs => &self.jobs.synced,
            DaemonSets => &self.daemon_sets.synced,
            CronJobs => &self.cron_jobs.synced,
        }
    }
}

fn apply_event<T: CachedObject>(table: &mut crate::cache::ObjectTable<T>, change: CacheEvent<T>) {
    match change {
        CacheEvent::Applied(object) => drop(table.put(object)),
        CacheEvent::Deleted(object) => drop(table.remove(&object.head().namespace, &object.head().name)),
    }
}

struct WatchStarter<'a> {
    client: &'a kube::Client,
    state: &'a SharedCache,
    tasks: &'a mut Vec<TaskHandle>,
}

impl WatchStarter<'_> {
    /// Starts the watch of kind `K`, which decodes `PartialObject<S, T>` and caches a `P`.
    fn start_watch<K, S, T, P>(
        &mut self,
        keep: impl Fn(PartialObject<S, T>) -> P + Send + Sync + 'static,
        enter: fn(&mut FleetCache, CacheEvent<P>),
    ) -> CachedWatch<P>
    where
        K: kube::Resource<DynamicType = ()>,
        PartialObject<S, T>: Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
        P: Send + Sync + 'static,
    {
        let api = Api::all_with(self.client.clone(), &ApiResource::erase::<K>(&()));
        let feed = WatchCache::start_projected(api, Config::default().page_size(LIST_PAGE_SIZE), keep);
        let (tell, known) = watch::channel(false);
        let (followed, state) = (feed.clone(), self.state.clone());
        let (tell, changes) = (Arc::new(tell), Arc::new(Mutex::new(feed.subscribe())));
        let start =
            move || apply_events(followed.clone(), changes.clone(), state.clone(), enter, tell.clone());
        self.tasks.push(runtime().spawn("fleet-state", &K::plural(&()), start));
        CachedWatch { cache: feed, synced: known }
    }
}

/// Applies every event, and sets `known` once the initial list is applied. A panic on one object does not affect
/// others. The subscription survives a restart of the task, so that no deletion is missed.
pub(crate) async fn apply_events<P: Send + Sync + 'static>(
    feed: WatchCache<P>,
    changes: Arc<Mutex<CacheEvents<P>>>,
    state: SharedCache,
    enter: fn(&mut FleetCache, CacheEvent<P>),
    known: Arc<watch::Sender<bool>>,
) {
    let mut changes = changes.lock().await;
    let mut synced = std::pin::pin!(feed.wait_until_synced());
    loop {
        tokio::select! {
            // Events first: all events of the initial list are queued before the watch reports that it is synced.
            biased;
            change = changes.next() => match change {
                Some(change) => {
                    if let Err(error) = isolate_sync(|| enter(&mut state.write(), change)) {
                        tracing::error!(%error, "cannot add an object to the fleet cache");
                    }
                }
                None => return,
            },
            () = &mut synced, if !*known.borrow() => drop(known.send_replace(true)),
        }
    }
}
