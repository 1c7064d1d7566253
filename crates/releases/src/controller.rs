//! The controllers of requests and releases, which run on the leader only.
//!
//! A release is reconciled when it changes, when its Helm records, its objects or its request change, and when a release that it depends
//! on changes. A reconcile reads caches first, so that most need no API call.

pub(crate) mod reconcile_failures;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use domain::clock::Clock;
use futures::future::{BoxFuture, ready};
use futures::stream::{self, Stream};
use futures::{FutureExt, StreamExt};
use helm_release::render::operations;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::Recorder;
use kube::{Resource, ResourceExt};
use kube_access::controller::{SlotLimits, panic_event, runtime};
use kube_access::queue::{self, Action};
use kube_access::{CacheEvent, Clients, WatchCache};
use kube_types::{HelmRelease, HelmRequest};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::charts::ChartResolver;
use crate::debounce::{self, StatusDebounce};
use crate::duration;
use crate::error::ReconcileError;
use crate::expectations::Expectations;
use crate::helm_records::{HelmRecordCache, RecordLabels};
use crate::key::ReleaseKey;
use crate::readiness::WorkloadReadiness;
use crate::readiness::custom_resources::CustomResourceWatches;
use crate::reconcile_state::ReconcileState;
use crate::tenant_directory::{TenantDirectory, flow_for_workspace};
use crate::{Releases, gc};
use reconcile_failures::{ReconcileFailures, ReconcileOutcome};

/// The slots of the release controller. Most of a reconcile is waiting for the API server. One that takes more than ten seconds waits for
/// something else, such as a repository, a hook or pods.
const RELEASE_SLOTS: SlotLimits = SlotLimits {
    active: 64,
    active_share: 8,
    reserve: 16,
    slow: 512,
    slow_share: 128,
    slow_after: Duration::from_secs(10),
    // Each reconcile has a shorter deadline, from the timeout of its release.
    deadline: Duration::from_hours(5),
};
/// The delay after a conflict: until then the watch delivers the new object.
const CONFLICT_REQUEUE: Duration = Duration::from_secs(1);
/// The deadline of a reconcile of a request.
const REQUEST_DEADLINE: Duration = Duration::from_mins(5);
/// The slots of the request controller.
const REQUEST_SLOTS: SlotLimits = SlotLimits {
    active: 32,
    active_share: 8,
    reserve: 8,
    slow: 0,
    slow_share: 0,
    slow_after: Duration::MAX,
    // Each reconcile has a shorter deadline.
    deadline: Duration::from_mins(10),
};

/// The most memory that operations of releases use in total, in bytes.
pub fn max_operation_bytes() -> u64 {
    let reconciles = RELEASE_SLOTS.active.saturating_add(RELEASE_SLOTS.slow);
    let unreserved = (reconciles as u64).saturating_mul(operations::FREE_BYTES);
    operations::TOTAL_BYTES.saturating_add(unreserved)
}

/// The shortest deadline of a reconcile of a release.
const MIN_DEADLINE: Duration = Duration::from_mins(30);
/// The deadline as a multiple of the release's timeout: hooks, objects, and the rollback after a failure may each use the timeout.
const DEADLINE_TIMEOUT_FACTOR: u32 = 4;

/// The object of a reconcile.
pub(crate) enum Subject {
    Release(ReleaseKey),
    Request(String),
}

/// Shared state of both controllers.
pub(crate) struct ReleaseController {
    pub clients: Clients,
    pub requests: WatchCache<HelmRequest>,
    pub releases: WatchCache<HelmRelease>,
    pub helm_records: HelmRecordCache,
    pub readiness: WorkloadReadiness,
    pub custom_resources: CustomResourceWatches,
    pub charts: Arc<ChartResolver>,
    pub tenants: Arc<dyn TenantDirectory>,
    pub helm_factory: crate::HelmFactory,
    pub clock: Arc<dyn Clock>,
    pub events: Recorder,
    /// Per release: results of the last full reconcile.
    pub reconcile_state: ReconcileState,
    /// Debounces status writes.
    pub release_debounce: StatusDebounce<ReleaseKey>,
    pub request_debounce: StatusDebounce<String>,
    /// The last `resourceVersion` written per key, until the cache has caught up.
    pub release_expectations: Expectations<ReleaseKey>,
    pub request_expectations: Expectations<String>,
    pub release_failures: ReconcileFailures<ReleaseKey>,
    pub request_failures: ReconcileFailures<String>,
    /// The releases that wait for a dependency, by the dependency.
    pub dependents: Mutex<BTreeMap<ReleaseKey, BTreeSet<ReleaseKey>>>,
    requeue: mpsc::UnboundedSender<ReleaseKey>,
}

