//! Packages are stored once and completely, and collected without references.

use std::collections::HashSet;
use std::sync::Arc;

use chart_store::packages::PackageLimits;
use chart_store::packages::{PackageReferences, WorkspaceIdentities};
use chart_store::{ChartError, Digest, LoadedChart, PackageStore, Subject};
use domain::ErrorKind;
use domain::clock::SystemClock;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use kube_types::package::{HelmPackage, PackageOrigin, phase};
use kube_types::{SYSTEM_NAMESPACE, well_known};
use serde_json::json;
use testkit::{ManualClock, TestCluster, every_kill_point, wait_for};

use crate::fixtures::{chart_archive, large_chart_archive, load_chart};

const CHUNK_LEN: usize = 768 << 10;

fn package_store(client: Client) -> PackageStore {
    PackageStore::new(client, Arc::new(SystemClock))
}

fn config_maps(world: &TestCluster) -> Api<ConfigMap> {
    Api::namespaced(world.admin_client(), SYSTEM_NAMESPACE)
}

async fn package_chunks(world: &TestCluster, name: &str) -> Vec<ConfigMap> {
    let labelled = ListParams::default().labels(&format!("{}={name}", well_known::PACKAGE));
    config_maps(world).list(&labelled).await.unwrap().items
}

async fn large_chart() -> LoadedChart {
    load_chart(large_chart_archive("web", "1.0.0", 2 * CHUNK_LEN + 1000)).await
}

#[tokio::test]
async fn stored_package_reads_back_unchanged() {
    let world = TestCluster::new().await;
    let packages = package_store(world.platform_client());
    for chart in [load_chart(chart_archive("small", "1.0.0")).await, large_chart().await] {
        let name = packages.store(&chart, PackageOrigin::Upload, &Subject::Platform).await.unwrap();
        assert_eq!(name, chart.digest.package_name());
        assert_eq!(packages.get(&name, &Subject::Platform).await.unwrap(), chart.bytes);
        let package = Api::<HelmPackage>::all(world.admin_client()).get(&name).await.unwrap();
        let spec = package.spec;
        assert_eq!((spec.digest, &*spec.chart.name), (chart.digest.to_string(), chart.name()));
        assert_eq!(package.status.unwrap().phase, phase::READY);
        let pieces = package_chunks(&world, &name).await;
        assert_eq!(pieces.len(), chart.bytes.len().div_ceil(CHUNK_LEN));
        for piece in pieces {
            assert_eq!(piece.immutable, Some(true));
            let size: usize = piece.binary_data.unwrap().values().map(|data| data.0.len()).sum();
            assert!(size <= CHUNK_LEN, "{size}");
        }
    }
}

#[tokio::test]
async fn storing_again_writes_nothing() {
    let (world, fault) = (TestCluster::new().await, testkit::FaultInjector::healthy());
    let chart = large_chart().await;
    package_store(world.platform_client())
        .store(&chart, PackageOrigin::Upload, &Subject::Platform)
        .await
        .unwrap();
    let again = package_store(fault.wrap(world.platform_client()));
    again.store(&chart, PackageOrigin::RepoCache, &Subject::Platform).await.unwrap();
    assert_eq!((fault.calls(), fault.writes()), (1, 0));
    again.store(&chart, PackageOrigin::RepoCache, &Subject::Platform).await.unwrap();
    again.extend_grace(&chart.digest.package_name(), &Subject::Platform).await.unwrap();
    assert_eq!(fault.calls(), 1, "what was kept a moment ago is not asked about");
}

#[tokio::test]
async fn interrupted_store_is_completed_by_a_retry() {
    let chart = large_chart().await;
    let act = async |world: &TestCluster, fault: &testkit::FaultInjector| {
        package_store(fault.wrap(world.platform_client()))
            .store(&chart, PackageOrigin::Upload, &Subject::Platform)
            .await
            .map(drop)
    };
    let check = async |world: &TestCluster| {
        let packages = package_store(world.platform_client());
        assert_eq!(
            packages.get(&chart.digest.package_name(), &Subject::Platform).await.unwrap(),
            chart.bytes
        );
        let all = Api::<HelmPackage>::all(world.admin_client()).list(&ListParams::default()).await.unwrap();
        assert_eq!(all.items.len(), 1);
        assert_eq!(all.items[0].status.as_ref().unwrap().phase, phase::READY);
        assert_eq!(package_chunks(world, &chart.digest.package_name()).await.len(), 3);
    };
    assert_eq!(every_kill_point(TestCluster::new, act, check).await, 5);
}

