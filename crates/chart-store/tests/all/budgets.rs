//! Budgets: packages per workspace and in total, and memory of fetching, unpacking and indexing.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chart_store::packages::{MIN_CHARGE, PackageLimits, PackageReferences, WorkspaceIdentities};
use chart_store::work::pool_limits;
use chart_store::{AccountLookup, ChartError, ChartReader, ChartSource, ChartStore, PackageStore, Subject};
use domain::ErrorKind;
use domain::clock::SystemClock;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::join_all;
use governor::work::{WorkLimits, WorkPool};
use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, Patch, PatchParams};
use kube_types::HelmRepo;
use kube_types::package::{HelmPackage, PackageOrigin};
use serde_json::json;
use testkit::{ManualClock, TestCluster};

use crate::fake_server::{FakeServer, HttpResponse, client};
use crate::fixtures::{chart_archive, large_chart_archive, load_chart};

fn workspace_subject(name: &str) -> Subject {
    Subject::Workspace { name: name.to_owned(), uid: Some(format!("uid-of-{name}")) }
}

fn workspace_identities(names: &[&str]) -> WorkspaceIdentities {
    let of = |name: &&str| ((*name).to_owned(), (format!("uid-of-{name}"), Timestamp::UNIX_EPOCH));
    names.iter().map(of).collect()
}

#[tokio::test]
async fn one_tenant_cannot_fill_the_package_store() {
    let world = TestCluster::new().await;
    let limits =
        PackageLimits { quota: 3 * MIN_CHARGE, capacity: 5 * MIN_CHARGE, ..PackageLimits::default() };
    let packages = PackageStore::with_limits(world.platform_client(), Arc::new(SystemClock), limits);
    let put = async |name: &str, subject: &Subject| {
        packages.store(&load_chart(chart_archive(name, "1.0.0")).await, PackageOrigin::Upload, subject).await
    };
    for name in ["a", "b", "c"] {
        put(name, &workspace_subject("greedy")).await.unwrap();
    }
    let refused = put("d", &workspace_subject("greedy")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exhausted);
    let said = refused.to_string();
    for word in ["workspace `greedy`", "[store] quota", "98304 bytes", "98304 are used", "32768 more"] {
        assert!(said.contains(word), "{said}");
    }
    // Storing the same package again is free, and other workspaces are not affected.
    put("a", &workspace_subject("greedy")).await.unwrap();
    put("a", &workspace_subject("other")).await.unwrap();
    put("d", &workspace_subject("other")).await.unwrap();
    put("e", &workspace_subject("other")).await.unwrap();
    let refused = put("f", &workspace_subject("third")).await.unwrap_err();
    assert!(refused.to_string().contains("[store] capacity"), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::Exhausted);
}

/// Workspaces with a common prefix share an account; `admins` has none.
struct AccountByPrefix;

impl AccountLookup for AccountByPrefix {
    fn account_of(&self, workspace: &str) -> Option<String> {
        workspace.split_once('-').map(|(account, _)| account.to_owned())
    }
}

#[tokio::test]
async fn account_multiplies_its_package_quota_by_workspaces() {
    let world = TestCluster::new().await;
    let limits =
        PackageLimits { quota: 3 * MIN_CHARGE, capacity: 100 * MIN_CHARGE, ..PackageLimits::default() };
    let packages = PackageStore::with_limits(world.platform_client(), Arc::new(SystemClock), limits);
    let packages = packages.with_accounts(Arc::new(AccountByPrefix));
    let put = async |name: &str, subject: &Subject| {
        packages.store(&load_chart(chart_archive(name, "1.0.0")).await, PackageOrigin::Upload, subject).await
    };
    let owns: Vec<Subject> = (0..11).map(|n| workspace_subject(&format!("greedy-{n}"))).collect();
    let mut kept = 0;
    for (n, own) in owns.iter().enumerate() {
        kept += usize::from(put(&format!("c{n}"), own).await.is_ok());
    }
    assert_eq!(kept, 3);
    let refused = put("d", &owns[9]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exhausted);
    let said = refused.to_string();
    for word in ["account `greedy`", "[store] quota", "98304 bytes", "98304 are used", "32768 more"] {
        assert!(said.contains(word), "{said}");
    }
    // A package is charged once to the account, and to every other account.
    put("c0", &owns[10]).await.unwrap();
    put("c0", &workspace_subject("other-1")).await.unwrap();
    put("d", &workspace_subject("other-2")).await.unwrap();
    put("e", &workspace_subject("other-1")).await.unwrap();
    assert!(put("f", &workspace_subject("other-3")).await.is_err());
    // Each workspace without an account has its own quota.
    for name in ["admins", "more"] {
        for chart in ["c0", "d", "e"] {
            put(chart, &workspace_subject(name)).await.unwrap();
        }
        assert!(
            put("f", &workspace_subject(name))
                .await
                .unwrap_err()
                .to_string()
                .contains(&format!("workspace `{name}`"))
        );
    }
}