impl Releases {
    /// Runs controllers and garbage collection until dropped. Only the leader may call it.
    pub async fn run_as_leader(&self) -> Infallible {
        // Supervised in place rather than spawned: everything is dropped with the leader's Lease.
        futures::join!(
            runtime().run("release-gc", "", || self.gc_loop()),
            runtime().run("release-controllers", "", || self.run_controllers()),
        )
        .0
    }

    /// Runs both controllers with fresh caches, until one of them ends.
    async fn run_controllers(&self) {
        let (again, waiting) = mpsc::unbounded_channel();
        let controller = Arc::new(self.new_controller(again));
        let workloads = controller.readiness.start(&self.inner().clients.platform());
        tokio::select! {
            () = Box::pin(controller.clone().run_requests()) => {}
            () = Box::pin(controller.clone().run_releases(self.inner().record_labels.clone(), waiting, workloads)) => {}
        }
    }

    async fn gc_loop(&self) -> Infallible {
        loop {
            // Runs at start, too: otherwise a server that restarts often would never collect.
            if let Err(error) = self.gc().await {
                tracing::warn!(error = &error as &dyn std::error::Error, "garbage collection failed");
            }
            tokio::time::sleep(gc::GC_INTERVAL).await;
        }
    }

    pub(crate) fn new_controller(&self, again: mpsc::UnboundedSender<ReleaseKey>) -> ReleaseController {
        let parts = self.inner();
        ReleaseController {
            clients: parts.clients.clone(),
            requests: parts.requests.clone(),
            releases: parts.releases.clone(),
            helm_records: HelmRecordCache::default(),
            readiness: WorkloadReadiness::new(parts.tenants.clone()),
            custom_resources: CustomResourceWatches::new(
                parts.clients.clone(),
                parts.helm_factory.discovery.clone(),
                again.clone(),
            ),
            charts: parts.charts.clone(),
            tenants: parts.tenants.clone(),
            helm_factory: parts.helm_factory.clone(),
            clock: parts.clock.clone(),
            events: parts.event_recorder(),
            reconcile_state: ReconcileState::default(),
            release_debounce: StatusDebounce::new(debounce::RELEASE_DELAY),
            request_debounce: StatusDebounce::new(debounce::REQUEST_DELAY),
            release_expectations: Expectations::default(),
            request_expectations: Expectations::default(),
            release_failures: ReconcileFailures::default(),
            request_failures: ReconcileFailures::default(),
            dependents: Mutex::default(),
            requeue: again,
        }
    }
}

impl ReleaseController {
    async fn run_requests(self: Arc<Self>) {
        let of_requests = self.requests.subscribe().map(|change| Some(event_object(&change).name_any()));
        let of_releases = self.releases.subscribe().map(|change| {
            let release = event_object(&change);
            release.spec.request_ref.as_ref().map(|request| request.name.clone())
        });
        let keys = stream::select(of_requests, of_releases).filter_map(ready);
        let owner = self.clone();
        let tenant_of = move |name: &String| match owner.requests.get(name) {
            Some(request) => request_tenant(&*owner.tenants, &request.spec.workspace),
            None => format!("request {name}"),
        };
        let reports = self.clone();
        queue::run_fair(
            "helm-request",
            keys,
            REQUEST_SLOTS,
            tenant_of,
            move |name: &String| self.clone().spawn_request_reconcile(name.clone()),
            move |name: &String| {
                let object = reports.requests.get(name).map(|request| request.object_ref(&()));
                reports.clone().report_panic(object)
            },
        )
        .await;
    }

    async fn run_releases(
        self: Arc<Self>,
        marks: WatchCache<Option<RecordLabels>>,
        again: mpsc::UnboundedReceiver<ReleaseKey>,
        workloads: impl Stream<Item = ReleaseKey> + Send + 'static,
    ) {
        // The record cache is complete before the first reconcile.
        let records = self.clone();
        for mark in marks.list() {
            self.helm_records.apply_event(&CacheEvent::Applied(mark));
        }
        let waiters = self.clone();
        let keys = stream::select_all([
            self.releases
                .subscribe()
                .map(|change| Some(ReleaseKey::from_object(event_object(&change))))
                .boxed(),
            marks.subscribe().map(move |change| records.helm_records.apply_event(&change)).boxed(),
            self.requests.subscribe().map(|change| Some(release_key(event_object(&change)))).boxed(),
            workloads.map(Some).boxed(),
            receiver_stream(again).map(Some).boxed(),
        ]);
        let keys = keys.filter_map(ready).inspect(move |key| waiters.requeue_dependents(key));
        let owner = self.clone();
        let tenant_of = move |key: &ReleaseKey| release_tenant(&*owner.tenants, &key.namespace);
        let reports = self.clone();
        queue::run_fair(
            "helm-release",
            keys,
            RELEASE_SLOTS,
            tenant_of,
            move |key: &ReleaseKey| self.clone().spawn_release_reconcile(key.clone()),
            move |key: &ReleaseKey| {
                let release = reports.releases.get_namespaced(&key.namespace, &key.name);
                reports.clone().report_panic(release.map(|release| release.object_ref(&())))
            },
        )
        .await;
        drop(marks);
    }

