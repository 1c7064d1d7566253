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

use super::charts::{GREETING, asked, at, keep, until_state};
use crate::platform::{Person, call};
use crate::program::Server;
use crate::request::get;
use crate::target::{Cluster, Target, skipped, target};

/// Releases under concurrent change, so that a kill hits each at a different step.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// How long an interrupted operation may look as if it were running: ten seconds for the Leases of the killed server,
/// and as much again for a busy machine.
const PENDING: Duration = Duration::from_secs(20);

/// Limit for all releases to settle.
const LIMIT: Duration = Duration::from_mins(3);

/// Random number below `end`, different in each run.
fn random(end: u64) -> u64 {
    RandomState::new().hash_one(()) % end
}

/// Desired state of a release: its greeting, or `None` if deleted.
type Wish = Option<String>;

struct Play {
    cluster: Cluster,
    server: Option<Server>,
    person: Person,
    package: String,
    wishes: BTreeMap<&'static str, Wish>,
    /// Greeting of each revision.
    revisions: BTreeMap<&'static str, Vec<(i64, String)>>,
    asked: u64,
}

impl Play {
    async fn new() -> Self {
        let (cluster, server) = Cluster::with_platform().await;
        let person = Person::register(&server, &cluster).await;
        let package = keep(&server, &person, &person.id, GREETING).await;
        Self {
            cluster,
            server: Some(server),
            person,
            package,
            wishes: BTreeMap::new(),
            revisions: BTreeMap::new(),
            asked: 0,
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
            Target::Embedded => Server::start(&data),
            Target::Real(_) => Server::on(&self.cluster.kubeconfig(), &data),
        });
        killed
    }

    /// A client with the administrator's credentials for the current server.
    async fn admin(&self) -> kube::Client {
        match target() {
            Target::Embedded => self.server().client().await,
            Target::Real(_) => self.cluster.client().await,
        }
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let answer = call(&self.server().platform(), Some(&self.person.token), method, path, body).await;
        (answer.code, serde_json::from_str(&answer.text).unwrap_or_default())
    }

    /// Changes the desired state of each release.
    async fn ask(&mut self) {
        let namespace = self.person.id.clone();
        for name in NAMES {
            self.asked += 1;
            let (path, greeting) = (at(&namespace, name), format!("hello-{}", self.asked));
            let known = self.revisions.entry(name).or_default().clone();
            let there = self.wishes.get(name).is_some_and(Option::is_some);
            let ((code, answer), wish) = match (there, random(4)) {
                (false, _) => {
                    let body = asked(&namespace, name, &self.package, &json!({"greeting": greeting}));
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
            self.wishes.insert(name, wish);
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
    async fn settle(&mut self, began: Instant) -> Duration {
        let mut pending = Duration::ZERO;
        let admin = self.admin().await;
        let mut left: Vec<&'static str> = NAMES.to_vec();
        while !left.is_empty() {
            let mut open = Vec::new();
            for name in left {
                if let Err(why) = self.is_settled(&admin, name).await {
                    if why.contains("pending-") {
                        pending = began.elapsed();
                    }
                    assert!(began.elapsed() < LIMIT, "{name}: {why}\n{}", self.server().log());
                    open.push(name);
                }
            }
            left = open;
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
        let (code, release) = self.call(Method::GET, &at(namespace, name), None).await;
        let unlike = || Err(format!("{records:?} {code} {release}"));
        let Some(greeting) = self.wishes[name].clone() else {
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
async fn whoever_is_killed_over_releases_leaves_one_truth() {
    let kills: u64 = std::env::var("LONGSHORE_KILLS").map_or(6, |kills| kills.parse().unwrap());
    let mut play = Play::new().await;
    let mut longest = Duration::ZERO;
    for _ in 0..kills {
        play.ask().await;
        sleep(Duration::from_millis(random(600))).await;
        let killed = play.kill();
        longest = longest.max(play.settle(killed).await);
    }
    println!("{kills} kills, pending for {longest:?} at most");
    assert!(longest < PENDING, "pending for {longest:?}");
}

async fn leads(server: &Server) -> bool {
    get(&server.platform(), "/metrics").await.text.lines().any(|line| line == "longshore_leader 1")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stood_still_writes_nothing_over_its_successor() {
    if matches!(target(), Target::Embedded) {
        skipped("a server has its embedded cluster to itself");
        return;
    }
    let (cluster, first) = Cluster::with_platform().await;
    let person = Person::register(&first, &cluster).await;
    let package = keep(&first, &person, &person.id, GREETING).await;
    let second = Server::on(&cluster.kubeconfig(), &cluster.folder.path().join("second"));
    let began = Instant::now();
    while !leads(&first).await {
        assert!(began.elapsed() < LIMIT, "nobody leads");
        sleep(Duration::from_millis(50)).await;
    }
    let names: Vec<String> = (0..8).map(|number| format!("still-{number}")).collect();
    let namespace = person.id.as_str();
    let ask = async |server: &Server, name: &str, greeting: &str, new: bool| {
        let (method, path, body) = if new {
            (
                Method::POST,
                "releases".to_owned(),
                asked(namespace, name, &package, &json!({"greeting": greeting})),
            )
        } else {
            (Method::PATCH, at(namespace, name), json!({"values": {"greeting": greeting}}))
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
        let release = until_state_in(&second, &person.token, &at(namespace, name)).await;
        assert_eq!(release["version"], 2, "{release}");
        stood.push(versions(&admin, namespace, name).await);
    }
    assert!(leads(&second).await);
    first.signal("-CONT");
    // Leaves the former leader enough time for writes that it may still attempt.
    let began = Instant::now();
    while leads(&first).await {
        assert!(began.elapsed() < LIMIT, "it still thinks that it leads");
        sleep(Duration::from_millis(50)).await;
    }
    sleep(Duration::from_secs(5)).await;
    for (name, before) in names.iter().zip(stood) {
        assert_eq!(versions(&admin, namespace, name).await, before, "{name}");
    }
}

/// Waits until the second version of a release is active, also across a change of the leader.
async fn until_state_in(server: &Server, token: &str, path: &str) -> Value {
    let began = Instant::now();
    loop {
        let release = until_state(server, token, path, "active").await;
        if release["version"] == release["deployedVersion"] && release["version"] == 2 {
            return release;
        }
        assert!(began.elapsed() < LIMIT, "{release}");
        sleep(Duration::from_millis(100)).await;
    }
}

/// Versions of the release's Helm records, its `HelmRelease` and its ConfigMap.
async fn versions(admin: &kube::Client, namespace: &str, name: &str) -> Vec<String> {
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
