//! Helm requests and Helm releases: service functions for HTTP and CLI, caches, and the controllers.
//!
//! Modules:
//!
//! * [`tenant_directory`]: accounts and workspaces, as a trait.
//! * [`charts`], [`repos`]: resolving charts; chart repositories.
//! * [`values`]: merging the values of a release.
//! * [`post_render`]: post-rendering, i.e. changes to rendered manifests.
//! * `helm_records`: cache of Helm's release records.
//! * `readiness`: readiness of objects, from watches.
//! * [`service`]: service functions, one per use case.
//! * [`index`]: the index of releases for lists.
//! * `controller`: the controllers, `requests` for requests and `release` for releases; conditions of objects whose reconciles keep failing.
//! * `status_update`, `debounce`, `expectations`: status updates, their debounce, and writes that the watch has not delivered yet.
//! * `gc`: garbage collection.
//!
//! Invariants: chart objects are written with the identity of the release, and Kubernetes authorises it. Requests, the `HelmRelease`
//! objects of requests, values, records and statuses are written by the platform's own identity.
//!
//! See also: states and rules (`domain::release`), Helm actions (`helm_release`), resources (`kube_types`).

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::Arc;
use std::time::Duration;

pub use controller::max_operation_bytes;
use domain::clock::Clock;
pub use helm_release::render::Renderer;
use helm_release::render::share::PoolShare;
use helm_release::{Helm, Ledger, ReleaseLock, Storage, Trust};
use kube::Api;
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::watcher::Config;
use kube_access::{Clients, LeaseObserver, WatchCache};
use kube_apply::{Discovery, ReservedObjects};
use kube_types::{FIELD_MANAGER, HelmRelease, HelmRequest};

use charts::ChartResolver;
use helm_records::RecordLabels;
use index::ReleaseIndex;
use release::identity::ReleaseIdentity;
use service::log_stream::StreamLimiter;
use tenant_directory::{TenantDirectory, flow_for_workspace};
use values::pool::ValuesPool;

pub mod charts;
mod controller;
mod debounce;
pub mod duration;
mod error;
mod events;
mod expectations;
mod gc;
mod helm_options;
mod helm_records;
pub mod index;
pub mod key;
pub mod post_render;
mod readiness;
mod reconcile_state;
mod release;
pub mod repos;
mod requests;
pub mod service;
mod status_update;
pub mod tenant_directory;
#[cfg(test)]
mod testing;
pub mod values;

/// Requests and releases on one cluster. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Releases(Arc<Inner>);

pub(crate) struct Inner {
    clients: Clients,
    requests: WatchCache<HelmRequest>,
    releases: WatchCache<HelmRelease>,
    /// The metadata of all Helm records.
    record_labels: WatchCache<Option<RecordLabels>>,
    index: ReleaseIndex,
    charts: Arc<ChartResolver>,
    tenants: Arc<dyn TenantDirectory>,
    helm_factory: HelmFactory,
    clock: Arc<dyn Clock>,
    log_streams: StreamLimiter,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("API discovery failed")]
    Discovery(#[source] Box<kube::Error>),
    #[error("initial lists of releases timed out after {} s", .0.as_secs())]
    SyncTimeout(Duration),
}

/// Time limit for the initial sync of the caches.
const SYNC_TIMEOUT: Duration = Duration::from_mins(1);

impl Releases {
    /// Starts the watches and returns when their caches are synced. The CRDs must be installed. `holder` is the name in Leases by which
    /// other clients see the process that works on a release.
    pub async fn start(
        clients: Clients,
        charts: chart_store::ChartStore,
        people: Arc<dyn TenantDirectory>,
        clock: Arc<dyn Clock>,
        holder: &str,
    ) -> Result<Self, StartError> {
        Self::start_with_renderer(Renderer::new(), clients, charts, people, clock, holder).await
    }

