//! Four hostile tenants at the same time as a good one: one stores as much as it can, one has hundreds of broken
//! releases, one uploads packages and triggers index fetches, and one sends costly requests and does not read
//! responses.
//!
//! The good tenant reads and writes an object and installs small releases, before and during the attack. The attack
//! takes 20 s; `LONGSHORE_ATTACK_SECONDS=120` changes the duration.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use attacks::{CostlyBodies, LoadAttacker, ResponseTally, StoredNames};
use governor::priority;
use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tokio::runtime::{Handle, Runtime};
use tokio::time::sleep;

use super::packages::{gzip_index, serve_indexes};
use super::traffic::{RawClient, raise_open_files, token_in};
use crate::platform::{PlatformUser, call, until};
use crate::program::Server;
use crate::releases::charts::{GREETING, release_body, release_path, upload_chart};
use crate::request::{get, send_body};
use crate::target::{Cluster, only_on_embedded};

mod attacks;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
/// Duration of the baseline measurement.
const BASELINE_DURATION: Duration = Duration::from_secs(8);

/// Latencies up to these floors are accepted even if they exceed twice the baseline. A release build must meet the
/// goals themselves. In a debug build the attackers share two processors with the server and other tests, and
/// most work takes several times as long. Reads that queue behind the attackers' work still exceed these
/// floors.
const READ_FLOOR: Duration = Duration::from_millis(if cfg!(debug_assertions) { 1_000 } else { 20 });
const INSTALL_FLOOR: Duration = Duration::from_millis(if cfg!(debug_assertions) { 6_000 } else { 100 });
const HEALTH_LIMIT: Duration = Duration::from_millis(if cfg!(debug_assertions) { 2_500 } else { 100 });
const MAX_MEMORY: u64 = if cfg!(debug_assertions) { 3 << 29 } else { 1 << 30 };

/// Client configuration for the Kubernetes port, with a bearer token or anonymous.
async fn kube_config(server: &Server, token: Option<&str>) -> kube::Config {
    let mut kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig()).unwrap();
    let name = &kubeconfig.auth_infos[0].name;
    let user = match token {
        Some(token) => json!([{"name": name, "user": {"token": token}}]),
        None => json!([{"name": name, "user": {}}]),
    };
    kubeconfig.auth_infos = serde_json::from_value(user).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    config.default_retry = false;
    config
}

fn platform_config(server: &Server) -> kube::Config {
    let mut config = kube::Config::new(server.url.parse().unwrap());
    config.default_retry = false;
    config
}

/// Runs on a thread and runtime of its own, so that measurements are not delayed by the attackers' tasks in this
/// process.
pub fn on_own_thread<T: Send + 'static>(
    work: impl AsyncFnOnce() -> T + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work())
    })
}

fn p99(took: &mut [Duration]) -> Duration {
    took.sort();
    took[took.len() * 99 / 100]
}

/// Acknowledged writes of the good tenant.
#[derive(Default)]
struct WriteLedger {
    /// Last number written to the ConfigMap `canary`.
    number: u64,
    /// Releases that became active and were not deleted since.
    active: BTreeSet<String>,
    installed: usize,
}

/// The good tenant.
#[derive(Clone)]
struct GoodTenant {
    namespace: String,
    token: String,
    kube_token: String,
    package: String,
    ledger: Arc<Mutex<WriteLedger>>,
}

/// 99th percentiles of a measurement, with the number of samples.
struct Latencies {
    read: Duration,
    reads: usize,
    install: Duration,
    installs: usize,
    /// Slowest response of a health route.
    health: Duration,
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { read, reads, install, installs, health } = self;
        write!(
            f,
            "p99 of {reads} reads {read:?}, p99 of {installs} installs {install:?}, slowest health probe {health:?}"
        )
    }
}

impl GoodTenant {
    fn canary_path(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps/canary", self.namespace)
    }

