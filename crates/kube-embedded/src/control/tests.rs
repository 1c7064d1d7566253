//! Tests of all controllers together, with a store in memory and a minimal API.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use serde_json::json;

use super::queue::Next;
use super::*;
use crate::clock::HeldClock;
use crate::store::Event;

/// Deletes and creates like the API, as far as these tests need it.
struct TinyApi {
    store: Arc<Store>,
    /// Number of further deletes that fail.
    failing: AtomicU32,
    /// Deletes in progress, and their maximum.
    deleting: AtomicU32,
    most: AtomicU32,
}

impl TinyApi {
    async fn remove(&self, key: &Key, preconditions: Preconditions<'_>, how: Propagation) -> Result<()> {
        if self.failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() {
            return Err(ApiError::internal("not now"));
        }
        let missing = || ApiError::not_found("", &key.storage, &key.name);
        let found = self.store.get(&key.storage, &key.namespace, &key.name).ok_or_else(missing)?;
        if found.uid.as_ref() != preconditions.uid
            || preconditions.version.is_some_and(|v| v != found.version)
        {
            return Err(ApiError::stale("", &key.storage, &key.name));
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
        let committed = self.store.commit(vec![replacement(key, &found, value)]).await;
        committed.map(drop).map_err(|_| ApiError::stale("", &key.storage, &key.name))
    }
}

impl Actor for TinyApi {
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

    fn delete_now<'a>(&'a self, key: &'a Key, uid: &'a str) -> BoxFuture<'a, Result<()>> {
        self.remove(key, Preconditions { uid, version: None }, Propagation::Background).boxed()
    }

    fn update(&self, _: Component, _: Part, _: Value) -> BoxFuture<'_, Result<Arc<Object>>> {
        async { Err(ApiError::not_implemented("the tiny API has no updates")) }.boxed()
    }

    fn rescale<'a>(
        &'a self,
        _: (&'a str, &'a str),
        _: (&'a str, &'a str),
        _: Value,
    ) -> BoxFuture<'a, Result<()>> {
        unreachable!("these controllers do not ask for it")
    }

    fn scale<'a>(&'a self, _: (&'a str, &'a str), _: (&'a str, &'a str)) -> BoxFuture<'a, Result<Value>> {
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

struct World {
    store: Arc<Store>,
    api: Arc<TinyApi>,
    clock: Arc<HeldClock>,
}

impl World {
    fn new() -> Self {
        let store = Store::in_memory();
        let api = Arc::new(TinyApi {
            store: store.clone(),
            failing: AtomicU32::new(0),
            deleting: AtomicU32::new(0),
            most: AtomicU32::new(0),
        });
        Self { store, api, clock: HeldClock::at("2026-01-02T03:04:05Z".parse().unwrap()) }
    }

