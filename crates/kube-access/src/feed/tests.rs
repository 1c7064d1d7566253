//! Caches on an embedded cluster, over a connection that can be cut.

mod gossip;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_types::User;
use serde_json::{Value, json};
use testkit::fault::Line;
use testkit::{Fault, World, until};
use tokio::time::timeout;

use super::*;
use crate::Clients;

const NAMESPACE: &str = "default";

fn maps(client: kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client, NAMESPACE)
}

/// Short watches, so that a dead connection is detected soon.
fn short() -> Config {
    Config::default().labels("of=test").timeout(1)
}

fn feed(world: &World, fault: &Fault) -> Feed<ConfigMap> {
    let clients = Clients::with_limit(fault.over(world.admin()), Duration::from_secs(1));
    Feed::start(maps(clients.own()), short(), |_| {})
}

async fn write(world: &World, name: &str, text: &str) {
    let map: ConfigMap = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"of": "test"}}, "data": {"text": text},
    }))
    .unwrap();
    let params = PatchParams::apply("test").force();
    maps(world.admin()).patch(name, &params, &Patch::Apply(&map)).await.unwrap();
}

async fn delete(world: &World, name: &str) {
    maps(world.admin()).delete(name, &DeleteParams::default()).await.unwrap();
}

fn text(map: &ConfigMap) -> String {
    format!("{}={}", map.name_any(), map.data.as_ref().map_or("", |data| &data["text"]))
}

fn said(change: Change<ConfigMap>) -> String {
    match change {
        Change::Applied(map) => text(&map),
        Change::Deleted(map) => format!("{} gone", map.name_any()),
    }
}

async fn heard<K>(changes: &mut Changes<K>) -> Option<Change<K>> {
    timeout(testkit::until::LIMIT, changes.next()).await.expect("nothing is heard")
}

async fn next(changes: &mut Changes<ConfigMap>) -> String {
    said(heard(changes).await.unwrap())
}

fn known(feed: &Feed<ConfigMap>) -> Vec<String> {
    feed.all().iter().map(|map| text(map)).collect()
}

#[tokio::test]
async fn what_there_is_comes_first_and_then_every_change_in_order() {
    let world = World::new().await;
    for name in ["a", "b"] {
        write(&world, name, "0").await;
    }
    let feed = feed(&world, &Fault::none());
    feed.synced().await;
    let mut changes = feed.changes();
    let mut heard = vec![next(&mut changes).await, next(&mut changes).await];
    for number in 1..=20 {
        write(&world, "a", &number.to_string()).await;
        write(&world, &format!("c{number}"), "new").await;
        heard.push(next(&mut changes).await);
        heard.push(next(&mut changes).await);
    }
    delete(&world, "b").await;
    heard.push(next(&mut changes).await);
    let mut wanted = vec!["a=0".to_owned(), "b=0".to_owned()];
    for number in 1..=20 {
        wanted.extend([format!("a={number}"), format!("c{number}=new")]);
    }
    wanted.push("b gone".to_owned());
    assert_eq!(heard, wanted);
    assert!(
        feed.get("b").is_none() && feed.get_in(NAMESPACE, "a").is_some() && feed.get_in("x", "a").is_none()
    );
    assert_eq!(feed.stale_for(), None);
    assert_eq!(feed.get("a").unwrap().metadata.managed_fields, None);
}

#[tokio::test]
async fn what_happened_while_the_line_was_cut_is_heard_after_it() {
    let (world, fault) = (World::new().await, Fault::none());
    for name in ["changed", "deleted", "same"] {
        write(&world, name, "0").await;
    }
    let feed = feed(&world, &fault);
    feed.synced().await;
    let mut changes = feed.changes();
    for _ in 0..3 {
        next(&mut changes).await;
    }
    for line in [Line::Cut, Line::Silent] {
        fault.turn(line);
        until("it is noticed", async || feed.stale_for()).await;
        assert_eq!(known(&feed), ["changed=0", "deleted=0", "same=0"], "it goes on answering");
        write(&world, "changed", "1").await;
        delete(&world, "deleted").await;
        write(&world, "new", "1").await;
        fault.turn(Line::Sound);
        let mut heard = vec![next(&mut changes).await, next(&mut changes).await, next(&mut changes).await];
        heard.sort();
        assert_eq!(heard, ["changed=1", "deleted gone", "new=1"], "{line:?}");
        until("the watch stands again", async || feed.stale_for().is_none().then_some(())).await;
        // The same for the other kind of failure.
        write(&world, "changed", "0").await;
        write(&world, "deleted", "0").await;
        delete(&world, "new").await;
        for wanted in ["changed=0", "deleted=0", "new gone"] {
            assert_eq!(next(&mut changes).await, wanted);
        }
    }
}

