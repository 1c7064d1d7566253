//! Randomised concurrency: two servers that both lead, a client that changes the spec, and the `helm` command, which uses no Lease. Some
//! of them crash. In the end the desired state is reached, and nothing else exists.
//!
//! The model is the last spec alone: the release enforces it, so one server with exclusive access must converge whatever happened. The
//! suite runs 100 rounds; `LONGSHORE_SEEDS` overrides the number.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use chart_store::{ChartReader, ChartSource};
use domain::clock::SystemClock;
use futures::{StreamExt, stream};
use helm_release::actions::{ActionOptions, Propagation, Rollback, Uninstall, Upgrade, ValuesPolicy};
use helm_release::lock::lease_name;
use helm_release::record::Record;
use helm_release::render::PreparedChart;
use helm_release::storage::{HELD_BY_ANNOTATION, Storage, StoredRecord};
use helm_release::{Error, Helm, Status};
use helm_template::data::Members;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use kube_apply::{Discovery, NoProgress};
use kube_types::HelmRelease;
use outbound::{Dialer, EgressPolicy};
use serde_json::json;
use testkit::{FailurePoint, FaultInjector, TestCluster, without_annotation};
use tokio::time::timeout;
use tower::service_fn;

use crate::Releases;
use crate::testing::{SHOP, chart_archive, provisioned_cluster_with, start_releases, start_with_client};

pub(super) const RELEASE_NAME: &str = "web";

/// Rounds in parallel: each mostly waits.
const MAX_CONCURRENT_ROUNDS: usize = 12;

/// Time limit for convergence on a busy machine.
const CONVERGENCE_TIMEOUT: Duration = Duration::from_mins(6);

/// One `ConfigMap` for each letter; an uppercase letter is an invalid name.
pub(super) const MAPS_TEMPLATE: &str = "{{- range (splitList \"\" .Values.maps) }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ . }}\n{{- end }}\n";

const DESIRED_MAPS: [&str; 4] = ["a", "ab", "bc", "c"];

/// A seeded random number generator.
struct SeededRng(AtomicU64);

impl SeededRng {
    fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }

    fn below(&self, limit: u64) -> u64 {
        let next =
            |now: u64| now.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| Some(next(now)));
        (next(before.unwrap_or_default()) >> 33) % limit
    }

    fn one_of<T: Copy>(&self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    /// A connection that is cut after a random number of writes, once in `one_in` cases.
    fn fault(&self, one_in: u64) -> FaultInjector {
        if self.below(one_in) > 0 {
            return FaultInjector::healthy();
        }
        let blow = self.one_of(&[FailurePoint::BeforeHandling, FailurePoint::AfterHandling]);
        FaultInjector::cut_after_writes(usize::try_from(self.below(12)).unwrap(), blow)
    }
}

/// A client whose calls are interleaved at random. `lease` redirects its Leases to another namespace.
fn with_random_yields(client: Client, seed: u64, lease: Option<&'static str>) -> Client {
    let chance = Arc::new(SeededRng::new(seed));
    let call = move |mut request: http::Request<kube::client::Body>| {
        let (client, turns) = (client.clone(), chance.below(12));
        if let Some(elsewhere) = lease.filter(|_| request.uri().path().contains("/leases")) {
            let moved = request.uri().to_string().replace(&format!("/{SHOP}/"), &format!("/{elsewhere}/"));
            *request.uri_mut() = moved.parse().unwrap();
        }
        async move {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            client.send(request).await
        }
    };
    Client::new(service_fn(call), SHOP)
}

pub(super) struct TestRound {
    pub world: TestCluster,
    pub package: String,
    chart: Arc<PreparedChart>,
    discovery: Discovery,
    is_over: AtomicBool,
}

impl TestRound {
    async fn new() -> Self {
        Self::with_templates(provisioned_cluster_with(None).await, &[("templates/maps.yaml", MAPS_TEMPLATE)])
            .await
    }

