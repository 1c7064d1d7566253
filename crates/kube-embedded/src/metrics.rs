//! Metrics of the API, under the names that kube-apiserver uses.

use std::time::Duration;

use governor::Governor;
use governor::metrics::{GovernorCollector, WorkCollector};
use governor::work::WorkPool;
use http::Method;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry as Exposition;

use crate::http::target::{self, ResourcePath};
use crate::registry::Registry;
use crate::store::{StorageCollector, Store};

/// The labels of a request. Only served resources have labels: paths that clients invent must not increase the
/// number of series.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    verb: &'static str,
    group: String,
    resource: String,
}

impl RequestLabels {
    pub fn from_request(
        registry: &Registry,
        method: &Method,
        path: Option<&ResourcePath>,
        watch: bool,
    ) -> Self {
        let served = path.filter(|path| registry.get(&path.group, &path.version, &path.resource).is_some());
        match served {
            Some(path) => Self {
                verb: target::verb(method, path, watch),
                group: path.group.clone(),
                resource: path.resource.clone(),
            },
            None => Self { verb: "other", group: String::new(), resource: String::new() },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    #[prometheus(flatten)]
    subject: RequestLabels,
    code: u16,
}

/// The label of a background task: its name in the health report.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabels {
    task: String,
}

/// A counter per task, and their total.
#[derive(Clone, Default)]
struct TaskCounter {
    tasks: Family<TaskLabels, Counter>,
    total: Counter,
}

impl TaskCounter {
    fn add(&self, task: &str) {
        self.tasks.get_or_create(&TaskLabels { task: task.to_owned() }).inc();
        self.total.inc();
    }
}

/// The metrics of one cluster. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Metrics {
    panics: TaskCounter,
    exceeded_deadlines: TaskCounter,
    task_restarts: TaskCounter,
    requests: Family<ResponseLabels, Counter>,
    duration: Family<RequestLabels, Histogram>,
    watches: Gauge,
    governor: Governor,
    /// `None` without a cluster.
    pool: Option<WorkPool>,
    storage: Option<StorageCollector>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::with(Governor::default(), None, None)
    }
}

impl Metrics {
    pub fn new(governor: Governor, pool: WorkPool, store: &Store) -> Self {
        Self::with(governor, Some(pool), Some(store.storage_collector()))
    }

    fn with(governor: Governor, pool: Option<WorkPool>, storage: Option<StorageCollector>) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(exponential_buckets(0.000_25, 4.0, 10));
        let duration = Family::new_with_constructor(histogram);
        Self {
            panics: TaskCounter::default(),
            exceeded_deadlines: TaskCounter::default(),
            task_restarts: TaskCounter::default(),
            requests: Family::default(),
            duration,
            watches: Gauge::default(),
            governor,
            pool,
            storage,
        }
    }

    /// Registers the metrics with an exposition.
    pub fn register(&self, shown: &mut Exposition) {
        self.register_with_pools(shown, Vec::new());
    }

    /// The same with further pools: one exposition describes the metric families of all pools once.
    pub fn register_with_pools(&self, shown: &mut Exposition, mut pools: Vec<(&'static str, WorkPool)>) {
        shown.register("apiserver_request", "Kubernetes requests answered", self.requests.clone());
        let help = "Time from a Kubernetes request to the head of its answer";
        shown.register("apiserver_request_duration_seconds", help, self.duration.clone());
        shown.register("apiserver_longrunning_requests", "Watches that are open", self.watches.clone());
        shown.register_collector(Box::new(GovernorCollector::new(self.governor.clone())));
        pools.extend(self.pool.iter().map(|pool| ("kubernetes", pool.clone())));
        shown.register_collector(Box::new(WorkCollector::new(pools)));
        if let Some(storage) = &self.storage {
            storage.register(shown);
        }
        let help = "Panics caught in requests and reconciles of the embedded cluster";
        shown.register("kube_embedded_panics", help, self.panics.tasks.clone());
        let help = "Reconciles of the embedded cluster that were cancelled at their deadline";
        shown.register("kube_embedded_exceeded_deadlines", help, self.exceeded_deadlines.tasks.clone());
        let help = "Restarts of background tasks of the embedded cluster";
        shown.register("kube_embedded_task_restarts", help, self.task_restarts.tasks.clone());
    }

    /// Counts a caught panic in `task`: a controller, or `request`.
    pub fn record_panic(&self, task: &str) {
        self.panics.add(task);
    }

    /// The number of caught panics.
    pub fn panic_count(&self) -> u64 {
        self.panics.total.get()
    }

    /// Counts a reconcile of the controller `task` that exceeded its deadline.
    pub fn record_deadline_exceeded(&self, task: &str) {
        self.exceeded_deadlines.add(task);
    }

    /// The number of reconciles that exceeded their deadline.
    pub fn exceeded_deadline_count(&self) -> u64 {
        self.exceeded_deadlines.total.get()
    }

    /// Counts the restart of a background task.
    pub fn record_task_restart(&self, task: &str) {
        self.task_restarts.add(task);
    }

    /// The number of restarts of background tasks.
    pub fn task_restart_count(&self) -> u64 {
        self.task_restarts.total.get()
    }

    pub fn record_request(&self, subject: RequestLabels, code: u16, took: Duration) {
        self.duration.get_or_create(&subject).observe(took.as_secs_f64());
        self.requests.get_or_create(&ResponseLabels { subject, code }).inc();
    }

    /// Counts a watch while the guard lives.
    pub fn open_watch(&self) -> OpenWatchGuard {
        self.watches.inc();
        OpenWatchGuard(self.watches.clone())
    }
}

/// Guard of an open watch.
pub struct OpenWatchGuard(Gauge);

impl Drop for OpenWatchGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unserved_paths_share_one_series() {
        let registry = Registry::builtin();
        let of = |path| {
            RequestLabels::from_request(
                &registry,
                &Method::GET,
                target::parse_resource_path(path).as_ref(),
                false,
            )
        };
        assert_eq!(of("/api/v1/namespaces/x/pods").resource, "pods");
        assert_eq!(of("/api/v1/namespaces/x/pods").verb, "list");
        assert_eq!(of("/api/v1/namespaces/x/invented"), of("/anything"));
    }
}