#[tokio::test]
async fn a_version_that_is_too_old_is_no_loss() {
    for told in [Told::AtOnce, Told::InTheStream] {
        let world = World::new().await;
        write(&world, "stays", "0").await;
        write(&world, "goes", "0").await;
        let feed = Feed::start(maps(forgetful(&world, told)), short(), |_| {});
        let mut changes = feed.changes();
        assert_eq!([next(&mut changes).await, next(&mut changes).await], ["goes=0", "stays=0"]);
        assert_eq!(next(&mut changes).await, "goes gone");
        write(&world, "stays", "1").await;
        assert_eq!(next(&mut changes).await, "stays=1");
    }
}

/// How the server reports an expired version: as the response status or as an event in the stream.
#[derive(Clone, Copy, PartialEq)]
enum Told {
    AtOnce,
    InTheStream,
}

/// A server that expires the first watched version, after an object was deleted.
fn forgetful(world: &World, told: Told) -> kube::Client {
    let (client, forgotten) = (world.admin(), Arc::new(Mutex::new(None)));
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
                Told::AtOnce => (410, gone),
                Told::InTheStream => (200, json!({"type": "ERROR", "object": gone})),
            };
            let body = kube::client::Body::from(format!("{body}\n").into_bytes());
            Ok(http::Response::builder().status(status).body(body).unwrap())
        }
    };
    kube::Client::new(tower::service_fn(call), NAMESPACE)
}

#[tokio::test]
async fn pages_make_one_list_and_slim_takes_off_what_nobody_asks_for() {
    let world = World::new().await;
    for number in 0..23 {
        write(&world, &format!("m{number}"), "long").await;
    }
    let config = short().page_size(5);
    let feed = Feed::start(maps(world.admin()), config, |map: &mut ConfigMap| map.data = None);
    feed.synced().await;
    assert_eq!(feed.all().len(), 23);
    assert!(feed.all().iter().all(|map| map.data.is_none()));
}

#[tokio::test]
async fn a_feed_keeps_what_is_made_of_an_object_and_still_tells_objects_apart() {
    let world = World::new().await;
    write(&world, "a", "0").await;
    let feed: Feed<String> =
        Feed::keeping(maps(world.admin()), short(), |map: ConfigMap| format!("made of {}", map.name_any()));
    feed.synced().await;
    let mut changes = feed.changes();
    let applied = || Some(Change::Applied(Arc::new("made of a".to_owned())));
    assert_eq!(heard(&mut changes).await, applied());
    write(&world, "a", "1").await;
    assert_eq!(heard(&mut changes).await, applied(), "it changed, although what is kept did not");
    delete(&world, "a").await;
    write(&world, "a", "2").await;
    assert_eq!(heard(&mut changes).await, Some(Change::Deleted(Arc::new("made of a".to_owned()))));
    assert_eq!(heard(&mut changes).await, applied());
    assert_eq!(feed.get("a").as_deref().map(String::as_str), Some("made of a"));
}

