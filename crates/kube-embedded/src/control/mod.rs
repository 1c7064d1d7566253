//! What follows from a change by itself.
//!
//! Each controller is a pure decision and a few writes: `gc` (owners and dependents), `namespace`
//! (termination, and what every namespace holds), `customresources` (the instances of a CRD that goes),
//! `roles` (aggregated cluster roles), `quotas` (their status), `expiry` (old Events), `tokens` (Secrets with the
//! token of an account), `certificates` (requests for them), `old_requests` (and their end), `bootstrap_tokens` (what they sign). Where the cluster
//! has simulated nodes, also `workloads` (Deployments and the like, down to pods), `autoscaler` (how many of them) and
//! `volumes` (claims and what they get). `queue` runs
//! them: it wakes on changes of the store, looks again at what may be concerned, and backs off where a write fails;
//! `health` supervises them, and `bounded` limits how many writes one of them has under way.
//! They read typed (`view`), tell what they did (`events`), and say when nothing is left to do (`rest`).
//!
//! Always true: a controller keeps nothing that it could not find again by looking, so a crash between
//! two of its writes costs nothing. Elsewhere: nodes, scheduling and what a kubelet does (`crate::sim`); how the API
//! deletes (`crate::verbs`).

mod autoscaler;
mod bootstrap_tokens;
mod bounded;
mod certificates;
mod customresources;
pub(crate) mod disruption;
pub(crate) mod events;
mod expiry;
mod gc;
pub(crate) mod health;
mod namespace;
pub(crate) mod network;
mod old_requests;
pub(crate) mod queue;
mod quotas;
mod rest;
mod roles;
#[cfg(test)]
mod tests;
mod tokens;
pub(crate) mod view;
pub(crate) mod volumes;
pub(crate) mod workloads;
#[cfg(test)]
pub(crate) mod world;

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use events::Recorder;
use health::{Health, supervise};
use queue::Controller;
use rest::Posts;

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

/// What must still hold of an object for it to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preconditions<'a> {
    pub uid: &'a str,
    pub version: Option<u64>,
}

/// In whose name a controller writes: who the managed fields belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    ApiServer,
    ControllerManager,
    Scheduler,
    Kubelet,
}

/// Which part of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All but the status.
    Main,
    Status,
}

/// The API as controllers use it: with every rule of the API (quota, grace, finalizers, defaults, managed fields).
pub trait Actor: Send + Sync + 'static {
    /// DELETE. Gone or replaced already is a 404 or 409, which the caller takes as an answer.
    fn delete<'a>(
        &'a self,
        key: &'a Key,
        preconditions: Preconditions<'a>,
        propagation: Propagation,
    ) -> BoxFuture<'a, Result<()>>;

    /// DELETE of a pod without grace: what a kubelet does when its containers have ended.
    fn delete_now<'a>(&'a self, key: &'a Key, uid: &'a str) -> BoxFuture<'a, Result<()>>;

    /// POST of a whole document with `apiVersion` and `kind`.
    fn create(&self, by: Component, document: Value) -> BoxFuture<'_, Result<Arc<Object>>>;

    /// PUT of a document as it was read and then changed. Its `resourceVersion` is what it was read at: a 409 says
    /// that it has changed since. An update that changes nothing writes nothing.
    fn update(&self, by: Component, part: Part, document: Value) -> BoxFuture<'_, Result<Arc<Object>>>;

    /// GET of `/scale`, of an apiVersion and kind, namespace and name: 404 `NotFound` if there is no such object; other
    /// errors say that the kind is not known or has no scale.
    fn scale<'a>(
        &'a self,
        kind: (&'a str, &'a str),
        place: (&'a str, &'a str),
    ) -> BoxFuture<'a, Result<Value>>;

    /// PUT of `/scale`, as it was read and then changed.
    fn rescale<'a>(
        &'a self,
        kind: (&'a str, &'a str),
        place: (&'a str, &'a str),
        scale: Value,
    ) -> BoxFuture<'a, Result<()>>;

    /// Puts a pod on a node, in the name of the scheduler.
    fn bind<'a>(&'a self, pod: &'a Object, node: &'a str) -> BoxFuture<'a, Result<()>>;
}

/// Where the objects of an apiVersion and kind are kept, and whether they live in namespaces.
pub type Kinds = Arc<dyn Fn(&str, &str) -> Option<(Arc<str>, bool)> + Send + Sync>;

