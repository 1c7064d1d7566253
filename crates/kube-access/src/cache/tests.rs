//! Caches on an embedded cluster, over a connection that can be cut.

mod faulty_watch;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_types::User;
use serde_json::{Value, json};
use testkit::fault::LinkState;
use testkit::{FaultInjector, TestCluster, wait_for};
use tokio::time::timeout;

use super::*;
use crate::Clients;

const NAMESPACE: &str = "default";

fn maps(client: kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client, NAMESPACE)
}

/// Short watches, so that a dead connection is detected soon.
fn short_watches() -> Config {
    Config::default().labels("of=test").timeout(1)
}

fn start_cache(world: &TestCluster, fault: &FaultInjector) -> WatchCache<ConfigMap> {
    let clients = Clients::with_timeout(fault.wrap(world.admin_client()), Duration::from_secs(1));
    WatchCache::start(maps(clients.platform()), short_watches(), |_| {})
}

async fn write(world: &TestCluster, name: &str, text: &str) {
    let map: ConfigMap = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"of": "test"}}, "data": {"text": text},
    }))
    .unwrap();
    let params = PatchParams::apply("test").force();
    maps(world.admin_client()).patch(name, &params, &Patch::Apply(&map)).await.unwrap();
}

async fn delete(world: &TestCluster, name: &str) {
    maps(world.admin_client()).delete(name, &DeleteParams::default()).await.unwrap();
}

fn text(map: &ConfigMap) -> String {
    format!("{}={}", map.name_any(), map.data.as_ref().map_or("", |data| &data["text"]))
}

fn describe(change: CacheEvent<ConfigMap>) -> String {
    match change {
        CacheEvent::Applied(map) => text(&map),
        CacheEvent::Deleted(map) => format!("{} gone", map.name_any()),
    }
}

async fn next_event<K>(changes: &mut CacheEvents<K>) -> Option<CacheEvent<K>> {
    timeout(testkit::wait_for::WAIT_TIMEOUT, changes.next()).await.expect("nothing is heard")
}

async fn next_description(changes: &mut CacheEvents<ConfigMap>) -> String {
    describe(next_event(changes).await.unwrap())
}

fn cached_objects(feed: &WatchCache<ConfigMap>) -> Vec<String> {
    feed.list().iter().map(|map| text(map)).collect()
}

#[tokio::test]
async fn subscriber_gets_snapshot_then_changes_in_order() {
    let world = TestCluster::new().await;
    for name in ["a", "b"] {
        write(&world, name, "0").await;
    }
    let feed = start_cache(&world, &FaultInjector::healthy());
    feed.wait_until_synced().await;
    let mut changes = feed.subscribe();
    let mut heard = vec![next_description(&mut changes).await, next_description(&mut changes).await];
    for number in 1..=20 {
        write(&world, "a", &number.to_string()).await;
        write(&world, &format!("c{number}"), "new").await;
        heard.push(next_description(&mut changes).await);
        heard.push(next_description(&mut changes).await);
    }
    delete(&world, "b").await;
    heard.push(next_description(&mut changes).await);
    let mut wanted = vec!["a=0".to_owned(), "b=0".to_owned()];
    for number in 1..=20 {
        wanted.extend([format!("a={number}"), format!("c{number}=new")]);
    }
    wanted.push("b gone".to_owned());
    assert_eq!(heard, wanted);
    assert!(
        feed.get("b").is_none()
            && feed.get_namespaced(NAMESPACE, "a").is_some()
            && feed.get_namespaced("x", "a").is_none()
    );
    assert_eq!(feed.stale_for(), None);
    assert_eq!(feed.get("a").unwrap().metadata.managed_fields, None);
}

