//! Durability: `kill -9` at random times while eight clients write over TLS. Acknowledged writes survive, others are
//! stored completely or not at all, `resourceVersion` never decreases, and a watch resumes or reports 410 Expired.
//!
//! Kills 20 times by default; `LONGSHORE_KILLS=200` changes the number. Each writer has its own objects, so that the
//! expected state of each is known: the last acknowledged one, or that of the one request without a response.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ResourceQuota};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio::time::{sleep, timeout};

use crate::program::{Server, longshore};
use crate::target::only_on_embedded;

const WRITERS: u64 = 8;
/// Number of objects that each writer creates, changes and deletes.
const OBJECTS: u64 = 12;
const NAMESPACE: &str = "crash";
const ROOT_CA: &str = "kube-root-ca.crt";
const QUOTA: &str = "count/configmaps";

/// Random number below `end`, different in each run.
fn random(end: u64) -> u64 {
    RandomState::new().hash_one(()) % end
}

/// An object as a writer or a watcher last observed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ObservedObject {
    version: u64,
    number: u64,
}

/// A ConfigMap that contains its own text length, so that partial writes are detected.
fn document(name: &str, number: u64) -> Value {
    let text = format!("{number} ").repeat(usize::try_from(number * 37 % 400).unwrap());
    let length = text.len().to_string();
    json!({"metadata": {"name": name}, "data": {"number": number.to_string(), "text": text, "length": length}})
}

fn observe(map: &ConfigMap) -> ObservedObject {
    let name = map.metadata.name.as_ref().unwrap();
    let number = map.data.as_ref().unwrap()["number"].parse().unwrap();
    let expected: ConfigMap = serde_json::from_value(document(name, number)).unwrap();
    assert_eq!(map.data, expected.data, "half of {name}");
    ObservedObject { version: version(map.metadata.resource_version.as_ref()), number }
}

fn version(text: Option<&String>) -> u64 {
    text.unwrap().parse().unwrap()
}

/// Acknowledged state and last request per object name.
#[derive(Default)]
struct WriteLog {
    acknowledged: BTreeMap<String, ObservedObject>,
    /// Requested number, or `None` for a deletion. Removed once acknowledged.
    requested: BTreeMap<String, Option<u64>>,
    /// Versions of all acknowledged writes.
    versions: BTreeSet<u64>,
    last_number: u64,
}

impl WriteLog {
    /// Chooses the next operation on an object. Returns its current and its requested state.
    fn next_write(&mut self, name: &str) -> (Option<ObservedObject>, Option<u64>) {
        let before = self.acknowledged.get(name).copied();
        self.last_number += 1;
        let desired = (before.is_none() || random(4) > 0).then_some(self.last_number);
        self.requested.insert(name.to_owned(), desired);
        (before, desired)
    }

    fn acknowledge(&mut self, name: &str, made: Option<ObservedObject>) {
        self.requested.remove(name);
        match made {
            Some(made) => {
                self.versions.insert(made.version);
                self.acknowledged.insert(name.to_owned(), made);
            }
            None => {
                self.acknowledged.remove(name);
            }
        }
    }

    /// Compares the stored objects with the acknowledged ones, then adopts the stored state.
    fn assert_consistent(&mut self, found: &BTreeMap<String, ObservedObject>) {
        let names: BTreeSet<&String> = found.keys().chain(self.acknowledged.keys()).collect();
        for name in names {
            let (is, told) = (found.get(name), self.acknowledged.get(name));
            let asked = self.requested.get(name).is_some_and(|asked| *asked == is.map(|is| is.number));
            assert!(is == told || asked, "{name} is {is:?}, acknowledged was {told:?}");
        }
        self.acknowledged.clone_from(found);
        self.requested.clear();
    }
}

/// Creates, replaces, patches and deletes as fast as possible until the server is gone.
async fn write(maps: Api<ConfigMap>, writer: u64, book: Arc<Mutex<WriteLog>>) {
    loop {
        let name = format!("w{writer}-{}", random(OBJECTS));
        let (before, wanted) = book.lock().unwrap().next_write(&name);
        let params = PostParams::default();
        let done = match (before, wanted) {
            (_, None) => maps.delete(&name, &DeleteParams::default()).await.map(|_| None),
            (None, Some(number)) => {
                let map = serde_json::from_value(document(&name, number)).unwrap();
                maps.create(&params, &map).await.map(Some)
            }
            (Some(before), Some(number)) if number % 2 == 0 => {
                let mut map: ConfigMap = serde_json::from_value(document(&name, number)).unwrap();
                map.metadata.resource_version = Some(before.version.to_string());
                maps.replace(&name, &params, &map).await.map(Some)
            }
            (Some(_), Some(number)) => {
                let patch = Patch::Merge(document(&name, number));
                maps.patch(&name, &PatchParams::default(), &patch).await.map(Some)
            }
        };
        match done {
            Ok(map) => book.lock().unwrap().acknowledge(&name, map.as_ref().map(observe)),
            Err(kube::Error::Api(refused)) => panic!("{name}: {refused:?}"),
            Err(_) => return, // the server was killed
        }
    }
}

