//! A running cluster: store, API server, access control and controllers.
//!
//! Cheap to clone; clones share state. It stops when [`Cluster::stop`] is called.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use governor::work::{WorkLimits, WorkPool};
use governor::{Governor, LevelLimits};
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::access::User;
use crate::access::authn::{Authenticator, PeerCertificate};
use crate::access::changes::{AccessChange, AccessWatch};
use crate::access::impersonate::Impersonation;
use crate::access::pki::Pki;
use crate::access::rbac::Authorizer;
use crate::admission::services::ServiceAllocator;
use crate::clock::{Clock, SystemClock};
use crate::control::events::Recorder;
use crate::control::health::{Health, supervise};
use crate::control::{self, RunningControllers};
use crate::error::Result;
use crate::http::accept::{ConnectionLimits, accept};
use crate::http::audit::{AuditSink, Auditor};
use crate::http::flow::ServiceAccountFlows;
use crate::http::routes::custom_schema;
use crate::http::service::ApiService;
use crate::metrics::Metrics;
use crate::policy::Policies;
use crate::registry::Registry;
use crate::sim::Simulation;
use crate::store::{Allowance, Change, CommitError, Object, Options, StorageBudget, Store};
use crate::verbs::ControllerManager;
use crate::{access, bootstrap, openapi};

/// Maximum delay before open streams are notified of changes that can revoke their access. Streams are not checked more often, however
/// many changes there are.
const ACCESS_INTERVAL: Duration = Duration::from_secs(2);
/// Interval of checks without changes, because credentials also expire.
const ACCESS_EXPIRY_INTERVAL: Duration = Duration::from_secs(30);

const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Configuration of a cluster.
pub struct Config {
    /// The data directory; without one everything is in memory and lost at the end.
    pub data_dir: Option<PathBuf>,
    /// Additional names and addresses of the server's certificate.
    pub extra_names: Vec<String>,
    pub clock: Arc<dyn Clock>,
    /// Simulated nodes and workload controllers; without them objects stay as they are written.
    pub simulation: Option<Simulation>,
    /// Concurrency limits of callers.
    pub level_limits: LevelLimits,
    /// Configures which `ServiceAccounts` share a flow.
    pub flows: ServiceAccountFlows,
    /// Limits of CPU-heavy work of requests.
    pub work_limits: WorkLimits,
    /// Reads whose weight exceeds this many bytes run on the pool, and writes of a quarter of it.
    pub inline_bytes: usize,
    /// Connection limits of the API's listener.
    pub connection_limits: ConnectionLimits,
    /// Storage budget of each group of namespaces.
    pub storage_budget: Option<StorageBudget>,
    /// Audit sink for writes and refusals.
    pub audit_sink: Option<Arc<dyn AuditSink>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: None,
            extra_names: Vec::new(),
            clock: Arc::new(SystemClock),
            simulation: None,
            level_limits: LevelLimits::default(),
            flows: ServiceAccountFlows::default(),
            work_limits: default_work(),
            inline_bytes: 64 << 10,
            connection_limits: ConnectionLimits::default(),
            storage_budget: None,
            audit_sink: None,
        }
    }
}

/// Three flows together leave a slot for others, whatever the number of cores.
fn default_work() -> WorkLimits {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    WorkLimits {
        slots: cores.saturating_mul(4).max(4),
        slots_per_flow: cores,
        queue: 500,
        queue_per_flow: 50,
        wait: Duration::from_secs(15),
        bytes: 512 << 20,
        bytes_per_flow: 256 << 20,
    }
}

/// Why a cluster cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Store(#[from] crate::store::OpenError),
    #[error(transparent)]
    Pki(#[from] access::pki::PkiError),
    #[error("cannot write the objects that every cluster has")]
    Bootstrap(#[source] CommitError),
}

/// A weak reference to a cluster.
#[derive(Clone)]
pub struct WeakCluster(Weak<ClusterInner>);

impl WeakCluster {
    pub fn upgrade(&self) -> Option<Cluster> {
        self.0.upgrade().map(|inner| Cluster { inner })
    }
}

#[derive(Clone)]
pub struct Cluster {
    inner: Arc<ClusterInner>,
}

/// Counts the [`AccessChange`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessVersion {
    pub users: u64,
    pub nodes: u64,
}

