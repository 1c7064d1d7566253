//! Nodes, node pools and workloads for the console of edge clusters.
//!
//! Modules:
//! - [`rows`]: response types
//! - [`look`], [`page`]: views restricted by visibility, pagination
//! - `node`, `pod`, `workload`, `job`, `pool`: cached objects and their rows
//! - `named`, `seen`, `words`, `amounts`: shared parts of these
//! - `state`: the cache with derived sums
//! - `feeds`, `served`, `metrics`: watches and polling that fill the cache
//! - [`events`]: events, read on request
//! - [`acts`]: writes on behalf of users
//! - `attributes`: attributes that a pool may set
//! - `control`: pool controller
//!
//! Invariant: a view makes no API call and shows nothing outside the caller's visibility.
//!
//! See also: `tenancy` assigns nodes to tenants, `domain::resources` sums resources, `api` defines the routes.

use std::sync::Arc;
use std::time::Duration;

use domain::clock::Clock;
use futures::future::join_all;
use kube_access::Clients;
use kube_access::controller::{TaskHandle, runtime};
use tokio::sync::watch;
use tokio::time::timeout;

use feeds::{Feeds, Shared};
use served::Pools;

pub mod acts;
mod amounts;
mod attributes;
mod control;
mod error;
pub mod events;
mod feeds;
mod job;
pub mod look;
mod metrics;
mod named;
mod node;
pub mod page;
mod pod;
mod pool;
pub mod rows;
mod seen;
mod served;
#[cfg(test)]
mod stage;
mod state;
mod words;
mod workload;

pub use error::Error;
pub use feeds::Kind;
pub use look::Look;
pub use page::Page;

/// Which pools the platform manages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManagePools {
    /// Pools whose CRD the platform installed.
    #[default]
    Own,
    /// Also pools whose CRD another project installed without managing them.
    Always,
    /// None: another project manages them, whoever installed the CRD.
    Never,
}

impl ManagePools {
    pub const ALL: [Self; 3] = [Self::Own, Self::Always, Self::Never];

    /// Name in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Always => "always",
            Self::Never => "never",
        }
    }

    /// Whether pools are managed, by whether the CRD was installed by the platform.
    pub(crate) fn includes(self, ours: bool) -> bool {
        match self {
            Self::Own => ours,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// Settings of the fleet.
#[derive(Clone, Debug)]
pub struct Settings {
    pub manage_pools: ManagePools,
    /// A kind whose watch has been down for this long counts as unavailable.
    pub stale_after: Duration,
    /// Poll interval of node metrics.
    pub metrics_every: Duration,
    /// Timeout of the initial lists.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            manage_pools: ManagePools::default(),
            stale_after: Duration::from_mins(1),
            metrics_every: Duration::from_secs(30),
            patience: Duration::from_mins(1),
        }
    }
}

/// The caller's visibility, determined by the caller of [`Fleet::look`].
#[derive(Clone, Copy, Debug)]
pub struct Whose<'a> {
    /// Nodes and pools of this tenant; `None` means all.
    pub tenant: Option<&'a str>,
    pub namespaces: Namespaces<'a>,
}

/// Namespaces of visible pods and workloads.
#[derive(Clone, Copy, Debug)]
pub enum Namespaces<'a> {
    All,
    Of(&'a [String]),
}

/// Nodes, pools and workloads of a cluster. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Fleet(Arc<Inner>);

pub(crate) struct Inner {
    clients: Clients,
    settings: Settings,
    state: Shared,
    feeds: Feeds,
    /// `None` while the cluster has no pools.
    pools: watch::Receiver<Option<Pools>>,
    /// Tasks that fill the cache; stopped with it.
    _tasks: Vec<TaskHandle>,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the cluster did not tell of a single kind what there is, within {} s", .0.as_secs())]
    Silent(Duration),
}

impl Fleet {
    /// Starts the watches and returns when all initial lists are complete. A kind that cannot be listed does not block
    /// the others; the overview reports it.
    pub async fn start(
        clients: Clients,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Result<Self, StartError> {
        let (state, mut tasks) = (Shared::default(), Vec::new());
        let feeds = Feeds::start(&clients.own(), &state, &mut tasks);
        let (tell, pools) = watch::channel(None);
        let (settle, mut settled) = watch::channel(false);
        let (tell, settle, own, shared) = (Arc::new(tell), Arc::new(settle), clients.own(), state.clone());
        tasks.push(runtime().spawn("fleet-state", "nodepools", move || {
            served::watch_pools(own.clone(), shared.clone(), tell.clone(), settle.clone())
        }));
        let (own, shared, every) = (clients.own(), state.clone(), settings.metrics_every);
        tasks.push(runtime().spawn("fleet-metrics", "", move || {
            metrics::follow(own.clone(), shared.clone(), clock.clone(), every)
        }));
        let all = async {
            join_all(Kind::ALL.iter().map(|kind| feeds.known(*kind))).await;
            // The sender lives as long as the fleet.
            let _ = settled.wait_for(|settled| *settled).await;
        };
        if timeout(settings.patience, all).await.is_err() {
            let unknown = || Kind::ALL.iter().filter(|kind| !feeds.is_known(**kind));
            if unknown().count() == Kind::ALL.len() {
                return Err(StartError::Silent(settings.patience));
            }
            let kinds: Vec<_> = unknown().map(|kind| kind.name()).collect();
            tracing::warn!(?kinds, "the cluster does not tell what there is of these; going on without them");
        }
        Ok(Self(Arc::new(Inner { clients, settings, state, feeds, pools, _tasks: tasks })))
    }

    pub fn look<'a>(&'a self, whose: Whose<'a>) -> Look<'a> {
        Look { fleet: self, whose }
    }

    /// Why a kind is unavailable, if it is.
    pub fn ill(&self, kind: Kind) -> Option<String> {
        let name = kind.name();
        if !self.0.feeds.is_known(kind) {
            return Some(format!("the cluster has not told yet which {name} there are"));
        }
        let stale = self.0.feeds.stale_for(kind)?;
        (stale > self.0.settings.stale_after)
            .then(|| format!("the cluster has told nothing of {name} for {} s", stale.as_secs()))
    }
}
