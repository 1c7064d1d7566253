//! Controllers that provision and remove the objects of accounts and workspaces: namespaces, limits, roles, nodes.
//!
//! One controller reconciles Users, one Workspaces, one the `CertificateSigningRequest` objects of machines that join, and one orphaned
//! Nodes. A reconcile reads its object (caches hold only the fields that are needed permanently), observes (mostly from caches),
//! decides (pure), writes (idempotent), and updates status and events. A crash between two writes is harmless: the next reconcile
//! observes again.
//!
//! Invariant: objects without our label and the recorded UID are never changed or removed.
//!
//! Modules:
//!
//! - Desired objects: [`pieces`], [`namespace`].
//! - Cache of provisioned objects: [`bare`], [`seen`].
//! - Controllers: [`user`], [`workspace`], [`removal`], [`contents`].
//! - Nodes of tenants: [`joining`], [`hub`], [`nodes`], [`leaving`].
//!
//! Elsewhere: operations of users (`crate::register`, `crate::workspaces`), the roles (`crate::roles`).

mod bare;
mod contents;
mod hub;
mod joining;
mod leaving;
mod lifetime;
mod namespace;
mod nodes;
mod packages;
mod pieces;
mod removal;
mod seen;
mod user;
mod workspace;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::clock::Clock;
use domain::ids::UserId;
use futures::future::{BoxFuture, ready};
use futures::stream::{self, Stream};
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::{ClusterResourceScope, DynamicObject};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::watcher::Config;
use kube::{Api, Resource};
use kube_access::failure::reason;
use kube_access::feed::{Change, Feed};
use kube_access::queue::{self, Next};
use kube_types::progress::condition;
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE};
use tokio::sync::mpsc;

use crate::Tenancy;
use crate::directory::account::Person;
use crate::directory::held::Held;
use crate::directory::{Directory, Feeds, WorkspaceRecord};
use crate::edge::names::{self, NAMES, Names};
use crate::pages::PAGE;
use joining::Waiting;
use nodes::Kept;
use pieces::{Piece, PieceKind};
use seen::{Changed, Seen};

pub use namespace::DEPLOYER;

/// The cluster that the platform runs on, as workspaces name it.
pub const HOST: &str = "host";

/// The limit of concurrent reconciles per controller.
const AT_ONCE: usize = 16;

/// The condition type `Ready` of accounts and of workspaces.
const READY: &str = kube_types::workspace::conditions::READY;
/// The condition reason of states that only need more time.
const NOT_YET: &str = "NotYet";

/// The requeue interval where a watch event is expected but might be missed.
const AGAIN: Duration = Duration::from_secs(10);

/// Why a reconcile failed. It is retried with backoff. The text is for conditions and Events, which tenants read; the cause is for
/// the log.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing}: {}", reason(cause))]
pub(crate) struct ProvisionError {
    doing: String,
    #[source]
    cause: kube::Error,
}

impl ProvisionError {
    /// Whether another writer was faster: its change will arrive by watch.
    fn is_conflict(&self) -> bool {
        matches!(&self.cause, kube::Error::Api(status) if status.is_conflict())
    }
}

/// Adds the failed operation to an error.
trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, ProvisionError>;
}

impl<T> Doing<T> for Result<T, kube::Error> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, ProvisionError> {
        self.map_err(|cause| ProvisionError { doing: what(), cause })
    }
}

/// The object to reconcile after a change, by name.
enum Concerned {
    User(String),
    Workspace(String),
}

/// The context that the controllers share.
struct Provisioner {
    client: kube::Client,
    users: Feed<Person>,
    workspaces: Feed<WorkspaceRecord>,
    secrets: Feed<Held>,
    seen: Seen,
    nodes: Feed<Kept>,
    /// The owners of node names.
    names: Feed<Names>,
    requests: Feed<Waiting>,
    /// When this server started its controllers.
    began: Timestamp,
    /// How long an expired account can be extended before it is deleted.
    grace: Duration,
    /// The quota of a personal workspace.
    quota: BTreeMap<String, String>,
    clock: Arc<dyn Clock>,
    events: Recorder,
    directory: Directory,
}

