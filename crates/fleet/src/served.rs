//! Whether the cluster has pools, in which version, and whether they are ours to look after.
//!
//! The kind is OpenYurt's. Where there is none we brought in our own, which bears our mark; where OpenYurt, or somebody else, brought
//! theirs, they look after their pools as well. It can come and go while we run, so that its definition is watched.

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

/// The versions that we read, in the order in which we ask for them: the one of the console's document first.
const VERSIONS: &[&str] = &["v1alpha1", "v1beta1", "v1beta2"];

/// The pools of a cluster that has them.
#[derive(Clone)]
pub(crate) struct Pools {
    pub feed: Feed<Pool>,
    pub resource: ApiResource,
    /// The definition is the one that we brought in.
    pub ours: bool,
}

/// What is kept of the definition.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Definition {
    version: String,
    ours: bool,
}

/// The definition, if it can serve us.
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

/// Follows the definition, and the pools while there is one. `settled` is told when it is known how it stands.
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

/// Resolves when the definition is not what it was.
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

/// Follows the pools of one definition, or says that there are none.
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
            // A cluster without a single pool has pools all the same.
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
