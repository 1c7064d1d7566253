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
use kube_access::controller::runtime;
use kube_access::queue::{self, Next};
use kube_access::{Change, Feed};
use kube_types::FIELD_MANAGER;
use kube_types::marks::POOL;
use kube_types::node_pool::NodePoolStatus;
use serde_json::json;

use crate::Fleet;
use crate::node::{self, Node};
use crate::pool::{self, Pool};
use crate::served::Pools;
use worn::Worn;

mod plan;
mod worn;

/// Maximum number of concurrent reconciles. They mostly wait for the API server.
const AT_ONCE: usize = 16;

/// Reconcile key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Node(Arc<str>),
    Pool(Arc<str>),
}

impl fmt::Display for Key {
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
    pub async fn lead(&self) -> Infallible {
        runtime().run("node-pool-controller", "", || self.control_pools()).await
    }

    async fn control_pools(&self) {
        let mut served = self.0.pools.clone();
        loop {
            let now = served.borrow_and_update().clone();
            let work = async {
                if let Some(pools) = now.filter(|pools| self.0.settings.manage_pools.includes(pools.ours)) {
                    return Arc::new(Controller::new(self, pools)).run().await;
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

struct Controller {
    nodes: Feed<Node>,
    pools: Feed<Pool>,
    node_api: Api<node::Told>,
    pool_api: Api<pool::Told>,
}

impl Controller {
    fn new(fleet: &Fleet, Pools { feed, resource, .. }: Pools) -> Self {
        let client = fleet.0.clients.own();
        Self {
            nodes: fleet.0.feeds.nodes.feed.clone(),
            pools: feed,
            node_api: Api::all_with(client.clone(), &ApiResource::erase::<core::v1::Node>(&())),
            pool_api: Api::all_with(client, &resource),
        }
    }

    async fn run(self: Arc<Self>) {
        // With an incomplete list of pools, nodes would be removed from pools that are not cached yet.
        self.pools.synced().await;
        self.nodes.synced().await;
        let keys = stream::select(self.of_nodes(), self.of_pools());
        queue::run("node-pool", keys, AT_ONCE, move |key: &Key| self.clone().pass(key.clone())).await;
    }

    fn pass(self: Arc<Self>, key: Key) -> BoxFuture<'static, Result<Next, kube::Error>> {
        async move {
            match key {
                Key::Node(name) => self.pass_node(&name).await,
                Key::Pool(name) => self.pass_pool(&name).await,
            }
        }
        .boxed()
    }

    /// Keys for changes of nodes: the node, its previous pool and its current pool.
    fn of_nodes(&self) -> impl Stream<Item = Key> + use<> {
        let mut was_in: HashMap<Arc<str>, Arc<str>> = HashMap::new();
        self.nodes.changes().flat_map(move |change| {
            let (node, there) = match change {
                Change::Applied(node) => (node, true),
                Change::Deleted(node) => (node, false),
            };
            let pool = node.labels.get(POOL).filter(|_| there).cloned();
            let before = match &pool {
                Some(pool) => was_in.insert(node.name.clone(), pool.clone()),
                None => was_in.remove(&node.name),
            };
            let mut keys: Vec<Key> = before.into_iter().chain(pool).map(Key::Pool).collect();
            keys.dedup();
            keys.push(Key::Node(node.name.clone()));
            stream::iter(keys)
        })
    }

    /// Keys for changes of pools: the pool, and all nodes if attributes or membership may change.
    fn of_pools(&self) -> impl Stream<Item = Key> + use<> {
        let nodes = self.nodes.clone();
        let mut before: HashMap<Arc<str>, Arc<Pool>> = HashMap::new();
        self.pools.changes().flat_map(move |change| {
            let (pool, was) = match change {
                Change::Applied(pool) => (pool.clone(), before.insert(pool.name.clone(), pool)),
                Change::Deleted(pool) => {
                    before.remove(&pool.name);
                    (pool, None)
                }
            };
            let same = was.is_some_and(|was| was.wants() == pool.wants());
            let concerned = if same { Vec::new() } else { nodes.all() };
            let concerned = concerned.into_iter().map(|node| Key::Node(node.name.clone()));
            stream::iter(std::iter::once(Key::Pool(pool.name.clone())).chain(concerned).collect::<Vec<_>>())
        })
    }

    /// Applies the attributes of its pool to a node.
    async fn pass_node(&self, name: &str) -> Result<Next, kube::Error> {
        let Some(node) = self.nodes.get(name) else { return Ok(Next::Rest) };
        let pools = self.pools.all();
        if plan::plan(&Worn::kept(&node), &pools).is_none() {
            return Ok(Next::Rest);
        }
        // The cached node may be outdated, so the current one decides.
        let Some(told) = self.node_api.get_opt(name).await? else { return Ok(Next::Rest) };
        let worn = Worn::told(&told);
        let Some(wanted) = plan::plan(&worn, &pools) else { return Ok(Next::Rest) };
        let patch = worn.patch(&wanted, told.metadata.resource_version.as_deref());
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match self.node_api.patch(name, &params, &Patch::Merge(&patch)).await {
            Ok(_) => {
                tracing::info!(
                    node.name = name,
                    pool = wanted.labels.get(POOL),
                    "a node is as its pool wants it"
                );
                Ok(Next::Rest)
            }
            // A concurrent write, which will arrive through the watch.
            Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => Ok(Next::Rest),
            Err(error) => Err(error),
        }
    }

    /// Writes the members of a pool to its status.
    async fn pass_pool(&self, name: &str) -> Result<Next, kube::Error> {
        let Some(pool) = self.pools.get(name) else { return Ok(Next::Rest) };
        let members: Vec<_> = self.nodes.all().into_iter().filter(|node| node.is_in(name)).collect();
        let counted = counted(&members);
        if pool.status.as_ref() == Some(&counted) {
            return Ok(Next::Rest);
        }
        let NodePoolStatus { ready_node_num, unready_node_num, nodes } = counted;
        let patch = json!({"status": {"readyNodeNum": ready_node_num, "unreadyNodeNum": unready_node_num, "nodes": nodes}});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match self.pool_api.patch_status(name, &params, &Patch::Merge(&patch)).await {
            Ok(_) => Ok(Next::Rest),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Next::Rest),
            Err(error) => Err(error),
        }
    }
}

fn counted(members: &[Arc<Node>]) -> NodePoolStatus {
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