#[tokio::test]
async fn work_of_all_workspaces_of_an_account_is_one_flow() {
    let world = TestCluster::new().await;
    let limits = WorkLimits { bytes: 100 << 20, bytes_per_flow: 10 << 20, ..pool_limits() };
    let pool = WorkPool::new(&limits);
    let charts = ChartStore::with_limits(
        world.platform_client(),
        client(),
        Arc::new(SystemClock),
        PackageLimits::default(),
        pool,
    )
    .with_accounts(Arc::new(AccountByPrefix));
    let reserve = |name: &str| charts.work(&ChartReader::Workspace(name.to_owned())).reserve(6 << 20);
    let first = reserve("greedy-1").unwrap();
    assert!(reserve("greedy-2").is_err(), "the account has 10 MiB");
    let platform = charts.work(&ChartReader::PlatformFor("greedy-3".to_owned())).reserve(6 << 20);
    assert!(platform.is_err(), "its releases are of the account");
    let others = ["other-1", "admins", "more"].map(|name| reserve(name).unwrap());
    drop(first);
    drop(reserve("greedy-2").unwrap());
    drop(others);
}

#[tokio::test]
async fn quota_is_not_exceeded_by_concurrent_uploads() {
    let world = TestCluster::new().await;
    let limits = PackageLimits { quota: 3 * MIN_CHARGE, ..PackageLimits::default() };
    let packages = PackageStore::with_limits(world.platform_client(), Arc::new(SystemClock), limits);
    let charts = join_all((0..10).map(|n| load_chart(chart_archive(&format!("c{n}"), "1.0.0")))).await;
    let greedy = workspace_subject("greedy");
    let put =
        join_all(charts.iter().map(|chart| packages.store(chart, PackageOrigin::Upload, &greedy))).await;
    assert_eq!(put.iter().filter(|put| put.is_ok()).count(), 3);
    assert!(put.iter().flatten().all(|name| name.starts_with("pkg-")));
}

#[tokio::test]
async fn unused_packages_free_quota_and_foreign_references_do_not_retain_them() {
    let clock = ManualClock::new();
    let world = TestCluster::with_clock(Arc::new(clock.clone())).await;
    let packages = PackageStore::new(world.platform_client(), Arc::new(clock.clone()));
    let chart = load_chart(chart_archive("web", "1.0.0")).await;
    let name = packages.store(&chart, PackageOrigin::Upload, &workspace_subject("acme")).await.unwrap();
    packages.store(&chart, PackageOrigin::Upload, &workspace_subject("former")).await.unwrap();
    clock.advance(SignedDuration::from_hours(2));
    let mut references = PackageReferences::default();
    references.add("acme", &name, clock_now(&clock));
    let living = workspace_identities(&["acme", "evil", "former"]);
    assert!(packages.collect_garbage(&references, &living).await.unwrap().removed.is_empty());
    let annotations = async || {
        let package = Api::<HelmPackage>::all(world.admin_client()).get(&name).await.unwrap();
        package.metadata.annotations.unwrap_or_default().into_keys().collect::<Vec<_>>()
    };
    assert_eq!(annotations().await, ["longshore.dev/readers-recorded", "readers.longshore.dev/uid-of-acme"]);
    // A tenant that is not a reader refers to the package.
    let mut references = PackageReferences::default();
    references.add("evil", &name, clock_now(&clock));
    assert_eq!(packages.collect_garbage(&references, &living).await.unwrap().removed, [&*name]);
}

fn clock_now(clock: &ManualClock) -> Timestamp {
    domain::clock::Clock::now(clock)
}