impl AccessVersion {
    fn advance(&mut self, change: AccessChange) {
        self.users = self.users.wrapping_add(u64::from(change.users));
        self.nodes = self.nodes.wrapping_add(u64::from(change.nodes));
    }
}

struct ClusterInner {
    store: Arc<Store>,
    registry: ArcSwap<Registry>,
    /// Serializes registry updates, so that an older registry never replaces a newer one.
    refresh_lock: Mutex<()>,
    /// Notified each time the registry is replaced.
    registry_changed: watch::Sender<()>,
    clock: Arc<dyn Clock>,
    pki: Arc<Pki>,
    tls: Arc<rustls::ServerConfig>,
    authenticator: Authenticator,
    authorizer: Authorizer,
    impersonation: Impersonation,
    services: Arc<ServiceAllocator>,
    policies: Policies,
    metrics: Metrics,
    health: Health,
    controllers: Mutex<Option<RunningControllers>>,
    /// Cache of OpenAPI documents by path, with their hashes.
    openapi_cache: Mutex<HashMap<String, (String, Bytes)>>,
    governor: Governor,
    flows: ServiceAccountFlows,
    pool: WorkPool,
    inline_bytes: usize,
    connections: ConnectionLimits,
    auditor: Option<Auditor>,
    /// Notified when access may have been revoked.
    access_version: watch::Sender<AccessVersion>,
    stopping: watch::Sender<bool>,
}

impl Cluster {
    /// Opens or creates the data directory, and starts controllers and background tasks.
    pub async fn open(config: Config) -> Result<Self, OpenError> {
        // The store is created before the keys: keys without a store mean that the store is lost.
        let must_exist = config.data_dir.as_ref().is_some_and(|folder| folder.join("pki").exists());
        let options = Options {
            clock: config.clock.clone(),
            must_exist,
            budget: config.storage_budget,
            ..Options::default()
        };
        let (store, pki) = match &config.data_dir {
            Some(folder) => {
                let store = Store::open(folder, options)?;
                (store, Pki::open(&folder.join("pki"), &config.extra_names, config.clock.now())?)
            }
            None => {
                (Store::in_memory_with(options), Pki::in_memory(&config.extra_names, config.clock.now())?)
            }
        };
        let pki = Arc::new(pki);
        store.set_starting(true);
        bootstrap::create_bootstrap_objects(&store, &pki, config.clock.as_ref(), config.simulation.as_ref())
            .await
            .map_err(OpenError::Bootstrap)?;
        let governor = Governor::new(&config.level_limits);
        let pool = WorkPool::new(&config.work_limits);
        let cluster = Self {
            inner: Arc::new(ClusterInner {
                registry: ArcSwap::from_pointee(Registry::builtin()),
                refresh_lock: Mutex::default(),
                registry_changed: watch::Sender::default(),
                authenticator: Authenticator::new(store.clone(), config.clock.clone(), pki.signing_key()),
                authorizer: Authorizer::new(store.clone()),
                impersonation: Impersonation::default(),
                services: ServiceAllocator::new(),
                policies: Policies::default(),
                metrics: Metrics::new(governor.clone(), pool.clone(), &store),
                governor,
                flows: config.flows,
                pool,
                inline_bytes: config.inline_bytes,
                connections: config.connection_limits,
                auditor: config.audit_sink.map(Auditor::new),
                access_version: watch::Sender::default(),
                health: Health::default(),
                controllers: Mutex::default(),
                openapi_cache: Mutex::default(),
                stopping: watch::Sender::new(false),
                tls: Arc::new(pki.server_config()?),
                clock: config.clock,
                pki,
                store,
            }),
        };
        cluster.refresh_registry();
        let (health, metrics) = (cluster.inner.health.clone(), cluster.inner.metrics.clone());
        let weak = WeakCluster(Arc::downgrade(&cluster.inner));
        let is_stopped = {
            let weak = weak.clone();
            move || weak.upgrade().is_none_or(|cluster| *cluster.inner.stopping.borrow())
        };
        let (stopped, crds) = (is_stopped.clone(), weak.clone());
        tokio::spawn(supervise(health.clone(), metrics.clone(), "crds".to_owned(), stopped, move || {
            watch_crds(crds.clone())
        }));
        tokio::spawn(supervise(
            health.clone(),
            metrics.clone(),
            "access".to_owned(),
            is_stopped,
            move || watch_access(weak.clone()),
        ));
        let control = control::start(control::Context {
            health,
            metrics,
            store: cluster.inner.store.clone(),
            client: Arc::new(ControllerManager(WeakCluster(Arc::downgrade(&cluster.inner)))),
            clock: cluster.inner.clock.clone(),
            pki: cluster.inner.pki.clone(),
            kinds: kind_lookup(WeakCluster(Arc::downgrade(&cluster.inner))),
            owner_labels: cluster.inner.flows.group_labels.clone(),
            events: Recorder::default(),
            simulation: config.simulation,
        });
        *cluster.inner.controllers.lock() = Some(control);
        Ok(cluster)
    }