/// Runs the controllers. They end only when their watches do, or when the future is dropped. Only one server of a cluster may run
/// them.
pub async fn run(tenancy: Tenancy) {
    let client = tenancy.0.clients.own();
    let reporter = Reporter { controller: FIELD_MANAGER.to_owned(), instance: None };
    let Feeds { users, workspaces, secrets } = tenancy.0.directory.feeds().clone();
    let config = || Config::default().page_size(PAGE);
    let named = config().fields(&format!("metadata.name={NAMES}"));
    let provisioner = Arc::new(Provisioner {
        nodes: Feed::keeping(Api::all(client.clone()), config(), |node: Node| Kept::of(&node)),
        names: Feed::keeping(names::api(client.clone()), named, |map: ConfigMap| Names::of(&map)),
        requests: Feed::keeping(Api::all(client.clone()), config(), |csr: CertificateSigningRequest| {
            Waiting::of(&csr)
        }),
        began: tenancy.0.clock.now(),
        grace: tenancy.0.settings.account_grace,
        users,
        workspaces,
        secrets,
        seen: Seen::new(),
        quota: tenancy.0.settings.quota.clone(),
        clock: tenancy.0.clock.clone(),
        events: Recorder::new(client.clone(), reporter),
        directory: tenancy.0.directory.clone(),
        client: client.clone(),
    });
    let (tell, changes) = mpsc::unbounded_channel();
    futures::join!(provisioner.seen.follow(client, tell), control(provisioner.clone(), changes));
}

/// Runs the controllers on the keys of changed objects.
async fn control(provisioner: Arc<Provisioner>, changes: mpsc::UnboundedReceiver<Changed>) {
    provisioner.synced().await;
    let (for_users, of_users) = mpsc::unbounded_channel();
    let (for_workspaces, of_workspaces) = mpsc::unbounded_channel();
    let dispatcher = provisioner.clone();
    let dispatch = received(changes).for_each(move |changed| {
        // The receivers live as long as this.
        match dispatcher.concerned(changed) {
            Some(Concerned::User(name)) => drop(for_users.send(name)),
            Some(Concerned::Workspace(name)) => drop(for_workspaces.send(name)),
            None => {}
        }
        ready(())
    });
    let (by_owner, by_secret) = (provisioner.clone(), provisioner.clone());
    let (by_node, by_name, by_named_node) = (provisioner.clone(), provisioner.clone(), provisioner.clone());
    let (strays, by_stray_name, named_strays) =
        (provisioner.clone(), provisioner.clone(), provisioner.clone());
    let user_keys = stream::select_all([
        provisioner.users.changes().map(|change| Some(object(&change).name.to_string())).boxed(),
        provisioner.workspaces.changes().map(move |change| by_owner.owner_of(object(&change))).boxed(),
        provisioner.secrets.changes().map(move |change| by_secret.owner_of_secret(object(&change))).boxed(),
        received(of_users).map(Some).boxed(),
        provisioner.nodes.changes().map(move |change| by_node.owner_of_node(&change)).boxed(),
        provisioner
            .names
            .changes()
            .flat_map(move |change| stream::iter(by_name.named(&change)))
            .map(move |change| by_named_node.owner_of_node(&change))
            .boxed(),
    ]);
    let stray_keys = stream::select_all([
        provisioner.nodes.changes().map(move |change| strays.stray(&change)).boxed(),
        provisioner
            .names
            .changes()
            .flat_map(move |change| stream::iter(by_stray_name.named(&change)))
            .map(move |change| named_strays.stray(&change))
            .boxed(),
    ]);
    let request_keys = provisioner.requests.changes().map(|change| match change {
        Change::Applied(request) => request.key(),
        Change::Deleted(_) => None,
    });
    let workspace_keys = stream::select_all([
        provisioner.workspaces.changes().map(|change| Some(object(&change).name.to_string())).boxed(),
        received(of_workspaces).map(Some).boxed(),
    ]);
    let (users, stray_nodes, requests, workspaces) =
        (provisioner.clone(), provisioner.clone(), provisioner.clone(), provisioner);
    futures::join!(
        dispatch,
        queue::run("user", known(user_keys), AT_ONCE, move |name: &String| {
            users.clone().pass_user(name.clone())
        }),
        queue::run("workspace", known(workspace_keys), AT_ONCE, move |name: &String| {
            workspaces.clone().pass_workspace(name.clone())
        }),
        // One at a time: each decision must count the nodes that the previous one granted.
        queue::run("node-csr", known(request_keys), 1, move |name: &String| {
            requests.clone().pass_request(name.clone())
        }),
        queue::run("node", known(stray_keys), 1, move |name: &String| {
            stray_nodes.clone().pass_stray(name.clone())
        }),
    );
}

impl Provisioner {
    /// Waits for the initial lists of all watches.
    async fn synced(&self) {
        futures::join!(
            self.users.synced(),
            self.workspaces.synced(),
            self.secrets.synced(),
            self.seen.synced(),
            self.nodes.synced(),
            self.names.synced(),
            self.requests.synced(),
        );
    }

