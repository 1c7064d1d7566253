//! Tests of storage budgets: totals equal a recount, and writes are refused or allowed.

use std::collections::BTreeMap;

use futures::future::join_all;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Change, CommitError, Expect, Op, Options, Store};
use super::*;

const LABEL: &str = "team";
/// Takes precedence over [`LABEL`].
const OWNER: &str = "owner";

fn options(limit: u64, capacity: u64) -> Options {
    let labels = vec![OWNER.to_owned(), LABEL.to_owned()];
    let budget = Some(StorageBudget { labels, limit, capacity });
    Options { budget, durability: crate::store::Durability::Relaxed, ..Options::default() }
}

fn store(limit: u64) -> Arc<Store> {
    Store::in_memory_with(options(limit, u64::MAX))
}

fn document(key: &Key, label: Option<&str>, bytes: usize) -> Value {
    let mut document = json!({
        "metadata": {"namespace": *key.namespace, "name": *key.name}, "data": "x".repeat(bytes),
    });
    if let Some(label) = label {
        document["metadata"]["labels"] = json!({LABEL: label});
    }
    document
}

fn namespace_key(name: &str) -> Key {
    Key::new(&NAMESPACES.into(), "", name)
}

fn config_map_key(namespace: &str, name: &str) -> Key {
    Key::new(&"configmaps".into(), namespace, name)
}

fn get(store: &Store, key: &Key) -> Option<Arc<Object>> {
    store.get(&key.storage, &key.namespace, &key.name)
}

fn put(store: &Store, key: &Key, label: Option<&str>, bytes: usize) -> Change {
    let expect = get(store, key).map_or(Expect::Absent, |object| Expect::Version(object.version));
    Change { key: key.clone(), expect, op: Op::Put(document(key, label, bytes)) }
}

async fn write(
    store: &Store,
    key: &Key,
    label: Option<&str>,
    bytes: usize,
    allowance: Allowance,
) -> Result<(), CommitError> {
    store.commit_with_allowance(vec![put(store, key, label, bytes)], allowance, ()).await.map(drop)
}

async fn delete(store: &Store, key: &Key) {
    if let Some(object) = get(store, key) {
        let change = Change { key: key.clone(), expect: Expect::Version(object.version), op: Op::Delete };
        store.commit(vec![change]).await.unwrap();
    }
}

/// The totals, recounted from all objects.
fn recount(store: &Store) -> BTreeMap<String, u64> {
    let group_of = |namespace: &str| {
        let object = store.get(NAMESPACES, "", namespace)?;
        object.label(LABEL).map(str::to_owned)
    };
    let mut totals = BTreeMap::new();
    for storage in store.storages() {
        for object in store.list(&storage, None).objects {
            let own = object.label(LABEL).map(str::to_owned);
            if let Some(group) = group_of(&object.namespace).or(own) {
                *totals.entry(group).or_default() += object.bytes.len() as u64;
            }
        }
    }
    totals
}

fn totals(store: &Store) -> BTreeMap<String, u64> {
    let state = store.shared.state.read();
    let groups = &state.usage().unwrap().groups;
    assert_eq!(groups.total, groups.bytes.values().sum::<u64>());
    let groups = groups.bytes.iter();
    groups.map(|(group, bytes)| (group.to_string(), *bytes)).collect()
}

fn assert_counted(store: &Store) {
    assert_eq!(totals(store), recount(store));
}

