//! Crash consistency: a server is killed at every write and another one continues. The final state must be consistent.

use std::time::Duration;

use chart_store::Source;
use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::ListParams;
use kube_types::{HelmRelease, HelmRequest, SYSTEM_NAMESPACE};
use testkit::{Blow, Fault, World};

use crate::acts::Asked;
use crate::acts::ask::NewRelease;
use crate::acts::change::Changes;
use crate::stage::{SHOP, developer, releases, web, world};

/// Clusters tested in parallel: most of the time is spent waiting for a Lease to expire.
const AT_ONCE: usize = 12;

/// Time limit after a kill, with this many clusters in parallel on a busy machine.
const LIMIT: Duration = Duration::from_mins(4);

/// Polls until the condition holds. The caller sets the time limit.
async fn until(is_so: impl AsyncFn() -> Option<()>) {
    while is_so().await.is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn of(world: &World) -> Api<HelmRelease> {
    Api::namespaced(world.admin(), SHOP)
}

/// Leads until `done` or until the connection is cut.
async fn lead(world: &World, fault: &Fault, done: impl Future<Output = ()>) {
    let server = async {
        let releases = releases(world, fault).await;
        releases.lead().await
    };
    tokio::select! {
        biased;
        () = fault.cut() => {}
        () = done => {}
        _ = server => {}
    }
}

async fn asked(world: &World) {
    let wanted = NewRelease { namespace: SHOP.to_owned(), name: "web".to_owned(), ..NewRelease::default() };
    let source = Source::Archive(web());
    releases(world, &Fault::none()).await.install(&developer(), &source, wanted).await.unwrap();
}

async fn active(world: &World) {
    until(async || {
        let status = of(world).get_opt("web").await.unwrap()?.status?;
        (status.state == "active").then_some(())
    })
    .await;
}

async fn gone(world: &World) {
    let requests: Api<HelmRequest> = Api::all(world.admin());
    until(async || requests.list(&ListParams::default()).await.unwrap().items.is_empty().then_some(())).await;
}

/// Statuses of the records, oldest first.
async fn statuses(world: &World) -> Vec<String> {
    let secrets: Api<Secret> = Api::namespaced(world.admin(), SHOP);
    let records = secrets.list(&ListParams::default().labels("owner=helm")).await.unwrap().items;
    let labels = records.into_iter().map(|record| record.metadata.labels.unwrap());
    let mut all: Vec<(i64, String)> =
        labels.map(|labels| (labels["version"].parse().unwrap(), labels["status"].clone())).collect();
    all.sort();
    all.into_iter().map(|(_, status)| status).collect()
}

/// Waits until a version is active.
async fn active_in(world: &World, version: i64) {
    until(async || {
        let release = of(world).get_opt("web").await.unwrap()?;
        let status = release.status?;
        (status.state == "active" && status.version == version).then_some(())
    })
    .await;
}

/// Asserts that the latest revision is the only deployed one and that its objects have these values.
async fn assert_one_truth(world: &World, greeting: &str, version: i64, point: &str) {
    let statuses = statuses(world).await;
    let (newest, before) = statuses.split_last().unwrap();
    let over = |status: &String| matches!(status.as_str(), "superseded" | "failed");
    assert!(newest == "deployed" && before.iter().all(over), "{point}: {statuses:?}");
    let map = Api::<ConfigMap>::namespaced(world.admin(), SHOP).get("web").await.unwrap();
    assert_eq!(map.data.unwrap()["greeting"], greeting, "{point}");
    let status = of(world).get("web").await.unwrap().status.unwrap();
    assert!(status.operation.is_none(), "{point}");
    assert_eq!(status.version, version, "{point}");
    let revision = i64::try_from(statuses.len()).unwrap();
    assert_eq!(status.helm.unwrap().revision, revision, "{point}: {statuses:?}");
}

async fn upgraded(world: &World, greeting: &str) {
    let values = Some(format!("greeting: {greeting}\n"));
    let changes = Changes { values, ..Changes::default() };
    let platform = releases(world, &Fault::none()).await;
    platform.upgrade(&developer(), SHOP, "web", changes, Asked::default()).await.unwrap();
}

async fn leases(world: &World) -> usize {
    Api::<Lease>::namespaced(world.admin(), SHOP).list(&ListParams::default()).await.unwrap().items.len()
}

/// Kills a server before and after each write, each in its own cluster, and lets another server finish.
async fn kill_at_each<D: Future<Output = ()>>(
    writes: usize,
    prepare: impl AsyncFn() -> World,
    done: impl Fn(std::sync::Arc<World>) -> D,
    check: impl AsyncFn(&World, String),
) {
    let points = (0..writes).flat_map(|passing| [(passing, Blow::Before), (passing, Blow::After)]);
    let runs = points.map(|(passing, blow)| {
        let (prepare, done, check) = (&prepare, &done, &check);
        async move {
            let point = format!("killed at write {} ({blow:?})", passing + 1);
            let world = std::sync::Arc::new(prepare().await);
            let fault = Fault::after_writes(passing, blow);
            let killed = tokio::time::timeout(LIMIT, lead(&world, &fault, done(world.clone()))).await;
            killed.unwrap_or_else(|_| panic!("{point}: hangs before it"));
            let sound = Fault::none();
            let whole = lead(&world, &sound, done(world.clone()));
            tokio::time::timeout(LIMIT, whole).await.unwrap_or_else(|_| panic!("{point}: hangs after it"));
            check(&world, point).await;
        }
    });
    stream::iter(runs.collect::<Vec<_>>()).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

/// Counts the writes of an undisturbed run.
async fn count(world: &World, done: impl Future<Output = ()>) -> usize {
    let fault = Fault::none();
    lead(world, &fault, done).await;
    fault.writes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_dies_over_an_installation_leaves_nothing_undone() {
    let prepare = async || {
        let world = world().await;
        asked(&world).await;
        world
    };
    let first = prepare().await;
    let writes = count(&first, active(&first)).await;
    // Writes: the release, two of its status, the Lease and its deletion, two of the record, two objects, those of the request, and
    // events. The number of status writes in between depends on how fast the objects become ready.
    assert!((9..=20).contains(&writes), "{writes} writes");
    kill_at_each(
        writes,
        prepare,
        async |world| active(&world).await,
        async |world, point| {
            let statuses = statuses(world).await;
            // Nothing is done twice either: a deployment that was not yet in the status is only recorded there.
            assert_eq!(statuses, ["deployed"], "{point}");
            let status = of(world).get("web").await.unwrap().status.unwrap();
            assert!(status.operation.is_none(), "{point}");
            assert_eq!(status.version, 1, "{point}");
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_dies_over_a_removal_leaves_nothing_behind() {
    let prepare = async || {
        let world = world().await;
        asked(&world).await;
        lead(&world, &Fault::none(), active(&world)).await;
        let requests: Api<HelmRequest> = Api::all(world.admin());
        let name =
            requests.list(&ListParams::default()).await.unwrap().items[0].metadata.name.clone().unwrap();
        requests.delete(&name, &kube::api::DeleteParams::default()).await.unwrap();
        world
    };
    let first = prepare().await;
    let writes = count(&first, gone(&first)).await;
    kill_at_each(
        writes,
        prepare,
        async |world| gone(&world).await,
        async |world, point| {
            assert!(statuses(world).await.is_empty(), "{point}");
            assert!(of(world).get_opt("web").await.unwrap().is_none(), "{point}");
            let deployments: Api<Deployment> = Api::namespaced(world.admin(), SHOP);
            assert!(deployments.get_opt("web").await.unwrap().is_none(), "{point}");
            let kept: Api<Secret> = Api::namespaced(world.admin(), SYSTEM_NAMESPACE);
            let of_requests = ListParams::default().labels("longshore.dev/request");
            assert!(kept.list(&of_requests).await.unwrap().items.is_empty(), "{point}");
            assert_eq!(leases(world).await, 0, "{point}");
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_dies_over_an_upgrade_leaves_one_truth() {
    let prepare = async || {
        let world = world().await;
        asked(&world).await;
        lead(&world, &Fault::none(), active_in(&world, 1)).await;
        upgraded(&world, "hi").await;
        world
    };
    let first = prepare().await;
    let writes = count(&first, active_in(&first, 2)).await;
    assert!((9..=20).contains(&writes), "{writes} writes");
    kill_at_each(
        writes,
        prepare,
        async |world| active_in(&world, 2).await,
        async |world, point| assert_one_truth(world, "hi", 2, &point).await,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_dies_over_a_rollback_leaves_one_truth() {
    let prepare = async || {
        let world = world().await;
        asked(&world).await;
        lead(&world, &Fault::none(), active_in(&world, 1)).await;
        upgraded(&world, "hi").await;
        lead(&world, &Fault::none(), active_in(&world, 2)).await;
        let platform = releases(&world, &Fault::none()).await;
        platform.rollback(&developer(), SHOP, "web", 1, Asked::default()).await.unwrap();
        world
    };
    let first = prepare().await;
    let writes = count(&first, active_in(&first, 3)).await;
    assert!((9..=20).contains(&writes), "{writes} writes");
    kill_at_each(
        writes,
        prepare,
        async |world| active_in(&world, 3).await,
        async |world, point| assert_one_truth(world, "hello", 3, &point).await,
    )
    .await;
}