    /// A round on this cluster, with a chart of these templates.
    pub async fn with_templates(world: TestCluster, templates: &[(&str, &str)]) -> Self {
        let files: Vec<(&str, &str)> =
            [("values.yaml", "maps: a\n")].iter().chain(templates).copied().collect();
        let source = ChartSource::Archive(chart_archive("maps", "1.0.0", &files));
        let platform = start_releases(&world, &FaultInjector::healthy()).await;
        let chart = platform.charts().get(&source, &ChartReader::Workspace(SHOP.to_owned())).await.unwrap();
        let discovery = Discovery::read(&world.admin_client()).await.unwrap();
        Self {
            world,
            package: chart.resolved.package,
            chart: chart.prepared,
            discovery,
            is_over: AtomicBool::new(false),
        }
    }

    pub fn releases(&self) -> Api<HelmRelease> {
        Api::namespaced(self.world.admin_client(), SHOP)
    }

    pub async fn server(&self, client: Client, name: &str) -> Releases {
        let outgoing = outbound::FetchClient::new(Dialer::new(EgressPolicy::default()));
        start_with_client(client, outgoing, Arc::new(SystemClock), name).await
    }

    /// Leads, crashes and restarts until the round is over.
    async fn run_server(&self, name: &str, seed: u64) {
        let chance = SeededRng::new(seed);
        while !self.is_over.load(Ordering::Relaxed) {
            let fault = chance.fault(2);
            let client =
                fault.wrap(with_random_yields(self.world.platform_client(), chance.below(1 << 30), None));
            let leading = async {
                let server = self.server(client, name).await;
                server.run_as_leader().await
            };
            let over = async {
                while !self.is_over.load(Ordering::Relaxed) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            tokio::select! {
                biased;
                () = fault.wait_until_disconnected() => {}
                () = over => {}
                _ = leading => {}
            }
            self.expire_lease(name).await;
        }
    }

    /// Expires the Lease of a crashed server instead of waiting ten seconds.
    async fn expire_lease(&self, holder: &str) {
        let leases: Api<Lease> = Api::namespaced(self.world.admin_client(), SHOP);
        let Some(lease) = leases.get_opt(&lease_name(RELEASE_NAME)).await.unwrap() else { return };
        let held = lease.spec.and_then(|spec| spec.holder_identity).is_some_and(|by| by.starts_with(holder));
        if held {
            let patch = Patch::Merge(json!({"spec": {"holderIdentity": null}}));
            // The Lease may be deleted concurrently.
            let _ = leases.patch(&lease_name(RELEASE_NAME), &PatchParams::default(), &patch).await;
        }
    }

    /// Writes random specs and returns the last one.
    async fn write_random_specs(&self, seed: u64) -> Option<&'static str> {
        let chance = SeededRng::new(seed);
        let mut last = None;
        for _ in 0..4 {
            last = (chance.below(5) > 0).then(|| chance.one_of(&DESIRED_MAPS));
            self.write_spec(last).await;
            tokio::time::sleep(Duration::from_millis(chance.below(120))).await;
        }
        last
    }