#[derive(Clone, Debug)]
enum BudgetStep {
    /// Creates or updates an object of a namespace (0 is cluster-scoped) with a label and a size; deletes it without a size.
    Object(u8, u8, u8, Option<u16>),
    /// Sets the label of a namespace; 9 deletes the namespace.
    Namespace(u8, u8),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<BudgetStep>> {
    let object = (0..4_u8, 0..4_u8, 0..3_u8, prop::option::weighted(0.8, 0..2_000_u16))
        .prop_map(|(namespace, name, label, size)| BudgetStep::Object(namespace, name, label, size));
    let namespace =
        (1..4_u8, prop_oneof![0..3_u8, Just(9)]).prop_map(|(name, label)| BudgetStep::Namespace(name, label));
    prop::collection::vec(prop_oneof![8 => object, 3 => namespace, 1 => Just(BudgetStep::Restart)], 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn usage_equals_a_recount_after_every_change_and_restart(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let folder = tempfile::TempDir::new().unwrap();
        let mut store = Store::open(folder.path(), options(u64::MAX, u64::MAX)).unwrap();
        let label = |label: u8| ["", "red", "blue"].get(usize::from(label)).copied().filter(|l| !l.is_empty());
        for step in steps {
            match step {
                BudgetStep::Object(0, name, of, size) => {
                    let key = Key::new(&"nodes".into(), "", &name.to_string());
                    match size {
                        Some(size) => runtime
                            .block_on(write(&store, &key, label(of), size.into(), Allowance::Strict))
                            .unwrap(),
                        None => runtime.block_on(delete(&store, &key)),
                    }
                }
                BudgetStep::Object(namespace, name, of, size) => {
                    let key = config_map_key(&format!("n{namespace}"), &name.to_string());
                    match size {
                        Some(size) => runtime
                            .block_on(write(&store, &key, label(of), size.into(), Allowance::Strict))
                            .unwrap(),
                        None => runtime.block_on(delete(&store, &key)),
                    }
                }
                BudgetStep::Namespace(name, 9) => runtime.block_on(delete(&store, &namespace_key(&format!("n{name}")))),
                BudgetStep::Namespace(name, of) => {
                    let key = namespace_key(&format!("n{name}"));
                    runtime.block_on(write(&store, &key, label(of), 0, Allowance::Strict)).unwrap();
                }
                BudgetStep::Restart => {
                    drop(store);
                    store = Store::open(folder.path(), options(u64::MAX, u64::MAX)).unwrap();
                }
            }
            prop_assert_eq!(totals(&store), recount(&store));
        }
    }
}

#[tokio::test]
async fn writes_that_grow_a_full_group_are_refused_and_others_are_not() {
    let store = store(10_000);
    for (name, group) in [("acme-a", "acme"), ("acme-b", "acme"), ("other", "other")] {
        write(&store, &namespace_key(name), Some(group), 0, Allowance::Strict).await.unwrap();
    }
    let (first, second) = (config_map_key("acme-a", "first"), config_map_key("acme-b", "second"));
    write(&store, &first, None, 6_000, Allowance::Strict).await.unwrap();
    // The object's own label does not move it out of the group of its namespace.
    let refused = write(&store, &second, Some("other"), 6_000, Allowance::Strict).await.unwrap_err();
    let used = store.storage_used("acme").unwrap();
    let CommitError::OverBudget(why) = refused else { panic!("{refused:?}") };
    let OverBudget::Group { requested, .. } = why else { panic!("{why}") };
    assert!(requested > 6_000 && requested < 6_200, "{why}");
    let words =
        format!("exceeded storage budget of \"acme\": used {used} bytes, requested {requested}, limit 10000");
    assert_eq!(why.to_string(), words);
    assert_eq!(store.count("configmaps", None), 1);

    let grown = write(&store, &first, None, 9_900, Allowance::Strict).await;
    assert!(matches!(grown, Err(CommitError::OverBudget(_))), "{grown:?}");
    write(&store, &config_map_key("other", "a"), None, 6_000, Allowance::Strict).await.unwrap();
    write(&store, &config_map_key("free", "a"), None, 60_000, Allowance::Strict).await.unwrap();
    write(&store, &first, None, 5_000, Allowance::Strict).await.unwrap();
    delete(&store, &first).await;
    write(&store, &second, Some("other"), 6_000, Allowance::Strict).await.unwrap();
    assert_counted(&store);
}

#[tokio::test]
async fn objects_outside_of_namespaces_count_by_their_label() {
    let store = store(10_000);
    let (cluster, system) = (Key::new(&"requests".into(), "", "a"), config_map_key("system", "values"));
    write(&store, &cluster, Some("acme"), 5_000, Allowance::Strict).await.unwrap();
    let refused = write(&store, &system, Some("acme"), 5_000, Allowance::Strict).await;
    assert!(matches!(refused, Err(CommitError::OverBudget(_))), "{refused:?}");
    write(&store, &system, None, 5_000, Allowance::Strict).await.unwrap();
    // A new label charges the whole object to its group.
    let refused = write(&store, &system, Some("acme"), 5_000, Allowance::Strict).await;
    assert!(matches!(refused, Err(CommitError::OverBudget(_))), "{refused:?}");
    write(&store, &system, Some("other"), 5_000, Allowance::Strict).await.unwrap();
    assert_counted(&store);
}

#[tokio::test]
async fn over_budget_the_cluster_makes_small_changes_and_larger_ones_are_refused() {
    let store = store(100_000);
    write(&store, &namespace_key("acme"), Some("acme"), 0, Allowance::Strict).await.unwrap();
    let main = config_map_key("acme", "main");
    write(&store, &main, None, 99_000, Allowance::Strict).await.unwrap();
    write(&store, &main, None, 99_900, Allowance::Small).await.unwrap();
    let large = write(&store, &main, None, 150_000, Allowance::Small).await;
    assert!(matches!(large, Err(CommitError::OverBudget(_))), "{large:?}");
    // New objects may use the reserve.
    let lease = |n: u32| config_map_key("acme", &format!("lease{n}"));
    let mut made = 0;
    while write(&store, &lease(made), None, 1_000, Allowance::Small).await.is_ok() {
        made += 1;
    }
    assert!((8..13).contains(&made), "{made}");
    assert!(store.storage_used("acme").unwrap() <= 112_500);
    write(&store, &lease(0), None, 2_000, Allowance::Small).await.unwrap();
    write(&store, &main, None, 200_000, Allowance::Unlimited).await.unwrap();
    assert_counted(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writes_at_once_do_not_exceed_the_budget_together() {
    let store = store(50_000);
    write(&store, &namespace_key("acme"), Some("acme"), 0, Allowance::Strict).await.unwrap();
    let writes = (0..200).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let key = config_map_key("acme", &format!("o{n}"));
            write(&store, &key, None, 1_000, Allowance::Strict).await.is_ok()
        })
    });
    let made = join_all(writes).await.into_iter().filter(|made| *made.as_ref().unwrap()).count();
    assert!((40..50).contains(&made), "{made}");
    assert!(store.storage_used("acme").unwrap() <= 50_000);
    assert_counted(&store);
}