#[tokio::test]
async fn package_of_deleted_workspace_is_collected_despite_references_of_its_successor() {
    let clock = ManualClock::new();
    let world = TestCluster::with_clock(Arc::new(clock.clone())).await;
    let packages = PackageStore::new(world.platform_client(), Arc::new(clock.clone()));
    let chart = load_chart(chart_archive("web", "1.0.0")).await;
    let name = packages.store(&chart, PackageOrigin::Upload, &workspace_subject("acme")).await.unwrap();
    clock.advance(SignedDuration::from_hours(2));
    let mut references = PackageReferences::default();
    references.add("acme", &name, clock_now(&clock));
    let reissued =
        WorkspaceIdentities::from([("acme".to_owned(), ("another".to_owned(), clock_now(&clock)))]);
    assert_eq!(packages.collect_garbage(&references, &reissued).await.unwrap().removed, [&*name]);
}

#[tokio::test]
async fn legacy_packages_get_readers_from_references() {
    let world = TestCluster::new().await;
    let packages = || PackageStore::new(world.platform_client(), Arc::new(SystemClock));
    let chart = load_chart(chart_archive("web", "1.0.0")).await;
    let name = packages().store(&chart, PackageOrigin::Upload, &Subject::Platform).await.unwrap();
    let api = Api::<HelmPackage>::all(world.admin_client());
    let older = Patch::Merge(json!({"metadata": {"annotations": null}}));
    api.patch(&name, &PatchParams::default(), &older).await.unwrap();
    let (acme, evil, reissued) =
        (workspace_subject("acme"), workspace_subject("evil"), workspace_subject("reissued"));
    assert!(matches!(packages().extend_grace(&name, &acme).await, Err(ChartError::NoPackage(_))));
    let now = Timestamp::now();
    let mut references = PackageReferences::default();
    references.add("acme", &name, now);
    references.add("reissued", &name, now - SignedDuration::from_hours(1));
    let mut living = workspace_identities(&["acme", "evil", "reissued"]);
    living.get_mut("reissued").unwrap().1 = now;
    packages().record_legacy_readers(&references, &living).await.unwrap();
    packages().extend_grace(&name, &acme).await.unwrap();
    for other in [&evil, &reissued] {
        assert!(packages().extend_grace(&name, other).await.is_err(), "{other:?}");
    }
    // Once readers are recorded, references add none.
    references.add("evil", &name, now);
    packages().record_legacy_readers(&references, &living).await.unwrap();
    assert!(packages().extend_grace(&name, &evil).await.is_err());
}

/// An index of this size in Helm's layout.
fn helm_index(size: usize) -> String {
    let filler = "x".repeat(1000);
    let mut text = "apiVersion: v1\nentries:\n  web:\n".to_owned();
    let mut n = 0;
    while text.len() < size {
        writeln!(text, "  - apiVersion: v2\n    description: {filler}\n    name: web\n    urls:\n    - web.tgz\n    version: 1.0.{n}").unwrap();
        n += 1;
    }
    text + "generated: \"2026-01-01T00:00:00Z\"\n"
}

/// An index of this size whose data takes a multiple of it.
fn dense_index(size: usize) -> String {
    let numbers = "0,".repeat(size / 2);
    format!(
        "{{\"apiVersion\":\"v1\",\"entries\":{{\"web\":[{{\"name\":\"web\",\"version\":\"1.0.0\",\"x\":[{numbers}0]}}]}}}}"
    )
}

fn gzip(text: &str) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap().into()
}

/// Serves two compressed indexes.
async fn heavy_index_server() -> FakeServer {
    let (helm, dense) = (gzip(&helm_index(8 << 20)), gzip(&dense_index((4 << 20) - 1024)));
    FakeServer::new(move |request| {
        let body = if request.uri().path().starts_with("/dense") { dense.clone() } else { helm.clone() };
        let mut answer = HttpResponse::new(body);
        answer.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
        answer
    })
    .await
}

fn repo(name: &str, url: &str, workspace: &str) -> HelmRepo {
    let spec = json!({"url": url, "workspace": workspace});
    HelmRepo::new(name, serde_json::from_value(spec).unwrap())
}