#[tokio::test]
async fn partially_written_package_is_not_readable() {
    let world = TestCluster::new().await;
    let chart = large_chart().await;
    let fault = testkit::FaultInjector::cut_after_writes(2, testkit::FailurePoint::BeforeHandling);
    assert!(
        package_store(fault.wrap(world.platform_client()))
            .store(&chart, PackageOrigin::Upload, &Subject::Platform)
            .await
            .is_err()
    );
    let said = package_store(world.platform_client())
        .get(&chart.digest.package_name(), &Subject::Platform)
        .await
        .unwrap_err();
    assert!(matches!(said, ChartError::Incomplete(_)), "{said}");
    let said = package_store(world.platform_client()).get("pkg-none", &Subject::Platform).await.unwrap_err();
    assert_eq!((said.kind(), &*said.to_string()), (ErrorKind::NotFound, "package `pkg-none` not found"));
}

#[tokio::test]
async fn missing_chunk_is_detected_and_restored() {
    let world = TestCluster::new().await;
    let chart = large_chart().await;
    let packages = package_store(world.platform_client());
    let name = packages.store(&chart, PackageOrigin::Upload, &Subject::Platform).await.unwrap();
    config_maps(&world).delete(&format!("{name}.1"), &DeleteParams::default()).await.unwrap();
    assert!(matches!(packages.get(&name, &Subject::Platform).await, Err(ChartError::Incomplete(_))));
    packages.store(&chart, PackageOrigin::Upload, &Subject::Platform).await.unwrap();
    assert_eq!(packages.get(&name, &Subject::Platform).await.unwrap(), chart.bytes);

    // Also replaced chunks.
    let mut piece = config_maps(&world).get(&format!("{name}.1")).await.unwrap();
    config_maps(&world).delete(&piece.name_any(), &DeleteParams::default()).await.unwrap();
    piece.metadata.resource_version = None;
    piece.metadata.uid = None;
    let other = k8s_openapi::ByteString(vec![7; CHUNK_LEN]);
    piece.binary_data.as_mut().unwrap().insert("chunk".to_owned(), other);
    config_maps(&world).create(&PostParams::default(), &piece).await.unwrap();
    assert!(matches!(packages.get(&name, &Subject::Platform).await, Err(ChartError::Corrupt(_))));
    packages.store(&chart, PackageOrigin::Upload, &Subject::Platform).await.unwrap();
    assert_eq!(packages.get(&name, &Subject::Platform).await.unwrap(), chart.bytes);
}

/// A chunk of a removed package is deleted with that package, so it must not be reused.
#[tokio::test]
async fn foreign_chunk_is_replaced() {
    let world = TestCluster::new().await;
    let chart = load_chart(chart_archive("web", "1.0.0")).await;
    let data = k8s_openapi::ByteString(chart.bytes.to_vec());
    let mut stray =
        ConfigMap { binary_data: Some([("chunk".to_owned(), data)].into()), ..ConfigMap::default() };
    stray.metadata.name = Some(format!("{}.0", chart.digest.package_name()));
    config_maps(&world).create(&PostParams::default(), &stray).await.unwrap();
    let name = package_store(world.platform_client())
        .store(&chart, PackageOrigin::Upload, &Subject::Platform)
        .await
        .unwrap();
    let package = Api::<HelmPackage>::all(world.admin_client()).get(&name).await.unwrap();
    let piece = package_chunks(&world, &name).await.remove(0);
    assert_eq!(Some(&piece.owner_references()[0].uid), package.metadata.uid.as_ref());
}

#[tokio::test]
async fn package_spec_is_immutable() {
    let world = TestCluster::new().await;
    let name = package_store(world.platform_client())
        .store(&load_chart(chart_archive("web", "1.0.0")).await, PackageOrigin::Upload, &Subject::Platform)
        .await
        .unwrap();
    let all = Api::<HelmPackage>::all(world.admin_client());
    let patch = Patch::Merge(json!({"spec": {"digest": Digest::sha256(b"other").to_string()}}));
    let said = all.patch(&name, &PatchParams::default(), &patch).await.unwrap_err().to_string();
    assert!(said.contains("a package is immutable"), "{said}");
}