/// Creates a namespace with both labels; its group is the one that `OWNER` names.
async fn owned(store: &Store, name: &str, team: &str, owner: &str) {
    let key = namespace_key(name);
    let mut object = document(&key, Some(team), 0);
    object["metadata"]["labels"][OWNER] = owner.into();
    let change = Change { key, expect: Expect::Absent, op: Op::Put(object) };
    store.commit(vec![change]).await.unwrap();
}

#[tokio::test]
async fn group_is_named_by_first_label_with_other_labels_as_fallback() {
    let store = store(10_000);
    owned(&store, "shop", "shop", "jane").await;
    owned(&store, "shop-test", "shop-test", "jane").await;
    write(&store, &namespace_key("older"), Some("jane"), 0, Allowance::Strict).await.unwrap();
    write(&store, &config_map_key("shop", "a"), None, 4_000, Allowance::Strict).await.unwrap();
    write(&store, &config_map_key("shop-test", "a"), None, 4_000, Allowance::Strict).await.unwrap();
    for name in ["shop", "shop-test", "older"] {
        let refused = write(&store, &config_map_key(name, "b"), None, 4_000, Allowance::Strict).await;
        let Err(CommitError::OverBudget(OverBudget::Group { group, .. })) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(&*group, "jane");
    }
    assert_eq!(store.storage_used("shop"), Some(0));
}

/// Fills the capacity from four groups, and returns the last refusal.
async fn fill_capacity(store: &Store) -> CommitError {
    let mut last = None;
    for group in ["a", "b", "c", "d"] {
        write(store, &namespace_key(group), Some(group), 0, Allowance::Strict).await.unwrap();
        for n in 0..200 {
            let key = config_map_key(group, &format!("o{n}"));
            if let Err(error) = write(store, &key, None, 1_000, Allowance::Strict).await {
                last = Some(error);
                break;
            }
        }
    }
    last.unwrap()
}

fn used(store: &Store) -> u64 {
    totals(store).values().sum()
}