    /// Reads an object repeatedly and sometimes changes it. Every request must succeed.
    async fn measure_reads(&self, config: kube::Config, end: Instant) -> Vec<Duration> {
        let client = kube::Client::try_from(config).unwrap();
        let mut took = Vec::new();
        while took.is_empty() || Instant::now() < end {
            let began = Instant::now();
            let answer = get(&client, &self.canary_path()).await;
            took.push(began.elapsed());
            assert_eq!(answer.code, 200, "{}", answer.text);
            if took.len() % 20 == 0 {
                let number = self.ledger.lock().unwrap().number + 1;
                let change = json!({"data": {"number": number.to_string()}}).to_string();
                let answer = send_body(&client, Method::PATCH, &self.canary_path(), MERGE, change).await;
                assert_eq!(answer.code, 200, "{}", answer.text);
                self.ledger.lock().unwrap().number = number;
            }
            sleep(Duration::from_millis(10)).await;
        }
        took
    }

    /// Installs small releases one after another and keeps the newest four.
    async fn measure_installs(&self, config: kube::Config, end: Instant) -> Vec<Duration> {
        let client = kube::Client::try_from(config).unwrap();
        let mut took = Vec::new();
        while took.is_empty() || Instant::now() < end {
            let name = {
                let mut ledger = self.ledger.lock().unwrap();
                ledger.installed += 1;
                format!("web-{}", ledger.installed)
            };
            let path = release_path(&self.namespace, &name);
            let body = release_body(&self.namespace, &name, &self.package, &json!({"greeting": "hello"}));
            let began = Instant::now();
            let made = call(&client, Some(&self.token), Method::POST, "releases", Some(&body)).await;
            assert_eq!(made.code, 201, "{}", made.text);
            loop {
                let answer = call(&client, Some(&self.token), Method::GET, &path, None).await;
                assert_eq!(answer.code, 200, "{}", answer.text);
                if answer.json()["state"] == "active" {
                    break;
                }
                assert!(began.elapsed() < Duration::from_mins(2), "{}", answer.text);
                sleep(Duration::from_millis(50)).await;
            }
            took.push(began.elapsed());
            let old = {
                let mut ledger = self.ledger.lock().unwrap();
                ledger.active.insert(name);
                let old = format!("web-{}", ledger.installed.saturating_sub(4));
                ledger.active.remove(&old).then_some(old)
            };
            if let Some(old) = old {
                let path = release_path(&self.namespace, &old);
                let answer = call(&client, Some(&self.token), Method::DELETE, &path, None).await;
                assert!(matches!(answer.code, 200 | 202 | 204), "{}", answer.text);
            }
        }
        took
    }

    /// Reads and installs for `duration` while probing the health routes.
    async fn measure(&self, server: &Server, duration: Duration) -> Latencies {
        let end = Instant::now() + duration;
        let (kube, platform) = (kube_config(server, Some(&self.kube_token)).await, platform_config(server));
        let anonymous = kube_config(server, None).await;
        let reader = self.clone();
        let reads = on_own_thread(async move || reader.measure_reads(kube, end).await);
        let (installer, config) = (self.clone(), platform.clone());
        let installs = on_own_thread(async move || installer.measure_installs(config, end).await);
        let probes = on_own_thread(async move || probe_health([anonymous, platform], end).await);
        let (mut reads, mut installs) = (reads.await.unwrap(), installs.await.unwrap());
        Latencies {
            read: p99(&mut reads),
            reads: reads.len(),
            install: p99(&mut installs),
            installs: installs.len(),
            health: probes.await.unwrap(),
        }
    }

    /// Writes the object as fast as possible until the server is gone.
    async fn write_until_killed(self, client: kube::Client) {
        loop {
            let number = self.ledger.lock().unwrap().number + 1;
            let change = json!({"data": {"number": number.to_string()}}).to_string();
            let request = Request::patch(self.canary_path()).header("content-type", MERGE);
            let Ok(answer) = client.send(request.body(change.into_bytes().into()).unwrap()).await else {
                return;
            };
            if answer.status() == 200 {
                self.ledger.lock().unwrap().number = number;
            }
        }
    }