    fn spawn_request_reconcile(
        self: Arc<Self>,
        name: String,
    ) -> BoxFuture<'static, Result<Action, ReconcileError>> {
        let reconcile = {
            let (controller, name) = (self.clone(), name.clone());
            async move {
                match timeout(REQUEST_DEADLINE, controller.reconcile_request(&name)).await {
                    Ok(done) => requeue_on_conflict(done),
                    Err(_) => Err(ReconcileError::DeadlineExceeded(REQUEST_DEADLINE)),
                }
            }
        };
        self.spawn_isolated(Subject::Request(name), reconcile)
    }

    fn spawn_release_reconcile(
        self: Arc<Self>,
        key: ReleaseKey,
    ) -> BoxFuture<'static, Result<Action, ReconcileError>> {
        let reconcile = {
            let (controller, key) = (self.clone(), key.clone());
            async move {
                let limit = controller.reconcile_deadline(&key);
                match timeout(limit, controller.reconcile_release(&key)).await {
                    Ok(done) => requeue_on_conflict(done),
                    // The operation stays in the status and counts as interrupted.
                    Err(_) => Err(ReconcileError::DeadlineExceeded(limit)),
                }
            }
        };
        self.spawn_isolated(Subject::Release(key), reconcile)
    }

    /// Runs a reconcile on its own task, so that reconciles use all cores. The task is aborted when the returned future is dropped.
    /// Repeated failures are reported in a condition of the object.
    pub(crate) fn spawn_isolated(
        self: Arc<Self>,
        subject: Subject,
        reconcile: impl Future<Output = Result<Action, ReconcileError>> + Send + 'static,
    ) -> BoxFuture<'static, Result<Action, ReconcileError>> {
        async move {
            match AbortOnDropHandle::new(tokio::spawn(reconcile)).await {
                Ok(done) => {
                    let recorded = self.record_outcome(&subject, ReconcileOutcome::from_result(&done)).await;
                    match recorded {
                        Err(error) if done.is_ok() => requeue_on_conflict(Err(error)),
                        _ => done,
                    }
                }
                Err(broken) => match broken.try_into_panic() {
                    Ok(panic) => {
                        let recorded = self.record_outcome(&subject, ReconcileOutcome::Panicked).await;
                        if let Err(error) = recorded {
                            tracing::warn!(%error, "cannot record a panic");
                        }
                        // The queue counts it as a panic of this key, and reports it.
                        std::panic::resume_unwind(panic)
                    }
                    Err(cancelled) => Err(ReconcileError::Panicked(cancelled.to_string())),
                },
            }
        }
        .boxed()
    }

    async fn record_outcome(
        &self,
        subject: &Subject,
        outcome: ReconcileOutcome<'_>,
    ) -> Result<(), ReconcileError> {
        match subject {
            Subject::Release(key) => self.record_release_outcome(key, outcome).await,
            Subject::Request(name) => self.record_request_outcome(name, outcome).await,
        }
    }

    /// Publishes the event of a reconcile that panicked, if its object is still cached.
    fn report_panic(self: Arc<Self>, object: Option<ObjectReference>) -> BoxFuture<'static, ()> {
        async move {
            if let Some(object) = object {
                panic_event::publish(&self.events, &object).await;
            }
        }
        .boxed()
    }

    /// The time after which a reconcile of a release is cancelled. The next reconcile continues as after a crash.
    fn reconcile_deadline(&self, key: &ReleaseKey) -> Duration {
        let release = self.releases.get_namespaced(&key.namespace, &key.name);
        let timeout = release.as_ref().and_then(|release| release.spec.options.timeout.as_deref());
        let timeout = timeout.and_then(duration::parse_timeout).unwrap_or_default();
        MIN_DEADLINE.max(timeout.saturating_mul(DEADLINE_TIMEOUT_FACTOR))
    }

    /// Requeues the releases that wait for this one.
    fn requeue_dependents(&self, key: &ReleaseKey) {
        let Some(waiting) = self.dependents.lock().remove(key) else { return };
        for waiter in waiting {
            // The receiver lives as long as the queue.
            let _ = self.requeue.send(waiter);
        }
    }
}

