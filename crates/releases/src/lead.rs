//! The controllers of requests and releases, which run on the leader only.
//!
//! A release is reconciled when it changes, when its Helm records, its objects or its request change, and when a release that it depends
//! on changes. A reconcile reads caches first, so that most need no API call.

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
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Resource, ResourceExt};
use kube_access::controller::{Limits, runtime};
use kube_access::queue::{self, Next};
use kube_access::{Change, Clients, Feed};
use kube_types::{HelmRelease, HelmRequest};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::charts::Charts;
use crate::duration;
use crate::error::PassError;
use crate::key::Key;
use crate::known::Known;
use crate::people::{People, flow_of};
use crate::records::{Mark, Records};
use crate::soon::{self, Soon};
use crate::told::Told;
use crate::workloads::Workloads;
use crate::workloads::customs::Customs;
use crate::{Releases, sweep};

/// The slots of the release controller. Most of a reconcile is waiting for the API server. One that takes more than ten seconds waits for
/// something else, such as a repository, a hook or pods.
const RELEASE_SLOTS: Limits = Limits {
    active: 64,
    active_share: 8,
    reserve: 16,
    slow: 512,
    slow_share: 128,
    slow_after: Duration::from_secs(10),
    // Each reconcile has a shorter deadline, from the timeout of its release.
    deadline: Duration::from_hours(5),
};
/// The slots of the request controller.
const REQUEST_SLOTS: Limits = Limits {
    active: 32,
    active_share: 8,
    reserve: 8,
    slow: 0,
    slow_share: 0,
    slow_after: Duration::MAX,
    deadline: Duration::from_mins(5),
};

/// The note of the event for a reconcile that panicked.
const PANICKED: &str =
    "the reconcile ended with an internal error and is tried again; the log of the server has the details";

/// The most memory that operations of releases use in total, in bytes.
pub fn operation_bytes() -> u64 {
    let reconciles = RELEASE_SLOTS.active.saturating_add(RELEASE_SLOTS.slow);
    let unreserved = (reconciles as u64).saturating_mul(operations::FREE_BYTES);
    operations::BYTES.saturating_add(unreserved)
}

/// The shortest deadline of a reconcile of a release.
const MIN_DEADLINE: Duration = Duration::from_mins(30);
/// The deadline as a multiple of the release's timeout: hooks, objects, and the rollback after a failure may each use the timeout.
const DEADLINE_TIMEOUTS: u32 = 4;

/// Shared state of both controllers.
pub(crate) struct Controller {
    pub clients: Clients,
    pub requests: Feed<HelmRequest>,
    pub releases: Feed<HelmRelease>,
    pub records: Records,
    pub workloads: Workloads,
    pub customs: Customs,
    pub charts: Arc<Charts>,
    pub people: Arc<dyn People>,
    pub helm: crate::Helms,
    pub clock: Arc<dyn Clock>,
    pub events: Recorder,
    /// Per release: results of the last full reconcile.
    pub known: Known,
    /// Debounces status writes.
    pub soon: Soon<Key>,
    pub soon_of_requests: Soon<String>,
    /// The last `resourceVersion` written per key, until the cache has caught up.
    pub told: Told<Key>,
    pub told_requests: Told<String>,
    /// The releases that wait for a dependency, by the dependency.
    pub waiting: Mutex<BTreeMap<Key, BTreeSet<Key>>>,
    again: mpsc::UnboundedSender<Key>,
}

impl Releases {
    /// Runs controllers and garbage collection until dropped. Only the leader may call it.
    pub async fn lead(&self) -> Infallible {
        // Supervised in place rather than spawned: everything is dropped with the leader's Lease.
        futures::join!(
            runtime().run("release-gc", "", || self.collect_garbage()),
            runtime().run("release-controllers", "", || self.control()),
        )
        .0
    }

    /// Runs both controllers with fresh caches, until one of them ends.
    async fn control(&self) {
        let (again, waiting) = mpsc::unbounded_channel();
        let controller = Arc::new(self.controller(again));
        let workloads = controller.workloads.follow(&self.parts().clients.own());
        tokio::select! {
            () = Box::pin(controller.clone().run_requests()) => {}
            () = Box::pin(controller.clone().run_releases(self.parts().marks.clone(), waiting, workloads)) => {}
        }
    }

