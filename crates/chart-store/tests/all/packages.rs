//! Packages are stored once and completely, and collected without references.

use std::collections::HashSet;
use std::sync::Arc;

use chart_store::packages::Limits;
use chart_store::packages::{Living, References};
use chart_store::{ChartError, Digest, Fetched, Packages, Subject};
use domain::Kind;
use domain::clock::SystemClock;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use kube_types::package::{HelmPackage, Origin, phase};
use kube_types::{SYSTEM_NAMESPACE, marks};
use serde_json::json;
use testkit::{HeldClock, World, every_kill_point, until};

use crate::made::{archive, fetched, large};

const PIECE: usize = 768 << 10;

fn packages(client: Client) -> Packages {
    Packages::new(client, Arc::new(SystemClock))
}

fn pieces(world: &World) -> Api<ConfigMap> {
    Api::namespaced(world.admin(), SYSTEM_NAMESPACE)
}

async fn pieces_of(world: &World, name: &str) -> Vec<ConfigMap> {
    let labelled = ListParams::default().labels(&format!("{}={name}", marks::PACKAGE));
    pieces(world).list(&labelled).await.unwrap().items
}

async fn big() -> Fetched {
    fetched(large("web", "1.0.0", 2 * PIECE + 1000)).await
}

#[tokio::test]
async fn what_is_kept_comes_back_as_it_was() {
    let world = World::new().await;
    let packages = packages(world.platform());
    for chart in [fetched(archive("small", "1.0.0")).await, big().await] {
        let name = packages.put(&chart, Origin::Upload, &Subject::Platform).await.unwrap();
        assert_eq!(name, chart.digest.package());
        assert_eq!(packages.get(&name, &Subject::Platform).await.unwrap(), chart.bytes);
        let package = Api::<HelmPackage>::all(world.admin()).get(&name).await.unwrap();
        let spec = package.spec;
        assert_eq!((spec.digest, &*spec.chart.name), (chart.digest.to_string(), chart.name()));
        assert_eq!(package.status.unwrap().phase, phase::READY);
        let pieces = pieces_of(&world, &name).await;
        assert_eq!(pieces.len(), chart.bytes.len().div_ceil(PIECE));
        for piece in pieces {
            assert_eq!(piece.immutable, Some(true));
            let size: usize = piece.binary_data.unwrap().values().map(|data| data.0.len()).sum();
            assert!(size <= PIECE, "{size}");
        }
    }
}

#[tokio::test]
async fn keeping_again_writes_nothing() {
    let (world, fault) = (World::new().await, testkit::Fault::none());
    let chart = big().await;
    packages(world.platform()).put(&chart, Origin::Upload, &Subject::Platform).await.unwrap();
    let again = packages(fault.over(world.platform()));
    again.put(&chart, Origin::RepoCache, &Subject::Platform).await.unwrap();
    assert_eq!((fault.calls(), fault.writes()), (1, 0));
    again.put(&chart, Origin::RepoCache, &Subject::Platform).await.unwrap();
    again.keep(&chart.digest.package(), &Subject::Platform).await.unwrap();
    assert_eq!(fault.calls(), 1, "what was kept a moment ago is not asked about");
}

#[tokio::test]
async fn a_package_is_whole_after_every_kill() {
    let chart = big().await;
    let act = async |world: &World, fault: &testkit::Fault| {
        packages(fault.over(world.platform())).put(&chart, Origin::Upload, &Subject::Platform).await.map(drop)
    };
    let check = async |world: &World| {
        let packages = packages(world.platform());
        assert_eq!(packages.get(&chart.digest.package(), &Subject::Platform).await.unwrap(), chart.bytes);
        let all = Api::<HelmPackage>::all(world.admin()).list(&ListParams::default()).await.unwrap();
        assert_eq!(all.items.len(), 1);
        assert_eq!(all.items[0].status.as_ref().unwrap().phase, phase::READY);
        assert_eq!(pieces_of(world, &chart.digest.package()).await.len(), 3);
    };
    assert_eq!(every_kill_point(World::new, act, check).await, 5);
}

