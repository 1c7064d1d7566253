//! Tests of the store's guarantees: ordering, atomicity, watches and history.

mod crash;
mod damage;
mod disk;
mod full;

use std::collections::BTreeMap;

use futures::future::join_all;
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::clock::ManualClock;

fn storage(name: &str) -> Arc<str> {
    name.into()
}

fn key(name: &str) -> Key {
    Key::new(&storage("configmaps"), "n", name)
}

fn document(name: &str, data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}, "data": data})
}

fn create(name: &str) -> Change {
    Change { key: key(name), expect: Expect::Absent, op: Op::Put(document(name, "")) }
}

fn update(name: &str, from: u64, data: &str) -> Change {
    Change { key: key(name), expect: Expect::Version(from), op: Op::Put(document(name, data)) }
}

fn delete(name: &str, from: u64) -> Change {
    Change { key: key(name), expect: Expect::Version(from), op: Op::Delete }
}

fn names(snapshot: &Snapshot) -> Vec<(String, u64)> {
    snapshot.objects.iter().map(|o| (o.name.to_string(), o.version)).collect()
}

#[tokio::test]
async fn transaction_checks_every_precondition_and_is_atomic() {
    let store = Store::in_memory();
    let made = store.commit(vec![create("a"), create("b")]).await.unwrap();
    assert_eq!(made.iter().map(|o| o.version).collect::<Vec<_>>(), [1, 2]);
    assert!(matches!(store.commit(vec![create("c"), create("a")]).await, Err(CommitError::Exists(_))));
    assert!(matches!(
        store.commit(vec![update("a", 7, "")]).await,
        Err(CommitError::Conflict(_, Some(found))) if found.version == 1
    ));
    assert!(matches!(store.commit(vec![delete("c", 1)]).await, Err(CommitError::Conflict(_, None))));
    let odd = Change { expect: Expect::Absent, ..delete("c", 0) };
    assert!(matches!(store.commit(vec![odd]).await, Err(CommitError::Conflict(_, None))));
    assert_eq!(store.version(), 2, "a refused transaction takes no version");
    let gone = store.commit(vec![delete("a", 1)]).await.unwrap();
    assert_eq!(gone[0].value()["metadata"]["resourceVersion"], "3");
    assert_eq!(names(&store.list("configmaps", Some("n"))), [("b".to_owned(), 2)]);
    assert!(store.list("configmaps", Some("other")).objects.is_empty());
    assert!(store.commit(Vec::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn dependents_follow_the_owner_references() {
    let store = Store::in_memory();
    let owned_by = |owner: &str| {
        let mut value = document("a", "");
        value["metadata"]["ownerReferences"] = json!([{"uid": owner}]);
        Op::Put(value)
    };
    let put = |expect, owner| Change { key: key("a"), expect, op: owned_by(owner) };
    let count = |uid| store.dependents(uid).len();
    store.commit(vec![put(Expect::Absent, "x")]).await.unwrap();
    assert_eq!((count("x"), count("y")), (1, 0));
    store.commit(vec![put(Expect::Version(1), "y")]).await.unwrap();
    assert_eq!((count("x"), count("y")), (0, 1));
    assert_eq!(store.storages(), [storage("configmaps")]);
    store.commit(vec![delete("a", 2)]).await.unwrap();
    assert_eq!((count("x"), count("y")), (0, 0));
    assert!(store.storages().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn watches_deliver_each_change_once_and_lists_match_their_version() {
    const WRITERS: u64 = 8;
    const EACH: u64 = 60;
    const ALL: u64 = WRITERS * EACH;
    let store = Store::in_memory();
    let watchers: Vec<_> = (0..4)
        .map(|_| {
            let (snapshot, mut watch) = store.list_and_watch("configmaps", None);
            assert!(snapshot.objects.is_empty());
            tokio::spawn(async move {
                let mut versions = Vec::new();
                while versions.last() != Some(&ALL) {
                    versions.extend(watch.next().await.unwrap().iter().map(|event| event.version));
                }
                versions
            })
        })
        .collect();
    let mut feed = store.watch_all();
    let everything = tokio::spawn(async move {
        let mut versions = Vec::new();
        while versions.last() != Some(&ALL) {
            versions.extend(feed.next().await.unwrap().iter().map(|(_, event)| event.version));
        }
        versions
    });
    let writers = (0..WRITERS).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..EACH {
                store.commit(vec![create(&format!("{writer}-{n}"))]).await.unwrap();
                let (snapshot, _) = store.list_and_watch("configmaps", None);
                assert!(snapshot.objects.iter().all(|o| o.version <= snapshot.version));
                assert_eq!(snapshot.objects.len() as u64, snapshot.version);
            }
        })
    });
    for writer in join_all(writers).await {
        writer.unwrap();
    }
    let all: Vec<u64> = (1..=ALL).collect();
    for watcher in watchers {
        assert_eq!(watcher.await.unwrap(), all);
    }
    assert_eq!(everything.await.unwrap(), all);
}

#[tokio::test]
async fn history_covers_a_thousand_changes_and_five_minutes_within_its_byte_limit() {
    let clock = ManualClock::starting_at("2026-01-02T03:04:05Z".parse().unwrap());
    let store = Store::in_memory_with(Options { clock: clock.clone(), ..Options::default() });
    let write = async |from: u64, count: u64, data: &str| {
        for version in from..from + count {
            store.commit(vec![update("a", version, data)]).await.unwrap();
        }
    };
    store.commit(vec![create("a")]).await.unwrap();
    let mut slow = store.watch("configmaps", 1).unwrap();
    write(1, 1200, "").await;
    assert!(store.watch("configmaps", 0).is_ok(), "young changes stay, however many");
    clock.advance(SignedDuration::from_secs(301));
    write(1201, 1, "").await;
    let oldest = store.version() - 1000;
    assert_eq!(store.watch("configmaps", oldest - 1).err(), Some(TooOld { oldest }));
    assert!(store.watch("configmaps", oldest).is_ok());
    assert_eq!(store.list_at("configmaps", None, oldest - 1).err(), Some(TooOld { oldest }));
    assert_eq!(
        slow.next().await.err(),
        Some(TooOld { oldest }),
        "a watch that sleeps too long loses its place"
    );
    assert!(store.watch("pods", 0).is_ok(), "no change of another storage was forgotten");

    let big = "x".repeat(1 << 20);
    write(1202, 40, &big).await;
    let newest = store.version();
    let (kept, lost) = (newest - 31, newest - 33);
    assert!(store.watch("configmaps", kept).is_ok());
    assert!(store.watch("configmaps", lost).is_err(), "64 MiB hold 31 changes from one MiB to another");

    let mut idle = store.watch("configmaps", newest).unwrap();
    let pod = Key::new(&storage("pods"), "n", "p");
    store.commit(vec![Change { key: pod, ..create("p") }]).await.unwrap();
    store.compact();
    assert_eq!(store.watch("configmaps", newest).err(), Some(TooOld { oldest: newest + 1 }));
    assert_eq!(idle.position(), newest + 1);
    store.commit(vec![update("a", newest, "")]).await.unwrap();
    let seen = idle.next().await.unwrap();
    assert_eq!(seen[0].version, newest + 2, "a watch that had missed nothing goes on");
}

#[tokio::test]
async fn watch_from_future_version_waits() {
    let store = Store::in_memory();
    let mut watch = store.watch("configmaps", 2).unwrap();
    store.commit(vec![create("a"), create("b"), create("c")]).await.unwrap();
    let seen = watch.next().await.unwrap();
    assert_eq!(seen.iter().map(|event| event.version).collect::<Vec<_>>(), [3]);
}

/// Random writes to few names; a step without a write deletes.
fn histories() -> impl Strategy<Value = Vec<(u8, u8, bool)>> {
    prop::collection::vec((0..3_u8, 0..4_u8, prop::bool::weighted(0.7)), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn exact_list_equals_model_with_full_history(history in histories()) {
        type Model = BTreeMap<(String, String), u64>;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let store = Store::in_memory();
        let storage = storage("configmaps");
        let mut past: Vec<Model> = vec![Model::new()];
        for (namespace, name, put) in history {
            let (namespace, name) = (format!("n{namespace}"), format!("o{name}"));
            let mut model = past.last().unwrap().clone();
            let at = (namespace.clone(), name.clone());
            let found = model.get(&at).copied();
            let version = past.len() as u64;
            let op = if put { Op::Put(json!({"metadata": {"namespace": namespace, "name": name}})) } else { Op::Delete };
            if put { model.insert(at, version); } else { model.remove(&at); }
            let change = Change {
                key: Key::new(&storage, &namespace, &name),
                expect: found.map_or(Expect::Absent, Expect::Version),
                op,
            };
            if runtime.block_on(store.commit(vec![change])).is_ok() {
                past.push(model);
            } else {
                prop_assert!(!put && found.is_none());
            }
        }
        for (version, model) in past.iter().enumerate() {
            for namespace in [None, Some("n1")] {
                let snapshot = store.list_at("configmaps", namespace, version as u64).unwrap();
                prop_assert_eq!(snapshot.version, version as u64);
                let found: Vec<_> = snapshot
                    .objects
                    .iter()
                    .map(|o| ((o.namespace.to_string(), o.name.to_string()), o.version))
                    .collect();
                let expected: Vec<_> = model
                    .iter()
                    .filter(|(at, _)| namespace.is_none_or(|ns| ns == at.0))
                    .map(|(at, version)| (at.clone(), *version))
                    .collect();
                prop_assert_eq!(&found, &expected);
                for limit in [1, 2, 5] {
                    let (mut pages, mut start) = (Vec::new(), None);
                    loop {
                        let page = store.page("configmaps", namespace, Some(version as u64), start.as_ref(), Some(limit)).unwrap();
                        prop_assert!(page.objects.len() <= limit);
                        pages.extend(page.objects.iter().map(|o| ((o.namespace.to_string(), o.name.to_string()), o.version)));
                        prop_assert_eq!(page.remaining, expected.len() - pages.len());
                        let Some(last) = page.objects.last().filter(|_| page.remaining > 0) else { break };
                        start = Some(ListStart::after(last));
                    }
                    prop_assert_eq!(&pages, &expected);
                }
            }
        }
    }
}

#[tokio::test]
async fn storage_version_is_that_of_the_last_change() {
    let store = Store::in_memory();
    assert_eq!(store.storage_version("configmaps"), 0);
    let made = store.commit(vec![create("a")]).await.unwrap()[0].version;
    assert_eq!(store.storage_version("configmaps"), made);
    let gone = store.commit(vec![delete("a", made)]).await.unwrap()[0].version;
    assert_eq!((store.storage_version("configmaps"), store.storage_version("secrets")), (gone, 0));
}

#[tokio::test]
async fn history_size_includes_parsed_views() {
    let kept = async |parse: bool| {
        let store = Store::in_memory();
        let data = "x".repeat(1 << 20);
        let mut version = store.commit(vec![create("a")]).await.unwrap()[0].version;
        for _ in 0..60 {
            if parse {
                let object = store.get("configmaps", "n", "a").unwrap();
                object.view::<serde_json::Map<String, serde_json::Value>>();
            }
            version = store.commit(vec![update("a", version, &data)]).await.unwrap()[0].version;
        }
        (1..version).filter(|at| store.watch("configmaps", *at).is_ok()).count()
    };
    let (plain, parsed) = (kept(false).await, kept(true).await);
    assert!(parsed <= plain / 2 + 1, "{plain} events without views, {parsed} with them");
}

#[tokio::test]
async fn commits_and_marks_of_a_durable_store_are_timed() {
    let folder = tempfile::TempDir::new().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    for name in ["a", "b", "c"] {
        store.commit(vec![create(name)]).await.unwrap();
    }
    let mut shown = prometheus_client::registry::Registry::default();
    store.storage_collector().register(&mut shown);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &shown).unwrap();
    for histogram in ["commit", "high_water_mark_sync"] {
        let line = format!("kube_embedded_store_{histogram}_duration_seconds_count 3");
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
}
