//! Pool controller: membership of nodes, attributes of members, and status of pools.
//!
//! Reconciles from watches through the pure `plan`. Nodes are written with a precondition on their resourceVersion,
//! statuses when they differ. All state is on the objects, so the controller can be stopped at any point.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, Stream, StreamExt};
use k8s_openapi::api::core;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::ApiResource;
use kube::runtime::events::{Recorder, Reporter};
use kube_access::controller::{panic_event, runtime};
use kube_access::queue::{self, Action};
use kube_access::{CacheEvent, WatchCache};
use kube_types::FIELD_MANAGER;
use kube_types::node_pool::NodePoolStatus;
use kube_types::well_known::POOL;
use serde_json::json;

use crate::Fleet;
use crate::node::{self, Node};
use crate::node_pool_crd::NodePoolWatch;
use crate::pool::{self, Pool};
use node_attributes::NodeAttributes;

mod node_attributes;
mod plan;

/// Maximum number of concurrent reconciles. They mostly wait for the API server.
const MAX_CONCURRENT: usize = 16;

/// Reconcile key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReconcileKey {
    Node(Arc<str>),
    Pool(Arc<str>),
}

impl fmt::Display for ReconcileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "node {name}"),
            Self::Pool(name) => write!(f, "node pool {name}"),
        }
    }
}

impl Fleet {
    /// Runs the pool controller if pools are managed by the platform. Stopped by dropping the future. Must run only on
    /// the leader.
    pub async fn run_pool_controller(&self) -> Infallible {
        runtime().run("node-pool-controller", "", || self.run_while_pools_served()).await
    }

    async fn run_while_pools_served(&self) {
        let mut served = self.0.pools.clone();
        loop {
            let now = served.borrow_and_update().clone();
            let work = async {
                if let Some(pools) =
                    now.filter(|pools| self.0.settings.manage_pools.includes(pools.is_own_crd))
                {
                    return Arc::new(PoolController::new(self, pools)).run().await;
                }
                pending::<()>().await;
            };
            tokio::select! {
                // The watches have ended: start again.
                () = work => return,
                changed = served.changed() => if changed.is_err() {
                    return pending().await;
                },
            }
        }
    }
}

struct PoolController {
    nodes: WatchCache<Node>,
    pools: WatchCache<Pool>,
    node_api: Api<node::NodeObject>,
    pool_api: Api<pool::PoolObject>,
    /// The served version of `NodePool`.
    pool_resource: ApiResource,
    client: kube::Client,
    events: Recorder,
}

impl PoolController {
    fn new(fleet: &Fleet, NodePoolWatch { cache: feed, resource, .. }: NodePoolWatch) -> Self {
        let client = fleet.0.clients.platform();
        let reporter = Reporter { controller: FIELD_MANAGER.to_owned(), instance: None };
        Self {
            nodes: fleet.0.watches.nodes.cache.clone(),
            pools: feed,
            node_api: Api::all_with(client.clone(), &ApiResource::erase::<core::v1::Node>(&())),
            pool_api: Api::all_with(client.clone(), &resource),
            pool_resource: resource,
            events: Recorder::new(client.clone(), reporter),
            client,
        }
    }

    async fn run(self: Arc<Self>) {
        // With an incomplete list of pools, nodes would be removed from pools that are not cached yet.
        self.pools.wait_until_synced().await;
        self.nodes.wait_until_synced().await;
        let keys = stream::select(self.node_keys(), self.pool_keys());
        let reports = self.clone();
        queue::run(
            "node-pool",
            keys,
            MAX_CONCURRENT,
            move |key: &ReconcileKey| self.clone().reconcile(key.clone()),
            move |key: &ReconcileKey| reports.clone().report_panic(key.clone()),
        )
        .await;
    }

