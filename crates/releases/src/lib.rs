//! Helm requests and Helm releases: service functions for HTTP and CLI, caches, and the controllers.
//!
//! Modules:
//!
//! * [`people`]: accounts and workspaces, as a trait.
//! * [`charts`], [`repos`]: resolving charts; chart repositories.
//! * [`values`]: merging the values of a release.
//! * [`chain`]: post-rendering, i.e. changes to rendered manifests.
//! * `records`: cache of Helm's release records.
//! * `workloads`: readiness of objects, from watches.
//! * [`acts`]: service functions, one per use case.
//! * [`list`]: the index of releases for lists.
//! * `lead`: the controllers, `requests` for requests and `release` for releases.
//! * `tell`, `soon`, `told`: status updates, their debounce, and writes that the watch has not delivered yet.
//! * `sweep`: garbage collection.
//!
//! Invariants: chart objects are written with the identity of the release, and Kubernetes authorises it. Requests, the `HelmRelease`
//! objects of requests, values, records and statuses are written by the platform's own identity.
//!
//! See also: states and rules (`domain::release`), Helm actions (`helm_release`), resources (`kube_types`).

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::Arc;
use std::time::Duration;

use domain::clock::Clock;
pub use helm_release::render::Renderer;
use helm_release::render::share::Share;
use helm_release::{Helm, Hold, Ledger, Storage, Trust};
use kube::Api;
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::watcher::Config;
use kube_access::{Clients, Feed, Sightings};
use kube_apply::{Discovery, Reserved};
use kube_types::{FIELD_MANAGER, HelmRelease, HelmRequest};
pub use lead::operation_bytes;

use acts::listen::Listening;
use charts::Charts;
use list::List;
use people::{People, flow_of};
use records::Mark;
use release::identity::Identity;
use values::work::ValuesPool;

pub mod acts;
mod announce;
pub mod chain;
pub mod charts;
pub mod duration;
mod error;
mod helm_options;
pub mod key;
mod known;
mod lead;
pub mod list;
pub mod people;
mod records;
mod release;
pub mod repos;
mod requests;
mod soon;
#[cfg(test)]
mod stage;
mod sweep;
mod tell;
mod told;
pub mod values;
mod workloads;

/// Requests and releases on one cluster. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Releases(Arc<Parts>);

pub(crate) struct Parts {
    clients: Clients,
    requests: Feed<HelmRequest>,
    releases: Feed<HelmRelease>,
    /// The metadata of all Helm records.
    marks: Feed<Option<Mark>>,
    list: List,
    charts: Arc<Charts>,
    people: Arc<dyn People>,
    helms: Helms,
    clock: Arc<dyn Clock>,
    listening: Listening,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the cluster does not say what it serves")]
    Discovery(#[source] Box<kube::Error>),
    #[error("the cluster did not tell which releases there are within {} s", .0.as_secs())]
    Silent(Duration),
}

/// Time limit for the initial sync of the caches.
const PATIENCE: Duration = Duration::from_mins(1);

impl Releases {
    /// Starts the watches and returns when their caches are synced. The CRDs must be installed. `holder` is the name in Leases by which
    /// other clients see the process that works on a release.
    pub async fn start(
        clients: Clients,
        charts: chart_store::Charts,
        people: Arc<dyn People>,
        clock: Arc<dyn Clock>,
        holder: &str,
    ) -> Result<Self, StartError> {
        Self::start_with(Renderer::new(), clients, charts, people, clock, holder).await
    }

