//! Tests of all controllers together, with a store in memory and a minimal API.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use serde_json::json;

use super::queue::Action;
use super::*;
use crate::clock::ManualClock;
use crate::store::Event;

/// Deletes and creates like the API, as far as these tests need it.
struct FakeApi {
    store: Arc<Store>,
    /// Number of further deletes that fail.
    failing: AtomicU32,
    /// Deletes in progress, and their maximum.
    deleting: AtomicU32,
    most: AtomicU32,
}

impl FakeApi {
    async fn remove(&self, key: &Key, preconditions: Preconditions<'_>, how: Propagation) -> Result<()> {
        if self.failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() {
            return Err(ApiError::internal("not now"));
        }
        let missing = || ApiError::not_found("", &key.storage, &key.name);
        let found = self.store.get(&key.storage, &key.namespace, &key.name).ok_or_else(missing)?;
        if found.uid.as_ref() != preconditions.uid
            || preconditions.version.is_some_and(|v| v != found.version)
        {
            return Err(ApiError::outdated_version("", &key.storage, &key.name));
        }
        let mut value = found.value();
        let mut finalizers = value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        match how {
            Propagation::Foreground => finalizers.push("foregroundDeletion".into()),
            Propagation::Orphan => finalizers.push("orphan".into()),
            Propagation::Background => {}
        }
        value["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
        value["metadata"]["finalizers"] = finalizers.into();
        value["metadata"]["deletionGracePeriodSeconds"] =
            value["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(0).into();
        let committed = self.store.commit(vec![build_change(key, &found, value)]).await;
        committed.map(drop).map_err(|_| ApiError::outdated_version("", &key.storage, &key.name))
    }
}

impl ControllerClient for FakeApi {
    fn delete<'a>(
        &'a self,
        key: &'a Key,
        preconditions: Preconditions<'a>,
        propagation: Propagation,
    ) -> BoxFuture<'a, Result<()>> {
        async move {
            let now = self.deleting.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            let outcome = self.remove(key, preconditions, propagation).await;
            self.deleting.fetch_sub(1, Ordering::SeqCst);
            outcome
        }
        .boxed()
    }

    fn delete_immediately<'a>(&'a self, key: &'a Key, uid: &'a str) -> BoxFuture<'a, Result<()>> {
        self.remove(key, Preconditions { uid, version: None }, Propagation::Background).boxed()
    }

    fn update(&self, _: Component, _: ObjectPart, _: Value) -> BoxFuture<'_, Result<Arc<Object>>> {
        async { Err(ApiError::not_implemented("the tiny API has no updates")) }.boxed()
    }

    fn update_scale<'a>(
        &'a self,
        _: (&'a str, &'a str),
        _: (&'a str, &'a str),
        _: Value,
    ) -> BoxFuture<'a, Result<()>> {
        unreachable!("these controllers do not ask for it")
    }

    fn get_scale<'a>(&'a self, _: (&'a str, &'a str), _: (&'a str, &'a str)) -> BoxFuture<'a, Result<Value>> {
        unreachable!("these controllers do not ask for it")
    }

    fn bind<'a>(&'a self, _: &'a Object, _: &'a str) -> BoxFuture<'a, Result<()>> {
        unreachable!("these controllers do not ask for it")
    }

    fn create(&self, _: Component, mut document: Value) -> BoxFuture<'_, Result<Arc<Object>>> {
        async move {
            let Some((storage, _)) = kind(document["kind"].as_str().unwrap()) else {
                return Err(ApiError::no_such_resource());
            };
            let metadata = &mut document["metadata"];
            metadata["uid"] = uuid::Uuid::new_v4().to_string().into();
            let key = Key::new(
                &storage,
                metadata["namespace"].as_str().unwrap_or_default(),
                metadata["name"].as_str().unwrap(),
            );
            let change = Change { key, expect: Expect::Absent, op: Op::Put(document) };
            self.store
                .commit(vec![change])
                .await
                .map(|made| made[0].clone())
                .map_err(|_| ApiError::new(409, "AlreadyExists", ""))
        }
        .boxed()
    }
}