    async fn write_spec(&self, letters: Option<&str>) {
        let Some(letters) = letters else {
            // The release may not exist.
            let _ = self.releases().delete(RELEASE_NAME, &DeleteParams::default()).await;
            return;
        };
        let release = json!({
            "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": RELEASE_NAME},
            "spec": {
                "name": RELEASE_NAME, "source": {"package": self.package}, "valuesObject": {"maps": letters},
                "options": {"enforce": true, "timeout": "2s"},
                // The `helm` command deletes without coordination: objects may disappear under a revision that was just deployed.
                "interval": "2s", "driftDetection": {"mode": "enabled"},
            },
        });
        let release: HelmRelease = serde_json::from_value(release).unwrap();
        let written = async {
            loop {
                let patch = Patch::Merge(json!({"spec": {"valuesObject": {"maps": letters}}}));
                match self.releases().get_opt(RELEASE_NAME).await.unwrap() {
                    // A release that is being deleted must disappear first.
                    Some(there) if there.metadata.deletion_timestamp.is_some() => {}
                    Some(_)
                        if self
                            .releases()
                            .patch(RELEASE_NAME, &PatchParams::default(), &patch)
                            .await
                            .is_ok() =>
                    {
                        return;
                    }
                    None if self.releases().create(&PostParams::default(), &release).await.is_ok() => return,
                    _ => {}
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(CONVERGENCE_TIMEOUT, written).await.expect("what is deleted is gone after a while");
    }

    /// Acts as the `helm` command, without a Lease that servers observe.
    async fn run_helm_cli(&self, seed: u64) {
        let chance = SeededRng::new(seed);
        for turn in 0..3 {
            tokio::time::sleep(Duration::from_millis(chance.below(150))).await;
            let fault = chance.fault(4);
            let client = with_random_yields(self.world.admin_client(), seed + turn, Some("default"));
            let client = fault.wrap(without_annotation(client, SHOP, HELD_BY_ANNOTATION));
            let helm =
                Helm::new(client.clone(), client, self.discovery.clone(), Arc::new(SystemClock), "cli");
            tokio::select! {
                biased;
                () = fault.wait_until_disconnected() => self.expire_pending_operation().await,
                // Errors caused by the other actors are expected.
                _ = self.random_helm_action(&helm, &chance) => {}
            }
        }
    }

    /// Ages an operation that the `helm` command left unfinished. It holds no Lease, so servers give it up after five minutes.
    async fn expire_pending_operation(&self) {
        let storage = Storage::new(self.world.admin_client(), SHOP, Arc::new(SystemClock));
        let Some(mut last) = storage.newest(RELEASE_NAME).await.unwrap() else { return };
        let info = &mut last.record.info;
        if (info.status.is_pending() || info.status == Status::Uninstalling) && !last.has_lease {
            let long_ago = Timestamp::now() - SignedDuration::from_mins(10);
            (info.last_deployed, info.deleted) = (long_ago.into(), long_ago.into());
            // Another actor may finish it concurrently.
            let _ = storage.update(&last).await;
        }
    }

    async fn random_helm_action(&self, helm: &Helm, chance: &SeededRng) -> Result<(), Error> {
        let (name, namespace, run) =
            (RELEASE_NAME.to_owned(), SHOP.to_owned(), ActionOptions::new(&NoProgress));
        match chance.below(5) {
            0 => {
                let back = Rollback { name, namespace, revision: 0, cleanup_on_fail: false, options: run };
                helm.rollback(&back).await.map(drop)
            }
            1 => {
                let keep_history = chance.below(2) == 0;
                let propagation = Propagation::Background;
                let gone = Uninstall {
                    name,
                    namespace,
                    keep_history,
                    ignore_not_found: false,
                    propagation,
                    ignore_pending: true,
                    options: run,
                };
                helm.uninstall(&gone).await.map(drop)
            }
            _ => {
                let wanted = Upgrade {
                    name,
                    namespace,
                    chart: self.chart.clone(),
                    values: values(chance.one_of(&["a", "bd", "d", "cX"])),
                    values_policy: ValuesPolicy::Reset,
                    labels: [].into(),
                    install: true,
                    create_namespace: false,
                    skip_crds: false,
                    skip_schema: false,
                    subchart_notes: false,
                    atomic: false,
                    cleanup_on_fail: false,
                    options: run,
                };
                helm.upgrade(&wanted).await.map(drop)
            }
        }
    }

    /// Waits until the desired state is reached.
    pub async fn wait_for_convergence(&self, seed: u64, wish: Option<&str>) {
        let truth = async {
            while !is_converged(wish, &self.observe().await) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if timeout(CONVERGENCE_TIMEOUT, truth).await.is_err() {
            let found = self.observe().await;
            panic!(
                "seed {seed}: wished for {wish:?}, found {found:?} after {:#?}",
                self.describe_history().await
            );
        }
    }

    /// A description of each revision, for the failure message.
    async fn describe_history(&self) -> Vec<String> {
        let storage = Storage::new(self.world.admin_client(), SHOP, Arc::new(SystemClock));
        let told = |stored: StoredRecord| {
            let Record { version, info, config, .. } = stored.record;
            format!("{version} {}: {} {config:?}", info.status, info.description)
        };
        storage.history(RELEASE_NAME).await.unwrap().into_iter().map(told).collect()
    }

    /// Status, records and objects, for comparison.
    async fn observe(&self) -> (Option<String>, Vec<String>, String) {
        let release = self.releases().get_opt(RELEASE_NAME).await.unwrap();
        let state = release.map(|release| {
            let current = release.metadata.generation;
            let status = release.status.unwrap_or_default();
            let settled = status.operation.is_none() && status.observed_generation == current;
            format!("{}{}", status.state, if settled { "" } else { "…" })
        });
        let owned = ListParams::default().labels("owner=helm");
        let records =
            Api::<Secret>::namespaced(self.world.admin_client(), SHOP).list(&owned).await.unwrap().items;
        let labels = records.into_iter().map(|record| record.metadata.labels.unwrap());
        let mut records: Vec<(i64, String)> =
            labels.map(|labels| (labels["version"].parse().unwrap(), labels["status"].clone())).collect();
        records.sort();
        let made = ListParams::default().labels("app.kubernetes.io/managed-by=Helm");
        let maps =
            Api::<ConfigMap>::namespaced(self.world.admin_client(), SHOP).list(&made).await.unwrap().items;
        let mut maps: Vec<String> = maps.into_iter().filter_map(|map| map.metadata.name).collect();
        maps.sort();
        (state, records.into_iter().map(|(_, status)| status).collect(), maps.concat())
    }
}

fn values(letters: &str) -> Arc<Members> {
    let data = helm_template::json::parse(format!("{{\"maps\": \"{letters}\"}}")).unwrap();
    Arc::new(data.as_map().unwrap().clone())
}

/// Whether exactly the desired state was found.
fn is_converged(wish: Option<&str>, (state, records, maps): &(Option<String>, Vec<String>, String)) -> bool {
    match (wish, records.split_last()) {
        (None, None) => state.is_none() && maps.is_empty(),
        (Some(letters), Some((newest, before))) => {
            // A `helm` command that crashed while uninstalling leaves this status on an old revision; it has no effect.
            let over = |status: &String| {
                matches!(status.as_str(), "superseded" | "failed" | "uninstalled" | "uninstalling")
            };
            state.as_deref() == Some("active")
                && newest == "deployed"
                && before.iter().all(over)
                && maps == letters
        }
        _ => false,
    }
}

async fn run_round(seed: u64) {
    let play = TestRound::new().await;
    let acting = async {
        let (wish, ()) = futures::join!(play.write_random_specs(seed * 8), play.run_helm_cli(seed * 8 + 1));
        play.is_over.store(true, Ordering::Relaxed);
        wish
    };
    let (wish, (), ()) =
        futures::join!(acting, play.run_server("one", seed * 8 + 2), play.run_server("two", seed * 8 + 3));
    // Writes in flight at the crash may have arrived since.
    play.expire_pending_operation().await;
    // The last server has exclusive access.
    let last = play.server(play.world.platform_client(), "three").await;
    let settled = async {
        if wish.is_none() {
            // A release that the `helm` command created since has no owner: adopt it and delete it.
            play.write_spec(Some("a")).await;
            play.wait_for_convergence(seed, Some("a")).await;
            play.write_spec(None).await;
        }
        play.wait_for_convergence(seed, wish).await;
    };
    tokio::select! {
        () = settled => {}
        _ = last.run_as_leader() => unreachable!("it leads for ever"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_converge() {
    let seeds = std::env::var("LONGSHORE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(100);
    stream::iter(0..seeds).map(run_round).buffer_unordered(MAX_CONCURRENT_ROUNDS).collect::<Vec<()>>().await;
}