    /// Opens a cluster in memory, for tests.
    pub async fn in_memory() -> Self {
        Self::open(Config::default()).await.expect("a cluster in memory has nothing that could fail")
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.inner.store
    }

    pub fn registry(&self) -> Arc<Registry> {
        self.inner.registry.load_full()
    }

    pub fn clock(&self) -> &dyn Clock {
        self.inner.clock.as_ref()
    }

    pub fn pki(&self) -> &Pki {
        &self.inner.pki
    }

    pub fn authenticator(&self) -> &Authenticator {
        &self.inner.authenticator
    }

    pub fn authorizer(&self) -> &Authorizer {
        &self.inner.authorizer
    }

    pub fn impersonation(&self) -> &Impersonation {
        &self.inner.impersonation
    }

    pub fn services(&self) -> &Arc<ServiceAllocator> {
        &self.inner.services
    }

    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// State of the background tasks.
    pub fn health(&self) -> &Health {
        &self.inner.health
    }

    pub fn policies(&self) -> &Policies {
        &self.inner.policies
    }

    /// Commits `change` and its dependent changes in one transaction; returns the changed object.
    pub async fn commit(&self, change: Change, also: Vec<Change>) -> Result<Arc<Object>, CommitError> {
        self.commit_with_allowance(change, also, Allowance::Unlimited, ()).await
    }

    /// Like [`Self::commit`], for changes that storage budgets may refuse. `held` is dropped when the changes are visible or have failed,
    /// even if the caller no longer waits.
    pub async fn commit_with_allowance(
        &self,
        change: Change,
        also: Vec<Change>,
        allowance: Allowance,
        held: impl Send + 'static,
    ) -> Result<Arc<Object>, CommitError> {
        let defines = change.key.storage.as_ref() == CRDS;
        let mut changes = vec![change];
        changes.extend(also);
        let done = self.inner.store.commit_with_allowance(changes, allowance, held).await?;
        if defines {
            // Discovery and the routes of the new kind are updated before the client gets its response.
            self.refresh_registry();
        }
        Ok(done.into_iter().next().expect("a commit answers every change"))
    }