#[tokio::test]
async fn an_object_that_cannot_be_read_hides_itself_and_nobody_else() {
    let world = World::new().await;
    // A cluster whose User CRD was installed by another project with a permissive schema.
    let lax = json!({"spec": {"versions": [{
        "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    }]}});
    let crds: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(world.admin());
    crds.patch("users.user.openyurt.io", &PatchParams::default(), &Patch::Merge(lax)).await.unwrap();
    let user = |name: &str, days: Value| {
        json!({"apiVersion": "user.openyurt.io/v1alpha1", "kind": "User",
            "metadata": {"name": name}, "spec": {"email": "a@b.example", "validPeriod": days}})
    };
    world.apply([user("bad", json!("many")), user("good", json!(3))]).await;
    let feed: Feed<User> = Feed::start(Api::all(world.admin()), Config::default(), |_| {});
    feed.synced().await;
    assert_eq!(feed.all().len(), 1);
    let mut changes = feed.changes();
    assert!(matches!(heard(&mut changes).await, Some(Change::Applied(user)) if user.name_any() == "good"));
    world.apply([user("bad", json!(4))]).await;
    assert!(matches!(heard(&mut changes).await, Some(Change::Applied(user)) if user.spec.valid_period == 4));
    world.apply([user("good", json!({}))]).await;
    assert!(matches!(heard(&mut changes).await, Some(Change::Deleted(user)) if user.name_any() == "good"));
}

#[tokio::test]
async fn the_watch_and_what_it_tells_end_with_the_last_feed() {
    let (world, fault) = (World::new().await, Fault::none());
    write(&world, "a", "0").await;
    let first = feed(&world, &fault);
    first.synced().await;
    let second = first.clone();
    let mut changes = first.changes();
    drop(first);
    assert_eq!(next(&mut changes).await, "a=0");
    write(&world, "a", "1").await;
    assert_eq!(next(&mut changes).await, "a=1", "a clone keeps it going");
    drop(second);
    assert!(heard(&mut changes).await.is_none());
    let calls = fault.calls();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(fault.calls(), calls, "no watch is begun any more");
}

#[tokio::test]
async fn many_hear_the_same_and_one_who_sleeps_ends_where_the_others_do() {
    let world = World::new().await;
    let feed = feed(&world, &Fault::none());
    feed.synced().await;
    let mut sleeper = feed.changes();
    let mut awake: Vec<_> = (0..5).map(|_| feed.changes()).collect();
    let maps = maps(world.admin());
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
        while next(changes).await != "last=0" {}
    }
    let heard = [next(&mut sleeper).await, next(&mut sleeper).await];
    assert_eq!(heard, ["a=29", "last=0"]);
    assert_eq!(maps.list(&ListParams::default().labels("of=test")).await.unwrap().items.len(), 2);
}

#[tokio::test]
async fn one_who_may_not_list_hears_nothing_and_is_stale() {
    let world = World::new().await;
    let feed: Feed<Namespace> = Feed::start(Api::all(world.of("nobody", &[])), Config::default(), |_| {});
    assert!(feed.stale_for().is_some());
    let mut changes = feed.changes();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "late"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody"}],
    });
    world.apply([binding]).await;
    assert!(heard(&mut changes).await.is_some());
}

#[tokio::test]
async fn of_metadata_nothing_else_is_asked_for() {
    let world = World::new().await;
    write(&world, "a", "0").await;
    let (line, asked) = (world.admin(), Arc::new(Mutex::new(Vec::new())));
    let noted = asked.clone();
    let client = kube::Client::new(
        tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (line, accepted) = (line.clone(), request.headers()[http::header::ACCEPT].clone());
            noted.lock().push(accepted.to_str().unwrap_or_default().to_owned());
            async move { line.send(request).await }
        }),
        NAMESPACE,
    );
    let feed: Feed<PartialObjectMeta<ConfigMap>> =
        Feed::of_metadata(Api::namespaced(client, NAMESPACE), short(), |meta| meta);
    feed.synced().await;
    let mut changes = feed.changes();
    write(&world, "b", "0").await;
    for name in ["a", "b"] {
        let Some(Change::Applied(mark)) = heard(&mut changes).await else { panic!("something is gone") };
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
    let world = World::new().await;
    for name in ["a", "hostile", "z"] {
        write(&world, name, "0").await;
    }
    let feed = Feed::start(maps(world.admin()), short(), |map: &mut ConfigMap| {
        assert!(map.name_any() != "hostile", "injected");
    });
    feed.synced().await;
    assert_eq!(known(&feed), ["a=0", "z=0"]);
    write(&world, "hostile", "1").await;
    write(&world, "z", "1").await;
    until("the cache follows the others", async || (known(&feed) == ["a=0", "z=1"]).then_some(())).await;
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
    let world = World::new().await;
    write(&world, "a", "0").await;
    let api: Api<PanicsOnce> = Api::namespaced(world.admin(), NAMESPACE);
    let feed = Feed::keeping(api, short(), |map: PanicsOnce| map.0);
    timeout(testkit::until::LIMIT, feed.synced()).await.expect("the cache was not restarted");
    assert_eq!(known(&feed), ["a=0"]);
    write(&world, "b", "0").await;
    until("the cache follows", async || (known(&feed) == ["a=0", "b=0"]).then_some(())).await;
}

#[tokio::test]
async fn subscription_to_one_object_hears_of_no_other() {
    let world = World::new().await;
    for name in ["a", "b"] {
        write(&world, name, "0").await;
    }
    let feed = feed(&world, &Fault::none());
    feed.synced().await;
    let (mut of_a, mut of_new) = (feed.changes_of(NAMESPACE, "a"), feed.changes_of(NAMESPACE, "new"));
    assert_eq!(next(&mut of_a).await, "a=0");
    write(&world, "b", "1").await;
    write(&world, "new", "0").await;
    write(&world, "a", "1").await;
    assert_eq!(next(&mut of_a).await, "a=1");
    assert_eq!(next(&mut of_new).await, "new=0");
}