fn kind(name: &str) -> Option<(Arc<str>, bool)> {
    let (storage, namespaced) = match name {
        "Pod" => ("pods", true),
        "ReplicaSet" => ("replicasets.apps", true),
        "ConfigMap" => ("configmaps", true),
        "Secret" => ("secrets", true),
        "ServiceAccount" => ("serviceaccounts", true),
        "Event" => ("events", true),
        "Widget" => ("widgets.example.com", true),
        "Namespace" => ("namespaces", false),
        "Node" => ("nodes", false),
        "ClusterRole" => ("clusterroles.rbac.authorization.k8s.io", false),
        "CustomResourceDefinition" => ("customresourcedefinitions.apiextensions.k8s.io", false),
        _ => return None,
    };
    Some((storage.into(), namespaced))
}

struct ControllerHarness {
    store: Arc<Store>,
    api: Arc<FakeApi>,
    clock: Arc<ManualClock>,
}

impl ControllerHarness {
    fn new() -> Self {
        let store = Store::in_memory();
        let api = Arc::new(FakeApi {
            store: store.clone(),
            failing: AtomicU32::new(0),
            deleting: AtomicU32::new(0),
            most: AtomicU32::new(0),
        });
        Self { store, api, clock: ManualClock::starting_at("2026-01-02T03:04:05Z".parse().unwrap()) }
    }

    fn start(&self) -> RunningControllers {
        start(Context {
            store: self.store.clone(),
            client: self.api.clone(),
            clock: self.clock.clone(),
            pki: Arc::new(Pki::in_memory(&[], self.clock.now()).unwrap()),
            kinds: Arc::new(|_, name| kind(name)),
            owner_labels: Vec::new(),
            events: Recorder::default(),
            simulation: None,
            health: Health::default(),
            metrics: Metrics::default(),
        })
    }

    /// Parses `kind namespace/name`, or `kind name`.
    fn key(what: &str) -> Key {
        let (of, at) = what.split_once(' ').unwrap();
        let (namespace, name) = at.split_once('/').unwrap_or(("", at));
        Key::new(&kind(of).unwrap().0, namespace, name)
    }

    fn get(&self, what: &str) -> Option<Arc<Object>> {
        let key = Self::key(what);
        self.store.get(&key.storage, &key.namespace, &key.name)
    }

    /// Creates an object with uid `what`, these fields and these owners.
    async fn create(&self, what: &str, fields: Value, owners: &[&str]) {
        let key = Self::key(what);
        let mut value = fields;
        value["kind"] = what.split(' ').next().unwrap().into();
        value["metadata"]["name"] = key.name.as_ref().into();
        value["metadata"]["uid"] = what.into();
        if !key.namespace.is_empty() {
            value["metadata"]["namespace"] = key.namespace.as_ref().into();
        }
        let reference = |owner: &&str| {
            let (owner, blocks) = owner.strip_prefix('!').map_or((*owner, false), |owner| (owner, true));
            let (of, at) = owner.split_once(' ').unwrap();
            let name = at.rsplit('/').next().unwrap();
            json!({"apiVersion": "v1", "kind": of, "name": name, "uid": owner, "blockOwnerDeletion": blocks})
        };
        if !owners.is_empty() {
            value["metadata"]["ownerReferences"] = owners.iter().map(reference).collect();
        }
        let change = Change { key, expect: Expect::Absent, op: Op::Put(value) };
        self.store.commit(vec![change]).await.unwrap();
    }

    async fn change(&self, what: &str, edit: impl Fn(&mut Value)) {
        let found = self.get(what).unwrap();
        let mut value = found.value();
        edit(&mut value);
        self.store.commit(vec![build_change(&Self::key(what), &found, value)]).await.unwrap();
    }

    async fn delete(&self, what: &str, how: Propagation) {
        let preconditions = Preconditions { uid: &self.get(what).unwrap().uid, version: None };
        self.api.remove(&Self::key(what), preconditions, how).await.unwrap();
    }

