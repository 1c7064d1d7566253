//! The fleet of a cluster: its settings, the cache with its watches, and their start.

use std::sync::Arc;
use std::time::Duration;

use domain::clock::Clock;
use futures::future::join_all;
use kube_access::Clients;
use kube_access::controller::{TaskHandle, runtime};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::node_pool_crd::NodePoolWatch;
use crate::watches::{SharedCache, WatchedKind, Watches};
use crate::{metrics, node_pool_crd};

/// Which pools the platform manages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManagePools {
    /// Pools whose CRD the platform installed.
    #[default]
    Own,
    /// Also pools whose CRD another project installed without managing them.
    Always,
    /// None: another project manages them, even if the platform installed the CRD.
    Never,
}

impl ManagePools {
    pub const ALL: [Self; 3] = [Self::Own, Self::Always, Self::Never];

    /// Name in the configuration.
    pub fn as_str(self) -> &'static str {
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
    pub metrics_interval: Duration,
    /// Timeout of the initial lists.
    pub sync_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            manage_pools: ManagePools::default(),
            stale_after: Duration::from_mins(1),
            metrics_interval: Duration::from_secs(30),
            sync_timeout: Duration::from_mins(1),
        }
    }
}

/// Nodes, pools and workloads of a cluster. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Fleet(pub(crate) Arc<FleetInner>);

pub(crate) struct FleetInner {
    pub clients: Clients,
    pub settings: Settings,
    pub cache: SharedCache,
    pub watches: Watches,
    /// `None` while the cluster has no pools.
    pub pools: watch::Receiver<Option<NodePoolWatch>>,
    /// Tasks that fill the cache; stopped with it.
    _tasks: Vec<TaskHandle>,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("initial lists of all resource kinds timed out after {} s", .0.as_secs())]
    Timeout(Duration),
}

impl Fleet {
    /// Starts the watches and returns when all initial lists are complete. A kind that cannot be listed does not block
    /// the others; the overview reports it.
    pub async fn start(
        clients: Clients,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Result<Self, StartError> {
        let (state, mut tasks) = (SharedCache::default(), Vec::new());
        let feeds = Watches::start(&clients.platform(), &state, &mut tasks);
        let (tell, pools) = watch::channel(None);
        let (settle, mut settled) = watch::channel(false);
        let (tell, settle, own, shared) =
            (Arc::new(tell), Arc::new(settle), clients.platform(), state.clone());
        tasks.push(runtime().spawn("fleet-state", "nodepools", move || {
            node_pool_crd::watch_pools(own.clone(), shared.clone(), tell.clone(), settle.clone())
        }));
        let (own, shared, every) = (clients.platform(), state.clone(), settings.metrics_interval);
        tasks.push(runtime().spawn("fleet-metrics", "", move || {
            metrics::poll(own.clone(), shared.clone(), clock.clone(), every)
        }));
        let all = async {
            join_all(WatchedKind::ALL.iter().map(|kind| feeds.wait_until_synced(*kind))).await;
            // The sender lives as long as the fleet.
            let _ = settled.wait_for(|settled| *settled).await;
        };
        if timeout(settings.sync_timeout, all).await.is_err() {
            let unknown = || WatchedKind::ALL.iter().filter(|kind| !feeds.is_synced(**kind));
            if unknown().count() == WatchedKind::ALL.len() {
                return Err(StartError::Timeout(settings.sync_timeout));
            }
            let unsynced: Vec<_> = unknown().map(|kind| kind.name()).collect();
            tracing::warn!(
                ?unsynced,
                pools_synced = *settled.borrow(),
                "initial lists timed out; continuing without these kinds"
            );
        }
        Ok(Self(Arc::new(FleetInner {
            clients,
            settings,
            cache: state,
            watches: feeds,
            pools,
            _tasks: tasks,
        })))
    }

    /// Why a kind is unavailable, if it is.
    pub fn unavailable_reason(&self, kind: WatchedKind) -> Option<String> {
        let name = kind.name();
        if !self.0.watches.is_synced(kind) {
            return Some(format!("{name} have not been listed yet"));
        }
        let stale = self.0.watches.stale_for(kind)?;
        (stale > self.0.settings.stale_after)
            .then(|| format!("no data about {name} from the cluster for {} s", stale.as_secs()))
    }
}