/// The name has a hundred bits of the digest: a collision of names must not give access.
#[tokio::test]
async fn package_name_with_other_digest_is_a_conflict() {
    let world = TestCluster::new().await;
    let chart = load_chart(chart_archive("web", "1.0.0")).await;
    let mut package: HelmPackage = serde_json::from_value(json!({
        "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmPackage", "metadata": {"name": chart.digest.package_name()},
        "spec": {"digest": Digest::sha256(b"other").to_string(), "size": 1, "chunks": 1, "chart": {"name": "x", "version": "1"}, "origin": "upload"},
    })).unwrap();
    package.status = None;
    Api::<HelmPackage>::all(world.admin_client()).create(&PostParams::default(), &package).await.unwrap();
    let said = package_store(world.platform_client())
        .store(&chart, PackageOrigin::Upload, &Subject::Platform)
        .await
        .unwrap_err();
    assert_eq!(said.kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn package_size_and_store_capacity_are_limited() {
    let world = TestCluster::new().await;
    let limits = PackageLimits { package: 2200, capacity: 50_000, ..PackageLimits::default() };
    let packages = PackageStore::with_limits(world.platform_client(), Arc::new(SystemClock), limits);
    let said = packages
        .store(
            &load_chart(large_chart_archive("web", "1.0.0", 3000)).await,
            PackageOrigin::Upload,
            &Subject::Platform,
        )
        .await
        .unwrap_err();
    assert_eq!(said.kind(), ErrorKind::TooLarge);
    packages
        .store(
            &load_chart(large_chart_archive("one", "1.0.0", 1500)).await,
            PackageOrigin::Upload,
            &Subject::Platform,
        )
        .await
        .unwrap();
    let said = packages
        .store(
            &load_chart(large_chart_archive("two", "1.0.0", 1600)).await,
            PackageOrigin::Upload,
            &Subject::Platform,
        )
        .await
        .unwrap_err();
    assert_eq!(said.kind(), ErrorKind::Exhausted, "{said}");
    let all = Api::<HelmPackage>::all(world.admin_client()).list(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), 1);
}

fn package_store_with_clock(world: &TestCluster, clock: &ManualClock) -> PackageStore {
    PackageStore::new(world.platform_client(), Arc::new(clock.clone()))
}

#[tokio::test]
async fn unreferenced_package_is_collected_after_the_grace_period() {
    let clock = ManualClock::new();
    let world = TestCluster::with_clock(Arc::new(clock.clone())).await;
    let (used, unused) = (load_chart(chart_archive("used", "1.0.0")).await, large_chart().await);
    let used_name = package_store_with_clock(&world, &clock)
        .store(&used, PackageOrigin::Upload, &Subject::Platform)
        .await
        .unwrap();
    let name = package_store_with_clock(&world, &clock)
        .store(&unused, PackageOrigin::Upload, &Subject::Platform)
        .await
        .unwrap();
    let platform = HashSet::from([used_name.clone()]);
    let (referred, living) =
        (PackageReferences { platform, ..PackageReferences::default() }, WorkspaceIdentities::new());
    assert_eq!(
        package_store_with_clock(&world, &clock).collect_garbage(&referred, &living).await.unwrap().removed,
        [""; 0],
        "not at once"
    );
    clock.advance(SignedDuration::from_secs(3599));
    assert_eq!(
        package_store_with_clock(&world, &clock).collect_garbage(&referred, &living).await.unwrap().removed,
        [""; 0],
        "not before its time"
    );
    clock.advance(SignedDuration::from_secs(2));
    let collected =
        package_store_with_clock(&world, &clock).collect_garbage(&referred, &living).await.unwrap();
    assert_eq!(collected.removed, [&*name]);
    assert_eq!(collected.bytes, i64::try_from(unused.bytes.len()).unwrap());
    assert!(matches!(
        package_store_with_clock(&world, &clock).get(&name, &Subject::Platform).await,
        Err(ChartError::NoPackage(_))
    ));
    assert_eq!(
        package_store_with_clock(&world, &clock).get(&used_name, &Subject::Platform).await.unwrap(),
        used.bytes
    );
    wait_for("its pieces go with it", async || package_chunks(&world, &name).await.is_empty().then_some(()))
        .await;
}

#[tokio::test]
async fn reused_package_gets_a_new_grace_period() {
    let clock = ManualClock::new();
    let world = TestCluster::with_clock(Arc::new(clock.clone())).await;
    let chart = large_chart().await;
    let name = package_store_with_clock(&world, &clock)
        .store(&chart, PackageOrigin::Upload, &Subject::Platform)
        .await
        .unwrap();
    for how in ["put", "keep"] {
        clock.advance(SignedDuration::from_secs(3601));
        match how {
            "put" => drop(
                package_store_with_clock(&world, &clock)
                    .store(&chart, PackageOrigin::Upload, &Subject::Platform)
                    .await
                    .unwrap(),
            ),
            _ => drop(
                package_store_with_clock(&world, &clock)
                    .extend_grace(&name, &Subject::Platform)
                    .await
                    .unwrap(),
            ),
        }
        let collected = package_store_with_clock(&world, &clock)
            .collect_garbage(&PackageReferences::default(), &WorkspaceIdentities::new())
            .await
            .unwrap();
        assert_eq!(collected.removed, [""; 0], "{how}");
    }
    // Removed and stored again immediately: chunks of the former package must not block the new ones.
    clock.advance(SignedDuration::from_secs(3601));
    assert_eq!(
        package_store_with_clock(&world, &clock)
            .collect_garbage(&PackageReferences::default(), &WorkspaceIdentities::new())
            .await
            .unwrap()
            .removed,
        [&*name]
    );
    package_store_with_clock(&world, &clock)
        .store(&chart, PackageOrigin::Upload, &Subject::Platform)
        .await
        .unwrap();
    world.cluster.wait_until_idle().await;
    assert_eq!(
        package_store_with_clock(&world, &clock).get(&name, &Subject::Platform).await.unwrap(),
        chart.bytes
    );
}