    async fn wait_for(&self, why: &str, holds: impl Fn(&Self) -> bool) {
        let mut feed = self.store.watch_all();
        let waited = async {
            while !holds(self) {
                let _ = tokio::time::timeout(Duration::from_millis(20), feed.next()).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), waited).await.unwrap_or_else(|_| panic!("never: {why}"));
    }

    /// Waits until nothing has changed for a while.
    async fn wait_until_idle(&self) {
        let mut feed = self.store.watch_all();
        while tokio::time::timeout(Duration::from_millis(60), feed.next()).await.is_ok() {}
    }
}

#[tokio::test]
async fn removal_of_a_large_namespace_has_a_bounded_number_of_deletes_under_way() {
    let world = ControllerHarness::new();
    world.create("Namespace n", json!({"spec": {"finalizers": ["kubernetes"]}}), &[]).await;
    for n in 0..1_000 {
        world.create(&format!("ConfigMap n/c{n}"), json!({}), &[]).await;
    }
    let _control = world.start();
    world.delete("Namespace n", Propagation::Background).await;
    world.wait_for("the content is gone", |w| w.store.count("configmaps", None) == 0).await;
    let most = world.api.most.load(Ordering::SeqCst);
    assert!((2..=64).contains(&most), "{most} deletes at once");
}

#[tokio::test]
async fn gc_deletes_dependents_of_a_deleted_root_despite_failing_deletes() {
    let world = ControllerHarness::new();
    world.create("Widget n/root", json!({}), &[]).await;
    world.create("ReplicaSet n/r", json!({}), &["Widget n/root"]).await;
    for n in 0..20 {
        world.create(&format!("Pod n/p{n}"), json!({}), &["ReplicaSet n/r"]).await;
    }
    world.create("Pod n/free", json!({}), &[]).await;
    let control = world.start();
    world.wait_until_idle().await;
    assert_eq!(world.store.count("pods", None), 21);
    let begun = Instant::now();
    world.delete("Widget n/root", Propagation::Background).await;
    world.api.failing.store(5, Ordering::SeqCst);
    world.wait_for("the pods are gone", |w| w.store.count("pods", None) == 1).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "it took {:?}", begun.elapsed());
    assert!(world.get("Pod n/free").is_some() && world.get("ReplicaSet n/r").is_none());
    control.stop().await;
}

#[tokio::test]
async fn gc_identifies_absent_owners_by_kind_namespace_name_and_uid() {
    let world = ControllerHarness::new();
    world.create("ConfigMap n/owner", json!({}), &[]).await;
    world.create("ConfigMap other/owner", json!({}), &[]).await;
    world.create("Node node", json!({}), &[]).await;
    // The name of an existing owner with a uid that never existed.
    world.create("Pod n/wrong-uid", json!({}), &["ConfigMap x/owner"]).await;
    world.create("Pod n/never", json!({}), &["ConfigMap n/never"]).await;
    world.create("Pod n/elsewhere", json!({}), &["ConfigMap other/owner"]).await;
    world.create("Pod n/fine", json!({}), &["ConfigMap n/owner"]).await;
    world.create("Pod n/of-node", json!({}), &["Node node"]).await;
    world.create("Pod n/unknown-kind", json!({}), &["Mystery n/m"]).await;
    world.create("Node of-namespaced", json!({}), &["ConfigMap n/never"]).await;
    world.create("Pod n/two", json!({}), &["ConfigMap n/never", "ConfigMap n/owner"]).await;
    let _control = world.start();
    let names = |w: &ControllerHarness| {
        w.store.list("pods", None).objects.iter().map(|o| o.name.to_string()).collect::<Vec<_>>()
    };
    world.wait_for("four pods stay", |w| names(w) == ["fine", "of-node", "two", "unknown-kind"]).await;
    world.wait_for("one owner stays", |w| w.get("Pod n/two").unwrap().owner_uids.len() == 1).await;
    world.wait_until_idle().await;
    assert!(world.get("Node of-namespaced").is_some());
    world.create("Pod n/late", json!({}), &["ConfigMap n/never"]).await;
    world.wait_for("a late one goes too", |w| w.get("Pod n/late").is_none()).await;
}