#[tokio::test]
async fn accounts_cannot_exceed_the_storage_capacity_together() {
    let (limit, capacity) = (64_000, 160_000);
    let store = Store::in_memory_with(options(limit, capacity));
    let refused = fill_capacity(&store).await;
    let CommitError::OverBudget(why) = refused else { panic!("{refused:?}") };
    let OverBudget::Capacity { requested, .. } = why else { panic!("{why}") };
    let words = format!(
        "exceeded storage capacity of all tenants together: requested {requested} bytes, capacity 160000"
    );
    assert_eq!(why.to_string(), words);
    // The last group, which is small, may use more than seven eighths.
    assert!((130_000..=145_000).contains(&used(&store)), "{}", used(&store));

    // A small group can still write after large groups have filled the capacity.
    write(&store, &namespace_key("good"), Some("good"), 0, Allowance::Strict).await.unwrap();
    for n in 0..3 {
        write(&store, &config_map_key("good", &format!("o{n}")), None, 1_000, Allowance::Strict)
            .await
            .unwrap();
    }
    let large = write(&store, &config_map_key("good", "large"), None, 5_000, Allowance::Strict).await;
    assert!(matches!(large, Err(CommitError::OverBudget(OverBudget::Capacity { .. }))), "{large:?}");

    // Objects without a group are not counted, and writes that do not grow are not refused.
    write(&store, &config_map_key("system", "a"), None, 100_000, Allowance::Strict).await.unwrap();
    write(&store, &config_map_key("a", "o0"), None, 900, Allowance::Strict).await.unwrap();
    for n in 1..10 {
        delete(&store, &config_map_key("a", &format!("o{n}"))).await;
    }
    write(&store, &config_map_key("c", "again"), None, 1_000, Allowance::Strict).await.unwrap();
    assert_counted(&store);
}

#[tokio::test]
async fn platform_has_a_reserve_beyond_the_storage_capacity() {
    let (limit, capacity) = (64_000, 160_000);
    let store = Store::in_memory_with(options(limit, capacity));
    fill_capacity(&store).await;
    let full = config_map_key("d", "o0");
    write(&store, &full, None, 9_000, Allowance::Small).await.unwrap();
    write(&store, &full, None, 60_000, Allowance::Unlimited).await.unwrap();
    delete(&store, &full).await;
    let mut made = 0;
    while write(&store, &config_map_key("d", &format!("lease{made}")), None, 1_000, Allowance::Small)
        .await
        .is_ok()
    {
        made += 1;
    }
    assert!(made > 20, "{made}");
    assert!((160_000..=180_000).contains(&used(&store)), "{}", used(&store));
    let large = write(&store, &config_map_key("d", "large"), None, 20_000, Allowance::Small).await;
    assert!(matches!(large, Err(CommitError::OverBudget(OverBudget::Capacity { .. }))), "{large:?}");
    assert_counted(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writes_of_several_groups_at_once_do_not_exceed_the_capacity_together() {
    let (limit, capacity) = (64_000, 80_000);
    let store = Store::in_memory_with(options(limit, capacity));
    let writes = (0..200).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let key = config_map_key(&format!("n{}", n % 8), &format!("o{n}"));
            write(&store, &key, Some(&format!("g{}", n % 8)), 1_000, Allowance::Strict).await.is_ok()
        })
    });
    let made = join_all(writes).await.into_iter().filter(|made| *made.as_ref().unwrap()).count();
    assert!((50..80).contains(&made), "{made}");
    assert!(used(&store) <= capacity, "{}", used(&store));
    assert_counted(&store);
}

#[tokio::test]
async fn refused_transaction_changes_nothing_and_is_counted_once() {
    let store = store(10_000);
    write(&store, &namespace_key("acme"), Some("acme"), 0, Allowance::Strict).await.unwrap();
    let before = totals(&store);
    let pair = vec![
        put(&store, &config_map_key("acme", "a"), None, 6_000),
        put(&store, &config_map_key("acme", "b"), None, 6_000),
    ];
    assert!(store.commit_with_allowance(pair, Allowance::Strict, ()).await.is_err());
    assert_eq!(totals(&store), before);
    let mut registry = prometheus_client::registry::Registry::default();
    registry.register_collector(Box::new(store.storage_collector()));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(text.contains("kube_embedded_storage_budget_refusals_total 1\n"), "{text}");
    let largest = format!("kube_embedded_storage_budget_largest_bytes {}\n", before["acme"]);
    assert!(text.contains(&largest), "{text}");
}