    /// Publishes the event of a reconcile that panicked.
    fn report_panic(self: Arc<Self>, key: ReconcileKey) -> BoxFuture<'static, ()> {
        async move {
            let (resource, name) = match key {
                ReconcileKey::Node(name) => (ApiResource::erase::<core::v1::Node>(&()), name),
                ReconcileKey::Pool(name) => (self.pool_resource.clone(), name),
            };
            panic_event::publish_by_name(self.client.clone(), &self.events, &resource, &name).await;
        }
        .boxed()
    }

    fn reconcile(self: Arc<Self>, key: ReconcileKey) -> BoxFuture<'static, Result<Action, kube::Error>> {
        async move {
            match key {
                ReconcileKey::Node(name) => self.reconcile_node(&name).await,
                ReconcileKey::Pool(name) => self.reconcile_pool(&name).await,
            }
        }
        .boxed()
    }

    /// Keys for changes of nodes: the node, its previous pool and its current pool.
    fn node_keys(&self) -> impl Stream<Item = ReconcileKey> + use<> {
        let mut was_in: HashMap<Arc<str>, Arc<str>> = HashMap::new();
        self.nodes.subscribe().flat_map(move |change| {
            let (node, there) = match change {
                CacheEvent::Applied(node) => (node, true),
                CacheEvent::Deleted(node) => (node, false),
            };
            let pool = node.labels.get(POOL).filter(|_| there).cloned();
            let before = match &pool {
                Some(pool) => was_in.insert(node.name.clone(), pool.clone()),
                None => was_in.remove(&node.name),
            };
            let mut keys: Vec<ReconcileKey> =
                before.into_iter().chain(pool).map(ReconcileKey::Pool).collect();
            keys.dedup();
            keys.push(ReconcileKey::Node(node.name.clone()));
            stream::iter(keys)
        })
    }

    /// Keys for changes of pools: the pool, and all nodes if attributes or membership may change.
    fn pool_keys(&self) -> impl Stream<Item = ReconcileKey> + use<> {
        let nodes = self.nodes.clone();
        let mut before: HashMap<Arc<str>, Arc<Pool>> = HashMap::new();
        self.pools.subscribe().flat_map(move |change| {
            let (pool, was) = match change {
                CacheEvent::Applied(pool) => (pool.clone(), before.insert(pool.name.clone(), pool)),
                CacheEvent::Deleted(pool) => {
                    before.remove(&pool.name);
                    (pool, None)
                }
            };
            let same = was.is_some_and(|was| was.node_relevant_fields() == pool.node_relevant_fields());
            let concerned = if same { Vec::new() } else { nodes.list() };
            let concerned = concerned.into_iter().map(|node| ReconcileKey::Node(node.name.clone()));
            stream::iter(
                std::iter::once(ReconcileKey::Pool(pool.name.clone())).chain(concerned).collect::<Vec<_>>(),
            )
        })
    }

    /// Applies the attributes of its pool to a node.
    async fn reconcile_node(&self, name: &str) -> Result<Action, kube::Error> {
        let Some(node) = self.nodes.get(name) else { return Ok(Action::AwaitChange) };
        let pools = self.pools.list();
        if plan::plan(&NodeAttributes::from_cached(&node), &pools).is_none() {
            return Ok(Action::AwaitChange);
        }
        // The cached node may be outdated, so the current one decides.
        let Some(told) = self.node_api.get_opt(name).await? else { return Ok(Action::AwaitChange) };
        let worn = NodeAttributes::from_object(&told);
        let Some(wanted) = plan::plan(&worn, &pools) else { return Ok(Action::AwaitChange) };
        let patch = worn.patch(&wanted, told.metadata.resource_version.as_deref());
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match self.node_api.patch(name, &params, &Patch::Merge(&patch)).await {
            Ok(_) => {
                tracing::info!(node.name = name, pool = wanted.labels.get(POOL), "node matches its pool");
                Ok(Action::AwaitChange)
            }
            // A concurrent write, which will arrive through the watch.
            Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => {
                Ok(Action::AwaitChange)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the members of a pool to its status.
    async fn reconcile_pool(&self, name: &str) -> Result<Action, kube::Error> {
        let Some(pool) = self.pools.get(name) else { return Ok(Action::AwaitChange) };
        let members: Vec<_> = self.nodes.list().into_iter().filter(|node| node.is_member_of(name)).collect();
        let counted = desired_status(&members);
        if pool.status.as_ref() == Some(&counted) {
            return Ok(Action::AwaitChange);
        }
        let NodePoolStatus { ready_node_num, unready_node_num, nodes } = counted;
        let patch = json!({"status": {"readyNodeNum": ready_node_num, "unreadyNodeNum": unready_node_num, "nodes": nodes}});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match self.pool_api.patch_status(name, &params, &Patch::Merge(&patch)).await {
            Ok(_) => Ok(Action::AwaitChange),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Action::AwaitChange),
            Err(error) => Err(error),
        }
    }
}

fn desired_status(members: &[Arc<Node>]) -> NodePoolStatus {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let ready = members.iter().filter(|node| node.is_ready()).count();
    NodePoolStatus {
        ready_node_num: number(ready),
        unready_node_num: number(members.len() - ready),
        nodes: members.iter().map(|node| node.name.as_ref().to_owned()).collect(),
    }
}

#[cfg(test)]
mod tests;