#[tokio::test]
async fn foreground_deletion_waits_for_blocking_dependents() {
    let world = ControllerHarness::new();
    let _control = world.start();
    world.create("Widget n/root", json!({}), &[]).await;
    world.create("ReplicaSet n/r", json!({}), &["!Widget n/root"]).await;
    world
        .create("Pod n/slow", json!({"metadata": {"finalizers": ["test/hold"]}}), &["!ReplicaSet n/r"])
        .await;
    world.create("Pod n/quick", json!({}), &["ReplicaSet n/r"]).await;
    world.delete("Widget n/root", Propagation::Foreground).await;
    world
        .wait_for("one pod is left, deleting", |w| {
            w.get("Pod n/quick").is_none() && w.get("Pod n/slow").is_some_and(|pod| pod.is_deleting)
        })
        .await;
    world.wait_until_idle().await;
    assert!(
        world.get("Widget n/root").unwrap().is_deleting && world.get("ReplicaSet n/r").unwrap().is_deleting
    );
    let mut feed = world.store.watch_all();
    world.change("Pod n/slow", |pod| pod["metadata"]["finalizers"] = json!([])).await;
    world.wait_for("the root is gone", |w| w.get("Widget n/root").is_none()).await;
    let gone: Vec<_> = feed.next().await.into_iter().flatten().map(|(storage, _)| storage).collect();
    assert_eq!(gone.first().map(AsRef::as_ref), Some("pods"));

    world.create("Widget n/alone", json!({}), &[]).await;
    world.delete("Widget n/alone", Propagation::Foreground).await;
    world.wait_for("one without dependents goes at once", |w| w.get("Widget n/alone").is_none()).await;
}

#[tokio::test]
async fn foreground_deletion_resolves_owner_cycle() {
    let world = ControllerHarness::new();
    world.create("Widget n/a", json!({}), &["!Widget n/b"]).await;
    world.create("Widget n/b", json!({}), &["!Widget n/a"]).await;
    let _control = world.start();
    world.wait_until_idle().await;
    assert_eq!(world.store.count("widgets.example.com", None), 2);
    world.delete("Widget n/a", Propagation::Foreground).await;
    world.wait_for("both are gone", |w| w.store.count("widgets.example.com", None) == 0).await;
}

#[tokio::test]
async fn orphan_deletion_keeps_dependents() {
    let world = ControllerHarness::new();
    let _control = world.start();
    world.create("ReplicaSet n/r", json!({}), &[]).await;
    world.create("Pod n/p", json!({}), &["ReplicaSet n/r"]).await;
    world.delete("ReplicaSet n/r", Propagation::Orphan).await;
    world.wait_for("the owner is gone", |w| w.get("ReplicaSet n/r").is_none()).await;
    world.wait_until_idle().await;
    assert!(world.get("Pod n/p").unwrap().value()["metadata"].get("ownerReferences").is_none());
}

