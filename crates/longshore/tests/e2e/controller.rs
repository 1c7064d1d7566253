//! A typical kube-rs controller. It must behave the same on the embedded cluster and on a real one, with the
//! in-process client and with the client over TLS.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{Controller, controller, watcher};
use kube::{Api, Client, ResourceExt};
use kube_embedded::access::User;
use kube_embedded::cluster::Cluster;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::target;

const OBJECTS: usize = 1_000;
const CRD: &str = "ships.e2e.longshore.dev";
const FINALIZER: &str = "e2e.longshore.dev/berth";
/// Sized for a debug build on two busy cores.
const WAIT_TIMEOUT: Duration = Duration::from_mins(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controller_reconciles_over_tls() {
    let cluster = target::Cluster::start();
    cluster.remove_at_end(format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}"));
    reconcile_thousand_objects(cluster.client().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controller_reconciles_in_process() {
    if !target::only_on_embedded() {
        return;
    }
    let cluster = Cluster::in_memory().await;
    reconcile_thousand_objects(cluster.client(User::admin())).await;
    cluster.stop();
}

/// The controller creates a berth (an owned ConfigMap) for each ship and reports it in the status. A finalizer clears
/// the berth before the ship is deleted.
async fn reconcile_thousand_objects(client: Client) {
    install_crd(&client).await;
    let ships = ships(&client);
    let create = |number: usize| {
        let ships = ships.clone();
        async move { ships.create(&PostParams::default(), &ship(number)).await.map(drop) }
    };
    futures::stream::iter((0..OBJECTS).map(create)).buffer_unordered(16).try_collect::<()>().await.unwrap();

    let cleared = Arc::default();
    let (stop, stopped) = oneshot::channel::<()>();
    let context = Arc::new(Context { client: client.clone(), cleared: Arc::clone(&cleared) });
    let running = tokio::spawn(
        Controller::new_with(ships.clone(), watcher::Config::default(), api_resource())
            .owns(Api::<ConfigMap>::default_namespaced(client.clone()), watcher::Config::default())
            .with_config(controller::Config::default().concurrency(16))
            .graceful_shutdown_on(async move { stopped.await.unwrap_or_default() })
            .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(500)), context)
            .for_each(|_| async {}),
    );

    let berths: Api<ConfigMap> = Api::default_namespaced(client.clone());
    wait_until("every ship has its berth", || async {
        let all = ships.list(&ListParams::default()).await.unwrap().items;
        all.len() == OBJECTS && all.iter().all(|ship| ship.data["status"]["berth"] == json!(ship.name_any()))
    })
    .await;
    let berth = berths.get("ship-7").await.unwrap();
    assert_eq!(berth.data.unwrap()["load"], "7");
    assert_eq!(berth.metadata.owner_references.unwrap()[0].name, "ship-7");

    // Changes and deletions by other clients are reverted.
    berths.delete("ship-8", &DeleteParams::default()).await.unwrap();
    let heavier = Patch::Merge(json!({"spec": {"load": 700}}));
    ships.patch("ship-7", &PatchParams::default(), &heavier).await.unwrap();
    wait_until("berths follow the ships", || async {
        let load = berths.get_opt("ship-7").await.unwrap().and_then(|berth| berth.data?.get("load").cloned());
        load.as_deref() == Some("700") && berths.get_opt("ship-8").await.unwrap().is_some()
    })
    .await;

    ships.delete_collection(&DeleteParams::background(), &ListParams::default()).await.unwrap();
    wait_until("no ship and no berth is left", || async {
        let labelled = ListParams::default().labels("berth=true");
        ships.list(&ListParams::default()).await.unwrap().items.is_empty()
            && berths.list(&labelled).await.unwrap().items.is_empty()
    })
    .await;
    assert_eq!(cleared.lock().unwrap().len(), OBJECTS);
    stop.send(()).unwrap();
    timeout(Duration::from_secs(20), running).await.unwrap().unwrap();
}

struct Context {
    client: Client,
    /// Ships whose berth was cleared. By name, because clearing is retried if its last write conflicts.
    cleared: Arc<Mutex<BTreeSet<String>>>,
}

async fn reconcile(
    ship: Arc<DynamicObject>,
    context: Arc<Context>,
) -> Result<Action, finalizer::Error<kube::Error>> {
    let ships = ships(&context.client);
    finalizer(&ships, FINALIZER, ship, |event| async {
        match event {
            Event::Apply(ship) => ensure_berth(&ship, &context.client).await?,
            Event::Cleanup(ship) => {
                context.cleared.lock().unwrap().insert(ship.name_any());
            }
        }
        Ok(Action::await_change())
    })
    .await
}

async fn ensure_berth(ship: &DynamicObject, client: &Client) -> kube::Result<()> {
    let name = ship.name_any();
    let owner = json!({
        "apiVersion": "e2e.longshore.dev/v1", "kind": "Ship", "name": name, "uid": ship.metadata.uid,
        "controller": true, "blockOwnerDeletion": true,
    });
    let berth = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"berth": "true"}, "ownerReferences": [owner]},
        "data": {"load": ship.data["spec"]["load"].to_string()},
    });
    let as_us = PatchParams::apply("e2e.longshore.dev").force();
    Api::<ConfigMap>::default_namespaced(client.clone()).patch(&name, &as_us, &Patch::Apply(berth)).await?;
    let status = json!({"apiVersion": "e2e.longshore.dev/v1", "kind": "Ship", "status": {"berth": name}});
    ships(client).patch_status(&name, &as_us, &Patch::Apply(status)).await?;
    Ok(())
}

/// Installs the CRD and waits until it is established.
async fn install_crd(client: &Client) {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["load"], "properties": {"load": {"type": "integer", "minimum": 0}}},
        "status": {"type": "object", "properties": {"berth": {"type": "string"}}},
    }});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
    });
    let names = json!({"kind": "Ship", "plural": "ships", "singular": "ship"});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": CRD},
        "spec": {"group": "e2e.longshore.dev", "names": names, "scope": "Namespaced", "versions": [version]},
    });
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let as_us = PatchParams::apply("e2e.longshore.dev");
    crds.patch(CRD, &as_us, &Patch::Apply(crd)).await.unwrap();
    let established = await_condition(crds, CRD, conditions::is_crd_established());
    timeout(WAIT_TIMEOUT, established).await.unwrap().unwrap();
}

fn ship(number: usize) -> DynamicObject {
    DynamicObject::new(&format!("ship-{number}"), &api_resource()).data(json!({"spec": {"load": number}}))
}

fn ships(client: &Client) -> Api<DynamicObject> {
    Api::default_namespaced_with(client.clone(), &api_resource())
}

fn api_resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("e2e.longshore.dev", "v1", "Ship"), "ships")
}

async fn wait_until<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let waiting = async {
        while !condition().await {
            sleep(Duration::from_millis(250)).await;
        }
    };
    assert!(timeout(WAIT_TIMEOUT, waiting).await.is_ok(), "not within {WAIT_TIMEOUT:?}: {what}");
}