    /// Like [`Self::start`], with a renderer whose pool is shared with other work.
    pub async fn start_with_renderer(
        renderer: Renderer,
        clients: Clients,
        charts: chart_store::ChartStore,
        people: Arc<dyn TenantDirectory>,
        clock: Arc<dyn Clock>,
        holder: &str,
    ) -> Result<Self, StartError> {
        let discovery = Discovery::read(&clients.platform()).await;
        let discovery = discovery.map_err(|error| StartError::Discovery(Box::new(error)))?;
        let requests = WatchCache::start(Api::all(clients.platform()), Config::default(), |_| {});
        let releases = WatchCache::start(Api::all(clients.platform()), Config::default(), |_| {});
        let marks = watch_record_labels(&clients);
        let synced = async {
            futures::join!(
                requests.wait_until_synced(),
                releases.wait_until_synced(),
                marks.wait_until_synced()
            )
        };
        let synced = tokio::time::timeout(SYNC_TIMEOUT, synced).await;
        synced.map_err(|_| StartError::SyncTimeout(SYNC_TIMEOUT))?;
        let helms = HelmFactory {
            discovery,
            renderer,
            clock: clock.clone(),
            holder: holder.into(),
            lease_observer: LeaseObserver::start(clients.platform()),
            tenants: people.clone(),
        };
        let (helm, own) = (helms.clone(), clients.clone());
        let list =
            ReleaseIndex::start(&requests, &releases, &marks, move |namespace| helm.storage(&own, namespace));
        let started = Self(Arc::new(Inner {
            index: list,
            requests,
            releases,
            record_labels: marks,
            helm_factory: helms,
            charts: Arc::new(ChartResolver::new(charts)),
            clients,
            tenants: people,
            clock,
            log_streams: StreamLimiter::default(),
        }));
        if let Err(error) = started.record_package_readers().await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot record the readers of older packages"
            );
        }
        Ok(started)
    }

    /// The renderer of all releases, for its metrics.
    pub fn renderer(&self) -> &Renderer {
        &self.0.helm_factory.renderer
    }

    /// Fetches and caches the charts of all releases.
    pub fn charts(&self) -> &ChartResolver {
        &self.0.charts
    }

    /// The time since the watches lost the API server. `None` while all of them are connected.
    pub fn stale_for(&self) -> Option<Duration> {
        let Inner { requests, releases, record_labels: marks, .. } = self.inner();
        [requests.stale_for(), releases.stale_for(), marks.stale_for()].into_iter().flatten().max()
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }
}

/// Starts a watch of the metadata of Helm's records.
fn watch_record_labels(clients: &Clients) -> WatchCache<Option<RecordLabels>> {
    let records = Config::default()
        .labels(helm_records::RECORD_SELECTOR)
        .fields(&format!("type={}", helm_records::RECORD_SECRET_TYPE));
    WatchCache::start_metadata(Api::all(clients.platform()), records, |record| {
        RecordLabels::from_metadata(&record)
    })
}

impl Inner {
    fn event_recorder(&self) -> Recorder {
        let reporter = Reporter { controller: FIELD_MANAGER.to_owned(), instance: None };
        Recorder::new(self.clients.platform(), reporter)
    }
}

/// Factory of Helm clients.
#[derive(Clone)]
pub(crate) struct HelmFactory {
    pub discovery: Discovery,
    renderer: Renderer,
    clock: Arc<dyn Clock>,
    holder: Arc<str>,
    /// Observes the operation leases of other holders. It starts before this server leads.
    lease_observer: LeaseObserver,
    tenants: Arc<dyn TenantDirectory>,
}

impl HelmFactory {
    /// A Helm client that writes objects with the identity of a release and everything else as the platform. Revisions that the ledger
    /// does not contain are executed as the namespace's deployer. `reserved` objects are written as an administrator, or skipped.
    pub fn helm_for_identity(
        &self,
        clients: &Clients,
        identity: &ReleaseIdentity,
        reserved: ReservedObjects,
        ledger: Arc<dyn Ledger>,
    ) -> Helm {
        let mut helm = Helm::new(
            clients.platform(),
            clients.impersonating(&identity.impersonation),
            self.discovery.clone(),
            self.clock.clone(),
            &self.holder,
        );
        helm.renderer = self.renderer.clone();
        helm.lease_observer = self.lease_observer.clone();
        helm.reserved = reserved;
        helm.trust = Some(Trust { ledger, untrusted_client: clients.impersonating(&identity.untrusted) });
        helm
    }

    /// The lock of a release in this namespace.
    pub fn release_lock(&self, clients: &Clients, namespace: &str) -> ReleaseLock {
        ReleaseLock::new(clients.platform(), namespace, &self.holder).with_observer(&self.lease_observer)
    }

    /// The share of the renderer's pool for work on releases of a namespace: that of its account or workspace.
    pub fn pool_share(&self, namespace: &str) -> PoolShare {
        self.renderer.share(&self.flow_for_namespace(namespace))
    }

    /// Like [`Self::pool_share`], for parsing and merging values.
    pub fn values_pool(&self, namespace: &str) -> ValuesPool {
        ValuesPool::new(&self.renderer, &self.flow_for_namespace(namespace))
    }

    /// The account or workspace whose budgets the releases of a namespace use, else the namespace.
    fn flow_for_namespace(&self, namespace: &str) -> String {
        let flow = self
            .tenants
            .workspace_of(namespace)
            .map(|workspace| flow_for_workspace(&*self.tenants, &workspace));
        flow.unwrap_or_else(|| namespace.to_owned())
    }

    /// The storage of Helm records in a namespace.
    pub fn storage(&self, clients: &Clients, namespace: &str) -> Storage {
        Storage::new(clients.platform(), namespace, self.clock.clone()).with_share(self.pool_share(namespace))
    }
}
