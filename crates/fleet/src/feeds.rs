//! Watches of all kinds, and their application to the cache.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::{apps, batch, core};
use kube::Api;
use kube::core::ApiResource;
use kube::runtime::watcher::Config;
use kube_access::controller::runtime::isolate_sync;
use kube_access::controller::{TaskHandle, runtime};
use kube_access::feed::Changes;
use kube_access::{Change, Feed};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, watch};

use crate::job::{CronJob, Job};
use crate::node::Node;
use crate::pod::Pod;
use crate::seen::Seen;
use crate::state::{Kept, State};
use crate::words::Words;
use crate::workload::Workload;
use crate::{job, pod, workload};

pub(crate) type Shared = Arc<RwLock<State>>;

/// Kinds watched from the start, in the order of the overview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Pods,
    Nodes,
    Deployments,
    StatefulSets,
    Jobs,
    DaemonSets,
    CronJobs,
}

use Kind::*;

impl Kind {
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
const PAGE: u32 = 100;

/// All watches.
pub(crate) struct Feeds {
    pods: Followed<Pod>,
    pub nodes: Followed<Node>,
    deployments: Followed<Workload>,
    stateful_sets: Followed<Workload>,
    daemon_sets: Followed<Workload>,
    jobs: Followed<Job>,
    cron_jobs: Followed<CronJob>,
}

/// A watch that updates the cache.
pub(crate) struct Followed<P> {
    pub feed: Feed<P>,
    /// Whether the initial list is in the cache.
    known: watch::Receiver<bool>,
}

impl Feeds {
    /// Starts the watches and the tasks that apply their events.
    pub fn start(client: &kube::Client, state: &Shared, tasks: &mut Vec<TaskHandle>) -> Self {
        let words = Words::default();
        let mut start = Start { client, state, tasks };
        let with = |words: &Words| words.clone();
        let (of_pods, of_nodes, of_jobs, of_crons) = (with(&words), with(&words), with(&words), with(&words));
        let (of_deployments, of_stateful, of_daemons) = (with(&words), with(&words), with(&words));
        Self {
            nodes: start.one::<core::v1::Node, _, _, _>(
                move |told| Node::of(&told, &of_nodes),
                |state, change| match change {
                    Change::Applied(node) => state.put_node(&node),
                    Change::Deleted(node) => state.drop_node(&node.name),
                },
            ),
            pods: start.one::<core::v1::Pod, _, _, _>(
                move |told: pod::Told| Pod::of(told, &of_pods),
                |state, change| match change {
                    Change::Applied(pod) => state.put_pod(pod),
                    Change::Deleted(pod) => state.drop_pod(&pod.head.namespace, &pod.head.name),
                },
            ),
            deployments: start.one::<apps::v1::Deployment, _, _, _>(
                move |told| Workload::of(&told, &of_deployments),
                |state, change| enter(&mut state.deployments, change),
            ),
            stateful_sets: start.one::<apps::v1::StatefulSet, _, _, _>(
                move |told| Workload::of(&told, &of_stateful),
                |state, change| enter(&mut state.stateful_sets, change),
            ),
            daemon_sets: start.one::<apps::v1::DaemonSet, _, _, _>(
                move |told: workload::ToldDaemons| Workload::of_daemons(&told, &of_daemons),
                |state, change| enter(&mut state.daemon_sets, change),
            ),
            jobs: start.one::<batch::v1::Job, _, _, _>(
                move |told: job::Told| Job::of(&told, &of_jobs),
                |state, change| enter(&mut state.jobs, change),
            ),
            cron_jobs: start.one::<batch::v1::CronJob, _, _, _>(
                move |told: job::ToldCron| CronJob::of(&told, &of_crons),
                |state, change| enter(&mut state.cron_jobs, change),
            ),
        }
    }

