//! Caches converge although the watch duplicates, reorders or drops events.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use testkit::Gossip;

use super::*;

/// A watch event: its type and object.
struct Word(&'static str, Value);

impl Word {
    fn line(&self) -> Bytes {
        format!("{{\"type\":\"{}\",\"object\":{}}}\n", self.0, self.1).into()
    }

    /// The same object with a version higher by `versions` and new text.
    fn later(mut self, versions: u64, text: &str) -> Self {
        let version = &mut self.1["metadata"]["resourceVersion"];
        *version = json!((version.as_str().unwrap().parse::<u64>().unwrap() + versions).to_string());
        self.1["data"]["text"] = json!(text);
        self
    }
}

/// A client whose first watch yields these events only. Later watches are real.
fn saying(world: &World, words: Vec<Word>) -> kube::Client {
    let (client, words) = (world.admin(), Arc::new(Mutex::new(Some(words))));
    let call = move |request: http::Request<kube::client::Body>| {
        let (client, words) = (client.clone(), words.clone());
        async move {
            let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let Some(words) = watches.then(|| words.lock().take()).flatten() else {
                let (head, body) = client.send(request).await?.into_parts();
                return Ok::<_, kube::Error>(http::Response::from_parts(head, body.boxed_unsync()));
            };
            let lines: Vec<_> =
                words.iter().map(|word| Ok::<_, Infallible>(http_body::Frame::data(word.line()))).collect();
            let lines = stream::iter(lines).chain(stream::pending());
            let body = StreamBody::new(lines).map_err(|never| match never {}).boxed_unsync();
            Ok(http::Response::new(body))
        }
    };
    kube::Client::new(tower::service_fn(call), NAMESPACE)
}

async fn seen(world: &World, name: &str, sort: &'static str) -> Word {
    Word(sort, serde_json::to_value(maps(world.admin()).get(name).await.unwrap()).unwrap())
}

#[tokio::test]
async fn old_news_is_not_believed_and_whoever_may_be_dead_is_looked_for() {
    let world = World::new().await;
    for name in ["again", "dead", "old"] {
        write(&world, name, "0").await;
    }
    let words = vec![
        seen(&world, "old", "MODIFIED").await,
        // It was deleted and recreated since.
        seen(&world, "again", "DELETED").await,
        seen(&world, "dead", "ADDED").await,
    ];
    delete(&world, "dead").await;
    delete(&world, "again").await;
    write(&world, "again", "1").await;
    write(&world, "old", "1").await;
    let feed = Feed::start(maps(saying(&world, words)), short(), |_| {});
    feed.synced().await;
    let mut changes = feed.changes();
    assert_eq!([next(&mut changes).await, next(&mut changes).await], ["again=1", "old=1"]);
    // Late events are not delivered; new ones are.
    write(&world, "new", "0").await;
    assert_eq!(next(&mut changes).await, "new=0");
    assert_eq!(known(&feed), ["again=1", "new=0", "old=1"]);
}

#[tokio::test]
async fn news_that_comes_late_is_news() {
    let world = World::new().await;
    for name in ["a", "b", "c"] {
        write(&world, name, "0").await;
    }
    // The cache lists the current state and then gets later events out of order.
    let words = vec![
        seen(&world, "a", "MODIFIED").await.later(20, "1"),
        seen(&world, "a", "MODIFIED").await.later(20, "1"),
        seen(&world, "b", "MODIFIED").await.later(10, "1"),
        seen(&world, "c", "DELETED").await.later(12, "0"),
    ];
    let feed = Feed::start(maps(saying(&world, words)), short(), |_| {});
    feed.synced().await;
    until("all of it is heard", async || (known(&feed) == ["a=1", "b=1"]).then_some(())).await;
}

#[tokio::test]
async fn what_a_watch_leaves_out_is_found_when_everything_is_listed_anew() {
    let world = World::new().await;
    write(&world, "a", "0").await;
    // A watch without any events until it ends.
    let line = world.admin();
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
    let feed = Feed::start(maps(client), short(), |_| {});
    feed.synced().await;
    write(&world, "a", "1").await;
    write(&world, "b", "0").await;
    until("it is found", async || (known(&feed) == ["a=1", "b=0"]).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_gossip_tells_a_feed_ends_at_what_there_is() {
    let round = |seed: u64| async move {
        let (world, gossip) = (World::new().await, Gossip::new(seed));
        let clients = Clients::new(gossip.over(world.admin()));
        let feed: Feed<ConfigMap> = Feed::start(maps(clients.own()), short(), |_| {});
        feed.synced().await;
        let mut changes = feed.changes();
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
        until("it is known", async || (known(&feed) == wanted).then_some(())).await;
        // Subscribers converge to the same state.
        let mut heard = std::collections::BTreeMap::new();
        until("it is told", async || {
            while let Some(Some(change)) = futures::FutureExt::now_or_never(changes.next()) {
                match change {
                    Change::Applied(map) => drop(heard.insert(map.name_any(), text(&map))),
                    Change::Deleted(map) => drop(heard.remove(&map.name_any())),
                }
            }
            (heard.values().eq(&wanted)).then_some(())
        })
        .await;
        assert!(gossip.tales() > 0, "seed {seed}");
    };
    futures::future::join_all((0..12).map(round)).await;
}