/// The key of a request in the fair queue. Workspaces of one account share a key.
fn request_tenant(people: &dyn TenantDirectory, workspace: &str) -> String {
    match workspace.parse() {
        Ok(workspace) => format!("tenant {}", flow_for_workspace(people, &workspace)),
        Err(_) => format!("workspace {workspace}"),
    }
}

/// The key of a release in the fair queue, by its namespace.
fn release_tenant(people: &dyn TenantDirectory, namespace: &str) -> String {
    match people.workspace_of(namespace) {
        Some(workspace) => format!("tenant {}", flow_for_workspace(people, &workspace)),
        None => format!("namespace {namespace}"),
    }
}

/// The release of a request: its identity may have changed with the request.
fn release_key(request: &HelmRequest) -> ReleaseKey {
    ReleaseKey::new(&request.spec.namespace, &request.spec.release_name)
}

pub(crate) fn event_object<K>(change: &CacheEvent<K>) -> &K {
    match change {
        CacheEvent::Applied(object) | CacheEvent::Deleted(object) => object,
    }
}

pub(crate) fn receiver_stream<T>(receiver: mpsc::UnboundedReceiver<T>) -> impl Stream<Item = T> {
    stream::unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|item| (item, receiver)) })
}

/// Requeues on conflict: the cache was stale, and the watch delivers the new object.
fn requeue_on_conflict(done: Result<Action, ReconcileError>) -> Result<Action, ReconcileError> {
    match done {
        Err(error) if error.is_conflict() => Ok(Action::RequeueAfter(CONFLICT_REQUEUE)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use domain::ids::WorkspaceName;
    use k8s_openapi::api::core::v1::Event as Written;
    use kube::api::ListParams;
    use serde_json::json;

    use super::*;
    use crate::tenant_directory::tests::AccountDirectory;
    use crate::testing::{SHOP, TestHarness};

    #[tokio::test]
    async fn reconcile_panic_event_omits_the_panic_message() {
        let stage = TestHarness::new().await;
        let release = json!({"name": "web", "source": {"package": "pkg-none"}});
        let object = stage.create_release("web", release).await.unwrap().object_ref(&());
        let controller = Arc::new(stage.releases.new_controller(mpsc::unbounded_channel().0));
        let key = ReleaseKey::new(SHOP, "web");
        let reconcile =
            controller.clone().spawn_isolated(Subject::Release(key), async { panic!("password hunter2") });
        assert!(AssertUnwindSafe(reconcile).catch_unwind().await.is_err(), "the queue reports the panic");
        controller.report_panic(Some(object)).await;
        let events = stage.namespaced_api::<Written>().list(&ListParams::default()).await.unwrap().items;
        let event = events.iter().find(|event| event.reason.as_deref() == Some("ReconcilePanicked")).unwrap();
        assert_eq!(event.involved_object.name.as_deref(), Some("web"));
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert!(!serde_json::to_string(event).unwrap().contains("hunter2"), "{event:?}");
    }

    #[test]
    fn workspaces_of_one_account_share_its_slots() {
        let people = AccountDirectory::new(&[
            ("shop", "uaaaaaaaaaa"),
            ("blog", "uaaaaaaaaaa"),
            ("other", "ubbbbbbbbbb"),
        ]);
        let personal: WorkspaceName = "uaaaaaaaaaa".parse().unwrap();
        assert_eq!(request_tenant(&people, "shop"), request_tenant(&people, "blog"));
        assert_eq!(request_tenant(&people, "shop"), request_tenant(&people, personal.as_str()));
        assert_eq!(release_tenant(&people, "shop"), request_tenant(&people, "blog"));
        assert_ne!(request_tenant(&people, "shop"), request_tenant(&people, "other"));
        // Workspaces without an account have their own share, and so do namespaces without a workspace.
        assert_eq!(request_tenant(&people, "admins"), "tenant admins");
        assert_ne!(request_tenant(&people, "admins"), request_tenant(&people, "more"));
        assert_eq!(release_tenant(&people, "default"), "namespace default");
        assert_eq!(request_tenant(&people, "?"), "workspace ?");
    }
}