/// Runs `count` index fetches and as many uploads concurrently, by two tenants. Returns the numbers of completed and
/// rejected ones.
async fn run_concurrent_fetches(
    charts: &ChartStore,
    served: &FakeServer,
    bomb: &Bytes,
    count: usize,
) -> (usize, usize) {
    let repos: Vec<HelmRepo> = (0..count)
        .map(|n| {
            let path = if n % 2 == 0 { "helm" } else { "dense" };
            repo(
                &format!("r{n}"),
                &format!("{}/{path}", served.address),
                if n % 4 < 2 { "acme" } else { "evil" },
            )
        })
        .collect();
    let readers = ["acme", "evil"].map(|name| ChartReader::Workspace(name.to_owned()));
    let source = ChartSource::Archive(bomb.clone());
    let checks =
        repos.iter().map(|repo| async { charts.check_index(repo).await.map_err(|error| error.kind()) });
    let uploads = (0..count).map(|n| {
        let (source, reader) = (&source, &readers[n % 2]);
        async move { charts.fetch(source, reader).await.map(drop).map_err(|error| error.kind()) }
    });
    let (checked, uploaded) = futures::join!(join_all(checks), join_all(uploads));
    let results: Vec<Result<(), ErrorKind>> = checked.into_iter().chain(uploaded).collect();
    let done = results.iter().filter(|result| result.is_ok()).count();
    let refused = results.iter().filter(|result| **result == Err(ErrorKind::Exhausted)).count();
    assert_eq!(done + refused, results.len(), "{results:?}");
    (done, refused)
}

/// A small archive with files of forty megabytes.
fn oversized_archive() -> Bytes {
    use helm_chart::{File, Loader};
    use helm_template::profile::Profile;
    let pattern: Vec<u8> = (0..40 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 28) as u8).collect();
    let head = Bytes::from_static(b"apiVersion: v2\nname: web\nversion: 1.0.0\n");
    let files = vec![
        File { name: "Chart.yaml".into(), data: head },
        File { name: "large.txt".into(), data: pattern.into() },
    ];
    let chart = Loader::new(Profile::Helm4).load_files(files).unwrap();
    helm_chart::archive::write(&chart, Profile::Helm4, 0).unwrap().into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_indexes_and_uploads_stay_within_the_memory_budget() {
    let (world, served) = (TestCluster::new().await, heavy_index_server().await);
    let limits = WorkLimits { wait: Duration::from_mins(2), slots: 4, slots_per_flow: 2, ..pool_limits() };
    let pool = WorkPool::new(&limits);
    let charts = ChartStore::with_limits(
        world.platform_client(),
        client(),
        Arc::new(SystemClock),
        PackageLimits::default(),
        pool.clone(),
    );
    let bomb = tokio::task::spawn_blocking(oversized_archive).await.unwrap();
    let observed = pool.clone();
    let watching = tokio::spawn(async move {
        loop {
            let (held, slots) = (observed.bytes().held, observed.slots().used);
            assert!(held <= limits.bytes && slots <= 4, "{held} bytes in {slots} slots");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let (done, refused) = run_concurrent_fetches(&charts, &served, &bomb, 12).await;
    watching.abort();
    assert!(watching.await.unwrap_err().is_cancelled(), "the budget was kept");
    assert!(done > 0, "{done} done, {refused} refused");
    assert_eq!((pool.bytes().held, pool.slots().used), (0, 0));
    // The load leaves nothing behind: another tenant works.
    let good = ChartReader::Workspace("good".to_owned());
    charts.fetch(&ChartSource::Archive(large_chart_archive("web", "1.0.0", 1 << 20)), &good).await.unwrap();
}

/// Peak resident memory of this process, in MiB.
fn peak_memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

/// Runs in a child process, for [`tenant_exhausts_memory_by_concurrent_indexes_and_uploads`].
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "run by another test, in a process of its own"]
async fn storm_of_heavy_work() {
    let (world, served) = (TestCluster::new().await, heavy_index_server().await);
    let bomb = tokio::task::spawn_blocking(oversized_archive).await.unwrap();
    let before = peak_memory_mib();
    let charts = ChartStore::new(world.platform_client(), client(), Arc::new(SystemClock));
    let (done, refused) = run_concurrent_fetches(&charts, &served, &bomb, 40).await;
    println!("peak {} MiB more than {before}, {done} done, {refused} refused", peak_memory_mib() - before);
}

#[test]
fn tenant_exhausts_memory_by_concurrent_indexes_and_uploads() {
    let storm = ["--exact", "budgets::storm_of_heavy_work", "--ignored", "--nocapture"];
    let output = Command::new(std::env::current_exe().unwrap()).args(storm).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let peak = said.split("peak ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    println!("{said}");
    // The budget is 384 MiB; the rest is the allocator's, and cached indexes and charts.
    assert!(peak.is_some_and(|peak| peak < 700), "{said}");
}