/// What the controllers work with.
pub struct Context {
    pub store: Arc<Store>,
    pub actor: Arc<dyn Actor>,
    pub clock: Arc<dyn Clock>,
    /// Whose authority every namespace publishes, and who signs tokens and certificates.
    pub pki: Arc<Pki>,
    pub kinds: Kinds,
    /// Labels of a Namespace whose value names its owner: the first one that it has counts.
    pub owner_labels: Vec<String>,
    /// Where the controllers say what they did.
    pub events: Recorder,
    /// What is pretended; without it there are neither nodes nor controllers of workloads.
    pub simulation: Option<Simulation>,
    pub health: Health,
    pub metrics: Metrics,
}

/// The running controllers. They stop when this is dropped.
pub struct Control {
    tasks: JoinSet<()>,
    posts: Posts,
    context: Arc<Context>,
}

impl Control {
    /// Stops them and waits until none holds the store any more.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }

    /// Resolves when all that follows from the changes so far, at the clock's present time, has been done.
    pub fn rest(&self) -> impl Future<Output = ()> + Send + 'static {
        let (posts, context) = (self.posts.clone(), self.context.clone());
        async move { posts.rest(&context.store, context.clock.as_ref()).await }
    }

    /// Starts one more.
    pub(crate) fn run<C: Controller>(&mut self, controller: C) {
        let (context, controller) = (self.context.clone(), Arc::new(controller));
        let post = Arc::new(self.posts.add());
        self.supervise(queue::name_of::<C>(), move || {
            queue::run(context.clone(), controller.clone(), post.clone())
        });
    }

    fn supervise<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: String,
        start: impl Fn() -> F + Send + Sync + 'static,
    ) {
        let (health, metrics) = (self.context.health.clone(), self.context.metrics.clone());
        // They stop by being dropped: none returns.
        self.tasks.spawn(supervise(health, metrics, name, || false, start));
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

/// Starts all controllers on the current runtime.
pub fn start(mut context: Context) -> Control {
    let posts = Posts::default();
    let notes = context.events.open(posts.add());
    let context = Arc::new(context);
    let mut control = Control { tasks: JoinSet::new(), posts, context: context.clone() };
    let (recording, notes) = (context.clone(), Arc::new(tokio::sync::Mutex::new(notes)));
    control.supervise("events".to_owned(), move || events::run(recording.clone(), notes.clone()));
    control.run(gc::Gc);
    control.run(namespace::Namespaces);
    control.run(customresources::CustomResources);
    control.run(roles::Roles);
    control.run(quotas::Quotas);
    control.run(tokens::Tokens);
    control.run(certificates::Certificates::new(&context));
    control.run(old_requests::OldRequests);
    control.run(bootstrap_tokens::BootstrapTokens);
    control.run(expiry::Expiry::default());
    network::start(&mut control);
    if context.simulation.is_some() {
        workloads::start(&mut control);
        control.run(autoscaler::Autoscalers);
        volumes::start(&mut control);
        network::start_endpoints(&mut control);
        control.run(disruption::Disruption);
        sim::start(&mut control);
    }
    control
}

/// `value` in the place of `object`. A deleting object that nothing holds any longer is removed, as the
/// API does when its last finalizer goes.
fn replacement(key: &Key, object: &Object, value: Value) -> Change {
    let op = if is_finished(&value) { Op::Delete } else { Op::Put(value) };
    Change { key: key.clone(), expect: Expect::Version(object.version), op }
}

pub(crate) async fn replace(
    context: &Context,
    key: &Key,
    object: &Object,
    value: Value,
) -> Result<(), CommitError> {
    context.store.commit(vec![replacement(key, object, value)]).await.map(drop)
}

/// Deletion was asked for, and neither finalizers nor a grace period stand in its way.
fn is_finished(value: &Value) -> bool {
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

/// Drops the matching elements of a list in a document, and the list when nothing is left.
fn drop_from(owner: &mut Value, list: &str, unwanted: impl Fn(&Value) -> bool) {
    let Some(owner) = owner.as_object_mut() else { return };
    if let Some(Value::Array(elements)) = owner.get_mut(list) {
        elements.retain(|element| !unwanted(element));
        if elements.is_empty() {
            owner.remove(list);
        }
    }
}

/// Sets one condition (status, reason, message) in a document's status; its time moves only when the
/// status turns. Answers whether anything changed.
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

/// A delete whose object went away or changed meanwhile has been answered by that.
pub(crate) fn settled(deleted: Result<()>) -> Result<()> {
    match deleted {
        Err(error) if matches!(error.code, 404 | 409) => Ok(()),
        other => other,
    }
}

/// Why a pass did not get through; it is tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error("the reconcile panicked: {0}")]
    Panic(String),
}
