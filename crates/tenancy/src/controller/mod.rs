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
//! - Desired objects: [`owned_object`], [`namespace`].
//! - Cache of provisioned objects: [`partial_object`], [`object_cache`].
//! - Controllers: [`user`], [`workspace`], [`quota_limits`], [`tenant_access`], [`deletion`], [`contents`].
//! - Nodes of tenants: [`node_csr`], [`yurthub_token`], [`nodes`], [`node_cleanup`], [`certificate_lifetime`].
//! - Packages of removed workspaces: [`package_readers`].
//!
//! Elsewhere: operations of users (`crate::register`, `crate::workspaces`), the roles (`crate::roles`).

mod certificate_lifetime;
mod contents;
mod deletion;
mod namespace;
mod node_cleanup;
mod node_csr;
mod nodes;
mod object_cache;
mod owned_object;
mod package_readers;
mod partial_object;
mod quota_limits;
mod tenant_access;
mod user;
mod workspace;
mod yurthub_token;

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
use kube::core::{ApiResource, ClusterResourceScope, DynamicObject};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::watcher::Config;
use kube::{Api, Resource};
use kube_access::cache::{CacheEvent, WatchCache};
use kube_access::controller::panic_event;
use kube_access::errors::tenant_message;
use kube_access::queue::{self, Action};
use kube_types::conditions::find_condition;
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE, User, Workspace};
use tokio::sync::mpsc;

use crate::Tenancy;
use crate::directory::account::UserEntry;
use crate::directory::user_secret::UserSecret;
use crate::directory::{Directory, DirectoryWatches, WorkspaceRecord};
use crate::node_join::node_names::{self, NODE_NAMES_CONFIG_MAP, NodeNameRegistry};
use crate::paging::PAGE_SIZE;
use node_csr::PendingCsr;
use nodes::NodeSummary;
use object_cache::{CacheChange, ObjectCache};
use owned_object::{OwnedKind, OwnedObject};

pub use namespace::DEPLOYER;

/// The cluster that the platform runs on, as workspaces name it.
pub const HOST_CLUSTER: &str = "host";

/// The limit of concurrent reconciles per controller.
const MAX_CONCURRENT_RECONCILES: usize = 16;

/// The condition type `Ready` of accounts and of workspaces.
const READY_CONDITION: &str = kube_types::workspace::conditions::READY;
/// The condition reason of states that only need more time.
const NOT_YET_REASON: &str = "NotYet";

/// The requeue interval where a watch event is expected but might be missed.
const REQUEUE_AFTER: Duration = Duration::from_secs(10);

/// Why a reconcile failed. It is retried with backoff. The text is for conditions and Events, which tenants read; the cause is for
/// the log.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing}: {}", tenant_message(cause))]
pub(crate) struct ReconcileError {
    doing: String,
    #[source]
    cause: kube::Error,
}

impl ReconcileError {
    /// The cause of work that did not finish in one reconcile.
    fn unfinished(message: &str) -> kube::Error {
        kube::Error::Api(Box::new(kube::core::Status::failure(message, "ServiceUnavailable").with_code(503)))
    }

    /// Whether another writer was faster: its change will arrive by watch.
    fn is_conflict(&self) -> bool {
        matches!(&self.cause, kube::Error::Api(status) if status.is_conflict())
    }

    /// Whether Kubernetes refused the object as invalid.
    fn is_invalid(&self) -> bool {
        matches!(&self.cause, kube::Error::Api(status) if status.code == 422)
    }
}

/// Adds the failed operation to an error.
trait ErrorContext<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, ReconcileError>;
}

impl<T> ErrorContext<T> for Result<T, kube::Error> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, ReconcileError> {
        self.map_err(|cause| ReconcileError { doing: what(), cause })
    }
}

/// The object to reconcile after a change, by name.
enum ReconcileKey {
    User(String),
    Workspace(String),
}

/// The context that the controllers share.
struct TenancyController {
    client: kube::Client,
    users: WatchCache<UserEntry>,
    workspaces: WatchCache<WorkspaceRecord>,
    secrets: WatchCache<UserSecret>,
    objects: ObjectCache,
    nodes: WatchCache<NodeSummary>,
    /// The owners of node names.
    node_names: WatchCache<NodeNameRegistry>,
    csrs: WatchCache<PendingCsr>,
    /// When this server started its controllers.
    started_at: Timestamp,
    /// How long an expired account can be extended before it is deleted.
    account_grace_period: Duration,
    /// The quota of a personal workspace.
    personal_quota: BTreeMap<String, String>,
    clock: Arc<dyn Clock>,
    events: Recorder,
    directory: Directory,
}