    fn refresh_registry(&self) {
        let _one_at_a_time = self.inner.refresh_lock.lock();
        let crds = self.inner.store.list(CRDS, None).objects;
        let now = self.inner.registry.load();
        if !now.is_current(&crds) {
            let next = now.with_crds(&crds);
            for resource in next.resources().iter().filter(|resource| resource.is_custom()) {
                self.inner.store.begin_storage(&resource.storage);
            }
            self.inner.registry.store(Arc::new(next));
            self.evict_openapi_documents();
            self.inner.registry_changed.send_replace(());
        }
    }

    /// Evicts the documents of group versions that are no longer served.
    fn evict_openapi_documents(&self) {
        let registry = self.registry();
        self.inner.openapi_cache.lock().retain(|path, _| {
            let place = openapi::group_version(path);
            place.is_some_and(|(group, version)| registry.serves(group, version))
        });
    }

    /// Notified each time the registry is replaced.
    pub fn registry_changes(&self) -> watch::Receiver<()> {
        self.inner.registry_changed.subscribe()
    }

    /// Returns the OpenAPI document of a group version (`apis/apps/v1`) and its hash. Documents are cached until their hash
    /// changes or their group version is no longer served.
    pub fn openapi(&self, path: &str) -> Option<(Bytes, String)> {
        let (group, version) = openapi::group_version(path)?;
        let registry = self.registry();
        let hash = openapi::hash(group, version, registry.resources(), &custom_schema)?;
        if let Some((known, document)) = self.inner.openapi_cache.lock().get(path)
            && *known == hash
        {
            return Some((document.clone(), hash));
        }
        let document = openapi::document(group, version, registry.resources(), &custom_schema)?;
        let document = Bytes::from(document.to_string());
        let mut documents = self.inner.openapi_cache.lock();
        // The API may have been removed concurrently; then no later event would evict the document.
        if self.registry().serves(group, version) {
            documents.insert(path.to_owned(), (hash.clone(), document.clone()));
        }
        drop(documents);
        Some((document, hash))
    }

    /// Returns the governor, which limits the resources of callers.
    pub fn governor(&self) -> &Governor {
        &self.inner.governor
    }

    /// Returns the configuration of flows of `ServiceAccounts`.
    pub fn service_account_flows(&self) -> &ServiceAccountFlows {
        &self.inner.flows
    }

    /// As [`Config::inline_bytes`].
    pub fn inline_bytes(&self) -> usize {
        self.inner.inline_bytes
    }

    /// Returns the pool for CPU-heavy work.
    pub fn pool(&self) -> &WorkPool {
        &self.inner.pool
    }

    /// Describes the levels and pools that starve (`governor::STARVATION_THRESHOLD`). Empty if all requests are served in time.
    pub fn starved_levels(&self) -> Vec<String> {
        let levels = self.inner.governor.starved_levels().into_iter();
        let levels =
            levels.map(|(level, lasting)| format!("level {} for {} s", level.name(), lasting.as_secs()));
        let pool = self.inner.pool.starved();
        levels.chain(pool.map(|lasting| format!("work pool for {} s", lasting.as_secs()))).collect()
    }

    /// Returns the auditor of writes and refusals.
    pub fn auditor(&self) -> Option<&Auditor> {
        self.inner.auditor.as_ref()
    }

    /// Changes, with a delay, when access may have been revoked.
    pub fn access_version(&self) -> watch::Receiver<AccessVersion> {
        self.inner.access_version.subscribe()
    }

    /// The API for callers that authenticate.
    pub fn service(&self) -> ApiService {
        ApiService::new(self.clone())
    }

    /// The API for an in-process caller with a fixed identity.
    pub fn service_as(&self, user: User) -> ApiService {
        ApiService::with_identity(self.clone(), user)
    }

    /// A client for an in-process caller: no socket, no TLS, the same rules.
    pub fn client(&self, user: User) -> kube::Client {
        kube::Client::new(self.service_as(user), "default")
    }

    /// Updates the address of this cluster in `cluster-info`, for joining nodes.
    pub async fn publish_url(&self, url: &str) -> Result<(), CommitError> {
        bootstrap::publish_cluster_info(&self.inner.store, &self.inner.pki, url).await
    }

