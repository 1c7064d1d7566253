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
use kube_access::feed::Changes;
use kube_access::{Change, Feed};
use kube_types::NodePool;
use kube_types::marks::CRD_REVISION;
use tokio::sync::{Mutex, watch};

use crate::feeds::{Shared, follow};
use crate::pool::{Pool, Told};
use crate::state::State;

/// Supported versions in order of preference. The first is that of the console's API document.
const VERSIONS: &[&str] = &["v1alpha1", "v1beta1", "v1beta2"];

/// Cache of the cluster's pools.
#[derive(Clone)]
pub(crate) struct Pools {
    pub feed: Feed<Pool>,
    pub resource: ApiResource,
    /// Whether the CRD was installed by the platform.
    pub ours: bool,
}

/// Cached part of the CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Definition {
    version: String,
    ours: bool,
}

/// Returns the CRD's usable version, if it is established, cluster-scoped and serves a supported one.
fn serving(definition: &CustomResourceDefinition) -> Option<Definition> {
    let served = |version: &&&str| {
        definition.spec.versions.iter().any(|found| found.name == **version && found.served)
    };
    let established = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let established = established.into_iter().any(|it| it.type_ == "Established" && it.status == "True");
    if !established || definition.spec.scope != "Cluster" || definition.metadata.deletion_timestamp.is_some()
    {
        return None;
    }
    let version = VERSIONS.iter().find(served)?;
    Some(Definition {
        version: (*version).to_owned(),
        ours: definition.annotations().contains_key(CRD_REVISION),
    })
}

pub(crate) fn resource(version: &str) -> ApiResource {
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
    state: Shared,
    tell: Arc<watch::Sender<Option<Pools>>>,
    settled: Arc<watch::Sender<bool>>,
) {
    let name = format!("{}.{}", NodePool::plural(&()), NodePool::group(&()));
    let config = Config::default().fields(&format!("metadata.name={name}"));
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let definitions = Feed::keeping(api, config, |definition| serving(&definition));
    let mut changes = definitions.changes();
    definitions.synced().await;
    loop {
        let now = serving_now(&definitions);
        tokio::select! {
            never = serve(&client, &state, &tell, &settled, now.as_ref()) => match never {},
            () = another(&definitions, &mut changes, now.as_ref()) => {}
        }
    }
}

fn serving_now(definitions: &Feed<Option<Definition>>) -> Option<Definition> {
    definitions.all().into_iter().find_map(|found| Option::clone(&found))
}

/// Resolves when the CRD differs from `before`.
async fn another(
    definitions: &Feed<Option<Definition>>,
    changes: &mut Changes<Option<Definition>>,
    before: Option<&Definition>,
) {
    while changes.next().await.is_some() {
        if serving_now(definitions).as_ref() != before {
            return;
        }
    }
}

/// Watches the pools of one CRD version, or reports that there are none.
async fn serve(
    client: &kube::Client,
    state: &Shared,
    tell: &watch::Sender<Option<Pools>>,
    settled: &watch::Sender<bool>,
    definition: Option<&Definition>,
) -> Infallible {
    state.write().pools = None;
    let Some(Definition { version, ours }) = definition else {
        tracing::info!("the cluster has no pools of nodes");
        tell.send_replace(None);
        settled.send_replace(true);
        return pending().await;
    };
    tracing::info!(version, ours, "the cluster has pools of nodes");
    let resource = resource(version);
    let api = Api::<Told>::all_with(client.clone(), &resource);
    let feed = Feed::keeping(api, Config::default(), Pool::of);
    tell.send_replace(Some(Pools { feed: feed.clone(), resource, ours: *ours }));
    let (entered, mut known) = watch::channel(false);
    let changes = Arc::new(Mutex::new(feed.changes()));
    let settle = async {
        if known.wait_for(|known| *known).await.is_ok() {
            // A cluster with the CRD but without pools still supports pools.
            state.write().pools.get_or_insert_default();
            settled.send_replace(true);
        }
    };
    tokio::join!(follow(feed, changes, state.clone(), enter, Arc::new(entered)), settle);
    pending().await
}

fn enter(state: &mut State, change: Change<Pool>) {
    let pools = state.pools.get_or_insert_default();
    match change {
        Change::Applied(pool) => drop(pools.insert(Arc::clone(&pool.name), pool)),
        Change::Deleted(pool) => drop(pools.remove(&pool.name)),
    }
}

#[cfg(test)]
mod tests;
