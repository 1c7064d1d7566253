//! Watch of the `NodePool` CRD: whether the cluster has it, in which version, and whether the platform manages its
//! objects.
//!
//! The kind is OpenYurt's. Where it is missing, the platform installs its own CRD with an annotation. If OpenYurt or
//! another project installed the CRD, that project's controllers also manage its pools. The CRD can be installed and
//! deleted at any time, so it is watched.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ApiResource;
use kube::runtime::watcher::Config;
use kube::{Api, Resource, ResourceExt};
use kube_access::cache::CacheEvents;
use kube_access::{CacheEvent, WatchCache};
use kube_types::NodePool;
use kube_types::well_known::CRD_REVISION;
use tokio::sync::{Mutex, watch};

use crate::cache::FleetCache;
use crate::pool::{Pool, PoolObject};
use crate::watches::{SharedCache, apply_events};

/// Supported versions in order of preference. The first is from the console's API document.
const SUPPORTED_VERSIONS: &[&str] = &["v1alpha1", "v1beta1", "v1beta2"];

/// Cache of the cluster's pools.
#[derive(Clone)]
pub(crate) struct NodePoolWatch {
    pub cache: WatchCache<Pool>,
    pub resource: ApiResource,
    /// Whether the CRD was installed by the platform.
    pub is_own_crd: bool,
}

/// Cached part of the CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ServedCrd {
    version: String,
    is_own: bool,
}

/// Returns the CRD's usable version, if it is established, cluster-scoped and serves a supported one.
fn served_crd(definition: &CustomResourceDefinition) -> Option<ServedCrd> {
    let served = |version: &&&str| {
        definition.spec.versions.iter().any(|found| found.name == **version && found.served)
    };
    let established = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let established = established.into_iter().any(|it| it.type_ == "Established" && it.status == "True");
    if !established || definition.spec.scope != "Cluster" || definition.metadata.deletion_timestamp.is_some()
    {
        return None;
    }
    let version = SUPPORTED_VERSIONS.iter().find(served)?;
    Some(ServedCrd {
        version: (*version).to_owned(),
        is_own: definition.annotations().contains_key(CRD_REVISION),
    })
}

pub(crate) fn api_resource(version: &str) -> ApiResource {
    let group = NodePool::group(&());
    ApiResource {
        api_version: format!("{group}/{version}"),
        group: group.into_owned(),
        version: version.to_owned(),
        kind: NodePool::kind(&()).into_owned(),
        plural: NodePool::plural(&()).into_owned(),
    }
}

/// Watches the CRD, and the pools while it exists. Sets `settled` once the cluster's support for pools is known.
pub(crate) async fn watch_pools(
    client: kube::Client,
    state: SharedCache,
    tell: Arc<watch::Sender<Option<NodePoolWatch>>>,
    settled: Arc<watch::Sender<bool>>,
) {
    let name = format!("{}.{}", NodePool::plural(&()), NodePool::group(&()));
    let config = Config::default().fields(&format!("metadata.name={name}"));
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let definitions = WatchCache::start_projected(api, config, |definition| served_crd(&definition));
    let mut changes = definitions.subscribe();
    definitions.wait_until_synced().await;
    loop {
        let now = current_crd(&definitions);
        tokio::select! {
            never = run_watch(&client, &state, &tell, &settled, now.as_ref()) => match never {},
            () = wait_for_change(&definitions, &mut changes, now.as_ref()) => {}
        }
    }
}

fn current_crd(definitions: &WatchCache<Option<ServedCrd>>) -> Option<ServedCrd> {
    definitions.list().into_iter().find_map(|found| Option::clone(&found))
}

/// Resolves when the CRD differs from `before`.
async fn wait_for_change(
    definitions: &WatchCache<Option<ServedCrd>>,
    changes: &mut CacheEvents<Option<ServedCrd>>,
    before: Option<&ServedCrd>,
) {
    while changes.next().await.is_some() {
        if current_crd(definitions).as_ref() != before {
            return;
        }
    }
}

/// Watches the pools of one CRD version, or reports that there are none.
async fn run_watch(
    client: &kube::Client,
    state: &SharedCache,
    tell: &watch::Sender<Option<NodePoolWatch>>,
    settled: &watch::Sender<bool>,
    definition: Option<&ServedCrd>,
) -> Infallible {
    state.write().pools = None;
    let Some(ServedCrd { version, is_own: ours }) = definition else {
        tracing::info!("the cluster does not serve NodePools");
        tell.send_replace(None);
        settled.send_replace(true);
        return pending().await;
    };
    tracing::info!(version, ours, "the cluster serves NodePools");
    let resource = api_resource(version);
    let api = Api::<PoolObject>::all_with(client.clone(), &resource);
    let feed = WatchCache::start_projected(api, Config::default(), Pool::from_object);
    tell.send_replace(Some(NodePoolWatch { cache: feed.clone(), resource, is_own_crd: *ours }));
    let (entered, mut known) = watch::channel(false);
    let changes = Arc::new(Mutex::new(feed.subscribe()));
    let settle = async {
        if known.wait_for(|known| *known).await.is_ok() {
            // A cluster with the CRD but without pools still supports pools.
            state.write().pools.get_or_insert_default();
            settled.send_replace(true);
        }
    };
    tokio::join!(apply_events(feed, changes, state.clone(), apply_event, Arc::new(entered)), settle);
    pending().await
}

fn apply_event(state: &mut FleetCache, change: CacheEvent<Pool>) {
    let pools = state.pools.get_or_insert_default();
    match change {
        CacheEvent::Applied(pool) => drop(pools.insert(Arc::clone(&pool.name), pool)),
        CacheEvent::Deleted(pool) => drop(pools.remove(&pool.name)),
    }
}

#[cfg(test)]
mod tests;