    async fn collect_garbage(&self) -> Infallible {
        loop {
            // Runs at start, too: otherwise a server that restarts often would never collect.
            if let Err(error) = self.sweep().await {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot sweep up");
            }
            tokio::time::sleep(sweep::EVERY).await;
        }
    }

    pub(crate) fn controller(&self, again: mpsc::UnboundedSender<Key>) -> Controller {
        let parts = self.parts();
        Controller {
            clients: parts.clients.clone(),
            requests: parts.requests.clone(),
            releases: parts.releases.clone(),
            records: Records::default(),
            workloads: Workloads::new(parts.people.clone()),
            customs: Customs::new(parts.clients.clone(), parts.helms.discovery.clone(), again.clone()),
            charts: parts.charts.clone(),
            people: parts.people.clone(),
            helm: parts.helms.clone(),
            clock: parts.clock.clone(),
            events: parts.recorder(),
            known: Known::default(),
            soon: Soon::new(soon::OF_RELEASE),
            soon_of_requests: Soon::new(soon::OF_REQUEST),
            told: Told::default(),
            told_requests: Told::default(),
            waiting: Mutex::default(),
            again,
        }
    }
}

impl Controller {
    async fn run_requests(self: Arc<Self>) {
        let of_requests = self.requests.changes().map(|change| Some(object(&change).name_any()));
        let of_releases = self.releases.changes().map(|change| {
            let release = object(&change);
            release.spec.request_ref.as_ref().map(|request| request.name.clone())
        });
        let keys = stream::select(of_requests, of_releases).filter_map(ready);
        let owner = self.clone();
        let tenant_of = move |name: &String| match owner.requests.get(name) {
            Some(request) => request_tenant(&*owner.people, &request.spec.workspace),
            None => format!("request {name}"),
        };
        queue::run_fair("helm-request", keys, REQUEST_SLOTS, tenant_of, move |name: &String| {
            self.clone().request_passed(name.clone())
        })
        .await;
    }

    async fn run_releases(
        self: Arc<Self>,
        marks: Feed<Option<Mark>>,
        again: mpsc::UnboundedReceiver<Key>,
        workloads: impl Stream<Item = Key> + Send + 'static,
    ) {
        // The record cache is complete before the first reconcile.
        let records = self.clone();
        for mark in marks.all() {
            self.records.enter(&Change::Applied(mark));
        }
        let waiters = self.clone();
        let keys = stream::select_all([
            self.releases.changes().map(|change| Some(Key::of(object(&change)))).boxed(),
            marks.changes().map(move |change| records.records.enter(&change)).boxed(),
            self.requests.changes().map(|change| Some(released(object(&change)))).boxed(),
            workloads.map(Some).boxed(),
            received(again).map(Some).boxed(),
        ]);
        let keys = keys.filter_map(ready).inspect(move |key| waiters.wake_waiting(key));
        let owner = self.clone();
        let tenant_of = move |key: &Key| release_tenant(&*owner.people, &key.namespace);
        queue::run_fair("helm-release", keys, RELEASE_SLOTS, tenant_of, move |key: &Key| {
            self.clone().release_passed(key.clone())
        })
        .await;
        drop(marks);
    }