    /// Asserts that every write acknowledged before a kill is stored.
    async fn assert_nothing_lost(&self, server: &Server) {
        let kube = kube::Client::try_from(kube_config(server, Some(&self.kube_token)).await).unwrap();
        let found = get(&kube, &self.canary_path()).await.json();
        let found: u64 = found["data"]["number"].as_str().unwrap().parse().unwrap();
        let (number, active) = {
            let ledger = self.ledger.lock().unwrap();
            (ledger.number, ledger.active.clone())
        };
        // One more write may have been stored without a response.
        assert!((number..=number + 1).contains(&found), "{found} is stored, {number} was acknowledged");
        for name in active {
            let answer = call(
                &server.platform(),
                Some(&self.token),
                Method::GET,
                &release_path(&self.namespace, &name),
                None,
            )
            .await;
            assert_eq!(answer.code, 200, "{name}: {}", answer.text);
            assert_eq!(answer.json()["state"], "active", "{name}: {}", answer.text);
        }
        self.ledger.lock().unwrap().number = found;
    }
}

/// Probes both health routes on both ports. Each must return 200. Returns the slowest response.
async fn probe_health(ports: [kube::Config; 2], end: Instant) -> Duration {
    let clients = ports.map(|config| kube::Client::try_from(config).unwrap());
    let mut slowest = Duration::ZERO;
    while Instant::now() < end {
        for client in &clients {
            for path in ["/healthz", "/readyz"] {
                let began = Instant::now();
                let answer = get(client, path).await;
                slowest = slowest.max(began.elapsed());
                assert_eq!(answer.code, 200, "{path}: {}", answer.text);
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
    slowest
}

/// Runtime of the attackers. Its threads have low priority: real attackers use processors of their own.
struct AttackRuntime(Option<Runtime>);

impl AttackRuntime {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .on_thread_start(priority::lower)
            .enable_all()
            .build();
        Self(Some(runtime.unwrap()))
    }

    fn spawn(&self, attack: impl Future<Output = ()> + Send + 'static) {
        self.runtime().spawn(attack);
    }

    fn runtime(&self) -> &Runtime {
        self.0.as_ref().unwrap()
    }
}

impl Drop for AttackRuntime {
    fn drop(&mut self) {
        // A runtime must not be dropped in async code with the usual wait for its threads.
        self.0.take().unwrap().shutdown_background();
    }
}

/// A server, four hostile tenants and a good one.
struct HostileLoadFixture {
    cluster: Cluster,
    repository: String,
    good: GoodTenant,
    /// Per hostile tenant: namespace, token for the platform's port, token for the Kubernetes port.
    hostile: Vec<(String, String, String)>,
    /// Packages of broken charts.
    broken: Vec<String>,
    /// A small archive that unpacks to a large size.
    archive: Vec<u8>,
    bodies: CostlyBodies,
    stored: StoredNames,
    tally: ResponseTally,
    baseline: Latencies,
}

/// An attacker whose connections run on `runtime`.
async fn attacker(
    server: &Server,
    (namespace, token, kube_token): &(String, String, String),
    until: Instant,
    tally: &ResponseTally,
    runtime: &Handle,
) -> LoadAttacker {
    let config = kube_config(server, Some(kube_token)).await;
    let _entered = runtime.enter();
    LoadAttacker {
        namespace: namespace.clone(),
        token: token.clone(),
        kube: kube::Client::try_from(config).unwrap(),
        platform: kube::Client::try_from(platform_config(server)).unwrap(),
        end: until,
        tally: tally.clone(),
    }
}

fn start(data: &Path) -> Server {
    Server::start_with(data, &[("LONGSHORE_OUTBOUND_ALLOW", "127.0.0.1")])
}

impl HostileLoadFixture {
    /// Registers all tenants and measures the baseline.
    async fn prepare() -> (Self, Server) {
        raise_open_files();
        let cluster = Cluster::start();
        let server = start(&cluster.folder.path().join("platform"));
        let (mut hostile, mut broken) = (Vec::new(), Vec::new());
        for number in 0..4 {
            let person = PlatformUser::register(&server, &cluster).await;
            if number == 1 {
                broken = attacks::broken_packages(&server, &person).await;
            }
            let kube_token = token_in(&person.kubeconfig(&cluster).await);
            hostile.push((person.id, person.token, kube_token));
        }
        let person = PlatformUser::register(&server, &cluster).await;
        let kube_token = token_in(&person.kubeconfig(&cluster).await);
        let package = upload_chart(&server, &person, &person.id, GREETING).await;
        let ledger = Arc::default();
        let good = GoodTenant { namespace: person.id, token: person.token, kube_token, package, ledger };
        let kube = kube::Client::try_from(kube_config(&server, Some(&good.kube_token)).await).unwrap();
        let map = json!({"metadata": {"name": "canary"}, "data": {"number": "0"}}).to_string();
        let path = format!("/api/v1/namespaces/{}/configmaps", good.namespace);
        let made = send_body(&kube, Method::POST, &path, JSON, map).await;
        assert_eq!(made.code, 201, "{}", made.text);
        let baseline = good.measure(&server, BASELINE_DURATION).await;
        let repository = serve_indexes(gzip_index(false), gzip_index(true));
        let (stored, tally) = (StoredNames::default(), ResponseTally::default());
        let fourth = attacker(&server, &hostile[3], Instant::now(), &tally, &Handle::current()).await;
        let (bodies, archive) = (CostlyBodies::prepare(&fourth).await, attacks::package_bomb());
        let arena =
            Self { cluster, repository, good, hostile, broken, archive, bodies, stored, tally, baseline };
        (arena, server)
    }

    /// Starts the four attacks, which end after `duration` or when the returned runtime is dropped.
    async fn attack(&self, server: &Server, duration: Duration, phase: usize) -> AttackRuntime {
        let until = Instant::now() + duration;
        let (attacks, mut attackers) = (AttackRuntime::new(), Vec::new());
        for hostile in &self.hostile {
            attackers.push(attacker(server, hostile, until, &self.tally, attacks.runtime().handle()).await);
        }
        let [one, two, three, four] = <[LoadAttacker; 4]>::try_from(attackers).ok().unwrap();
        attacks.spawn(attacks::store_attack(one, self.stored.clone(), phase));
        attacks.spawn(attacks::release_attack(two, self.broken.clone()));
        attacks.spawn(attacks::package_attack(three, self.repository.clone(), self.archive.clone()));
        let token = self.hostile[3].2.clone();
        attacks.spawn(attacks::request_attack(four, self.bodies.clone(), RawClient::new(server), token));
        attacks
    }

    /// Asserts latency limits of the good tenant and the memory limit of the server.
    fn assert_limits(&self, server: &Server, during: &Latencies) -> String {
        let (now, peak) = server.memory();
        let measured = format!(
            "before: {}; under attack: {during}; memory {} MiB, at most {} MiB; {}",
            self.baseline,
            now >> 20,
            peak >> 20,
            self.tally
        );
        let (read, install) = (self.baseline.read * 2, self.baseline.install * 2);
        assert!(during.read <= read.max(READ_FLOOR), "{measured}");
        assert!(during.install <= install.max(INSTALL_FLOOR), "{measured}");
        assert!(during.health <= HEALTH_LIMIT, "{measured}");
        assert!(peak < MAX_MEMORY, "{measured}");
        // Each attack really took place.
        let any = [200, 201, 400, 403, 404, 409, 413, 422, 429, 500, 504];
        for (attack, least) in [
            ("store", 5),
            ("releases", 20),
            ("uploads", 10),
            ("indexes", 10),
            ("patch bombs", 1),
            ("roles", 1),
            ("decisions", 2),
            ("reviews", 2),
            ("watches", 20),
            ("unread answers", 20),
        ] {
            let answered = self.tally.responses(attack, &any);
            assert!(answered >= least, "{attack}: {answered} answers; {}", self.tally);
        }
        measured
    }

    /// Asserts that the server is healthy without a restart and every controller works.
    async fn assert_recovers(&self, server: &Server) {
        let platform = server.platform();
        let kube = server.client().await;
        for client in [&platform, &kube] {
            until("the server is ready", async || (get(client, "/readyz").await.code == 200).then_some(()))
                .await;
        }
        let tenant = kube::Client::try_from(kube_config(server, Some(&self.good.kube_token)).await).unwrap();
        let path = format!("/apis/apps/v1/namespaces/{}/deployments", self.good.namespace);
        let labels = json!({"app": "rollout"});
        let deployment = json!({
            "metadata": {"name": "rollout"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template":
                {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}},
        });
        let made = send_body(&tenant, Method::POST, &path, JSON, deployment.to_string()).await;
        assert_eq!(made.code, 201, "{}", made.text);
        until("the Deployment is rolled out", async || {
            let found = get(&tenant, &format!("{path}/rollout")).await.json();
            (found["status"]["availableReplicas"] == 1).then_some(())
        })
        .await;
        self.good.measure(server, Duration::ZERO).await;
        PlatformUser::register(server, &self.cluster).await;
        let metrics = get(&platform, "/metrics").await.text;
        assert!(!metrics.contains("longshore_reconcile_panics_total"), "{metrics}");
        assert!(!server.log().contains("panicked"), "{}", server.log());
    }
}

/// Duration of the attack.
fn attack_duration() -> Duration {
    let seconds = std::env::var("LONGSHORE_ATTACK_SECONDS");
    Duration::from_secs(seconds.map_or(20, |seconds| seconds.parse().unwrap()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_tenants_at_once_do_not_stop_a_good_one() {
    if !only_on_embedded() {
        return;
    }
    let (arena, server) = HostileLoadFixture::prepare().await;
    server.memory();
    let attacks = arena.attack(&server, attack_duration(), 0).await;
    let during = arena.good.measure(&server, attack_duration()).await;
    println!("{}", arena.assert_limits(&server, &during));
    drop(attacks);
    arena.assert_recovers(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_killed_under_hostile_tenants_loses_nothing_and_serves_a_good_one() {
    if !only_on_embedded() {
        return;
    }
    let (arena, server) = HostileLoadFixture::prepare().await;
    let half = attack_duration() / 2;
    // The attack is longer than the test needs: the kill ends it.
    let attacks = arena.attack(&server, half * 2, 0).await;
    arena.good.measure(&server, half).await;
    let config = kube_config(&server, Some(&arena.good.kube_token)).await;
    attacks.spawn(arena.good.clone().write_until_killed(kube::Client::try_from(config).unwrap()));
    sleep(Duration::from_secs(1)).await;
    let data = server.data().to_owned();
    server.kill();
    drop(attacks);

    let server = start(&data);
    arena.good.assert_nothing_lost(&server).await;
    let admin = server.client().await;
    let path = format!("/api/v1/namespaces/{}/configmaps", arena.hostile[0].0);
    let found = get(&admin, &path).await.json();
    let names = found["items"].as_array().unwrap().iter();
    let names: BTreeSet<&str> = names.filter_map(|map| map["metadata"]["name"].as_str()).collect();
    let lost: Vec<String> =
        arena.stored.lock().unwrap().iter().filter(|name| !names.contains(name.as_str())).cloned().collect();
    assert!(lost.is_empty(), "{lost:?} were acknowledged and are lost");

    server.memory();
    let attacks = arena.attack(&server, half, 1).await;
    let during = arena.good.measure(&server, half).await;
    println!("{}", arena.assert_limits(&server, &during));
    drop(attacks);
    arena.assert_recovers(&server).await;
}