/// A client that lists once and then follows a watch.
#[derive(Default)]
struct Watcher {
    objects: BTreeMap<String, ObservedObject>,
    /// `list_version`: version of the list; `event_versions`: versions of the events received since; `last_version`: version of the
    /// last event.
    list_version: u64,
    event_versions: BTreeSet<u64>,
    last_version: u64,
    /// How often a watch was resumed from an earlier one.
    resume_count: u64,
}

enum WatchEnd {
    /// 410: the requested version is no longer retained.
    Expired,
    Disconnected,
}

impl Watcher {
    async fn list(&mut self, maps: &Api<ConfigMap>) {
        let list = maps.list(&ListParams::default()).await.unwrap();
        let at = version(list.metadata.resource_version.as_ref());
        *self = Self {
            objects: by_name(&list.items),
            list_version: at,
            last_version: at,
            resume_count: self.resume_count,
            ..Self::default()
        };
    }

    /// Watches, and reconnects at random from the version it has reached.
    async fn watch(&mut self, maps: &Api<ConfigMap>) -> WatchEnd {
        loop {
            let Ok(events) = maps.watch(&WatchParams::default(), &self.last_version.to_string()).await else {
                return WatchEnd::Disconnected;
            };
            let mut events = std::pin::pin!(events);
            for _ in 0..=random(200) {
                match events.try_next().await {
                    Ok(Some(WatchEvent::Error(status))) => {
                        assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
                        return WatchEnd::Expired;
                    }
                    Ok(Some(event)) => self.apply_event(event),
                    Ok(None) | Err(_) => return WatchEnd::Disconnected,
                }
            }
            self.resume_count += 1;
        }
    }

    fn apply_event(&mut self, event: WatchEvent<ConfigMap>) {
        let (map, stays) = match event {
            WatchEvent::Added(map) | WatchEvent::Modified(map) => (map, true),
            WatchEvent::Deleted(map) => (map, false),
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => return,
        };
        let name = map.metadata.name.clone().unwrap();
        if name == ROOT_CA {
            return;
        }
        let known = observe(&map);
        assert!(known.version > self.last_version, "told of {} after {}", known.version, self.last_version);
        self.last_version = known.version;
        self.event_versions.insert(known.version);
        if stays {
            self.objects.insert(name, known);
        } else {
            self.objects.remove(&name);
        }
    }

    /// Checks that no acknowledged write was missed and no event shows a state that was lost.
    fn assert_no_lost_events(
        &self,
        acknowledged: &BTreeSet<u64>,
        found: &BTreeMap<String, ObservedObject>,
        now: u64,
    ) {
        assert!(self.last_version <= now, "{} was seen, and now it is {now}", self.last_version);
        let due = acknowledged
            .iter()
            .filter(|version| (self.list_version + 1..=self.last_version).contains(version));
        let missed: Vec<_> = due.filter(|version| !self.event_versions.contains(version)).collect();
        assert!(
            missed.is_empty(),
            "not told of {missed:?} between {} and {}",
            self.list_version,
            self.last_version
        );
        for (name, seen) in &self.objects {
            let older = found.get(name).filter(|found| found.version < seen.version);
            assert!(older.is_none(), "{name} was seen as {seen:?} and is {older:?}");
        }
    }

    /// Continues after the restart, from its version or with a new list, until its state equals the stored one.
    async fn catch_up(&mut self, maps: &Api<ConfigMap>, found: &BTreeMap<String, ObservedObject>) {
        // There are no writers now: a resumed watch delivers the missed events immediately and then none. How long
        // that takes depends on the load of the machine.
        let mut at_once = Duration::from_millis(200);
        loop {
            match timeout(at_once, self.watch(maps)).await {
                Ok(WatchEnd::Expired) => self.list(maps).await,
                Ok(WatchEnd::Disconnected) => panic!("the server is there"),
                Err(_) => {}
            }
            if self.objects == *found || at_once > Duration::from_secs(10) {
                break;
            }
            at_once *= 2;
        }
        assert_eq!(&self.objects, found);
    }
}

