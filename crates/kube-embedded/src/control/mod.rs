//! The in-process controllers.
//!
//! Each controller is a pure decision and a few writes. It is triggered by changes of the store and retried with backoff after failures.
//!
//! Modules:
//!
//! - `gc`: owners and dependents
//! - `namespace`: termination of namespaces, and their default objects
//! - `customresources`: deletion of a CRD's instances
//! - `roles`: aggregated cluster roles
//! - `quotas`: status of resource quotas
//! - `expiry`: deletion of old Events
//! - `tokens`: `ServiceAccount` token Secrets
//! - `certificates`, `csr_cleaner`: approval, signing and deletion of certificate signing requests
//! - `bootstrap_tokens`: signatures and expiry of bootstrap tokens
//! - `network`: Services and their endpoints
//! - `workloads`, `autoscaler`, `volumes`, `disruption`: Deployments and other workloads, autoscalers, volumes, disruption budgets; only
//!   with simulated nodes
//! - `queue`: the controller runtime; `due_keys`: its slots and their fair order
//! - `health`: supervision of controllers
//! - `bounded`: concurrency limit of a controller's writes
//! - `view`: typed objects; `metadata`: metadata of any kind
//! - `events`: the event recorder
//! - `idle`: detection of idle controllers
//!
//! Invariant: controller state can be rebuilt from the store, so that a crash between two writes is safe.
//!
//! See also: nodes, scheduler and kubelet (`crate::sim`); deletion by the API (`crate::verbs`).

mod autoscaler;
mod bootstrap_tokens;
mod bounded;
mod certificates;
mod csr_cleaner;
mod customresources;
pub(crate) mod disruption;
mod due_keys;
pub(crate) mod events;
mod expiry;
mod gc;
pub(crate) mod health;
mod idle;
mod metadata;
mod namespace;
pub(crate) mod network;
pub(crate) mod queue;
mod quotas;
mod roles;
#[cfg(test)]
pub(crate) mod test_cluster;
#[cfg(test)]
mod tests;
mod tokens;
pub(crate) mod view;
pub(crate) mod volumes;
pub(crate) mod workloads;

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use events::Recorder;
use health::{Health, supervise};
use idle::IdleTracker;
use queue::Controller;

use crate::access::pki::Pki;
use crate::clock::Clock;
use crate::error::{ApiError, Result};
use crate::metrics::Metrics;
use crate::sim::{self, Simulation};
use crate::store::{Change, CommitError, Expect, Key, Object, Op, Store};

/// `propagationPolicy` of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// Preconditions of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preconditions<'a> {
    pub uid: &'a str,
    pub version: Option<u64>,
}

/// The component that writes, which owns the managed fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    ApiServer,
    ControllerManager,
    Scheduler,
    Kubelet,
}

/// The part of an object that an update writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectPart {
    /// Everything but the status.
    Main,
    Status,
}

/// The API for controllers, with all rules of the API (quota, grace period, finalizers, defaults, managed fields).
pub trait ControllerClient: Send + Sync + 'static {
    /// DELETE. If the object is gone or replaced, the error is 404 or 409.
    fn delete<'a>(
        &'a self,
        key: &'a Key,
        preconditions: Preconditions<'a>,
        propagation: Propagation,
    ) -> BoxFuture<'a, Result<()>>;

    /// DELETE of a pod without grace period, as by a kubelet after its containers have terminated.
    fn delete_immediately<'a>(&'a self, key: &'a Key, uid: &'a str) -> BoxFuture<'a, Result<()>>;

    /// POST of a whole document with `apiVersion` and `kind`.
    fn create(&self, by: Component, document: Value) -> BoxFuture<'_, Result<Arc<Object>>>;

    /// PUT of a document that was read and then changed. A 409 means that it has changed since its `resourceVersion`. An update without
    /// changes writes nothing.
    fn update(&self, by: Component, part: ObjectPart, document: Value) -> BoxFuture<'_, Result<Arc<Object>>>;

    /// GET of `/scale`, given `apiVersion` and kind, namespace and name. 404 `NotFound` means that the object does not exist; other errors
    /// mean that the kind is unknown or has no scale.
    fn get_scale<'a>(
        &'a self,
        kind: (&'a str, &'a str),
        place: (&'a str, &'a str),
    ) -> BoxFuture<'a, Result<Value>>;

    /// PUT of a `/scale` that was read and then changed.
    fn update_scale<'a>(
        &'a self,
        kind: (&'a str, &'a str),
        place: (&'a str, &'a str),
        scale: Value,
    ) -> BoxFuture<'a, Result<()>>;

    /// Binds a pod to a node on behalf of the scheduler.
    fn bind<'a>(&'a self, pod: &'a Object, node: &'a str) -> BoxFuture<'a, Result<()>>;
}

/// Returns the storage of an `apiVersion` and kind, and whether the kind is namespaced.
pub type KindLookup = Arc<dyn Fn(&str, &str) -> Option<(Arc<str>, bool)> + Send + Sync>;

/// Shared context of the controllers.
pub struct Context {
    pub store: Arc<Store>,
    pub client: Arc<dyn ControllerClient>,
    pub clock: Arc<dyn Clock>,
    /// CA whose certificate is published in every namespace, and the keys that sign tokens and certificates.
    pub pki: Arc<Pki>,
    pub kinds: KindLookup,
    /// Namespace labels whose value names the owner; the first one present counts.
    pub owner_labels: Vec<String>,
    /// Records Events of the controllers.
    pub events: Recorder,
    /// The simulation; without it there are neither nodes nor workload controllers.
    pub simulation: Option<Simulation>,
    pub health: Health,
    pub metrics: Metrics,
}