    fn start(&self) -> Control {
        start(Context {
            store: self.store.clone(),
            actor: self.api.clone(),
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
    async fn make(&self, what: &str, fields: Value, owners: &[&str]) {
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
        self.store.commit(vec![replacement(&Self::key(what), &found, value)]).await.unwrap();
    }

    async fn delete(&self, what: &str, how: Propagation) {
        let preconditions = Preconditions { uid: &self.get(what).unwrap().uid, version: None };
        self.api.remove(&Self::key(what), preconditions, how).await.unwrap();
    }

    async fn until(&self, why: &str, holds: impl Fn(&Self) -> bool) {
        let mut feed = self.store.follow_all();
        let waited = async {
            while !holds(self) {
                let _ = tokio::time::timeout(Duration::from_millis(20), feed.next()).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), waited).await.unwrap_or_else(|_| panic!("never: {why}"));
    }

    /// Waits until nothing has changed for a while.
    async fn rest(&self) {
        let mut feed = self.store.follow_all();
        while tokio::time::timeout(Duration::from_millis(60), feed.next()).await.is_ok() {}
    }
}

#[tokio::test]
async fn removal_of_a_large_namespace_has_a_bounded_number_of_deletes_under_way() {
    let world = World::new();
    world.make("Namespace n", json!({"spec": {"finalizers": ["kubernetes"]}}), &[]).await;
    for n in 0..1_000 {
        world.make(&format!("ConfigMap n/c{n}"), json!({}), &[]).await;
    }
    let _control = world.start();
    world.delete("Namespace n", Propagation::Background).await;
    world.until("the content is gone", |w| w.store.count("configmaps", None) == 0).await;
    let most = world.api.most.load(Ordering::SeqCst);
    assert!((2..=64).contains(&most), "{most} deletes at once");
}

#[tokio::test]
async fn a_tree_goes_with_its_root_soon_even_when_some_deletes_fail() {
    let world = World::new();
    world.make("Widget n/root", json!({}), &[]).await;
    world.make("ReplicaSet n/r", json!({}), &["Widget n/root"]).await;
    for n in 0..20 {
        world.make(&format!("Pod n/p{n}"), json!({}), &["ReplicaSet n/r"]).await;
    }
    world.make("Pod n/free", json!({}), &[]).await;
    let control = world.start();
    world.rest().await;
    assert_eq!(world.store.count("pods", None), 21);
    let begun = Instant::now();
    world.delete("Widget n/root", Propagation::Background).await;
    world.api.failing.store(5, Ordering::SeqCst);
    world.until("the pods are gone", |w| w.store.count("pods", None) == 1).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "it took {:?}", begun.elapsed());
    assert!(world.get("Pod n/free").is_some() && world.get("ReplicaSet n/r").is_none());
    control.stop().await;
}

#[tokio::test]
async fn absent_owners_are_found_by_kind_namespace_name_and_uid() {
    let world = World::new();
    world.make("ConfigMap n/owner", json!({}), &[]).await;
    world.make("ConfigMap other/owner", json!({}), &[]).await;
    world.make("Node node", json!({}), &[]).await;
    // The name of an existing owner with a uid that never existed.
    world.make("Pod n/wrong-uid", json!({}), &["ConfigMap x/owner"]).await;
    world.make("Pod n/never", json!({}), &["ConfigMap n/never"]).await;
    world.make("Pod n/elsewhere", json!({}), &["ConfigMap other/owner"]).await;
    world.make("Pod n/fine", json!({}), &["ConfigMap n/owner"]).await;
    world.make("Pod n/of-node", json!({}), &["Node node"]).await;
    world.make("Pod n/unknown-kind", json!({}), &["Mystery n/m"]).await;
    world.make("Node of-namespaced", json!({}), &["ConfigMap n/never"]).await;
    world.make("Pod n/two", json!({}), &["ConfigMap n/never", "ConfigMap n/owner"]).await;
    let _control = world.start();
    let names =
        |w: &World| w.store.list("pods", None).objects.iter().map(|o| o.name.to_string()).collect::<Vec<_>>();
    world.until("four pods stay", |w| names(w) == ["fine", "of-node", "two", "unknown-kind"]).await;
    world.until("one owner stays", |w| w.get("Pod n/two").unwrap().owners.len() == 1).await;
    world.rest().await;
    assert!(world.get("Node of-namespaced").is_some());
    world.make("Pod n/late", json!({}), &["ConfigMap n/never"]).await;
    world.until("a late one goes too", |w| w.get("Pod n/late").is_none()).await;
}

#[tokio::test]
async fn in_the_foreground_the_owner_waits_for_those_that_block_it() {
    let world = World::new();
    let _control = world.start();
    world.make("Widget n/root", json!({}), &[]).await;
    world.make("ReplicaSet n/r", json!({}), &["!Widget n/root"]).await;
    world.make("Pod n/slow", json!({"metadata": {"finalizers": ["test/hold"]}}), &["!ReplicaSet n/r"]).await;
    world.make("Pod n/quick", json!({}), &["ReplicaSet n/r"]).await;
    world.delete("Widget n/root", Propagation::Foreground).await;
    world
        .until("one pod is left, deleting", |w| {
            w.get("Pod n/quick").is_none() && w.get("Pod n/slow").is_some_and(|pod| pod.deleting)
        })
        .await;
    world.rest().await;
    assert!(world.get("Widget n/root").unwrap().deleting && world.get("ReplicaSet n/r").unwrap().deleting);
    let mut feed = world.store.follow_all();
    world.change("Pod n/slow", |pod| pod["metadata"]["finalizers"] = json!([])).await;
    world.until("the root is gone", |w| w.get("Widget n/root").is_none()).await;
    let gone: Vec<_> = feed.next().await.into_iter().flatten().map(|(storage, _)| storage).collect();
    assert_eq!(gone.first().map(AsRef::as_ref), Some("pods"));

    world.make("Widget n/alone", json!({}), &[]).await;
    world.delete("Widget n/alone", Propagation::Foreground).await;
    world.until("one without dependents goes at once", |w| w.get("Widget n/alone").is_none()).await;
}

#[tokio::test]
async fn a_circle_of_owners_does_not_hold_itself() {
    let world = World::new();
    world.make("Widget n/a", json!({}), &["!Widget n/b"]).await;
    world.make("Widget n/b", json!({}), &["!Widget n/a"]).await;
    let _control = world.start();
    world.rest().await;
    assert_eq!(world.store.count("widgets.example.com", None), 2);
    world.delete("Widget n/a", Propagation::Foreground).await;
    world.until("both are gone", |w| w.store.count("widgets.example.com", None) == 0).await;
}

#[tokio::test]
async fn orphans_stay_without_their_owner() {
    let world = World::new();
    let _control = world.start();
    world.make("ReplicaSet n/r", json!({}), &[]).await;
    world.make("Pod n/p", json!({}), &["ReplicaSet n/r"]).await;
    world.delete("ReplicaSet n/r", Propagation::Orphan).await;
    world.until("the owner is gone", |w| w.get("ReplicaSet n/r").is_none()).await;
    world.rest().await;
    assert!(world.get("Pod n/p").unwrap().value()["metadata"].get("ownerReferences").is_none());
}

#[tokio::test]
async fn a_namespace_is_furnished_while_it_lives_and_emptied_when_it_goes() {
    let world = World::new();
    let control = world.start();
    let spec = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    world.make("Namespace n", spec.clone(), &[]).await;
    world.make("Namespace other", spec, &[]).await;
    let furnished = |w: &World| {
        w.get("ServiceAccount n/default").is_some() && w.get("ConfigMap n/kube-root-ca.crt").is_some()
    };
    world.until("it is furnished", furnished).await;
    world.delete("ServiceAccount n/default", Propagation::Background).await;
    world.delete("ConfigMap n/kube-root-ca.crt", Propagation::Background).await;
    world.until("it is furnished again", furnished).await;
    world.change("ConfigMap n/kube-root-ca.crt", |map| map["data"] = json!({"ca.crt": "mine"})).await;
    let ca = |w: &World| w.get("ConfigMap n/kube-root-ca.crt").unwrap().value()["data"]["ca.crt"].clone();
    world.until("the certificate is put back", |w| ca(w) != "mine").await;

    world.make("ConfigMap n/held", json!({"metadata": {"finalizers": ["test/hold"]}}), &[]).await;
    world.make("Pod n/graceful", json!({"spec": {"terminationGracePeriodSeconds": 30}}), &[]).await;
    world
        .change("Namespace n", |ns| {
            ns["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
        })
        .await;
    let message = |w: &World| {
        let value = w.get("Namespace n").unwrap().value();
        let found = value["status"]["conditions"].as_array().into_iter().flatten();
        let wanted = |c: &&Value| {
            c["type"] == "NamespaceContentRemaining" || c["type"] == "NamespaceFinalizersRemaining"
        };
        found.filter(wanted).map(|c| c["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join("; ")
    };
    let pods = "Some resources are remaining: pods. has 1 resource instances; All content-preserving finalizers finished";
    world.until("pods are first", |w| message(w) == pods).await;
    assert!(!world.get("ConfigMap n/held").unwrap().deleting);
    world.change("Pod n/graceful", |pod| pod["metadata"]["deletionGracePeriodSeconds"] = 0.into()).await;
    let rest = "Some resources are remaining: configmaps. has 1 resource instances; \
        Some content in the namespace has finalizers remaining: test/hold in 1 resource instances";
    world.until("one is held", |w| message(w) == rest).await;
    assert!(world.get("ServiceAccount n/default").is_none());
    let begun = Instant::now();
    world.change("ConfigMap n/held", |map| map["metadata"]["finalizers"] = json!([])).await;
    world.until("nothing is held", |w| w.get("ConfigMap n/held").is_none()).await;
    assert!(world.get("Namespace n").is_some(), "it stays for a moment");
    world.clock.advance(jiff::SignedDuration::from_secs(2));
    world.until("the namespace is gone", |w| w.get("Namespace n").is_none()).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "it took {:?}", begun.elapsed());
    world.rest().await;
    assert!(world.get("ServiceAccount n/default").is_none(), "nothing is put back");
    assert!(world.get("ServiceAccount other/default").is_some());
    control.stop().await;
}

#[tokio::test]
async fn a_definition_takes_its_instances_along() {
    let world = World::new();
    let established = json!({
        "metadata": {"finalizers": [customresources::FINALIZER]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    });
    let definition = "CustomResourceDefinition widgets.example.com";
    world.make(definition, established, &[]).await;
    world.make("Widget n/held", json!({"metadata": {"finalizers": ["test/hold"]}}), &[]).await;
    world.make("Widget m/quick", json!({}), &[]).await;
    let _control = world.start();
    world.delete(definition, Propagation::Background).await;
    world.until("one is left", |w| w.store.count("widgets.example.com", None) == 1).await;
    world.rest().await;
    let reason = world.get(definition).unwrap().value()["status"]["conditions"][1]["reason"].clone();
    assert_eq!(reason, "InstanceDeletionInProgress");
    world.change("Widget n/held", |widget| widget["metadata"]["finalizers"] = json!([])).await;
    world.until("the definition is gone", |w| w.get(definition).is_none()).await;
}

#[tokio::test]
async fn aggregated_roles_and_old_events_follow_by_themselves() {
    let world = World::new();
    let selector = |label: &str| json!({"clusterRoleSelectors": [{"matchLabels": {"to": label}}]});
    world.make("ClusterRole admin", json!({"aggregationRule": selector("admin")}), &[]).await;
    let edit = json!({"metadata": {"labels": {"to": "admin"}}, "aggregationRule": selector("edit")});
    world.make("ClusterRole edit", edit, &[]).await;
    let seen = |at: &str| json!({"lastTimestamp": at});
    world.make("Event n/old", seen("2026-01-02T02:00:00Z"), &[]).await;
    world.make("Event n/new", seen("2026-01-02T03:00:00Z"), &[]).await;
    let _control = world.start();
    world.until("the old event is gone", |w| w.store.count("events", None) == 1).await;
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    world
        .make("ClusterRole mine", json!({"metadata": {"labels": {"to": "edit"}}, "rules": rules}), &[])
        .await;
    let of = |w: &World, name: &str| w.get(name).unwrap().value()["rules"].clone();
    world.until("rules arrive", |w| of(w, "ClusterRole admin") == of(w, "ClusterRole mine")).await;
    world.rest().await;
    let version = world.store.version();
    world.rest().await;
    assert_eq!(world.store.version(), version, "nobody writes without need");
}

#[tokio::test]
async fn tokens_and_signatures_are_filled_in() {
    let world = World::new();
    let account = "kubernetes.io/service-account.name";
    let asking = |name: &str| json!({"type": "kubernetes.io/service-account-token", "metadata": {"annotations": {account: name}}});
    world.make("ServiceAccount n/bot", json!({}), &[]).await;
    world.make("Secret n/token", asking("bot"), &[]).await;
    world.make("Secret n/lost", asking("nobody"), &[]).await;
    world.make("ConfigMap kube-public/cluster-info", json!({"data": {"kubeconfig": "k"}}), &[]).await;
    let _control = world.start();
    let data = |w: &World, what: &str, key: &str| {
        w.get(what).is_some_and(|object| object.value()["data"][key].is_string())
    };
    world.until("the token is there", |w| data(w, "Secret n/token", "token")).await;
    world.until("one of nobody goes", |w| w.get("Secret n/lost").is_none()).await;
    let token = json!({"type": "bootstrap.kubernetes.io/token", "data": {
        "token-id": "YWJjZGVm", "token-secret": "MDEyMzQ1Njc4OWFiY2RlZg==", "usage-bootstrap-signing": "dHJ1ZQ=="}});
    world.make("Secret kube-system/bootstrap-token-abcdef", token, &[]).await;
    let signed = |w: &World| data(w, "ConfigMap kube-public/cluster-info", "jws-kubeconfig-abcdef");
    world.until("it signs", signed).await;
    let ended = json!({"type": "bootstrap.kubernetes.io/token", "data": {"expiration": "MjAyMC0wMS0wMVQwMDowMDowMFo="}});
    world.make("Secret kube-system/bootstrap-token-ended0", ended.clone(), &[]).await;
    world.make("Secret kube-system/other", ended, &[]).await;
    world
        .until("one that has ended goes", |w| w.get("Secret kube-system/bootstrap-token-ended0").is_none())
        .await;
    assert!(signed(&world) && world.get("Secret kube-system/other").is_some());
}

#[tokio::test]
async fn names_of_a_definition_that_went_are_given_to_who_waited() {
    let world = World::new();
    let definition = |plural: &str| json!({"spec": {"group": "x.dev", "names": {"plural": plural, "kind": "Tug", "listKind": "TugList"}}, "status": {}});
    let mut first = definition("tugs");
    first["metadata"]["name"] = "tugs.x.dev".into();
    crate::crd::status::establish(&mut first, &[], world.clock.now());
    let mut second = definition("boats");
    second["metadata"]["name"] = "boats.x.dev".into();
    crate::crd::status::establish(&mut second, std::slice::from_ref(&first), world.clock.now());
    assert!(!crate::crd::status::is_established(&second));
    first["metadata"]["finalizers"] = json!([super::customresources::FINALIZER]);
    first["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    world.make("CustomResourceDefinition boats.x.dev", second, &[]).await;
    world.make("CustomResourceDefinition tugs.x.dev", first, &[]).await;
    let _control = world.start();
    let established = |w: &World| {
        let boats = w.get("CustomResourceDefinition boats.x.dev");
        boats.is_some_and(|boats| crate::crd::status::is_established(&boats.value()))
    };
    world.until("the other is served", established).await;
}

/// Panics for ConfigMaps named `bad` and counts the others; its event handler panics for those named `worse`.
struct Panicky(Arc<AtomicU32>);

impl Controller for Panicky {
    fn everything(&self, context: &Context) -> Vec<Key> {
        let all = context.store.list("configmaps", None).objects;
        all.iter().map(|object| Key::new(&"configmaps".into(), &object.namespace, &object.name)).collect()
    }

    fn touched(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        if storage.as_ref() == "configmaps" {
            assert_ne!(event.object.name.as_ref(), "worse", "hostile event");
            keys.push(Key::new(storage, &event.object.namespace, &event.object.name));
        }
    }

    async fn sync(&self, _: &Context, key: &Key) -> std::result::Result<Next, Failure> {
        assert_ne!(key.name.as_ref(), "bad", "hostile object");
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Next::Rest)
    }
}

#[tokio::test]
async fn reconcile_that_panics_is_retried_and_stops_no_other() {
    let world = World::new();
    let mut control = world.start();
    let (health, metrics) = (control.context().health.clone(), control.context().metrics.clone());
    let reconciled = Arc::new(AtomicU32::new(0));
    control.run(Panicky(reconciled.clone()));
    world.make("Namespace n", json!({}), &[]).await;
    world.make("ConfigMap n/bad", json!({"apiVersion": "v1", "kind": "ConfigMap"}), &[]).await;
    world.make("ConfigMap n/worse", json!({}), &[]).await;
    world.make("ConfigMap n/good", json!({}), &[]).await;
    let retried = |_: &World| reconciled.load(Ordering::SeqCst) >= 2 && metrics.panics() >= 3;
    world.until("a retry, and the other objects", retried).await;
    assert_eq!(health.failing(), [], "the controller itself never ended");
    assert_eq!(metrics.restarts(), 0);
    let recorded = |world: &World| {
        let events = world.store.list("events", None).objects;
        events.iter().any(|event| event.value()["reason"] == "ReconcilePanic")
    };
    world.until("an Event", recorded).await;
}
