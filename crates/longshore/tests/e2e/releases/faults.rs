//! Servers that are killed or stopped during operations on releases. The next leader completes the operations, and
//! status, objects and Helm records agree afterwards.
//!
//! Kills 6 times by default; `LONGSHORE_KILLS=50` changes the number.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::charts::{GREETING, release_body, release_path, upload_chart, wait_for_state};
use crate::platform::{PlatformUser, call};
use crate::program::Server;
use crate::request::get;
use crate::target::{Cluster, TestTarget, report_skipped, target};

/// Releases under concurrent change, so that a kill hits each at a different step.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// How long an interrupted operation may look as if it were running: ten seconds for the Leases of the killed server,
/// and as much again for a busy machine.
const MAX_PENDING: Duration = Duration::from_secs(20);

/// Limit for all releases to settle.
const SETTLE_TIMEOUT: Duration = Duration::from_mins(3);

/// Random number below `end`, different in each run.
fn random(end: u64) -> u64 {
    RandomState::new().hash_one(()) % end
}

/// Desired state of a release: its greeting, or `None` if deleted.
type DesiredGreeting = Option<String>;

struct FaultHarness {
    cluster: Cluster,
    server: Option<Server>,
    person: PlatformUser,
    package: String,
    desired: BTreeMap<&'static str, DesiredGreeting>,
    /// Greeting of each revision.
    revisions: BTreeMap<&'static str, Vec<(i64, String)>>,
    change_count: u64,
}