fn by_name(maps: &[ConfigMap]) -> BTreeMap<String, ObservedObject> {
    let named = |map: &ConfigMap| map.metadata.name.clone().unwrap();
    maps.iter().filter(|map| named(map) != ROOT_CA).map(|map| (named(map), observe(map))).collect()
}

/// All ConfigMaps and the list's version. The quota is written together with each object, so its count must be exact.
async fn list_all(client: &kube::Client) -> (BTreeMap<String, ObservedObject>, u64) {
    let list =
        Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE).list(&ListParams::default()).await.unwrap();
    let quota = Api::<ResourceQuota>::namespaced(client.clone(), NAMESPACE).get("quota").await.unwrap();
    let used = quota.status.unwrap().used.unwrap()[QUOTA].0.clone();
    assert_eq!(used, list.items.len().to_string(), "half of a change survived");
    (by_name(&list.items), version(list.metadata.resource_version.as_ref()))
}

/// Creates the writers' namespace and its quota, and waits until the quota has a status.
async fn prepare(client: &kube::Client) {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), NAMESPACE);
    // The root CA ConfigMap is created by a controller. A quota created at the same time might not count it.
    while maps.get_opt(ROOT_CA).await.unwrap().is_none() {
        sleep(Duration::from_millis(20)).await;
    }
    let quota = json!({"metadata": {"name": "quota"}, "spec": {"hard": {QUOTA: "1000"}}});
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    while quotas.get("quota").await.unwrap().status.and_then(|status| status.used).is_none() {
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits for a random number of writes, independent of the speed of the machine.
async fn wait_for_writes(book: &Mutex<WriteLog>) {
    let enough = book.lock().unwrap().last_number + random(160);
    let written = async {
        while book.lock().unwrap().last_number < enough {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let _ = timeout(Duration::from_secs(15), written).await;
    sleep(Duration::from_micros(random(20_000))).await;
}

/// Starts a server and kills it before it is ready.
async fn kill_during_start(data: &Path) {
    let mut serve = longshore(["serve", "--listen", "127.0.0.1:0", "--kube-listen", "127.0.0.1:0", "--data"]);
    let mut child = serve.arg(data).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    sleep(Duration::from_millis(random(150))).await;
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_kill() {
    if !only_on_embedded() {
        return;
    }
    let kills: u64 = std::env::var("LONGSHORE_KILLS").map_or(20, |kills| kills.parse().unwrap());
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    let book = Arc::new(Mutex::new(WriteLog::default()));
    let (mut watchers, mut newest) = ([Watcher::default(), Watcher::default()], 0);
    for kill in 0..=kills {
        let server = Server::start(&data);
        let client = server.client().await;
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
        if kill == 0 {
            prepare(&client).await;
            for watcher in &mut watchers {
                watcher.list(&maps).await;
            }
        }
        let (found, now) = list_all(&client).await;
        assert!(now >= newest, "the version went back from {newest} to {now}");
        newest = now;
        for watcher in &mut watchers {
            watcher.assert_no_lost_events(&book.lock().unwrap().versions, &found, now);
            watcher.catch_up(&maps, &found).await;
        }
        book.lock().unwrap().assert_consistent(&found);
        if kill == kills {
            break;
        }

        let writers: Vec<_> =
            (0..WRITERS).map(|writer| tokio::spawn(write(maps.clone(), writer, book.clone()))).collect();
        let watching = watchers.map(|mut watcher| {
            let maps = maps.clone();
            tokio::spawn(async move {
                while let WatchEnd::Expired = watcher.watch(&maps).await {
                    watcher.list(&maps).await;
                }
                watcher
            })
        });
        wait_for_writes(&book).await;
        server.kill();
        for writer in writers {
            writer.await.unwrap();
        }
        let [one, other] = watching;
        watchers = [one.await.unwrap(), other.await.unwrap()];
        if random(4) == 0 {
            kill_during_start(&data).await;
        }
    }
    let (written, resumed) =
        (book.lock().unwrap().versions.len(), watchers[0].resume_count + watchers[1].resume_count);
    println!("{kills} kills, {written} writes acknowledged, {resumed} watches resumed");
    assert!(written as u64 > kills * 10 && resumed > 0, "hardly anything happened: {written}, {resumed}");
}