    /// Serves the API over TLS until the cluster is stopped.
    pub async fn serve(&self, listener: TcpListener) {
        let service = self.service();
        let of_peer = move |address: SocketAddr, peer: Option<&CertificateDer<'_>>| {
            service.clone().with_peer(address.ip(), peer.and_then(|peer| PeerCertificate::from_der(peer)))
        };
        let (tls, connections) = (self.inner.tls.clone(), self.inner.connections);
        accept(listener, Some(tls), connections, of_peer, self.wait_until_stopped()).await;
    }

    /// Stops watches, controllers and listeners.
    pub fn stop(&self) {
        self.inner.stopping.send_replace(true);
        drop(self.inner.controllers.lock().take());
    }

    /// Resolves when all controllers are idle at the clock's present time. A stopped cluster is idle.
    pub async fn wait_until_idle(&self) {
        let rest = self.inner.controllers.lock().as_ref().map(RunningControllers::wait_until_idle);
        if let Some(rest) = rest {
            rest.await;
        }
    }

    /// Resolves when the cluster is stopped.
    pub fn wait_until_stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stopping = self.inner.stopping.subscribe();
        async move {
            // An error means that the cluster has been dropped.
            let _ = stopping.wait_for(|stopping| *stopping).await;
        }
    }
}

/// Returns the lookup from `apiVersion` and kind to storage, for controllers.
fn kind_lookup(cluster: WeakCluster) -> control::KindLookup {
    Arc::new(move |api_version, kind| {
        let registry = cluster.upgrade()?.registry();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = registry.by_kind(group, version, kind)?;
        Some((resource.storage.clone(), resource.namespaced))
    })
}

/// Updates the registry when stored CRDs change, including changes by controllers.
async fn watch_crds(cluster: WeakCluster) {
    let Some(begun) = cluster.upgrade() else { return };
    let (mut changes, stopping) = (begun.store().list_and_watch(CRDS, None).1, begun.wait_until_stopped());
    drop(begun);
    tokio::pin!(stopping);
    loop {
        let seen = tokio::select! {
            seen = changes.next() => seen,
            // Also resolves when the cluster has been dropped.
            () = &mut stopping => return,
        };
        let Some(cluster) = cluster.upgrade() else { return };
        if seen.is_err() {
            changes = cluster.store().list_and_watch(CRDS, None).1;
        }
        cluster.refresh_registry();
    }
}

