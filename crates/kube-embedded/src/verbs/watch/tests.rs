//! Tests of the initial state of a watch, read slowly while objects change.

use std::collections::BTreeMap;

use http::Request;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::*;
use crate::access::User;
use crate::http::respond::Body;
use crate::store::{Change, Expect, Key, Op};

async fn put(cluster: &Cluster, name: &str, data: &str) {
    let store = cluster.store();
    let found = store.get("configmaps", "default", name);
    let document = json!({"kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "default", "uid": name}, "data": {"x": data}});
    let expect = found.map_or(Expect::Absent, |found| Expect::Version(found.version));
    let key = Key::new(&"configmaps".into(), "default", name);
    store.commit(vec![Change { key, expect, op: Op::Put(document) }]).await.unwrap();
}

async fn delete(cluster: &Cluster, name: &str) {
    let version = cluster.store().get("configmaps", "default", name).unwrap().version;
    let key = Key::new(&"configmaps".into(), "default", name);
    let change = Change { key, expect: Expect::Version(version), op: Op::Delete };
    cluster.store().commit(vec![change]).await.unwrap();
}

async fn open_watch(cluster: &Cluster, query: &str) -> http::Response<Body> {
    let user = User::named("jane", &["system:masters"]);
    let path = format!("/api/v1/namespaces/default/configmaps?watch=1{query}");
    let request = Request::get(path).body(http_body_util::Empty::<Bytes>::new()).unwrap();
    cluster.service_as(user).oneshot(request).await.unwrap()
}

async fn next_event(watch: &mut http::Response<Body>) -> Value {
    let frame = watch.body_mut().frame().await.expect("the watch goes on").unwrap();
    serde_json::from_slice(&frame.into_data().unwrap()).unwrap()
}

#[tokio::test]
async fn slow_client_sees_a_consistent_state_at_the_end_of_the_initial_events() {
    let cluster = Cluster::in_memory().await;
    for n in 0..1_300 {
        put(&cluster, &format!("m{n:04}"), "old").await;
    }
    let asked = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = open_watch(&cluster, asked).await;
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut told = 0;
    let bookmark = loop {
        let event = next_event(&mut watch).await;
        let metadata = &event["object"]["metadata"];
        let (name, version) = (metadata["name"].as_str(), metadata["resourceVersion"].as_str().unwrap());
        match (event["type"].as_str().unwrap(), name) {
            ("BOOKMARK", _) => break version.parse::<u64>().unwrap(),
            ("ADDED", Some(name)) => {
                assert_eq!(known.insert(name.to_owned(), version.to_owned()), None, "{name} is added once");
            }
            ("MODIFIED", Some(name)) => {
                assert!(known.insert(name.to_owned(), version.to_owned()).is_some(), "{name}");
            }
            ("DELETED", Some(name)) => assert!(known.remove(name).is_some(), "{name}"),
            other => panic!("{other:?}"),
        }
        told += 1;
        match told {
            // On the first page, on an unread page, and new objects before and after.
            100 => {
                put(&cluster, "m0003", "new").await;
                put(&cluster, "m0900", "new").await;
                delete(&cluster, "m0004").await;
                delete(&cluster, "m0901").await;
                put(&cluster, "a", "new").await;
                put(&cluster, "z", "new").await;
            }
            700 => {
                put(&cluster, "m0902", "new").await;
                put(&cluster, "m1250", "new").await;
                delete(&cluster, "z").await;
            }
            _ => {}
        }
    };
    let listed = cluster.store().list_at("configmaps", Some("default"), bookmark).unwrap().objects;
    let expected: BTreeMap<String, String> =
        listed.iter().map(|object| (object.name.to_string(), object.version.to_string())).collect();
    assert_eq!(known, expected);
    put(&cluster, "m0003", "newer").await;
    assert_eq!(next_event(&mut watch).await["type"], "MODIFIED");
}

#[tokio::test]
async fn unread_watch_buffers_one_page() {
    let cluster = Cluster::in_memory().await;
    let data = "x".repeat(100_000);
    for n in 0..100 {
        put(&cluster, &format!("m{n:04}"), &data).await;
    }
    let mut watch = open_watch(&cluster, "").await;
    next_event(&mut watch).await;
    let mut shown = prometheus_client::registry::Registry::default();
    cluster.metrics().register(&mut shown);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &shown).unwrap();
    let line =
        text.lines().find_map(|line| line.strip_prefix("governor_bytes_held{level=\"platform\"} ")).unwrap();
    let held: u64 = line.parse().unwrap();
    assert!((500_000..2_000_000).contains(&held), "{held} of ten million bytes");
    assert!(text.contains("governor_streams_open{level=\"platform\"} 1"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn watch_timeout_is_capped_at_one_hour() {
    let cluster = Cluster::in_memory().await;
    let began = Instant::now();
    let watch = open_watch(&cluster, "&resourceVersion=1&timeoutSeconds=9223372036854775807").await;
    watch.into_body().collect().await.unwrap();
    assert!(began.elapsed() <= Duration::from_mins(61), "{:?}", began.elapsed());
}

#[tokio::test]
async fn watch_with_many_requirements_compares_few_of_them_between_yields() {
    use super::super::selection::tests::COMPARISONS;

    let cluster = Cluster::in_memory().await;
    let labelled = |name: String, labels: Value| {
        json!({"kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels}})
    };
    let commit = async |objects: Vec<Value>| {
        let change = |object: Value| {
            let key = Key::new(&"configmaps".into(), "default", object["metadata"]["name"].as_str().unwrap());
            Change { key, expect: Expect::Absent, op: Op::Put(object) }
        };
        cluster.store().commit(objects.into_iter().map(change).collect()).await.unwrap();
    };
    let selector = (0..400).map(|n| format!("!k{n}")).collect::<Vec<_>>().join(",");
    let query = format!("&labelSelector={selector},zz");
    commit((0..700).map(|n| labelled(format!("a{n:03}"), json!({}))).collect()).await;
    commit(vec![labelled("b".to_owned(), json!({"zz": "z"}))]).await;
    let mut watch = open_watch(&cluster, &query).await;
    for expected in ["b", "d"] {
        let mut polls = 0;
        let mut event = std::pin::pin!(next_event(&mut watch));
        let event = loop {
            let before = COMPARISONS.get();
            let polled = futures::poll!(event.as_mut());
            let compared = COMPARISONS.get() - before;
            assert!(compared <= 3 * MAX_COMPARISONS, "{compared} comparisons");
            match polled {
                std::task::Poll::Ready(event) => break event,
                std::task::Poll::Pending => tokio::task::yield_now().await,
            }
            polls += 1;
        };
        assert_eq!(event["object"]["metadata"]["name"], expected);
        assert!(polls >= 20, "{polls}");
        if expected == "b" {
            // The stream lags behind by these events.
            commit((0..700).map(|n| labelled(format!("c{n:03}"), json!({}))).collect()).await;
            commit(vec![labelled("d".to_owned(), json!({"zz": "z"}))]).await;
        }
    }
    cluster.stop();
}