    fn request_passed(self: Arc<Self>, name: String) -> BoxFuture<'static, Result<Next, PassError>> {
        let controller = self.clone();
        let object = {
            let name = name.clone();
            move || Some(controller.requests.get(&name)?.object_ref(&()))
        };
        self.clone().apart(object, async move { settle(self.pass_request(&name).await) })
    }

    fn release_passed(self: Arc<Self>, key: Key) -> BoxFuture<'static, Result<Next, PassError>> {
        let controller = self.clone();
        let object = {
            let key = key.clone();
            move || Some(controller.releases.get_in(&key.namespace, &key.name)?.object_ref(&()))
        };
        self.clone().apart(object, async move {
            let limit = self.deadline(&key);
            match timeout(limit, self.pass_release(&key)).await {
                Ok(done) => settle(done),
                // The operation stays in the status and counts as interrupted.
                Err(_) => Err(PassError::Deadline(limit)),
            }
        })
    }

    /// Runs a reconcile on its own task, so that reconciles use all cores. The task is aborted when the returned future is dropped. A
    /// panic is reported as an event of the object.
    fn apart(
        self: Arc<Self>,
        object: impl FnOnce() -> Option<ObjectReference> + Send + 'static,
        pass: impl Future<Output = Result<Next, PassError>> + Send + 'static,
    ) -> BoxFuture<'static, Result<Next, PassError>> {
        async move {
            match AbortOnDropHandle::new(tokio::spawn(pass)).await {
                Ok(done) => done,
                Err(broken) => match broken.try_into_panic() {
                    Ok(panic) => {
                        if let Some(object) = object() {
                            self.report_panic(&object).await;
                        }
                        // The queue counts it as a panic of this key.
                        std::panic::resume_unwind(panic)
                    }
                    Err(cancelled) => Err(PassError::Broken(cancelled.to_string())),
                },
            }
        }
        .boxed()
    }

    /// Writes an event without the panic message, which may contain values.
    async fn report_panic(&self, object: &ObjectReference) {
        let event = Event {
            type_: EventType::Warning,
            reason: "ReconcilePanicked".to_owned(),
            note: Some(PANICKED.to_owned()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.events.publish(&event, object).await {
            tracing::warn!(%error, "cannot write an event");
        }
    }

    /// The time after which a reconcile of a release is cancelled. The next reconcile continues as after a crash.
    fn deadline(&self, key: &Key) -> Duration {
        let release = self.releases.get_in(&key.namespace, &key.name);
        let timeout = release.as_ref().and_then(|release| release.spec.options.timeout.as_deref());
        let timeout = timeout.and_then(duration::timeout).unwrap_or_default();
        MIN_DEADLINE.max(timeout.saturating_mul(DEADLINE_TIMEOUTS))
    }

    /// Requeues the releases that wait for this one.
    fn wake_waiting(&self, key: &Key) {
        let Some(waiting) = self.waiting.lock().remove(key) else { return };
        for waiter in waiting {
            // The receiver lives as long as the queue.
            let _ = self.again.send(waiter);
        }
    }
}

/// The key of a request in the fair queue. Workspaces of one account share a key.
fn request_tenant(people: &dyn People, workspace: &str) -> String {
    match workspace.parse() {
        Ok(workspace) => format!("tenant {}", flow_of(people, &workspace)),
        Err(_) => format!("workspace {workspace}"),
    }
}

/// The key of a release in the fair queue, by its namespace.
fn release_tenant(people: &dyn People, namespace: &str) -> String {
    match people.workspace_of(namespace) {
        Some(workspace) => format!("tenant {}", flow_of(people, &workspace)),
        None => format!("namespace {namespace}"),
    }
}

/// The release of a request: its identity may have changed with the request.
fn released(request: &HelmRequest) -> Key {
    Key::new(&request.spec.namespace, &request.spec.release_name)
}

pub(crate) fn object<K>(change: &Change<K>) -> &K {
    match change {
        Change::Applied(object) | Change::Deleted(object) => object,
    }
}

pub(crate) fn received<T>(receiver: mpsc::UnboundedReceiver<T>) -> impl Stream<Item = T> {
    stream::unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|item| (item, receiver)) })
}

/// Requeues on conflict: the cache was stale, and the watch delivers the new object.
fn settle(done: Result<Next, PassError>) -> Result<Next, PassError> {
    match done {
        Err(error) if error.is_conflict() => Ok(Next::After(Duration::from_secs(1))),
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
    use crate::people::tests::Accounts;
    use crate::stage::Stage;

    #[tokio::test]
    async fn panicked_reconcile_is_an_event_without_the_message_of_the_panic() {
        let stage = Stage::new().await;
        let release = json!({"name": "web", "source": {"package": "pkg-none"}});
        let object = stage.write("web", release).await.unwrap().object_ref(&());
        let controller = Arc::new(stage.releases.controller(mpsc::unbounded_channel().0));
        let reconcile = controller.apart(move || Some(object), async { panic!("password hunter2") });
        assert!(AssertUnwindSafe(reconcile).catch_unwind().await.is_err(), "the queue hears of it too");
        let events = stage.of::<Written>().list(&ListParams::default()).await.unwrap().items;
        let event = events.iter().find(|event| event.reason.as_deref() == Some("ReconcilePanicked")).unwrap();
        assert_eq!(event.involved_object.name.as_deref(), Some("web"));
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert!(!serde_json::to_string(event).unwrap().contains("hunter2"), "{event:?}");
    }

    #[test]
    fn workspaces_of_one_account_share_its_slots() {
        let people =
            Accounts::new(&[("shop", "uaaaaaaaaaa"), ("blog", "uaaaaaaaaaa"), ("other", "ubbbbbbbbbb")]);
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
