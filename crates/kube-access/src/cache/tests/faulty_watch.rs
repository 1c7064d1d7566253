//! Caches converge although the watch duplicates, reorders or drops events.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use testkit::FaultyWatch;

use super::*;

/// A watch event: its type and object.
struct FakeWatchEvent(&'static str, Value);

impl FakeWatchEvent {
    fn to_json_line(&self) -> Bytes {
        format!("{{\"type\":\"{}\",\"object\":{}}}\n", self.0, self.1).into()
    }

    /// The same object with a version higher by `versions` and new text.
    fn with_later_version(mut self, versions: u64, text: &str) -> Self {
        let version = &mut self.1["metadata"]["resourceVersion"];
        *version = json!((version.as_str().unwrap().parse::<u64>().unwrap() + versions).to_string());
        self.1["data"]["text"] = json!(text);
        self
    }
}

/// A client whose first watch yields these events only. Later watches are real.
fn client_with_first_watch(world: &TestCluster, words: Vec<FakeWatchEvent>) -> kube::Client {
    let (client, words) = (world.admin_client(), Arc::new(Mutex::new(Some(words))));
    let call = move |request: http::Request<kube::client::Body>| {
        let (client, words) = (client.clone(), words.clone());
        async move {
            let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let Some(words) = watches.then(|| words.lock().take()).flatten() else {
                let (head, body) = client.send(request).await?.into_parts();
                return Ok::<_, kube::Error>(http::Response::from_parts(head, body.boxed_unsync()));
            };
            let lines: Vec<_> = words
                .iter()
                .map(|word| Ok::<_, Infallible>(http_body::Frame::data(word.to_json_line())))
                .collect();
            let lines = stream::iter(lines).chain(stream::pending());
            let body = StreamBody::new(lines).map_err(|never| match never {}).boxed_unsync();
            Ok(http::Response::new(body))
        }
    };
    kube::Client::new(tower::service_fn(call), NAMESPACE)
}

async fn event_of_live_object(world: &TestCluster, name: &str, sort: &'static str) -> FakeWatchEvent {
    FakeWatchEvent(sort, serde_json::to_value(maps(world.admin_client()).get(name).await.unwrap()).unwrap())
}

#[tokio::test]
async fn late_events_are_ignored_and_doubtful_objects_relisted() {
    let world = TestCluster::new().await;
    for name in ["again", "dead", "old"] {
        write(&world, name, "0").await;
    }
    let words = vec![
        event_of_live_object(&world, "old", "MODIFIED").await,
        // It was deleted and recreated since.
        event_of_live_object(&world, "again", "DELETED").await,
        event_of_live_object(&world, "dead", "ADDED").await,
    ];
    delete(&world, "dead").await;
    delete(&world, "again").await;
    write(&world, "again", "1").await;
    write(&world, "old", "1").await;
    let feed = WatchCache::start(maps(client_with_first_watch(&world, words)), short_watches(), |_| {});
    feed.wait_until_synced().await;
    let mut changes = feed.subscribe();
    assert_eq!(
        [next_description(&mut changes).await, next_description(&mut changes).await],
        ["again=1", "old=1"]
    );
    // Late events are not delivered; new ones are.
    write(&world, "new", "0").await;
    assert_eq!(next_description(&mut changes).await, "new=0");
    assert_eq!(cached_objects(&feed), ["again=1", "new=0", "old=1"]);
}

#[tokio::test]
async fn newer_events_out_of_order_are_applied() {
    let world = TestCluster::new().await;
    for name in ["a", "b", "c"] {
        write(&world, name, "0").await;
    }
    // The cache lists the current state and then gets later events out of order.
    let words = vec![
        event_of_live_object(&world, "a", "MODIFIED").await.with_later_version(20, "1"),
        event_of_live_object(&world, "a", "MODIFIED").await.with_later_version(20, "1"),
        event_of_live_object(&world, "b", "MODIFIED").await.with_later_version(10, "1"),
        event_of_live_object(&world, "c", "DELETED").await.with_later_version(12, "0"),
    ];
    let feed = WatchCache::start(maps(client_with_first_watch(&world, words)), short_watches(), |_| {});
    feed.wait_until_synced().await;
    wait_for("all of it is heard", async || (cached_objects(&feed) == ["a=1", "b=1"]).then_some(())).await;
}

#[tokio::test]
async fn events_dropped_by_watch_are_found_by_relist() {
    let world = TestCluster::new().await;
    write(&world, "a", "0").await;
    // A watch without any events until it ends.
    let line = world.admin_client();
    let call = move |request: http::Request<kube::client::Body>| {
        let line = line.clone();
        async move {
            if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                let (head, body) = line.send(request).await?.into_parts();
                body.collect().await?;
                return Ok::<_, kube::Error>(http::Response::from_parts(head, kube::client::Body::empty()));
            }
            line.send(request).await
        }
    };
    let client = kube::Client::new(tower::service_fn(call), NAMESPACE);
    let feed = WatchCache::start(maps(client), short_watches(), |_| {});
    feed.wait_until_synced().await;
    write(&world, "a", "1").await;
    write(&world, "b", "0").await;
    wait_for("it is found", async || (cached_objects(&feed) == ["a=1", "b=0"]).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cache_converges_over_faulty_watch() {
    let round = |seed: u64| async move {
        let (world, gossip) = (TestCluster::new().await, FaultyWatch::new(seed));
        let clients = Clients::new(gossip.wrap(world.admin_client()));
        let feed: WatchCache<ConfigMap> =
            WatchCache::start(maps(clients.platform()), short_watches(), |_| {});
        feed.wait_until_synced().await;
        let mut changes = feed.subscribe();
        let mut wanted = std::collections::BTreeMap::new();
        for turn in 0..60_u64 {
            let chance = (seed + 1).wrapping_mul(turn + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            let name = ["a", "b", "c", "d"][usize::try_from(chance % 4).unwrap()];
            if chance.is_multiple_of(3) && wanted.remove(name).is_some() {
                delete(&world, name).await;
            } else {
                write(&world, name, &turn.to_string()).await;
                wanted.insert(name, turn);
            }
        }
        let wanted: Vec<String> = wanted.iter().map(|(name, turn)| format!("{name}={turn}")).collect();
        wait_for("it is known", async || (cached_objects(&feed) == wanted).then_some(())).await;
        // Subscribers converge to the same state.
        let mut heard = std::collections::BTreeMap::new();
        wait_for("it is told", async || {
            while let Some(Some(change)) = futures::FutureExt::now_or_never(changes.next()) {
                match change {
                    CacheEvent::Applied(map) => drop(heard.insert(map.name_any(), text(&map))),
                    CacheEvent::Deleted(map) => drop(heard.remove(&map.name_any())),
                }
            }
            (heard.values().eq(&wanted)).then_some(())
        })
        .await;
        assert!(gossip.fault_count() > 0, "seed {seed}");
    };
    futures::future::join_all((0..12).map(round)).await;
}