/// Runs the controllers. They end only when their watches do, or when the future is dropped. Only one server of a cluster may run
/// them.
pub async fn run(tenancy: Tenancy) {
    let client = tenancy.0.clients.platform();
    let reporter = Reporter { controller: FIELD_MANAGER.to_owned(), instance: None };
    let DirectoryWatches { users, workspaces, secrets } = tenancy.0.directory.watches().clone();
    let config = || Config::default().page_size(PAGE_SIZE);
    let named = config().fields(&format!("metadata.name={NODE_NAMES_CONFIG_MAP}"));
    let provisioner = Arc::new(TenancyController {
        nodes: WatchCache::start_projected(Api::all(client.clone()), config(), |node: Node| {
            NodeSummary::from_node(&node)
        }),
        node_names: WatchCache::start_projected(node_names::api(client.clone()), named, |map: ConfigMap| {
            NodeNameRegistry::from_config_map(&map)
        }),
        csrs: WatchCache::start_projected(
            Api::all(client.clone()),
            config(),
            |csr: CertificateSigningRequest| PendingCsr::from_csr(&csr),
        ),
        started_at: tenancy.0.clock.now(),
        account_grace_period: tenancy.0.settings.account_grace_period,
        users,
        workspaces,
        secrets,
        objects: ObjectCache::new(),
        personal_quota: tenancy.0.settings.quota.clone(),
        clock: tenancy.0.clock.clone(),
        events: Recorder::new(client.clone(), reporter),
        directory: tenancy.0.directory.clone(),
        client: client.clone(),
    });
    let (tell, changes) = mpsc::unbounded_channel();
    futures::join!(provisioner.objects.run(client, tell), run_controllers(provisioner.clone(), changes));
}

/// Runs the controllers on the keys of changed objects.
async fn run_controllers(provisioner: Arc<TenancyController>, changes: mpsc::UnboundedReceiver<CacheChange>) {
    provisioner.wait_until_synced().await;
    let (for_users, of_users) = mpsc::unbounded_channel();
    let (for_workspaces, of_workspaces) = mpsc::unbounded_channel();
    let dispatcher = provisioner.clone();
    let dispatch = receiver_stream(changes).for_each(move |changed| {
        // The receivers live as long as this.
        match dispatcher.reconcile_key(changed) {
            Some(ReconcileKey::User(name)) => drop(for_users.send(name)),
            Some(ReconcileKey::Workspace(name)) => drop(for_workspaces.send(name)),
            None => {}
        }
        ready(())
    });
    let (by_owner, by_secret) = (provisioner.clone(), provisioner.clone());
    let (by_node, by_name, by_named_node) = (provisioner.clone(), provisioner.clone(), provisioner.clone());
    let (strays, by_stray_name, named_strays) =
        (provisioner.clone(), provisioner.clone(), provisioner.clone());
    let user_keys = stream::select_all([
        provisioner.users.subscribe().map(|change| Some(event_object(&change).name.to_string())).boxed(),
        provisioner
            .workspaces
            .subscribe()
            .map(move |change| by_owner.owner_of_workspace(event_object(&change)))
            .boxed(),
        provisioner
            .secrets
            .subscribe()
            .map(move |change| by_secret.owner_of_secret(event_object(&change)))
            .boxed(),
        receiver_stream(of_users).map(Some).boxed(),
        provisioner.nodes.subscribe().map(move |change| by_node.owner_of_node(&change)).boxed(),
        provisioner
            .node_names
            .subscribe()
            .flat_map(move |change| stream::iter(by_name.changes_for_names(&change)))
            .map(move |change| by_named_node.owner_of_node(&change))
            .boxed(),
    ]);
    let stray_keys = stream::select_all([
        provisioner.nodes.subscribe().map(move |change| strays.orphan_node(&change)).boxed(),
        provisioner
            .node_names
            .subscribe()
            .flat_map(move |change| stream::iter(by_stray_name.changes_for_names(&change)))
            .map(move |change| named_strays.orphan_node(&change))
            .boxed(),
    ]);
    let request_keys = provisioner.csrs.subscribe().map(|change| match change {
        CacheEvent::Applied(request) => request.key(),
        CacheEvent::Deleted(_) => None,
    });
    let workspace_keys = stream::select_all([
        provisioner.workspaces.subscribe().map(|change| Some(event_object(&change).name.to_string())).boxed(),
        receiver_stream(of_workspaces).map(Some).boxed(),
    ]);
    let (user_panics, workspace_panics, csr_panics, node_panics) =
        (provisioner.clone(), provisioner.clone(), provisioner.clone(), provisioner.clone());
    let (users, stray_nodes, requests, workspaces) =
        (provisioner.clone(), provisioner.clone(), provisioner.clone(), provisioner);
    futures::join!(
        dispatch,
        queue::run(
            "user",
            drop_unmapped(user_keys),
            MAX_CONCURRENT_RECONCILES,
            move |name: &String| { users.clone().reconcile_user_boxed(name.clone()) },
            move |name: &String| user_panics.report_panic::<User>(name),
        ),
        queue::run(
            "workspace",
            drop_unmapped(workspace_keys),
            MAX_CONCURRENT_RECONCILES,
            move |name: &String| { workspaces.clone().reconcile_workspace_boxed(name.clone()) },
            move |name: &String| workspace_panics.report_panic::<Workspace>(name),
        ),
        // One at a time: each decision must count the nodes that the previous one granted.
        queue::run(
            "node-csr",
            drop_unmapped(request_keys),
            1,
            move |name: &String| { requests.clone().reconcile_csr_boxed(name.clone()) },
            move |name: &String| csr_panics.report_panic::<CertificateSigningRequest>(name),
        ),
        queue::run(
            "node",
            drop_unmapped(stray_keys),
            1,
            move |name: &String| { stray_nodes.clone().reconcile_orphan_node_boxed(name.clone()) },
            move |name: &String| node_panics.report_panic::<Node>(name),
        ),
    );
}