/// Notifies open streams when their access may have been revoked, so that they revalidate.
async fn watch_access(cluster: WeakCluster) {
    let Some(begun) = cluster.upgrade() else { return };
    let (mut changes, stopping) = (AccessWatch::new(begun.store()), begun.wait_until_stopped());
    drop(begun);
    tokio::pin!(stopping);
    // Changes before the start, or before a restart of this task, are unknown.
    let (mut change, mut woken) = (AccessChange::ALL, Instant::now());
    loop {
        tokio::select! {
            () = tokio::time::sleep(ACCESS_INTERVAL) => {}
            () = &mut stopping => return,
        }
        let Some(cluster) = cluster.upgrade() else { return };
        change = change.or(changes.poll(cluster.store()));
        if woken.elapsed() >= ACCESS_EXPIRY_INTERVAL {
            change = AccessChange::ALL;
        }
        if change == AccessChange::ALL {
            woken = Instant::now();
        }
        if change != AccessChange::default() {
            cluster.inner.access_version.send_modify(|version| version.advance(change));
        }
        change = AccessChange::default();
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use futures::stream::BoxStream;
    use kube::api::{
        Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, WatchEvent,
        WatchParams,
    };
    use serde_json::{Value, json};

    use super::*;

    fn api(client: &kube::Client, group: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            api_version: format!("{group}/v1"),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Api::all_with(client.clone(), &resource)
    }

    async fn create(api: &Api<DynamicObject>, document: Value) {
        let object = serde_json::from_value(document).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    #[tokio::test]
    async fn a_watch_of_custom_resources_ends_when_their_definition_changes() {
        let cluster = Cluster::in_memory().await;
        let client = cluster.client(User::named("admin", &["system:masters"]));
        let crds =
            api(&client, "apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions");
        let tugs = api(&client, "x.dev", "Tug", "tugs");
        create(
            &crds,
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "tugs.x.dev"},
                "spec": {"group": "x.dev", "scope": "Cluster", "names": {"plural": "tugs", "kind": "Tug"},
                    "versions": [{"name": "v1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": {"type": "object"}}}]},
            }),
        )
        .await;
        let told = async |tugs: &Api<DynamicObject>| {
            let events = tugs.watch(&WatchParams::default(), "0").await.unwrap();
            let kinds = events.map(|event| match event.unwrap() {
                WatchEvent::Added(_) => "ADDED",
                WatchEvent::Deleted(_) => "DELETED",
                _ => "other",
            });
            kinds.boxed()
        };
        let all = async |kinds: BoxStream<'_, &'static str>| {
            tokio::time::timeout(Duration::from_secs(20), kinds.collect::<Vec<_>>()).await.unwrap()
        };
        let patch = async |patch: Value| {
            crds.patch("tugs.x.dev", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
        };

        let watch = told(&tugs).await;
        create(&tugs, json!({"apiVersion": "x.dev/v1", "kind": "Tug", "metadata": {"name": "a"}})).await;
        patch(json!({"metadata": {"labels": {"of": "nothing"}}})).await;
        patch(json!({"spec": {"names": {"shortNames": ["t"]}}})).await;
        assert_eq!(all(watch).await, ["ADDED"]);

        let watch = told(&tugs).await;
        crds.delete("tugs.x.dev", &DeleteParams::default()).await.unwrap();
        assert_eq!(all(watch).await, ["ADDED", "DELETED"]);
    }

    #[tokio::test]
    async fn schemas_and_openapi_documents_of_deleted_definitions_are_freed() {
        let cluster = Cluster::in_memory().await;
        let client = cluster.client(User::named("admin", &["system:masters"]));
        let crds =
            api(&client, "apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions");
        let cached = || cluster.inner.openapi_cache.lock().len();
        cluster.openapi("api/v1").unwrap();
        assert_eq!(cached(), 1);
        let (groups, mut compiled) = (["a.dev", "b.dev", "c.dev"], Vec::new());
        for round in 1..=2 {
            for group in groups {
                let spec = json!({
                    "group": group, "scope": "Cluster", "names": {"plural": "tugs", "kind": "Tug"},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                        "type": "object", "x-kubernetes-validations": [{"rule": "has(self.metadata)"}]}}}],
                });
                let metadata = json!({"name": format!("tugs.{group}")});
                let (api_version, kind) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
                let object =
                    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
                create(&crds, object).await;
                let path = format!("apis/{group}/v1");
                assert!(cluster.openapi(&path).is_some(), "round {round}");
                compiled.push(Arc::downgrade(cluster.registry().get(group, "v1", "tugs").unwrap()));
            }
            assert_eq!(cached(), 1 + groups.len());
            let mut changes = cluster.registry_changes();
            for group in groups {
                crds.delete(&format!("tugs.{group}"), &DeleteParams::default()).await.unwrap();
            }
            let is_served = || groups.iter().any(|group| cluster.registry().serves(group, "v1"));
            while is_served() {
                tokio::time::timeout(Duration::from_secs(30), changes.changed()).await.unwrap().unwrap();
            }
            assert_eq!(cached(), 1);
        }
        // Controllers may still hold the registry that they are reading.
        cluster.wait_until_idle().await;
        let held = compiled.iter().filter(|resource| resource.strong_count() > 0).count();
        assert_eq!(held, 0, "{held} of {} compiled definitions", compiled.len());
        cluster.stop();
    }
}
