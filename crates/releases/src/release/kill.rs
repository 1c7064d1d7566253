//! Crash consistency: a server is killed at every write and another one continues. The final state must be consistent.

use std::time::Duration;

use chart_store::ChartSource;
use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::ListParams;
use kube_types::{HelmRelease, HelmRequest, SYSTEM_NAMESPACE};
use testkit::{FailurePoint, FaultInjector, TestCluster};

use crate::service::RequestPreconditions;
use crate::service::install::InstallRequest;
use crate::service::update::ReleaseUpdate;
use crate::testing::{SHOP, developer, provisioned_cluster, start_releases, web_chart};

/// Clusters tested in parallel: most of the time is spent waiting for a Lease to expire.
const MAX_CONCURRENT_CLUSTERS: usize = 12;

/// Time limit after a kill, with this many clusters in parallel on a busy machine.
const RECOVERY_TIMEOUT: Duration = Duration::from_mins(4);

/// Polls until the condition holds. The caller sets the time limit.
async fn poll_until(is_so: impl AsyncFn() -> Option<()>) {
    while is_so().await.is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn release_api(world: &TestCluster) -> Api<HelmRelease> {
    Api::namespaced(world.admin_client(), SHOP)
}

/// Leads until `done` or until the connection is cut.
async fn run_leader(world: &TestCluster, fault: &FaultInjector, done: impl Future<Output = ()>) {
    let server = async {
        let releases = start_releases(world, fault).await;
        releases.run_as_leader().await
    };
    tokio::select! {
        biased;
        () = fault.wait_until_disconnected() => {}
        () = done => {}
        _ = server => {}
    }
}

async fn install_web(world: &TestCluster) {
    let wanted =
        InstallRequest { namespace: SHOP.to_owned(), name: "web".to_owned(), ..InstallRequest::default() };
    let source = ChartSource::Archive(web_chart());
    start_releases(world, &FaultInjector::healthy())
        .await
        .install(&developer(), &source, wanted)
        .await
        .unwrap();
}

async fn wait_until_active(world: &TestCluster) {
    poll_until(async || {
        let status = release_api(world).get_opt("web").await.unwrap()?.status?;
        (status.state == "active").then_some(())
    })
    .await;
}

async fn wait_until_deleted(world: &TestCluster) {
    let requests: Api<HelmRequest> = Api::all(world.admin_client());
    poll_until(async || requests.list(&ListParams::default()).await.unwrap().items.is_empty().then_some(()))
        .await;
}

/// Statuses of the records, oldest first.
async fn record_statuses(world: &TestCluster) -> Vec<String> {
    let secrets: Api<Secret> = Api::namespaced(world.admin_client(), SHOP);
    let records = secrets.list(&ListParams::default().labels("owner=helm")).await.unwrap().items;
    let labels = records.into_iter().map(|record| record.metadata.labels.unwrap());
    let mut all: Vec<(i64, String)> =
        labels.map(|labels| (labels["version"].parse().unwrap(), labels["status"].clone())).collect();
    all.sort();
    all.into_iter().map(|(_, status)| status).collect()
}

/// Waits until a version is active.
async fn wait_until_version_active(world: &TestCluster, version: i64) {
    poll_until(async || {
        let release = release_api(world).get_opt("web").await.unwrap()?;
        let status = release.status?;
        (status.state == "active" && status.version == version).then_some(())
    })
    .await;
}

/// Asserts that the latest revision is the only deployed one and that its objects have these values.
async fn assert_consistent(world: &TestCluster, greeting: &str, version: i64, point: &str) {
    let statuses = record_statuses(world).await;
    let (newest, before) = statuses.split_last().unwrap();
    let over = |status: &String| matches!(status.as_str(), "superseded" | "failed");
    assert!(newest == "deployed" && before.iter().all(over), "{point}: {statuses:?}");
    let map = Api::<ConfigMap>::namespaced(world.admin_client(), SHOP).get("web").await.unwrap();
    assert_eq!(map.data.unwrap()["greeting"], greeting, "{point}");
    let status = release_api(world).get("web").await.unwrap().status.unwrap();
    assert!(status.operation.is_none(), "{point}");
    assert_eq!(status.version, version, "{point}");
    let revision = i64::try_from(statuses.len()).unwrap();
    assert_eq!(status.helm.unwrap().revision, revision, "{point}: {statuses:?}");
}

async fn upgrade_web(world: &TestCluster, greeting: &str) {
    let values = Some(format!("greeting: {greeting}\n"));
    let changes = ReleaseUpdate { values, ..ReleaseUpdate::default() };
    let platform = start_releases(world, &FaultInjector::healthy()).await;
    platform.upgrade(&developer(), SHOP, "web", changes, RequestPreconditions::default()).await.unwrap();
}

async fn count_leases(world: &TestCluster) -> usize {
    Api::<Lease>::namespaced(world.admin_client(), SHOP)
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .len()
}

/// Kills a server before and after each write, each in its own cluster, and lets another server finish.
async fn kill_at_each_write<D: Future<Output = ()>>(
    writes: usize,
    prepare: impl AsyncFn() -> TestCluster,
    done: impl Fn(std::sync::Arc<TestCluster>) -> D,
    check: impl AsyncFn(&TestCluster, String),
) {
    let points = (0..writes).flat_map(|passing| {
        [(passing, FailurePoint::BeforeHandling), (passing, FailurePoint::AfterHandling)]
    });
    let runs = points.map(|(passing, blow)| {
        let (prepare, done, check) = (&prepare, &done, &check);
        async move {
            let point = format!("killed at write {} ({blow:?})", passing + 1);
            let world = std::sync::Arc::new(prepare().await);
            let fault = FaultInjector::cut_after_writes(passing, blow);
            let killed =
                tokio::time::timeout(RECOVERY_TIMEOUT, run_leader(&world, &fault, done(world.clone()))).await;
            killed.unwrap_or_else(|_| panic!("{point}: hangs before it"));
            let sound = FaultInjector::healthy();
            let whole = run_leader(&world, &sound, done(world.clone()));
            tokio::time::timeout(RECOVERY_TIMEOUT, whole)
                .await
                .unwrap_or_else(|_| panic!("{point}: hangs after it"));
            check(&world, point).await;
        }
    });
    stream::iter(runs.collect::<Vec<_>>())
        .buffer_unordered(MAX_CONCURRENT_CLUSTERS)
        .collect::<Vec<()>>()
        .await;
}

/// Counts the writes of an undisturbed run.
async fn count_writes(world: &TestCluster, done: impl Future<Output = ()>) -> usize {
    let fault = FaultInjector::healthy();
    run_leader(world, &fault, done).await;
    fault.writes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_during_install_is_recovered() {
    let prepare = async || {
        let world = provisioned_cluster().await;
        install_web(&world).await;
        world
    };
    let first = prepare().await;
    let writes = count_writes(&first, wait_until_active(&first)).await;
    // Writes: the release, two of its status, the Lease and its deletion, two of the record, two objects, the writes of the
    // request, and events. The number of status writes in between depends on how fast the objects become ready.
    assert!((9..=20).contains(&writes), "{writes} writes");
    kill_at_each_write(
        writes,
        prepare,
        async |world| wait_until_active(&world).await,
        async |world, point| {
            let statuses = record_statuses(world).await;
            // Nothing is done twice either: a deployment that was not yet in the status is only recorded there.
            assert_eq!(statuses, ["deployed"], "{point}");
            let status = release_api(world).get("web").await.unwrap().status.unwrap();
            assert!(status.operation.is_none(), "{point}");
            assert_eq!(status.version, 1, "{point}");
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_during_uninstall_leaves_nothing_behind() {
    let prepare = async || {
        let world = provisioned_cluster().await;
        install_web(&world).await;
        run_leader(&world, &FaultInjector::healthy(), wait_until_active(&world)).await;
        let requests: Api<HelmRequest> = Api::all(world.admin_client());
        let name =
            requests.list(&ListParams::default()).await.unwrap().items[0].metadata.name.clone().unwrap();
        requests.delete(&name, &kube::api::DeleteParams::default()).await.unwrap();
        world
    };
    let first = prepare().await;
    let writes = count_writes(&first, wait_until_deleted(&first)).await;
    kill_at_each_write(
        writes,
        prepare,
        async |world| wait_until_deleted(&world).await,
        async |world, point| {
            assert!(record_statuses(world).await.is_empty(), "{point}");
            assert!(release_api(world).get_opt("web").await.unwrap().is_none(), "{point}");
            let deployments: Api<Deployment> = Api::namespaced(world.admin_client(), SHOP);
            assert!(deployments.get_opt("web").await.unwrap().is_none(), "{point}");
            let kept: Api<Secret> = Api::namespaced(world.admin_client(), SYSTEM_NAMESPACE);
            let of_requests = ListParams::default().labels("longshore.dev/request");
            assert!(kept.list(&of_requests).await.unwrap().items.is_empty(), "{point}");
            assert_eq!(count_leases(world).await, 0, "{point}");
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_during_upgrade_ends_consistent() {
    let prepare = async || {
        let world = provisioned_cluster().await;
        install_web(&world).await;
        run_leader(&world, &FaultInjector::healthy(), wait_until_version_active(&world, 1)).await;
        upgrade_web(&world, "hi").await;
        world
    };
    let first = prepare().await;
    let writes = count_writes(&first, wait_until_version_active(&first, 2)).await;
    assert!((9..=20).contains(&writes), "{writes} writes");
    kill_at_each_write(
        writes,
        prepare,
        async |world| wait_until_version_active(&world, 2).await,
        async |world, point| assert_consistent(world, "hi", 2, &point).await,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_during_rollback_ends_consistent() {
    let prepare = async || {
        let world = provisioned_cluster().await;
        install_web(&world).await;
        run_leader(&world, &FaultInjector::healthy(), wait_until_version_active(&world, 1)).await;
        upgrade_web(&world, "hi").await;
        run_leader(&world, &FaultInjector::healthy(), wait_until_version_active(&world, 2)).await;
        let platform = start_releases(&world, &FaultInjector::healthy()).await;
        platform.rollback(&developer(), SHOP, "web", 1, RequestPreconditions::default()).await.unwrap();
        world
    };
    let first = prepare().await;
    let writes = count_writes(&first, wait_until_version_active(&first, 3)).await;
    assert!((9..=20).contains(&writes), "{writes} writes");
    kill_at_each_write(
        writes,
        prepare,
        async |world| wait_until_version_active(&world, 3).await,
        async |world, point| assert_consistent(world, "hello", 3, &point).await,
    )
    .await;
}