    fn pass_user(self: Arc<Self>, name: String) -> BoxFuture<'static, Result<Next, ProvisionError>> {
        async move { settle(Box::pin(self.sync_user(&name)).await) }.boxed()
    }

    fn pass_workspace(self: Arc<Self>, name: String) -> BoxFuture<'static, Result<Next, ProvisionError>> {
        async move { settle(self.sync_workspace(&name).await) }.boxed()
    }

    fn pass_request(self: Arc<Self>, name: String) -> BoxFuture<'static, Result<Next, ProvisionError>> {
        async move { settle(self.sync_request(&name).await) }.boxed()
    }

    fn pass_stray(self: Arc<Self>, name: String) -> BoxFuture<'static, Result<Next, ProvisionError>> {
        async move { settle(self.sync_stray(&name).await) }.boxed()
    }

    /// The name of the User with this id.
    fn user_of(&self, id: &UserId) -> Option<String> {
        let known = self.directory.account(id).map(|account| account.name.clone());
        // The directory is fed by another subscription and may get a new account later than this controller.
        known.or_else(|| {
            self.users.all().iter().find(|person| person.has(id)).map(|person| person.name.to_string())
        })
    }

    /// The User that owns a personal workspace.
    fn owner_of(&self, workspace: &WorkspaceRecord) -> Option<String> {
        self.user_of(&workspace.owner.parse().ok()?)
    }

    /// The User that a Secret belongs to.
    fn owner_of_secret(&self, held: &Held) -> Option<String> {
        self.user_of(held.owner.as_ref()?)
    }

    /// The object to reconcile after a provisioned object changed.
    fn concerned(&self, changed: Changed) -> Option<Concerned> {
        let (namespace, name) = match changed {
            Changed::Namespace { workspace } => return Some(Concerned::Workspace(workspace)),
            Changed::Piece { namespace, name } => (namespace, name),
        };
        let person = match &*namespace {
            "" => user::administrator_of(&name),
            SYSTEM_NAMESPACE => name.parse().ok(),
            _ => {
                return self
                    .seen
                    .namespace(&namespace)
                    .map(|marks| Concerned::Workspace(marks.workspace.into()));
            }
        };
        self.user_of(&person?).map(Concerned::User)
    }

    fn api<K: Resource<DynamicType = (), Scope = ClusterResourceScope>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// The API of a kind, in one namespace or cluster-scoped.
    fn pieces(&self, namespace: Option<&str>, kind: PieceKind) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind.resource()),
            None => Api::all_with(self.client.clone(), &kind.resource()),
        }
    }

    /// Applies a desired object by server-side apply.
    async fn apply(&self, namespace: Option<&str>, piece: &Piece) -> Result<(), ProvisionError> {
        let (name, how) = (piece.name(), PatchParams::apply(FIELD_MANAGER).force());
        let applied =
            self.pieces(namespace, piece.kind).patch(&name, &how, &Patch::Apply(&piece.object)).await;
        applied.map(drop).doing(|| said("apply", piece.kind, &name, namespace))
    }

    async fn delete(
        &self,
        namespace: Option<&str>,
        kind: PieceKind,
        name: &str,
    ) -> Result<(), ProvisionError> {
        let deleted = self.pieces(namespace, kind).delete(name, &DeleteParams::default()).await;
        removal::gone(deleted.map(drop)).doing(|| said("delete", kind, name, namespace))
    }

    /// Publishes an event when the reason of the condition `Ready` changed, except to `NotYet`. A failure to publish is only logged.
    async fn announce<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        before: &[Condition],
        now: &[Condition],
    ) {
        let was = condition(before, READY).map(|ready| ready.reason.as_str());
        let Some(ready) = condition(now, READY).filter(|ready| Some(ready.reason.as_str()) != was) else {
            return;
        };
        if ready.reason == NOT_YET {
            return;
        }
        let event = Event {
            type_: if ready.status == "True" { EventType::Normal } else { EventType::Warning },
            reason: ready.reason.clone(),
            note: Some(ready.message.clone()),
            action: "Provision".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.events.publish(&event, &object.object_ref(&())).await {
            tracing::warn!(%error, "cannot write an event");
        }
    }
}

/// Describes an operation on an object for errors.
fn said(verb: &str, kind: PieceKind, name: &str, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("{verb} {kind:?} `{name}` in `{namespace}`"),
        None => format!("{verb} {kind:?} `{name}`"),
    }
}

fn object<K>(change: &Change<K>) -> &K {
    match change {
        Change::Applied(object) | Change::Deleted(object) => object,
    }
}

/// Drops changes that concern no object.
fn known(keys: impl Stream<Item = Option<String>>) -> impl Stream<Item = String> {
    keys.filter_map(ready)
}

/// The receiver as a stream.
fn received<T>(receiver: mpsc::UnboundedReceiver<T>) -> impl Stream<Item = T> {
    stream::unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|item| (item, receiver)) })
}

/// Requeues after a conflict: the reconcile read a stale object, and the new one is about to arrive by watch.
fn settle(done: Result<Next, ProvisionError>) -> Result<Next, ProvisionError> {
    match done {
        Err(error) if error.is_conflict() => Ok(Next::After(Duration::from_secs(1))),
        other => other,
    }
}

/// The delay until a time. At most an hour, as clocks can be changed.
fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default().min(Duration::from_hours(1))
}

#[cfg(test)]
mod tests;