#[tokio::test]
async fn what_is_half_written_is_not_read() {
    let world = World::new().await;
    let chart = big().await;
    let fault = testkit::Fault::after_writes(2, testkit::Blow::Before);
    assert!(
        packages(fault.over(world.platform())).put(&chart, Origin::Upload, &Subject::Platform).await.is_err()
    );
    let said = packages(world.platform()).get(&chart.digest.package(), &Subject::Platform).await.unwrap_err();
    assert!(matches!(said, ChartError::Incomplete(_)), "{said}");
    let said = packages(world.platform()).get("pkg-none", &Subject::Platform).await.unwrap_err();
    assert_eq!((said.kind(), &*said.to_string()), (Kind::NotFound, "there is no package `pkg-none`"));
}

#[tokio::test]
async fn what_was_lost_is_noticed_and_completed() {
    let world = World::new().await;
    let chart = big().await;
    let packages = packages(world.platform());
    let name = packages.put(&chart, Origin::Upload, &Subject::Platform).await.unwrap();
    pieces(&world).delete(&format!("{name}.1"), &DeleteParams::default()).await.unwrap();
    assert!(matches!(packages.get(&name, &Subject::Platform).await, Err(ChartError::Incomplete(_))));
    packages.put(&chart, Origin::Upload, &Subject::Platform).await.unwrap();
    assert_eq!(packages.get(&name, &Subject::Platform).await.unwrap(), chart.bytes);

    // Also replaced chunks.
    let mut piece = pieces(&world).get(&format!("{name}.1")).await.unwrap();
    pieces(&world).delete(&piece.name_any(), &DeleteParams::default()).await.unwrap();
    piece.metadata.resource_version = None;
    piece.metadata.uid = None;
    let other = k8s_openapi::ByteString(vec![7; PIECE]);
    piece.binary_data.as_mut().unwrap().insert("chunk".to_owned(), other);
    pieces(&world).create(&PostParams::default(), &piece).await.unwrap();
    assert!(matches!(packages.get(&name, &Subject::Platform).await, Err(ChartError::Corrupt(_))));
    packages.put(&chart, Origin::Upload, &Subject::Platform).await.unwrap();
    assert_eq!(packages.get(&name, &Subject::Platform).await.unwrap(), chart.bytes);
}

/// A chunk of a removed package is deleted with that package, so it must not be reused.
#[tokio::test]
async fn a_piece_that_is_not_the_packages_own_is_replaced() {
    let world = World::new().await;
    let chart = fetched(archive("web", "1.0.0")).await;
    let data = k8s_openapi::ByteString(chart.bytes.to_vec());
    let mut stray =
        ConfigMap { binary_data: Some([("chunk".to_owned(), data)].into()), ..ConfigMap::default() };
    stray.metadata.name = Some(format!("{}.0", chart.digest.package()));
    pieces(&world).create(&PostParams::default(), &stray).await.unwrap();
    let name = packages(world.platform()).put(&chart, Origin::Upload, &Subject::Platform).await.unwrap();
    let package = Api::<HelmPackage>::all(world.admin()).get(&name).await.unwrap();
    let piece = pieces_of(&world, &name).await.remove(0);
    assert_eq!(Some(&piece.owner_references()[0].uid), package.metadata.uid.as_ref());
}

#[tokio::test]
async fn a_package_never_changes() {
    let world = World::new().await;
    let name = packages(world.platform())
        .put(&fetched(archive("web", "1.0.0")).await, Origin::Upload, &Subject::Platform)
        .await
        .unwrap();
    let all = Api::<HelmPackage>::all(world.admin());
    let patch = Patch::Merge(json!({"spec": {"digest": Digest::of(b"other").to_string()}}));
    let said = all.patch(&name, &PatchParams::default(), &patch).await.unwrap_err().to_string();
    assert!(said.contains("a package never changes"), "{said}");
}

/// The name has a hundred bits of the digest: a collision of names must not give access.
#[tokio::test]
async fn a_name_that_other_bytes_have_is_not_theirs() {
    let world = World::new().await;
    let chart = fetched(archive("web", "1.0.0")).await;
    let mut package: HelmPackage = serde_json::from_value(json!({
        "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmPackage", "metadata": {"name": chart.digest.package()},
        "spec": {"digest": Digest::of(b"other").to_string(), "size": 1, "chunks": 1, "chart": {"name": "x", "version": "1"}, "origin": "upload"},
    })).unwrap();
    package.status = None;
    Api::<HelmPackage>::all(world.admin()).create(&PostParams::default(), &package).await.unwrap();
    let said = packages(world.platform()).put(&chart, Origin::Upload, &Subject::Platform).await.unwrap_err();
    assert_eq!(said.kind(), Kind::Conflict);
}