impl FaultHarness {
    async fn new() -> Self {
        let (cluster, server) = Cluster::with_platform().await;
        let person = PlatformUser::register(&server, &cluster).await;
        let package = upload_chart(&server, &person, &person.id, GREETING).await;
        Self {
            cluster,
            server: Some(server),
            person,
            package,
            desired: BTreeMap::new(),
            revisions: BTreeMap::new(),
            change_count: 0,
        }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// Kills the server and starts another on its data. Returns the time of the kill.
    fn kill(&mut self) -> Instant {
        let server = self.server.take().unwrap();
        let data = server.data().to_owned();
        let killed = Instant::now();
        server.kill();
        self.server = Some(match target() {
            TestTarget::Embedded => Server::start(&data),
            TestTarget::Real(_) => Server::start_on_cluster(&self.cluster.kubeconfig(), &data),
        });
        killed
    }

    /// A client with the administrator's credentials for the current server.
    async fn admin(&self) -> kube::Client {
        match target() {
            TestTarget::Embedded => self.server().client().await,
            TestTarget::Real(_) => self.cluster.client().await,
        }
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let answer = call(&self.server().platform(), Some(&self.person.token), method, path, body).await;
        (answer.code, serde_json::from_str(&answer.text).unwrap_or_default())
    }

    /// Changes the desired state of each release.
    async fn change_desired_state(&mut self) {
        let namespace = self.person.id.clone();
        for name in NAMES {
            self.change_count += 1;
            let (path, greeting) = (release_path(&namespace, name), format!("hello-{}", self.change_count));
            let known = self.revisions.entry(name).or_default().clone();
            let there = self.desired.get(name).is_some_and(Option::is_some);
            let ((code, answer), wish) = match (there, random(4)) {
                (false, _) => {
                    let body = release_body(&namespace, name, &self.package, &json!({"greeting": greeting}));
                    (self.call(Method::POST, "releases", Some(&body)).await, Some(greeting))
                }
                (true, 0) => (self.call(Method::DELETE, &path, None).await, None),
                (true, 1) if !known.is_empty() => {
                    let (revision, greeting) =
                        known[usize::try_from(random(known.len() as u64)).unwrap()].clone();
                    let body = json!({"revision": revision});
                    (self.call(Method::POST, &format!("{path}/rollback"), Some(&body)).await, Some(greeting))
                }
                (true, _) => {
                    let body = json!({"values": {"greeting": greeting}});
                    (self.call(Method::PATCH, &path, Some(&body)).await, Some(greeting))
                }
            };
            assert!(matches!(code, 200..=202), "{name}: {code} {answer}");
            if wish.is_none() {
                self.revisions.remove(name);
            }
            self.desired.insert(name, wish);
        }
    }

    /// Helm records of a release as (revision, status), oldest first.
    async fn records(&self, admin: &kube::Client, name: &str) -> Vec<(i64, String)> {
        let path = format!(
            "/api/v1/namespaces/{}/secrets?labelSelector=owner%3Dhelm%2Cname%3D{name}",
            self.person.id
        );
        let list = get(admin, &path).await.json();
        let record = |item: &Value| {
            let label = |name: &str| item["metadata"]["labels"][name].as_str().unwrap().to_owned();
            (label("version").parse().unwrap(), label("status"))
        };
        let mut records: Vec<_> = list["items"].as_array().unwrap().iter().map(record).collect();
        records.sort();
        records
    }

    /// Waits until every release has its desired state. Returns how long after `began` one of them was still pending.
    async fn wait_until_settled(&mut self, began: Instant) -> Duration {
        let mut pending = Duration::ZERO;
        let admin = self.admin().await;
        let mut remaining: Vec<&'static str> = NAMES.to_vec();
        while !remaining.is_empty() {
            let mut open = Vec::new();
            for name in remaining {
                if let Err(why) = self.is_settled(&admin, name).await {
                    if why.contains("pending-") {
                        pending = began.elapsed();
                    }
                    assert!(began.elapsed() < SETTLE_TIMEOUT, "{name}: {why}\n{}", self.server().log());
                    open.push(name);
                }
            }
            remaining = open;
            sleep(Duration::from_millis(100)).await;
        }
        pending
    }

    async fn is_settled(&mut self, admin: &kube::Client, name: &'static str) -> Result<(), String> {
        let records = self.records(admin, name).await;
        let deployed = records.iter().filter(|(_, status)| status == "deployed").count();
        assert!(deployed <= 1, "{name}: {records:?}");
        let namespace = &self.person.id;
        let map = get(admin, &format!("/api/v1/namespaces/{namespace}/configmaps/{name}")).await;
        let (code, release) = self.call(Method::GET, &release_path(namespace, name), None).await;
        let unlike = || Err(format!("{records:?} {code} {release}"));
        let Some(greeting) = self.desired[name].clone() else {
            return if records.is_empty() && map.code == 404 && code == 404 { Ok(()) } else { unlike() };
        };
        let Some((newest, before)) = records.split_last() else { return unlike() };
        let over = before.iter().all(|(_, status)| matches!(status.as_str(), "superseded" | "failed"));
        let there = map.code == 200 && map.json()["data"]["greeting"] == greeting.as_str();
        let told = release["state"] == "active" && release["revision"] == newest.0;
        if !(newest.1 == "deployed"
            && over
            && there
            && told
            && release["deployedVersion"] == release["version"])
        {
            return unlike();
        }
        let known = self.revisions.entry(name).or_default();
        known.push((newest.0, greeting));
        // Fewer than the retained history, so that each can be rolled back to.
        known.drain(..known.len().saturating_sub(2));
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn releases_are_consistent_after_server_is_killed() {
    let kills: u64 = std::env::var("LONGSHORE_KILLS").map_or(6, |kills| kills.parse().unwrap());
    let mut harness = FaultHarness::new().await;
    let mut longest = Duration::ZERO;
    for _ in 0..kills {
        harness.change_desired_state().await;
        sleep(Duration::from_millis(random(600))).await;
        let killed = harness.kill();
        longest = longest.max(harness.wait_until_settled(killed).await);
    }
    println!("{kills} kills, pending for {longest:?} at most");
    assert!(longest < MAX_PENDING, "pending for {longest:?}");
}

async fn is_leader(server: &Server) -> bool {
    get(&server.platform(), "/metrics").await.text.lines().any(|line| line == "longshore_leader 1")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stood_still_writes_nothing_over_its_successor() {
    if matches!(target(), TestTarget::Embedded) {
        report_skipped("a server has its embedded cluster to itself");
        return;
    }
    let (cluster, first) = Cluster::with_platform().await;
    let person = PlatformUser::register(&first, &cluster).await;
    let package = upload_chart(&first, &person, &person.id, GREETING).await;
    let second = Server::start_on_cluster(&cluster.kubeconfig(), &cluster.folder.path().join("second"));
    let began = Instant::now();
    while !is_leader(&first).await {
        assert!(began.elapsed() < SETTLE_TIMEOUT, "nobody leads");
        sleep(Duration::from_millis(50)).await;
    }
    let names: Vec<String> = (0..8).map(|number| format!("still-{number}")).collect();
    let namespace = person.id.as_str();
    let ask = async |server: &Server, name: &str, greeting: &str, new: bool| {
        let (method, path, body) = if new {
            (
                Method::POST,
                "releases".to_owned(),
                release_body(namespace, name, &package, &json!({"greeting": greeting})),
            )
        } else {
            (Method::PATCH, release_path(namespace, name), json!({"values": {"greeting": greeting}}))
        };
        let answer = call(&server.platform(), Some(&person.token), method, &path, Some(&body)).await;
        assert!(matches!(answer.code, 200 | 201), "{}", answer.text);
    };
    // The leader is stopped in the middle: some releases are installed, some have begun, some have not.
    for name in &names {
        ask(&second, name, "first", true).await;
    }
    sleep(Duration::from_millis(random(300))).await;
    first.signal("-STOP");
    for name in &names {
        ask(&second, name, "second", false).await;
    }
    let admin = cluster.client().await;
    let mut stood = Vec::new();
    for name in &names {
        let release =
            wait_until_second_version_is_active(&second, &person.token, &release_path(namespace, name)).await;
        assert_eq!(release["version"], 2, "{release}");
        stood.push(resource_versions(&admin, namespace, name).await);
    }
    assert!(is_leader(&second).await);
    first.signal("-CONT");
    // Leaves the former leader enough time for writes that it may still attempt.
    let began = Instant::now();
    while is_leader(&first).await {
        assert!(began.elapsed() < SETTLE_TIMEOUT, "it still thinks that it leads");
        sleep(Duration::from_millis(50)).await;
    }
    sleep(Duration::from_secs(5)).await;
    for (name, before) in names.iter().zip(stood) {
        assert_eq!(resource_versions(&admin, namespace, name).await, before, "{name}");
    }
}

/// Waits until the second version of a release is active, also across a change of the leader.
async fn wait_until_second_version_is_active(server: &Server, token: &str, path: &str) -> Value {
    let began = Instant::now();
    loop {
        let release = wait_for_state(server, token, path, "active").await;
        if release["version"] == release["deployedVersion"] && release["version"] == 2 {
            return release;
        }
        assert!(began.elapsed() < SETTLE_TIMEOUT, "{release}");
        sleep(Duration::from_millis(100)).await;
    }
}

/// Versions of the release's Helm records, its `HelmRelease` and its ConfigMap.
async fn resource_versions(admin: &kube::Client, namespace: &str, name: &str) -> Vec<String> {
    let mut all = Vec::new();
    for path in [
        format!("/api/v1/namespaces/{namespace}/secrets?labelSelector=owner%3Dhelm%2Cname%3D{name}"),
        format!("/api/v1/namespaces/{namespace}/configmaps?fieldSelector=metadata.name%3D{name}"),
        format!(
            "/apis/longshore.dev/v1alpha1/namespaces/{namespace}/helmreleases?fieldSelector=metadata.name%3D{name}"
        ),
    ] {
        let list = get(admin, &path).await.json();
        for item in list["items"].as_array().unwrap() {
            let status = item["metadata"]["labels"]["status"].as_str().unwrap_or_default();
            let greeting = item["data"]["greeting"].as_str().unwrap_or_default();
            all.push(format!(
                "{} {} {status}{greeting}",
                item["metadata"]["name"], item["metadata"]["resourceVersion"]
            ));
        }
    }
    all
}