#[tokio::test]
async fn changes_during_an_outage_are_delivered_after_it() {
    let (world, fault) = (TestCluster::new().await, FaultInjector::healthy());
    for name in ["changed", "deleted", "same"] {
        write(&world, name, "0").await;
    }
    let feed = start_cache(&world, &fault);
    feed.wait_until_synced().await;
    let mut changes = feed.subscribe();
    for _ in 0..3 {
        next_description(&mut changes).await;
    }
    for line in [LinkState::Disconnected, LinkState::Unresponsive] {
        fault.set_link(line);
        wait_for("it is noticed", async || feed.stale_for()).await;
        assert_eq!(cached_objects(&feed), ["changed=0", "deleted=0", "same=0"], "it goes on answering");
        write(&world, "changed", "1").await;
        delete(&world, "deleted").await;
        write(&world, "new", "1").await;
        fault.set_link(LinkState::Healthy);
        let mut heard = vec![
            next_description(&mut changes).await,
            next_description(&mut changes).await,
            next_description(&mut changes).await,
        ];
        heard.sort();
        assert_eq!(heard, ["changed=1", "deleted gone", "new=1"], "{line:?}");
        wait_for("the watch stands again", async || feed.stale_for().is_none().then_some(())).await;
        // The same for the other kind of failure.
        write(&world, "changed", "0").await;
        write(&world, "deleted", "0").await;
        delete(&world, "new").await;
        for wanted in ["changed=0", "deleted=0", "new gone"] {
            assert_eq!(next_description(&mut changes).await, wanted);
        }
    }
}

#[tokio::test]
async fn expired_version_causes_a_relist() {
    for told in [ExpiryReport::Status, ExpiryReport::Event] {
        let world = TestCluster::new().await;
        write(&world, "stays", "0").await;
        write(&world, "goes", "0").await;
        let feed = WatchCache::start(maps(expiring_client(&world, told)), short_watches(), |_| {});
        let mut changes = feed.subscribe();
        assert_eq!(
            [next_description(&mut changes).await, next_description(&mut changes).await],
            ["goes=0", "stays=0"]
        );
        assert_eq!(next_description(&mut changes).await, "goes gone");
        write(&world, "stays", "1").await;
        assert_eq!(next_description(&mut changes).await, "stays=1");
    }
}

/// How the server reports an expired version: as the response status or as an event in the stream.
#[derive(Clone, Copy, PartialEq)]
enum ExpiryReport {
    Status,
    Event,
}

/// A server that expires the first watched version, after an object was deleted.
fn expiring_client(world: &TestCluster, told: ExpiryReport) -> kube::Client {
    let (client, forgotten) = (world.admin_client(), Arc::new(Mutex::new(None)));
    let call = move |request: http::Request<kube::client::Body>| {
        let (client, forgotten) = (client.clone(), forgotten.clone());
        async move {
            let query = request.uri().query().unwrap_or_default();
            let version =
                query.split('&').find(|pair| pair.starts_with("resourceVersion=")).map(str::to_owned);
            let first = forgotten.lock().is_none();
            if !query.contains("watch=true") || (!first && *forgotten.lock() != version) {
                return client.send(request).await;
            }
            if first {
                *forgotten.lock() = version;
                maps(client).delete("goes", &DeleteParams::default()).await.unwrap();
            }
            let gone = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 410,
                "reason": "Expired", "message": "too old resource version",
            });
            let (status, body) = match told {
                ExpiryReport::Status => (410, gone),
                ExpiryReport::Event => (200, json!({"type": "ERROR", "object": gone})),
            };
            let body = kube::client::Body::from(format!("{body}\n").into_bytes());
            Ok(http::Response::builder().status(status).body(body).unwrap())
        }
    };
    kube::Client::new(tower::service_fn(call), NAMESPACE)
}

#[tokio::test]
async fn list_reads_all_pages_and_slims_objects() {
    let world = TestCluster::new().await;
    for number in 0..23 {
        write(&world, &format!("m{number}"), "long").await;
    }
    let config = short_watches().page_size(5);
    let feed = WatchCache::start(maps(world.admin_client()), config, |map: &mut ConfigMap| map.data = None);
    feed.wait_until_synced().await;
    assert_eq!(feed.list().len(), 23);
    assert!(feed.list().iter().all(|map| map.data.is_none()));
}

#[tokio::test]
async fn projected_cache_still_compares_uid_and_version() {
    let world = TestCluster::new().await;
    write(&world, "a", "0").await;
    let feed: WatchCache<String> =
        WatchCache::start_projected(maps(world.admin_client()), short_watches(), |map: ConfigMap| {
            format!("made of {}", map.name_any())
        });
    feed.wait_until_synced().await;
    let mut changes = feed.subscribe();
    let applied = || Some(CacheEvent::Applied(Arc::new("made of a".to_owned())));
    assert_eq!(next_event(&mut changes).await, applied());
    write(&world, "a", "1").await;
    assert_eq!(next_event(&mut changes).await, applied(), "it changed, although what is kept did not");
    delete(&world, "a").await;
    write(&world, "a", "2").await;
    assert_eq!(next_event(&mut changes).await, Some(CacheEvent::Deleted(Arc::new("made of a".to_owned()))));
    assert_eq!(next_event(&mut changes).await, applied());
    assert_eq!(feed.get("a").as_deref().map(String::as_str), Some("made of a"));
}