#[tokio::test]
async fn there_is_a_limit_for_one_and_for_all() {
    let world = World::new().await;
    let limits = Limits { package: 2200, capacity: 50_000, ..Limits::default() };
    let packages = Packages::with_limits(world.platform(), Arc::new(SystemClock), limits);
    let said = packages
        .put(&fetched(large("web", "1.0.0", 3000)).await, Origin::Upload, &Subject::Platform)
        .await
        .unwrap_err();
    assert_eq!(said.kind(), Kind::TooLarge);
    packages
        .put(&fetched(large("one", "1.0.0", 1500)).await, Origin::Upload, &Subject::Platform)
        .await
        .unwrap();
    let said = packages
        .put(&fetched(large("two", "1.0.0", 1600)).await, Origin::Upload, &Subject::Platform)
        .await
        .unwrap_err();
    assert_eq!(said.kind(), Kind::Exhausted, "{said}");
    let all = Api::<HelmPackage>::all(world.admin()).list(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), 1);
}

fn at(world: &World, clock: &HeldClock) -> Packages {
    Packages::new(world.platform(), Arc::new(clock.clone()))
}

#[tokio::test]
async fn what_nobody_refers_to_goes_after_a_while() {
    let clock = HeldClock::new();
    let world = World::at(Arc::new(clock.clone())).await;
    let (used, unused) = (fetched(archive("used", "1.0.0")).await, big().await);
    let used_name = at(&world, &clock).put(&used, Origin::Upload, &Subject::Platform).await.unwrap();
    let name = at(&world, &clock).put(&unused, Origin::Upload, &Subject::Platform).await.unwrap();
    let platform = HashSet::from([used_name.clone()]);
    let (referred, living) = (References { platform, ..References::default() }, Living::new());
    assert_eq!(at(&world, &clock).collect(&referred, &living).await.unwrap().removed, [""; 0], "not at once");
    clock.advance(SignedDuration::from_secs(3599));
    assert_eq!(
        at(&world, &clock).collect(&referred, &living).await.unwrap().removed,
        [""; 0],
        "not before its time"
    );
    clock.advance(SignedDuration::from_secs(2));
    let collected = at(&world, &clock).collect(&referred, &living).await.unwrap();
    assert_eq!(collected.removed, [&*name]);
    assert_eq!(collected.bytes, i64::try_from(unused.bytes.len()).unwrap());
    assert!(matches!(at(&world, &clock).get(&name, &Subject::Platform).await, Err(ChartError::NoPackage(_))));
    assert_eq!(at(&world, &clock).get(&used_name, &Subject::Platform).await.unwrap(), used.bytes);
    until("its pieces go with it", async || pieces_of(&world, &name).await.is_empty().then_some(())).await;
}

#[tokio::test]
async fn what_somebody_wants_again_stays_for_a_while() {
    let clock = HeldClock::new();
    let world = World::at(Arc::new(clock.clone())).await;
    let chart = big().await;
    let name = at(&world, &clock).put(&chart, Origin::Upload, &Subject::Platform).await.unwrap();
    for how in ["put", "keep"] {
        clock.advance(SignedDuration::from_secs(3601));
        match how {
            "put" => drop(at(&world, &clock).put(&chart, Origin::Upload, &Subject::Platform).await.unwrap()),
            _ => drop(at(&world, &clock).keep(&name, &Subject::Platform).await.unwrap()),
        }
        let collected = at(&world, &clock).collect(&References::default(), &Living::new()).await.unwrap();
        assert_eq!(collected.removed, [""; 0], "{how}");
    }
    // Removed and stored again immediately: chunks of the former package must not block the new ones.
    clock.advance(SignedDuration::from_secs(3601));
    assert_eq!(
        at(&world, &clock).collect(&References::default(), &Living::new()).await.unwrap().removed,
        [&*name]
    );
    at(&world, &clock).put(&chart, Origin::Upload, &Subject::Platform).await.unwrap();
    world.cluster.rest().await;
    assert_eq!(at(&world, &clock).get(&name, &Subject::Platform).await.unwrap(), chart.bytes);
}
