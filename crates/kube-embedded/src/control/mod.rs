//! What follows from a change by itself.
//!
//! Each controller is a pure decision and a few writes: `gc` (owners and dependents), `namespace`
//! (termination, and what every namespace holds), `customresources` (the instances of a CRD that goes),
//! `roles` (aggregated cluster roles), `quotas` (their status), `expiry` (old Events), `tokens` (Secrets with the
//! token of an account), `certificates` (requests for them), `bootstrap_tokens` (what they sign). `queue` runs
//! them: it wakes on changes of the store, looks again at what may be concerned, and backs off where a write fails.
//!
//! Always true: a controller keeps nothing that it could not find again by looking, so a crash between
//! two of its writes costs nothing. Elsewhere: simulated workloads; how the API deletes (`crate::verbs`).

mod bootstrap_tokens;
mod certificates;
mod customresources;
mod expiry;
mod gc;
mod namespace;
mod queue;
mod quotas;
mod roles;
#[cfg(test)]
mod tests;
mod tokens;

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::access::pki::Pki;
use crate::clock::Clock;
use crate::error::{ApiError, Result};
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

/// The API as controllers use it: with every rule of the API (grace, finalizers, defaults, managed
/// fields), in the name of the controller manager, and past quota.
pub trait Actor: Send + Sync + 'static {
    /// DELETE. Gone or replaced already is a 404 or 409, which the caller takes as an answer.
    fn delete<'a>(
        &'a self,
        key: &'a Key,
        preconditions: Preconditions<'a>,
        propagation: Propagation,
    ) -> BoxFuture<'a, Result<()>>;

    /// POST of a whole document with `apiVersion` and `kind`.
    fn create(&self, document: Value) -> BoxFuture<'_, Result<()>>;
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
}

/// The running controllers. They stop when this is dropped.
pub struct Control(JoinSet<()>);

impl Control {
    /// Stops them and waits until none holds the store any more.
    pub async fn stop(mut self) {
        self.0.shutdown().await;
    }
}

/// Starts all controllers on the current runtime.
pub fn start(context: Context) -> Control {
    let context = Arc::new(context);
    let mut tasks = JoinSet::new();
    tasks.spawn(queue::run(context.clone(), gc::Gc));
    tasks.spawn(queue::run(context.clone(), namespace::Namespaces));
    tasks.spawn(queue::run(context.clone(), customresources::CustomResources));
    tasks.spawn(queue::run(context.clone(), roles::Roles));
    tasks.spawn(queue::run(context.clone(), quotas::Quotas));
    tasks.spawn(queue::run(context.clone(), tokens::Tokens));
    tasks.spawn(queue::run(context.clone(), certificates::Certificates::new(&context)));
    tasks.spawn(queue::run(context.clone(), bootstrap_tokens::BootstrapTokens));
    tasks.spawn(queue::run(context, expiry::Expiry::default()));
    Control(tasks)
}

/// `value` in the place of `object`. A deleting object that nothing holds any longer is removed, as the
/// API does when its last finalizer goes.
fn replacement(key: &Key, object: &Object, value: Value) -> Change {
    let op = if is_finished(&value) { Op::Delete } else { Op::Put(value) };
    Change { key: key.clone(), expect: Expect::Version(object.version), op }
}

async fn replace(context: &Context, key: &Key, object: &Object, value: Value) -> Result<(), CommitError> {
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

fn has_finalizer(value: &Value, name: &str) -> bool {
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
fn set_condition(
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
fn settled(deleted: Result<()>) -> Result<()> {
    match deleted {
        Err(error) if matches!(error.code, 404 | 409) => Ok(()),
        other => other,
    }
}

/// Why a pass did not get through; it is tried again.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Commit(#[from] CommitError),
}