    /// Like [`Self::start`], with a renderer whose pool is shared with other work.
    pub async fn start_with(
        renderer: Renderer,
        clients: Clients,
        charts: chart_store::Charts,
        people: Arc<dyn People>,
        clock: Arc<dyn Clock>,
        holder: &str,
    ) -> Result<Self, StartError> {
        let discovery = Discovery::read(&clients.own()).await;
        let discovery = discovery.map_err(|error| StartError::Discovery(Box::new(error)))?;
        let requests = Feed::start(Api::all(clients.own()), Config::default(), |_| {});
        let releases = Feed::start(Api::all(clients.own()), Config::default(), |_| {});
        let marks = marks(&clients);
        let synced = async { futures::join!(requests.synced(), releases.synced(), marks.synced()) };
        let synced = tokio::time::timeout(PATIENCE, synced).await;
        synced.map_err(|_| StartError::Silent(PATIENCE))?;
        let helms = Helms {
            discovery,
            renderer,
            clock: clock.clone(),
            holder: holder.into(),
            sightings: Sightings::start(clients.own()),
            people: people.clone(),
        };
        let (helm, own) = (helms.clone(), clients.clone());
        let list = List::start(&requests, &releases, &marks, move |namespace| helm.storage(&own, namespace));
        let started = Self(Arc::new(Parts {
            list,
            requests,
            releases,
            marks,
            helms,
            charts: Arc::new(Charts::new(charts)),
            clients,
            people,
            clock,
            listening: Listening::default(),
        }));
        if let Err(error) = started.adopt_packages().await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot record the readers of older packages"
            );
        }
        Ok(started)
    }

    /// The renderer of all releases, for its metrics.
    pub fn renderer(&self) -> &Renderer {
        &self.0.helms.renderer
    }

    /// Fetches and caches the charts of all releases.
    pub fn charts(&self) -> &Charts {
        &self.0.charts
    }

    /// The time since the watches lost the API server. `None` while all of them are connected.
    pub fn stale_for(&self) -> Option<Duration> {
        let Parts { requests, releases, marks, .. } = self.parts();
        [requests.stale_for(), releases.stale_for(), marks.stale_for()].into_iter().flatten().max()
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.0
    }
}

/// Starts a watch of the metadata of Helm's records.
fn marks(clients: &Clients) -> Feed<Option<Mark>> {
    let records = Config::default().labels(records::OWNED).fields(&format!("type={}", records::TYPE));
    Feed::of_metadata(Api::all(clients.own()), records, |record| Mark::of(&record))
}

impl Parts {
    fn recorder(&self) -> Recorder {
        let reporter = Reporter { controller: FIELD_MANAGER.to_owned(), instance: None };
        Recorder::new(self.clients.own(), reporter)
    }
}

/// Factory of Helm clients.
#[derive(Clone)]
pub(crate) struct Helms {
    pub discovery: Discovery,
    renderer: Renderer,
    clock: Arc<dyn Clock>,
    holder: Arc<str>,
    /// Observes the operation leases of other holders. It starts before this server leads.
    sightings: Sightings,
    people: Arc<dyn People>,
}

impl Helms {
    /// A Helm client that writes objects with the identity of a release and everything else as the platform. Revisions that the ledger
    /// does not contain are executed as the namespace's deployer. `reserved` objects are written as an administrator, or skipped.
    pub fn acting_for(
        &self,
        clients: &Clients,
        identity: &Identity,
        reserved: Reserved,
        ledger: Arc<dyn Ledger>,
    ) -> Helm {
        let mut helm = Helm::new(
            clients.own(),
            clients.acting_as(&identity.acts_as),
            self.discovery.clone(),
            self.clock.clone(),
            &self.holder,
        );
        helm.renderer = self.renderer.clone();
        helm.sightings = self.sightings.clone();
        helm.reserved = reserved;
        helm.trust = Some(Trust { ledger, foreign: clients.acting_as(&identity.foreign) });
        helm
    }

    /// The lock of a release in this namespace.
    pub fn hold(&self, clients: &Clients, namespace: &str) -> Hold {
        Hold::new(clients.own(), namespace, &self.holder).seeing(&self.sightings)
    }

    /// The share of the renderer's pool for work on releases of a namespace: that of its account or workspace.
    pub fn share(&self, namespace: &str) -> Share {
        self.renderer.share(&self.flow(namespace))
    }

    /// Like [`Self::share`], for parsing and merging values.
    pub fn values_pool(&self, namespace: &str) -> ValuesPool {
        ValuesPool::new(&self.renderer, &self.flow(namespace))
    }

    /// The account or workspace whose budgets the releases of a namespace use, else the namespace.
    fn flow(&self, namespace: &str) -> String {
        let flow = self.people.workspace_of(namespace).map(|workspace| flow_of(&*self.people, &workspace));
        flow.unwrap_or_else(|| namespace.to_owned())
    }

    /// The storage of Helm records in a namespace.
    pub fn storage(&self, clients: &Clients, namespace: &str) -> Storage {
        Storage::new(clients.own(), namespace, self.clock.clone()).sharing(self.share(namespace))
    }
}