#[tokio::test]
async fn undecodable_object_counts_as_absent() {
    let world = TestCluster::new().await;
    // A cluster whose User CRD was installed by another project with a permissive schema.
    let lax = json!({"spec": {"versions": [{
        "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    }]}});
    let crds: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(world.admin_client());
    crds.patch("users.user.openyurt.io", &PatchParams::default(), &Patch::Merge(lax)).await.unwrap();
    let user = |name: &str, days: Value| {
        json!({"apiVersion": "user.openyurt.io/v1alpha1", "kind": "User",
            "metadata": {"name": name}, "spec": {"email": "a@b.example", "validPeriod": days}})
    };
    world.apply([user("bad", json!("many")), user("good", json!(3))]).await;
    let feed: WatchCache<User> = WatchCache::start(Api::all(world.admin_client()), Config::default(), |_| {});
    feed.wait_until_synced().await;
    assert_eq!(feed.list().len(), 1);
    let mut changes = feed.subscribe();
    assert!(
        matches!(next_event(&mut changes).await, Some(CacheEvent::Applied(user)) if user.name_any() == "good")
    );
    world.apply([user("bad", json!(4))]).await;
    assert!(
        matches!(next_event(&mut changes).await, Some(CacheEvent::Applied(user)) if user.spec.valid_period == 4)
    );
    world.apply([user("good", json!({}))]).await;
    assert!(
        matches!(next_event(&mut changes).await, Some(CacheEvent::Deleted(user)) if user.name_any() == "good")
    );
}

#[tokio::test]
async fn watch_and_subscriptions_end_with_the_last_clone() {
    let (world, fault) = (TestCluster::new().await, FaultInjector::healthy());
    write(&world, "a", "0").await;
    let first = start_cache(&world, &fault);
    first.wait_until_synced().await;
    let second = first.clone();
    let mut changes = first.subscribe();
    drop(first);
    assert_eq!(next_description(&mut changes).await, "a=0");
    write(&world, "a", "1").await;
    assert_eq!(next_description(&mut changes).await, "a=1", "a clone keeps it going");
    drop(second);
    assert!(next_event(&mut changes).await.is_none());
    let calls = fault.calls();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(fault.calls(), calls, "no watch is begun any more");
}

#[tokio::test]
async fn slow_subscriber_reaches_the_same_state_as_others() {
    let world = TestCluster::new().await;
    let feed = start_cache(&world, &FaultInjector::healthy());
    feed.wait_until_synced().await;
    let mut sleeper = feed.subscribe();
    let mut awake: Vec<_> = (0..5).map(|_| feed.subscribe()).collect();
    let maps = maps(world.admin_client());
    for number in 0..30 {
        write(&world, "a", &number.to_string()).await;
        let brief: ConfigMap = serde_json::from_value(json!({
            "metadata": {"generateName": "brief-", "labels": {"of": "test"}}
        }))
        .unwrap();
        let brief = maps.create(&PostParams::default(), &brief).await.unwrap();
        delete(&world, &brief.name_any()).await;
    }
    write(&world, "last", "0").await;
    for changes in &mut awake {
        while next_description(changes).await != "last=0" {}
    }
    let heard = [next_description(&mut sleeper).await, next_description(&mut sleeper).await];
    assert_eq!(heard, ["a=29", "last=0"]);
    assert_eq!(maps.list(&ListParams::default().labels("of=test")).await.unwrap().items.len(), 2);
}

#[tokio::test]
async fn cache_is_stale_until_listing_is_permitted() {
    let world = TestCluster::new().await;
    let feed: WatchCache<Namespace> =
        WatchCache::start(Api::all(world.client_for("nobody", &[])), Config::default(), |_| {});
    assert!(feed.stale_for().is_some());
    let mut changes = feed.subscribe();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "late"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody"}],
    });
    world.apply([binding]).await;
    assert!(next_event(&mut changes).await.is_some());
}

#[tokio::test]
async fn metadata_cache_requests_only_metadata() {
    let world = TestCluster::new().await;
    write(&world, "a", "0").await;
    let (line, asked) = (world.admin_client(), Arc::new(Mutex::new(Vec::new())));
    let noted = asked.clone();
    let client = kube::Client::new(
        tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (line, accepted) = (line.clone(), request.headers()[http::header::ACCEPT].clone());
            noted.lock().push(accepted.to_str().unwrap_or_default().to_owned());
            async move { line.send(request).await }
        }),
        NAMESPACE,
    );
    let feed: WatchCache<PartialObjectMeta<ConfigMap>> =
        WatchCache::start_metadata(Api::namespaced(client, NAMESPACE), short_watches(), |meta| meta);
    feed.wait_until_synced().await;
    let mut changes = feed.subscribe();
    write(&world, "b", "0").await;
    for name in ["a", "b"] {
        let Some(CacheEvent::Applied(mark)) = next_event(&mut changes).await else {
            panic!("something is gone")
        };
        assert_eq!(mark.name_any(), name);
    }
    let asked = asked.lock();
    assert!(
        asked.len() >= 2 && asked.iter().all(|kind| kind.contains("as=PartialObjectMetadata")),
        "{asked:?}"
    );
}

#[tokio::test]
async fn object_whose_projection_panics_counts_as_absent() {
    let world = TestCluster::new().await;
    for name in ["a", "hostile", "z"] {
        write(&world, name, "0").await;
    }
    let feed = WatchCache::start(maps(world.admin_client()), short_watches(), |map: &mut ConfigMap| {
        assert!(map.name_any() != "hostile", "injected");
    });
    feed.wait_until_synced().await;
    assert_eq!(cached_objects(&feed), ["a=0", "z=0"]);
    write(&world, "hostile", "1").await;
    write(&world, "z", "1").await;
    wait_for("the cache follows the others", async || {
        (cached_objects(&feed) == ["a=0", "z=1"]).then_some(())
    })
    .await;
}

/// A ConfigMap type that panics when the first object is decoded.
#[derive(Clone, Debug)]
struct PanicsOnce(ConfigMap);

impl<'de> serde::Deserialize<'de> for PanicsOnce {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        static DECODED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        assert!(DECODED.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0, "injected");
        ConfigMap::deserialize(from).map(Self)
    }
}

