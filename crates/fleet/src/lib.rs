//! Nodes, pools and what runs on them, as the console of the edge shows them.
//!
//! Modules in reading order: what is answered ([`rows`]) and to whom ([`look`], [`page`]); what is kept of each object and which row it becomes
//! (`node`, `pod`, `workload`, `job`, `pool`, and what they share: `named`, `seen`, `words`, `amounts`); all that is kept, with its
//! sums (`state`), and what feeds it (`feeds`, `served`, `metrics`); what is read as it is asked for ([`events`]); what people can ask for
//! ([`acts`]), what a pool may say (`attributes`), and what follows from it by itself (`control`).
//!
//! Always true: a look makes no call and shows nothing of others.
//! Elsewhere: whose a node is (`tenancy`), sums of resources (`domain::resources`), the routes (`api`).

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

/// Where we look after pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManagePools {
    /// Where the definition of their kind is ours.
    #[default]
    Own,
    /// Also where somebody else brought it in, and does not look after them.
    Always,
    /// Nowhere: somebody else does, whoever brought it in.
    Never,
}

impl ManagePools {
    pub const ALL: [Self; 3] = [Self::Own, Self::Always, Self::Never];

    /// As configuration has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Always => "always",
            Self::Never => "never",
        }
    }

    /// Whether pools are looked after whose definition is ours, or is not.
    pub(crate) fn includes(self, ours: bool) -> bool {
        match self {
            Self::Own => ours,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// What an administrator decides once for all.
#[derive(Clone, Debug)]
pub struct Settings {
    pub manage_pools: ManagePools,
    /// After so long without a word of it, nothing is known of a kind.
    pub stale_after: Duration,
    /// How often is asked what is used of the nodes.
    pub metrics_every: Duration,
    /// How long the cluster may take at the start to tell all that there is.
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

/// What a caller may see. Whoever asks for a look has decided it by who the caller is.
#[derive(Clone, Copy, Debug)]
pub struct Whose<'a> {
    /// Nodes and pools of the tenant with this id; none: all of them.
    pub tenant: Option<&'a str>,
    pub namespaces: Namespaces<'a>,
}

/// Whose pods and workloads.
#[derive(Clone, Copy, Debug)]
pub enum Namespaces<'a> {
    All,
    Of(&'a [String]),
}

/// All nodes, pools and workloads of one cluster. Clones are the same one.
#[derive(Clone)]
pub struct Fleet(Arc<Inner>);

pub(crate) struct Inner {
    clients: Clients,
    settings: Settings,
    state: Shared,
    feeds: Feeds,
    /// Nothing where the cluster has no pools.
    pools: watch::Receiver<Option<Pools>>,
    /// What feeds the state; ends with it.
    _tasks: Vec<TaskHandle>,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the cluster did not tell of a single kind what there is, within {} s", .0.as_secs())]
    Silent(Duration),
}

impl Fleet {
    /// Begins to watch, and returns when all that there is is known. A kind of which the cluster does not tell keeps nobody from
    /// the others: an overview says so.
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
            // Its sender lives as long as the fleet.
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

    /// Why nothing is known of a kind now, if that is so.
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
