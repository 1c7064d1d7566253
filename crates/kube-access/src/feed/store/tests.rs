//! Properties of the store and its subscriber queues.

use std::task::Waker;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use proptest::prelude::*;

use super::*;

fn object(name: &str, uid: u8, version: u32) -> Heard<ConfigMap> {
    object_in("x", name, uid, version)
}

fn object_in(namespace: &str, name: &str, uid: u8, version: u32) -> Heard<ConfigMap> {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        uid: Some(uid.to_string()),
        resource_version: Some(version.to_string()),
        ..ObjectMeta::default()
    };
    Heard::of(ConfigMap { metadata, ..ConfigMap::default() }, |object| object)
}

fn said(change: &Change<ConfigMap>) -> String {
    let (word, object) = match change {
        Change::Applied(object) => ("applied", object),
        Change::Deleted(object) => ("deleted", object),
    };
    format!("{word} {}:{}", object.name_any(), object.uid().unwrap())
}

fn next(store: &mut Store<ConfigMap>, id: u64) -> Option<Change<ConfigMap>> {
    match store.poll(id, &Context::from_waker(Waker::noop())) {
        Poll::Ready(change) => change,
        Poll::Pending => None,
    }
}

fn rest(store: &mut Store<ConfigMap>, id: u64) -> Vec<String> {
    std::iter::from_fn(|| next(store, id)).map(|change| said(&change)).collect()
}

/// Applies a complete list.
fn replace(store: &mut Store<ConfigMap>, all: Vec<Heard<ConfigMap>>) {
    let mut unheard = store.names();
    for heard in all {
        store.hear(heard, &mut unheard);
    }
    store.forget(unheard);
}

#[test]
fn what_a_subscriber_is_told_of_what_happened_meanwhile() {
    let mut store = Store::default();
    store.apply(object("old", 1, 1));
    store.apply(object("gone", 1, 1));
    let id = store.subscribe();
    assert_eq!(rest(&mut store, id), ["applied gone:1", "applied old:1"]);

    store.apply(object("old", 1, 2));
    store.apply(object("new", 1, 3));
    store.apply(object("old", 1, 4));
    store.remove(Some("x"), "gone");
    store.apply(object("brief", 1, 5));
    store.remove(Some("x"), "brief");
    assert_eq!(rest(&mut store, id), ["applied old:1", "applied new:1", "deleted gone:1"]);

    // An object recreated under the same name: its deletion is delivered, and delivered first.
    store.remove(Some("x"), "old");
    store.apply(object("old", 2, 6));
    store.remove(Some("x"), "old");
    store.apply(object("old", 3, 7));
    assert_eq!(rest(&mut store, id), ["deleted old:1", "applied old:3"]);
    store.apply(object("old", 4, 8));
    assert_eq!(rest(&mut store, id), ["deleted old:3", "applied old:4"]);
}

#[test]
fn a_list_tells_only_of_what_differs() {
    let mut store = Store::default();
    replace(&mut store, vec![object("a", 1, 1), object("b", 1, 1), object("c", 1, 1)]);
    let id = store.subscribe();
    assert_eq!(rest(&mut store, id).len(), 3);
    replace(&mut store, vec![object("a", 1, 1), object("c", 1, 2), object("d", 1, 3)]);
    assert_eq!(rest(&mut store, id), ["applied c:1", "applied d:1", "deleted b:1"]);
    assert_eq!(store.all().len(), 3);
}

#[test]
fn names_are_found_whatever_else_begins_like_them() {
    let mut store = Store::default();
    for name in ["a", "a-b", "a.b", "a0", "b"] {
        store.apply(object(name, 1, 1));
    }
    store.apply(object_in("y", "a", 2, 1));
    for name in ["a", "a-b", "a.b", "a0", "b"] {
        assert_eq!(store.named(name).unwrap().name_any(), name);
    }
    assert_eq!(store.get("y", "a").unwrap().uid().unwrap(), "2");
    assert!(store.named("a-").is_none() && store.named("c").is_none() && store.get("y", "b").is_none());
}

#[test]
fn what_waits_for_somebody_who_never_listens_does_not_grow() {
    let mut store = Store::default();
    store.apply(object("kept", 1, 0));
    let id = store.subscribe();
    for version in 1..1000 {
        store.apply(object("kept", 1, version));
        store.apply(object(&format!("brief-{version}"), 1, version));
        store.remove(Some("x"), &format!("brief-{version}"));
    }
    let waiting = &store.subscribers[&id];
    assert_eq!((waiting.entries.len(), waiting.places.len()), (1, 1));
}

#[derive(Clone, Debug)]
enum Step {
    Apply(usize, u8),
    Remove(usize),
    Replace(Vec<(usize, u8)>),
    Listen(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = || (0..4_usize, 0..3_u8);
    proptest::collection::vec(
        prop_oneof![
            4 => one().prop_map(|(name, uid)| Step::Apply(name, uid)),
            3 => (0..4_usize).prop_map(Step::Remove),
            1 => proptest::collection::vec(one(), 0..4).prop_map(Step::Replace),
            3 => (1..4_usize).prop_map(Step::Listen),
        ],
        0..60,
    )
}

proptest! {
    /// A subscriber that applies its events ends at the current state, and every intermediate event is consistent.
    #[test]
    fn a_subscriber_ends_at_what_there_is(steps in steps()) {
        let mut store = Store::default();
        let id = store.subscribe();
        let mut believed: BTreeMap<String, (String, String)> = BTreeMap::new();
        let mut version = 0;
        let hear = |store: &mut Store<ConfigMap>, believed: &mut BTreeMap<_, (String, String)>| {
            let Some(change) = next(store, id) else { return false };
            match change {
                Change::Applied(object) => {
                    let before = believed.insert(
                        object.name_any(),
                        (object.uid().unwrap(), object.resource_version().unwrap()),
                    );
                    assert!(before.is_none_or(|(uid, _)| Some(uid) == object.uid()), "another, unannounced");
                }
                Change::Deleted(object) => {
                    let before = believed.remove(&object.name_any());
                    assert_eq!(before.map(|(uid, _)| uid), object.uid(), "deleted, and never heard of");
                }
            }
            true
        };
        for step in steps {
            version += 1;
            match step {
                Step::Apply(name, uid) => store.apply(object(&format!("n{name}"), uid, version)),
                Step::Remove(name) => store.remove(Some("x"), &format!("n{name}")),
                Step::Replace(all) => {
                    let all: BTreeMap<usize, u8> = all.into_iter().collect();
                    let all = all.into_iter().map(|(name, uid)| object(&format!("n{name}"), uid, version));
                    replace(&mut store, all.collect());
                }
                Step::Listen(times) => for _ in 0..times { hear(&mut store, &mut believed); },
            }
            assert!(store.subscribers[&id].entries.len() <= 4);
        }
        while hear(&mut store, &mut believed) {}
        let there: BTreeMap<_, _> = store
            .all()
            .iter()
            .map(|object| (object.name_any(), (object.uid().unwrap(), object.resource_version().unwrap())))
            .collect();
        prop_assert_eq!(believed, there);
    }
}
