//! Requests and releases: what people ask for, and what follows from it by itself.
//!
//! Modules in reading order: who there is ([`people`]) and which charts ([`charts`]); the values of a release ([`values`]) and what
//! is changed in what comes of them ([`chain`]); what watches tell of Helm's records (`records`) and of objects
//! (`workloads`); what people can ask for ([`acts`]) and lists of what there is ([`list`]), where charts come from ([`repos`]);
//! the controllers (`lead`): one for requests (`requests`), one for releases (`release`), and how a status follows from what
//! was seen (`tell`), when it is told (`soon`) and heard of (`told`); and what is left behind (`sweep`).
//!
//! Always true: chart objects are written as whoever the release acts as, and Kubernetes decides whether they may; everything
//! else (requests, the releases of requests, values, records, statuses) is written by the platform itself.
//! Elsewhere: states and rules (`domain::release`), Helm's acts (`helm_release`), the resources (`kube_types`).

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

/// Requests and releases on one cluster. Clones are the same one.
#[derive(Clone)]
pub struct Releases(Arc<Parts>);

pub(crate) struct Parts {
    clients: Clients,
    requests: Feed<HelmRequest>,
    releases: Feed<HelmRelease>,
    /// All of Helm's records, without their content.
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

/// How long the cluster may take to tell all that there is.
const PATIENCE: Duration = Duration::from_mins(1);

impl Releases {
    /// Begins to watch, and returns when all that there is is known. The definitions are there. `holder` is what others are told
    /// who find one of us at work on a release.
    pub async fn start(
        clients: Clients,
        charts: chart_store::Charts,
        people: Arc<dyn People>,
        clock: Arc<dyn Clock>,
        holder: &str,
    ) -> Result<Self, StartError> {
        Self::start_with(Renderer::new(), clients, charts, people, clock, holder).await
    }

    /// The same with a renderer that shares its pool with other work.
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

    /// The renderer of all releases, for its usage.
    pub fn renderer(&self) -> &Renderer {
        &self.0.helms.renderer
    }

    /// All charts that the server can have.
    pub fn charts(&self) -> &Charts {
        &self.0.charts
    }

    /// For how long nothing has been heard of the cluster; nothing while the watches stand.
    pub fn stale_for(&self) -> Option<Duration> {
        let Parts { requests, releases, marks, .. } = self.parts();
        [requests.stale_for(), releases.stale_for(), marks.stale_for()].into_iter().flatten().max()
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.0
    }
}

/// A watch of the metadata of Helm's records.
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

/// What all who do Helm's acts here share.
#[derive(Clone)]
pub(crate) struct Helms {
    pub discovery: Discovery,
    renderer: Renderer,
    clock: Arc<dyn Clock>,
    holder: Arc<str>,
    /// Who else is at work on releases, seen before this server leads.
    sightings: Sightings,
    people: Arc<dyn People>,
}

impl Helms {
    /// Helm, writing objects as the identity of a release and all else as ourselves. Records that the ledger does not know
    /// are executed as the namespace's deployer; `reserved` objects are written as an administrator, or left alone.
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

    /// To be the only one at work on a release of a namespace.
    pub fn hold(&self, clients: &Clients, namespace: &str) -> Hold {
        Hold::new(clients.own(), namespace, &self.holder).seeing(&self.sightings)
    }

    /// The share of the renderer's pool for work on releases of a namespace: that of its account or workspace.
    pub fn share(&self, namespace: &str) -> Share {
        self.renderer.share(&self.flow(namespace))
    }

    /// The same for values.
    pub fn values_pool(&self, namespace: &str) -> ValuesPool {
        ValuesPool::new(&self.renderer, &self.flow(namespace))
    }

    /// The account or workspace whose budgets releases of a namespace use; else the namespace.
    fn flow(&self, namespace: &str) -> String {
        let flow = self.people.workspace_of(namespace).map(|workspace| flow_of(&*self.people, &workspace));
        flow.map_or_else(|| namespace.to_owned(), |flow| flow.to_string())
    }

    /// The records of a namespace.
    pub fn storage(&self, clients: &Clients, namespace: &str) -> Storage {
        Storage::new(clients.own(), namespace, self.clock.clone()).sharing(self.share(namespace))
    }
}