impl Resource for PanicsOnce {
    type DynamicType = ();
    type Scope = <ConfigMap as Resource>::Scope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        ConfigMap::kind(&())
    }

    fn group((): &()) -> std::borrow::Cow<'_, str> {
        ConfigMap::group(&())
    }

    fn version((): &()) -> std::borrow::Cow<'_, str> {
        ConfigMap::version(&())
    }

    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        ConfigMap::plural(&())
    }

    fn meta(&self) -> &kube::core::ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
        self.0.meta_mut()
    }
}

#[tokio::test]
async fn cache_that_panics_is_restarted() {
    let world = TestCluster::new().await;
    write(&world, "a", "0").await;
    let api: Api<PanicsOnce> = Api::namespaced(world.admin_client(), NAMESPACE);
    let feed = WatchCache::start_projected(api, short_watches(), |map: PanicsOnce| map.0);
    timeout(testkit::wait_for::WAIT_TIMEOUT, feed.wait_until_synced())
        .await
        .expect("the cache was not restarted");
    assert_eq!(cached_objects(&feed), ["a=0"]);
    write(&world, "b", "0").await;
    wait_for("the cache follows", async || (cached_objects(&feed) == ["a=0", "b=0"]).then_some(())).await;
}

#[tokio::test]
async fn subscription_to_one_object_gets_no_events_of_others() {
    let world = TestCluster::new().await;
    for name in ["a", "b"] {
        write(&world, name, "0").await;
    }
    let feed = start_cache(&world, &FaultInjector::healthy());
    feed.wait_until_synced().await;
    let (mut of_a, mut of_new) = (feed.subscribe_to(NAMESPACE, "a"), feed.subscribe_to(NAMESPACE, "new"));
    assert_eq!(next_description(&mut of_a).await, "a=0");
    write(&world, "b", "1").await;
    write(&world, "new", "0").await;
    write(&world, "a", "1").await;
    assert_eq!(next_description(&mut of_a).await, "a=1");
    assert_eq!(next_description(&mut of_new).await, "new=0");
}
