//! Properties of the store and its subscriber queues.

use std::task::Waker;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use proptest::prelude::*;

use super::*;

fn object(name: &str, uid: u8, version: u32) -> IncomingObject<ConfigMap> {
    object_in("x", name, uid, version)
}

fn object_in(namespace: &str, name: &str, uid: u8, version: u32) -> IncomingObject<ConfigMap> {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        uid: Some(uid.to_string()),
        resource_version: Some(version.to_string()),
        ..ObjectMeta::default()
    };
    IncomingObject::new(ConfigMap { metadata, ..ConfigMap::default() }, |object| object)
}

fn describe(change: &CacheEvent<ConfigMap>) -> String {
    let (word, object) = match change {
        CacheEvent::Applied(object) => ("applied", object),
        CacheEvent::Deleted(object) => ("deleted", object),
    };
    format!("{word} {}:{}", object.name_any(), object.uid().unwrap())
}

fn next_event(store: &mut ObjectStore<ConfigMap>, id: u64) -> Option<CacheEvent<ConfigMap>> {
    match store.poll(id, &Context::from_waker(Waker::noop())) {
        Poll::Ready(change) => change,
        Poll::Pending => None,
    }
}

fn drain(store: &mut ObjectStore<ConfigMap>, id: u64) -> Vec<String> {
    std::iter::from_fn(|| next_event(store, id)).map(|change| describe(&change)).collect()
}

/// Applies a complete list.
fn replace(store: &mut ObjectStore<ConfigMap>, all: Vec<IncomingObject<ConfigMap>>) {
    let mut unheard = store.keys();
    for heard in all {
        store.apply_listed(heard, &mut unheard);
    }
    store.remove_unlisted(unheard);
}

#[test]
fn pending_events_of_a_subscriber_are_coalesced_per_object() {
    let mut store = ObjectStore::default();
    store.apply(object("old", 1, 1));
    store.apply(object("gone", 1, 1));
    let id = store.subscribe();
    assert_eq!(drain(&mut store, id), ["applied gone:1", "applied old:1"]);

    store.apply(object("old", 1, 2));
    store.apply(object("new", 1, 3));
    store.apply(object("old", 1, 4));
    store.remove(Some("x"), "gone");
    store.apply(object("brief", 1, 5));
    store.remove(Some("x"), "brief");
    assert_eq!(drain(&mut store, id), ["applied old:1", "applied new:1", "deleted gone:1"]);

    // An object recreated under the same name: its deletion is delivered, and delivered first.
    store.remove(Some("x"), "old");
    store.apply(object("old", 2, 6));
    store.remove(Some("x"), "old");
    store.apply(object("old", 3, 7));
    assert_eq!(drain(&mut store, id), ["deleted old:1", "applied old:3"]);
    store.apply(object("old", 4, 8));
    assert_eq!(drain(&mut store, id), ["deleted old:3", "applied old:4"]);
}

#[test]
fn list_notifies_only_of_differences() {
    let mut store = ObjectStore::default();
    replace(&mut store, vec![object("a", 1, 1), object("b", 1, 1), object("c", 1, 1)]);
    let id = store.subscribe();
    assert_eq!(drain(&mut store, id).len(), 3);
    replace(&mut store, vec![object("a", 1, 1), object("c", 1, 2), object("d", 1, 3)]);
    assert_eq!(drain(&mut store, id), ["applied c:1", "applied d:1", "deleted b:1"]);
    assert_eq!(store.list().len(), 3);
}

#[test]
fn get_by_name_matches_the_whole_name() {
    let mut store = ObjectStore::default();
    for name in ["a", "a-b", "a.b", "a0", "b"] {
        store.apply(object(name, 1, 1));
    }
    store.apply(object_in("y", "a", 2, 1));
    for name in ["a", "a-b", "a.b", "a0", "b"] {
        assert_eq!(store.get_by_name(name).unwrap().name_any(), name);
    }
    assert_eq!(store.get("y", "a").unwrap().uid().unwrap(), "2");
    assert!(
        store.get_by_name("a-").is_none()
            && store.get_by_name("c").is_none()
            && store.get("y", "b").is_none()
    );
}

#[test]
fn queue_of_idle_subscriber_does_not_grow() {
    let mut store = ObjectStore::default();
    store.apply(object("kept", 1, 0));
    let id = store.subscribe();
    for version in 1..1000 {
        store.apply(object("kept", 1, version));
        store.apply(object(&format!("brief-{version}"), 1, version));
        store.remove(Some("x"), &format!("brief-{version}"));
    }
    let waiting = &store.subscribers[&id];
    assert_eq!((waiting.events.len(), waiting.positions.len()), (1, 1));
}

#[derive(Clone, Debug)]
enum StoreOp {
    Apply(usize, u8),
    Remove(usize),
    Replace(Vec<(usize, u8)>),
    Poll(usize),
}

fn store_ops() -> impl Strategy<Value = Vec<StoreOp>> {
    let one = || (0..4_usize, 0..3_u8);
    proptest::collection::vec(
        prop_oneof![
            4 => one().prop_map(|(name, uid)| StoreOp::Apply(name, uid)),
            3 => (0..4_usize).prop_map(StoreOp::Remove),
            1 => proptest::collection::vec(one(), 0..4).prop_map(StoreOp::Replace),
            3 => (1..4_usize).prop_map(StoreOp::Poll),
        ],
        0..60,
    )
}

proptest! {
    /// A subscriber that applies its events ends at the current state, and every intermediate event is consistent.
    #[test]
    fn a_subscriber_ends_at_what_there_is(steps in store_ops()) {
        let mut store = ObjectStore::default();
        let id = store.subscribe();
        let mut believed: BTreeMap<String, (String, String)> = BTreeMap::new();
        let mut version = 0;
        let hear = |store: &mut ObjectStore<ConfigMap>, believed: &mut BTreeMap<_, (String, String)>| {
            let Some(change) = next_event(store, id) else { return false };
            match change {
                CacheEvent::Applied(object) => {
                    let before = believed.insert(
                        object.name_any(),
                        (object.uid().unwrap(), object.resource_version().unwrap()),
                    );
                    assert!(before.is_none_or(|(uid, _)| Some(uid) == object.uid()), "another, unannounced");
                }
                CacheEvent::Deleted(object) => {
                    let before = believed.remove(&object.name_any());
                    assert_eq!(before.map(|(uid, _)| uid), object.uid(), "deleted, and never heard of");
                }
            }
            true
        };
        for step in steps {
            version += 1;
            match step {
                StoreOp::Apply(name, uid) => store.apply(object(&format!("n{name}"), uid, version)),
                StoreOp::Remove(name) => store.remove(Some("x"), &format!("n{name}")),
                StoreOp::Replace(all) => {
                    let all: BTreeMap<usize, u8> = all.into_iter().collect();
                    let all = all.into_iter().map(|(name, uid)| object(&format!("n{name}"), uid, version));
                    replace(&mut store, all.collect());
                }
                StoreOp::Poll(times) => for _ in 0..times { hear(&mut store, &mut believed); },
            }
            assert!(store.subscribers[&id].events.len() <= 4);
        }
        while hear(&mut store, &mut believed) {}
        let there: BTreeMap<_, _> = store
            .list()
            .iter()
            .map(|object| (object.name_any(), (object.uid().unwrap(), object.resource_version().unwrap())))
            .collect();
        prop_assert_eq!(believed, there);
    }
}