impl TenancyController {
    /// Waits for the initial lists of all watches.
    async fn wait_until_synced(&self) {
        futures::join!(
            self.users.wait_until_synced(),
            self.workspaces.wait_until_synced(),
            self.secrets.wait_until_synced(),
            self.objects.wait_until_synced(),
            self.nodes.wait_until_synced(),
            self.node_names.wait_until_synced(),
            self.csrs.wait_until_synced(),
        );
    }

    fn reconcile_user_boxed(
        self: Arc<Self>,
        name: String,
    ) -> BoxFuture<'static, Result<Action, ReconcileError>> {
        async move { requeue_on_conflict(Box::pin(self.reconcile_user(&name)).await) }.boxed()
    }

    fn reconcile_workspace_boxed(
        self: Arc<Self>,
        name: String,
    ) -> BoxFuture<'static, Result<Action, ReconcileError>> {
        async move { requeue_on_conflict(self.reconcile_workspace(&name).await) }.boxed()
    }

    fn reconcile_csr_boxed(
        self: Arc<Self>,
        name: String,
    ) -> BoxFuture<'static, Result<Action, ReconcileError>> {
        async move { requeue_on_conflict(self.reconcile_csr(&name).await) }.boxed()
    }

    fn reconcile_orphan_node_boxed(
        self: Arc<Self>,
        name: String,
    ) -> BoxFuture<'static, Result<Action, ReconcileError>> {
        async move { requeue_on_conflict(self.reconcile_orphan_node(&name).await) }.boxed()
    }

    /// Publishes the event of a reconcile that panicked, by the name of the object.
    fn report_panic<K>(&self, name: &str) -> BoxFuture<'static, ()>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    {
        let (client, events, name) = (self.client.clone(), self.events.clone(), name.to_owned());
        let resource = ApiResource::erase::<K>(&());
        async move { panic_event::publish_by_name(client, &events, &resource, &name).await }.boxed()
    }

    /// The name of the User with this id.
    fn user_name_by_id(&self, id: &UserId) -> Option<String> {
        let known = self.directory.account(id).map(|account| account.name.clone());
        // The directory is fed by another subscription and may get a new account later than this controller.
        known.or_else(|| {
            self.users.list().iter().find(|person| person.has_id(id)).map(|person| person.name.to_string())
        })
    }

    /// The User that owns a personal workspace.
    fn owner_of_workspace(&self, workspace: &WorkspaceRecord) -> Option<String> {
        self.user_name_by_id(&workspace.owner.parse().ok()?)
    }

    /// The User that a Secret belongs to.
    fn owner_of_secret(&self, held: &UserSecret) -> Option<String> {
        self.user_name_by_id(held.owner.as_ref()?)
    }

    /// The object to reconcile after a provisioned object changed.
    fn reconcile_key(&self, changed: CacheChange) -> Option<ReconcileKey> {
        let (namespace, name) = match changed {
            CacheChange::Namespace { workspace } => return Some(ReconcileKey::Workspace(workspace)),
            CacheChange::Object { namespace, name } => (namespace, name),
        };
        let person = match &*namespace {
            "" => user::account_of_admin_binding(&name),
            SYSTEM_NAMESPACE => name.parse().ok(),
            _ => {
                return self
                    .objects
                    .namespace(&namespace)
                    .map(|marks| ReconcileKey::Workspace(marks.workspace.into()));
            }
        };
        self.user_name_by_id(&person?).map(ReconcileKey::User)
    }

    fn api<K: Resource<DynamicType = (), Scope = ClusterResourceScope>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// The API of a kind, in one namespace or cluster-scoped.
    fn object_api(&self, namespace: Option<&str>, kind: OwnedKind) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind.resource()),
            None => Api::all_with(self.client.clone(), &kind.resource()),
        }
    }

    /// Applies a desired object by server-side apply.
    async fn apply(&self, namespace: Option<&str>, piece: &OwnedObject) -> Result<(), ReconcileError> {
        let (name, how) = (piece.name(), PatchParams::apply(FIELD_MANAGER).force());
        let applied =
            self.object_api(namespace, piece.kind).patch(&name, &how, &Patch::Apply(&piece.object)).await;
        applied.map(drop).context(|| describe_operation("apply", piece.kind, &name, namespace))
    }

    async fn delete(
        &self,
        namespace: Option<&str>,
        kind: OwnedKind,
        name: &str,
    ) -> Result<(), ReconcileError> {
        let deleted = self.object_api(namespace, kind).delete(name, &DeleteParams::default()).await;
        deletion::ignore_not_found(deleted.map(drop))
            .context(|| describe_operation("delete", kind, name, namespace))
    }

    /// Publishes an event when the reason of the condition `Ready` changed, except to `NotYet`. A failure to publish is only logged.
    async fn publish_ready_event<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        before: &[Condition],
        now: &[Condition],
    ) {
        let was = find_condition(before, READY_CONDITION).map(|ready| ready.reason.as_str());
        let Some(ready) =
            find_condition(now, READY_CONDITION).filter(|ready| Some(ready.reason.as_str()) != was)
        else {
            return;
        };
        if ready.reason == NOT_YET_REASON {
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
fn describe_operation(verb: &str, kind: OwnedKind, name: &str, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("{verb} {kind:?} `{name}` in `{namespace}`"),
        None => format!("{verb} {kind:?} `{name}`"),
    }
}

fn event_object<K>(change: &CacheEvent<K>) -> &K {
    match change {
        CacheEvent::Applied(object) | CacheEvent::Deleted(object) => object,
    }
}

/// Drops changes that concern no object.
fn drop_unmapped(keys: impl Stream<Item = Option<String>>) -> impl Stream<Item = String> {
    keys.filter_map(ready)
}

/// The receiver as a stream.
fn receiver_stream<T>(receiver: mpsc::UnboundedReceiver<T>) -> impl Stream<Item = T> {
    stream::unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|item| (item, receiver)) })
}

/// Requeues after a conflict: the reconcile read a stale object, and the new one is about to arrive by watch.
fn requeue_on_conflict(done: Result<Action, ReconcileError>) -> Result<Action, ReconcileError> {
    match done {
        Err(error) if error.is_conflict() => Ok(Action::RequeueAfter(Duration::from_secs(1))),
        other => other,
    }
}

/// The delay until a time. At most an hour, as clocks can be changed.
fn delay_until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default().min(Duration::from_hours(1))
}

#[cfg(test)]
mod tests;