#[tokio::test]
async fn namespace_gets_default_objects_and_is_emptied_on_deletion() {
    let world = ControllerHarness::new();
    let control = world.start();
    let spec = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    world.create("Namespace n", spec.clone(), &[]).await;
    world.create("Namespace other", spec, &[]).await;
    let furnished = |w: &ControllerHarness| {
        w.get("ServiceAccount n/default").is_some() && w.get("ConfigMap n/kube-root-ca.crt").is_some()
    };
    world.wait_for("it is furnished", furnished).await;
    world.delete("ServiceAccount n/default", Propagation::Background).await;
    world.delete("ConfigMap n/kube-root-ca.crt", Propagation::Background).await;
    world.wait_for("it is furnished again", furnished).await;
    world.change("ConfigMap n/kube-root-ca.crt", |map| map["data"] = json!({"ca.crt": "mine"})).await;
    let ca = |w: &ControllerHarness| {
        w.get("ConfigMap n/kube-root-ca.crt").unwrap().value()["data"]["ca.crt"].clone()
    };
    world.wait_for("the certificate is put back", |w| ca(w) != "mine").await;

    world.create("ConfigMap n/held", json!({"metadata": {"finalizers": ["test/hold"]}}), &[]).await;
    world.create("Pod n/graceful", json!({"spec": {"terminationGracePeriodSeconds": 30}}), &[]).await;
    world
        .change("Namespace n", |ns| {
            ns["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
        })
        .await;
    let message = |w: &ControllerHarness| {
        let value = w.get("Namespace n").unwrap().value();
        let found = value["status"]["conditions"].as_array().into_iter().flatten();
        let wanted = |c: &&Value| {
            c["type"] == "NamespaceContentRemaining" || c["type"] == "NamespaceFinalizersRemaining"
        };
        found.filter(wanted).map(|c| c["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join("; ")
    };
    let pods = "Some resources are remaining: pods. has 1 resource instances; All content-preserving finalizers finished";
    world.wait_for("pods are first", |w| message(w) == pods).await;
    assert!(!world.get("ConfigMap n/held").unwrap().is_deleting);
    world.change("Pod n/graceful", |pod| pod["metadata"]["deletionGracePeriodSeconds"] = 0.into()).await;
    let rest = "Some resources are remaining: configmaps. has 1 resource instances; \
        Some content in the namespace has finalizers remaining: test/hold in 1 resource instances";
    world.wait_for("one is held", |w| message(w) == rest).await;
    assert!(world.get("ServiceAccount n/default").is_none());
    let begun = Instant::now();
    world.change("ConfigMap n/held", |map| map["metadata"]["finalizers"] = json!([])).await;
    world.wait_for("nothing is held", |w| w.get("ConfigMap n/held").is_none()).await;
    assert!(world.get("Namespace n").is_some(), "it stays for a moment");
    world.clock.advance(jiff::SignedDuration::from_secs(2));
    world.wait_for("the namespace is gone", |w| w.get("Namespace n").is_none()).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "it took {:?}", begun.elapsed());
    world.wait_until_idle().await;
    assert!(world.get("ServiceAccount n/default").is_none(), "nothing is put back");
    assert!(world.get("ServiceAccount other/default").is_some());
    control.stop().await;
}

#[tokio::test]
async fn crd_deletion_deletes_instances() {
    let world = ControllerHarness::new();
    let established = json!({
        "metadata": {"finalizers": [customresources::FINALIZER]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    });
    let definition = "CustomResourceDefinition widgets.example.com";
    world.create(definition, established, &[]).await;
    world.create("Widget n/held", json!({"metadata": {"finalizers": ["test/hold"]}}), &[]).await;
    world.create("Widget m/quick", json!({}), &[]).await;
    let _control = world.start();
    world.delete(definition, Propagation::Background).await;
    world.wait_for("one is left", |w| w.store.count("widgets.example.com", None) == 1).await;
    world.wait_until_idle().await;
    let reason = world.get(definition).unwrap().value()["status"]["conditions"][1]["reason"].clone();
    assert_eq!(reason, "InstanceDeletionInProgress");
    world.change("Widget n/held", |widget| widget["metadata"]["finalizers"] = json!([])).await;
    world.wait_for("the definition is gone", |w| w.get(definition).is_none()).await;
}

#[tokio::test]
async fn roles_are_aggregated_and_old_events_deleted() {
    let world = ControllerHarness::new();
    let selector = |label: &str| json!({"clusterRoleSelectors": [{"matchLabels": {"to": label}}]});
    world.create("ClusterRole admin", json!({"aggregationRule": selector("admin")}), &[]).await;
    let edit = json!({"metadata": {"labels": {"to": "admin"}}, "aggregationRule": selector("edit")});
    world.create("ClusterRole edit", edit, &[]).await;
    let seen = |at: &str| json!({"lastTimestamp": at});
    world.create("Event n/old", seen("2026-01-02T02:00:00Z"), &[]).await;
    world.create("Event n/new", seen("2026-01-02T03:00:00Z"), &[]).await;
    let _control = world.start();
    world.wait_for("the old event is gone", |w| w.store.count("events", None) == 1).await;
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    world
        .create("ClusterRole mine", json!({"metadata": {"labels": {"to": "edit"}}, "rules": rules}), &[])
        .await;
    let of = |w: &ControllerHarness, name: &str| w.get(name).unwrap().value()["rules"].clone();
    world.wait_for("rules arrive", |w| of(w, "ClusterRole admin") == of(w, "ClusterRole mine")).await;
    world.wait_until_idle().await;
    let version = world.store.version();
    world.wait_until_idle().await;
    assert_eq!(world.store.version(), version, "nobody writes without need");
}

#[tokio::test]
async fn token_secrets_and_csrs_are_completed() {
    let world = ControllerHarness::new();
    let account = "kubernetes.io/service-account.name";
    let asking = |name: &str| json!({"type": "kubernetes.io/service-account-token", "metadata": {"annotations": {account: name}}});
    world.create("ServiceAccount n/bot", json!({}), &[]).await;
    world.create("Secret n/token", asking("bot"), &[]).await;
    world.create("Secret n/lost", asking("nobody"), &[]).await;
    world.create("ConfigMap kube-public/cluster-info", json!({"data": {"kubeconfig": "k"}}), &[]).await;
    let _control = world.start();
    let data = |w: &ControllerHarness, what: &str, key: &str| {
        w.get(what).is_some_and(|object| object.value()["data"][key].is_string())
    };
    world.wait_for("the token is there", |w| data(w, "Secret n/token", "token")).await;
    world.wait_for("one of nobody goes", |w| w.get("Secret n/lost").is_none()).await;
    let token = json!({"type": "bootstrap.kubernetes.io/token", "data": {
        "token-id": "YWJjZGVm", "token-secret": "MDEyMzQ1Njc4OWFiY2RlZg==", "usage-bootstrap-signing": "dHJ1ZQ=="}});
    world.create("Secret kube-system/bootstrap-token-abcdef", token, &[]).await;
    let signed =
        |w: &ControllerHarness| data(w, "ConfigMap kube-public/cluster-info", "jws-kubeconfig-abcdef");
    world.wait_for("it signs", signed).await;
    let ended = json!({"type": "bootstrap.kubernetes.io/token", "data": {"expiration": "MjAyMC0wMS0wMVQwMDowMDowMFo="}});
    world.create("Secret kube-system/bootstrap-token-ended0", ended.clone(), &[]).await;
    world.create("Secret kube-system/other", ended, &[]).await;
    world
        .wait_for("one that has ended goes", |w| w.get("Secret kube-system/bootstrap-token-ended0").is_none())
        .await;
    assert!(signed(&world) && world.get("Secret kube-system/other").is_some());
}

#[tokio::test]
async fn names_of_deleted_crd_are_given_to_waiting_crd() {
    let world = ControllerHarness::new();
    let definition = |plural: &str| json!({"spec": {"group": "x.dev", "names": {"plural": plural, "kind": "Tug", "listKind": "TugList"}}, "status": {}});
    let mut first = definition("tugs");
    first["metadata"]["name"] = "tugs.x.dev".into();
    crate::crd::status::set_names_and_conditions(&mut first, &[], world.clock.now());
    let mut second = definition("boats");
    second["metadata"]["name"] = "boats.x.dev".into();
    crate::crd::status::set_names_and_conditions(
        &mut second,
        std::slice::from_ref(&first),
        world.clock.now(),
    );
    assert!(!crate::crd::status::is_established(&second));
    first["metadata"]["finalizers"] = json!([super::customresources::FINALIZER]);
    first["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    world.create("CustomResourceDefinition boats.x.dev", second, &[]).await;
    world.create("CustomResourceDefinition tugs.x.dev", first, &[]).await;
    let _control = world.start();
    let established = |w: &ControllerHarness| {
        let boats = w.get("CustomResourceDefinition boats.x.dev");
        boats.is_some_and(|boats| crate::crd::status::is_established(&boats.value()))
    };
    world.wait_for("the other is served", established).await;
}

/// Panics for ConfigMaps named `bad` and counts the others; its event handler panics for those named `worse`.
struct PanickingController(Arc<AtomicU32>);

impl Controller for PanickingController {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let all = context.store.list("configmaps", None).objects;
        all.iter().map(|object| Key::new(&"configmaps".into(), &object.namespace, &object.name)).collect()
    }

    fn keys_for_event(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        if storage.as_ref() == "configmaps" {
            assert_ne!(event.object.name.as_ref(), "worse", "hostile event");
            keys.push(Key::new(storage, &event.object.namespace, &event.object.name));
        }
    }

    async fn reconcile(&self, _: &Context, key: &Key) -> std::result::Result<Action, ReconcileError> {
        assert_ne!(key.name.as_ref(), "bad", "hostile object");
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Action::AwaitChange)
    }
}

#[tokio::test]
async fn reconcile_that_panics_is_retried_and_stops_no_other() {
    let world = ControllerHarness::new();
    let mut control = world.start();
    let (health, metrics) = (control.context().health.clone(), control.context().metrics.clone());
    let reconciled = Arc::new(AtomicU32::new(0));
    control.start_controller(PanickingController(reconciled.clone()));
    world.create("Namespace n", json!({}), &[]).await;
    world.create("ConfigMap n/bad", json!({"apiVersion": "v1", "kind": "ConfigMap"}), &[]).await;
    world.create("ConfigMap n/worse", json!({}), &[]).await;
    world.create("ConfigMap n/good", json!({}), &[]).await;
    let retried =
        |_: &ControllerHarness| reconciled.load(Ordering::SeqCst) >= 2 && metrics.panic_count() >= 3;
    world.wait_for("a retry, and the other objects", retried).await;
    assert_eq!(health.failing(), [], "the controller itself never ended");
    assert_eq!(metrics.task_restart_count(), 0);
    let recorded = |world: &ControllerHarness| {
        let events = world.store.list("events", None).objects;
        events.iter().any(|event| event.value()["reason"] == "ReconcilePanic")
    };
    world.wait_for("an Event", recorded).await;
}

/// Counts reconciles of ConfigMaps named `good`; all others hang.
struct HangingController(Arc<AtomicU32>);

impl Controller for HangingController {
    const DEADLINE: Duration = Duration::from_millis(50);

    fn initial_keys(&self, _: &Context) -> Vec<Key> {
        Vec::new()
    }

    fn keys_for_event(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        if storage.as_ref() == "configmaps" {
            keys.push(Key::new(storage, &event.object.namespace, &event.object.name));
        }
    }

    async fn reconcile(&self, _: &Context, key: &Key) -> std::result::Result<Action, ReconcileError> {
        if key.name.as_ref() != "good" {
            return std::future::pending().await;
        }
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Action::AwaitChange)
    }
}

#[tokio::test]
async fn reconcile_that_hangs_is_cancelled_and_stops_no_other() {
    let world = ControllerHarness::new();
    let mut control = world.start();
    let (health, metrics) = (control.context().health.clone(), control.context().metrics.clone());
    let reconciled = Arc::new(AtomicU32::new(0));
    control.start_controller(HangingController(reconciled.clone()));
    for namespace in ["n", "other"] {
        world.create(&format!("Namespace {namespace}"), json!({}), &[]).await;
    }
    // More than all slots.
    for n in 0..200 {
        world
            .create(&format!("ConfigMap n/bad-{n}"), json!({"apiVersion": "v1", "kind": "ConfigMap"}), &[])
            .await;
    }
    world.create("ConfigMap other/good", json!({}), &[]).await;
    world.wait_for("the other object", |_| reconciled.load(Ordering::SeqCst) > 0).await;
    world.wait_for("each object, and retries", |_| metrics.exceeded_deadline_count() > 250).await;
    assert_eq!((health.failing(), metrics.panic_count()), (Vec::new(), 0));
    let recorded = |world: &ControllerHarness| {
        let events = world.store.list("events", None).objects;
        events.iter().any(|event| event.value()["reason"] == "ReconcileDeadlineExceeded")
    };
    world.wait_for("an Event", recorded).await;
}