/// The running controllers. Dropping it stops them.
pub struct RunningControllers {
    tasks: JoinSet<()>,
    idle_tracker: IdleTracker,
    context: Arc<Context>,
}

impl RunningControllers {
    /// Stops the controllers and waits until they have released the store.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }

    /// Resolves when all controllers are idle at the clock's present time.
    pub fn wait_until_idle(&self) -> impl Future<Output = ()> + Send + 'static {
        let (posts, context) = (self.idle_tracker.clone(), self.context.clone());
        async move { posts.wait_until_idle(&context.store, context.clock.as_ref()).await }
    }

    /// Starts another controller.
    pub(crate) fn start_controller<C: Controller>(&mut self, controller: C) {
        let (context, controller) = (self.context.clone(), Arc::new(controller));
        let post = Arc::new(self.idle_tracker.register());
        self.supervise(queue::controller_name::<C>(), move || {
            queue::run(context.clone(), controller.clone(), post.clone())
        });
    }

    fn supervise<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: String,
        start: impl Fn() -> F + Send + Sync + 'static,
    ) {
        let (health, metrics) = (self.context.health.clone(), self.context.metrics.clone());
        // Controllers are stopped by dropping them; they never return.
        self.tasks.spawn(supervise(health, metrics, name, || false, start));
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

/// Starts all controllers on the current runtime.
pub fn start(mut context: Context) -> RunningControllers {
    let posts = IdleTracker::default();
    let notes = context.events.open(posts.register());
    let context = Arc::new(context);
    let mut control =
        RunningControllers { tasks: JoinSet::new(), idle_tracker: posts, context: context.clone() };
    let (recording, notes) = (context.clone(), Arc::new(tokio::sync::Mutex::new(notes)));
    control.supervise("events".to_owned(), move || events::run(recording.clone(), notes.clone()));
    control.start_controller(gc::Gc);
    control.start_controller(namespace::Namespaces);
    control.start_controller(customresources::CustomResources);
    control.start_controller(roles::Roles);
    control.start_controller(quotas::Quotas);
    control.start_controller(tokens::Tokens);
    control.start_controller(certificates::Certificates::new(&context));
    control.start_controller(csr_cleaner::CsrCleaner);
    control.start_controller(bootstrap_tokens::BootstrapTokens);
    control.start_controller(expiry::EventTtl::default());
    network::start(&mut control);
    if context.simulation.is_some() {
        workloads::start(&mut control);
        control.start_controller(autoscaler::Autoscalers);
        volumes::start(&mut control);
        network::start_endpoints(&mut control);
        control.start_controller(disruption::Disruption);
        sim::start(&mut control);
    }
    control
}

/// Returns the change from `object` to `value`. A deleted object without finalizers and grace period is removed, as by the API when the
/// last finalizer is removed.
fn build_change(key: &Key, object: &Object, value: Value) -> Change {
    let op = if is_removable(&value) { Op::Delete } else { Op::Put(value) };
    Change { key: key.clone(), expect: Expect::Version(object.version), op }
}

pub(crate) async fn replace(
    context: &Context,
    key: &Key,
    object: &Object,
    value: Value,
) -> Result<(), CommitError> {
    context.store.commit(vec![build_change(key, object, value)]).await.map(drop)
}

/// Whether the object is deleted, and neither finalizers nor a grace period prevent its removal.
fn is_removable(value: &Value) -> bool {
    let metadata = &value["metadata"];
    let empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    let held = value["kind"] == "Namespace" && !empty(&value["spec"]["finalizers"]);
    !metadata["deletionTimestamp"].is_null()
        && empty(&metadata["finalizers"])
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && !held
}

pub(crate) fn has_finalizer(value: &Value, name: &str) -> bool {
    value["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|f| f == name))
}

/// Removes the matching elements of a list in a document, and the list if it becomes empty.
fn remove_from_list(owner: &mut Value, list: &str, unwanted: impl Fn(&Value) -> bool) {
    let Some(owner) = owner.as_object_mut() else { return };
    if let Some(Value::Array(elements)) = owner.get_mut(list) {
        elements.retain(|element| !unwanted(element));
        if elements.is_empty() {
            owner.remove(list);
        }
    }
}

/// Sets a condition (status, reason, message) in a document's status; its transition time changes only with the status. Returns whether
/// anything changed.
pub(crate) fn set_condition(
    document: &mut Value,
    kind: &str,
    (status, reason, message): (&str, &str, &str),
    now: &str,
) -> bool {
    let conditions = &mut document["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let conditions = conditions.as_array_mut().expect("it was made a list");
    let mut wanted = json!({
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now,
    });
    match conditions.iter_mut().find(|condition| condition["type"] == kind) {
        None => conditions.push(wanted),
        Some(found) => {
            if found["status"] == status {
                wanted["lastTransitionTime"] = found["lastTransitionTime"].clone();
            }
            if *found == wanted {
                return false;
            }
            *found = wanted;
        }
    }
    true
}

/// Ignores 404 and 409 of a delete: the object is already gone, or a change triggers another reconcile.
pub(crate) fn ignore_not_found_or_conflict(deleted: Result<()>) -> Result<()> {
    match deleted {
        Err(error) if matches!(error.code, 404 | 409) => Ok(()),
        other => other,
    }
}

/// Why a reconcile failed; it is retried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error("the reconcile panicked: {0}")]
    Panic(String),
    #[error("the reconcile did not finish within {0} s")]
    DeadlineExceeded(u64),
}

impl ReconcileError {
    /// Whether it is a defect of the reconcile itself, so that the key is quarantined if it recurs.
    fn is_crash(&self) -> bool {
        matches!(self, Self::Panic(_) | Self::DeadlineExceeded(_))
    }
}