    /// Resolves when the initial list of this kind is in the cache.
    pub async fn known(&self, kind: Kind) {
        let mut known = self.knows(kind).clone();
        // If the task has ended, waiting ends too.
        let _ = known.wait_for(|known| *known).await;
    }

    /// Whether the initial list of this kind is in the cache.
    pub fn is_known(&self, kind: Kind) -> bool {
        *self.knows(kind).borrow()
    }

    /// How long the watch of this kind has been down; `None` while it is up.
    pub fn stale_for(&self, kind: Kind) -> Option<Duration> {
        match kind {
            Pods => self.pods.feed.stale_for(),
            Nodes => self.nodes.feed.stale_for(),
            Deployments => self.deployments.feed.stale_for(),
            StatefulSets => self.stateful_sets.feed.stale_for(),
            Jobs => self.jobs.feed.stale_for(),
            DaemonSets => self.daemon_sets.feed.stale_for(),
            CronJobs => self.cron_jobs.feed.stale_for(),
        }
    }

    fn knows(&self, kind: Kind) -> &watch::Receiver<bool> {
        match kind {
            Pods => &self.pods.known,
            Nodes => &self.nodes.known,
            Deployments => &self.deployments.known,
            StatefulSets => &self.stateful_sets.known,
            Jobs => &self.jobs.known,
            DaemonSets => &self.daemon_sets.known,
            CronJobs => &self.cron_jobs.known,
        }
    }
}

fn enter<T: Kept>(table: &mut crate::state::Table<T>, change: Change<T>) {
    match change {
        Change::Applied(object) => drop(table.put(object)),
        Change::Deleted(object) => drop(table.drop(&object.head().namespace, &object.head().name)),
    }
}

struct Start<'a> {
    client: &'a kube::Client,
    state: &'a Shared,
    tasks: &'a mut Vec<TaskHandle>,
}

impl Start<'_> {
    /// Starts the watch of kind `K`, which decodes `Seen<S, T>` and caches a `P`.
    fn one<K, S, T, P>(
        &mut self,
        keep: impl Fn(Seen<S, T>) -> P + Send + Sync + 'static,
        enter: fn(&mut State, Change<P>),
    ) -> Followed<P>
    where
        K: kube::Resource<DynamicType = ()>,
        Seen<S, T>: Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
        P: Send + Sync + 'static,
    {
        let api = Api::all_with(self.client.clone(), &ApiResource::erase::<K>(&()));
        let feed = Feed::keeping(api, Config::default().page_size(PAGE), keep);
        let (tell, known) = watch::channel(false);
        let (followed, state) = (feed.clone(), self.state.clone());
        let (tell, changes) = (Arc::new(tell), Arc::new(Mutex::new(feed.changes())));
        let start = move || follow(followed.clone(), changes.clone(), state.clone(), enter, tell.clone());
        self.tasks.push(runtime().spawn("fleet-state", &K::plural(&()), start));
        Followed { feed, known }
    }
}

/// Applies every event, and sets `known` once the initial list is applied. A panic on one object does not affect
/// others. The subscription survives a restart of the task, so that no deletion is missed.
pub(crate) async fn follow<P: Send + Sync + 'static>(
    feed: Feed<P>,
    changes: Arc<Mutex<Changes<P>>>,
    state: Shared,
    enter: fn(&mut State, Change<P>),
    known: Arc<watch::Sender<bool>>,
) {
    let mut changes = changes.lock().await;
    let mut synced = std::pin::pin!(feed.synced());
    loop {
        tokio::select! {
            // Events first: all events of the initial list are queued before the watch reports that it is synced.
            biased;
            change = changes.next() => match change {
                Some(change) => {
                    if let Err(error) = isolate_sync(|| enter(&mut state.write(), change)) {
                        tracing::error!(%error, "an object cannot be entered into the state of the fleet");
                    }
                }
                None => return,
            },
            () = &mut synced, if !*known.borrow() => drop(known.send_replace(true)),
        }
    }
}
