//! Tests of quotas: charged, rejected and released; the usage equals a recount.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::access::User;
use crate::access::testing::{resource, store_object};

struct QuotaFixture {
    store: Arc<Store>,
}

impl QuotaFixture {
    async fn new(hard: Value, scopes: Value) -> Self {
        let store = Store::in_memory();
        let quota =
            json!({"metadata": {"name": "q", "namespace": "a"}, "spec": {"hard": hard, "scopes": scopes}});
        store_object(&store, QUOTA_STORAGE, quota).await;
        Self { store }
    }

    /// Writes `new` over `old` (or deletes it) in one transaction with the quota.
    async fn write(&self, kind: &str, name: &str, new: Option<Value>) -> String {
        let (resource, user) = (resource("", kind), User::admin());
        let found = self.store.get(kind, "a", name);
        let old = found.as_ref().map(|object| object.value());
        let request = AdmissionRequest {
            operation: match (&old, &new) {
                (None, _) => Operation::Create,
                (Some(_), Some(_)) => Operation::Update,
                (Some(_), None) => Operation::Delete,
            },
            resource: &resource,
            subresource: "",
            namespace: "a",
            name,
            user: &user,
            old: old.as_ref(),
            dry_run: false,
        };
        let new = new.map(|mut object| {
            object["metadata"] = json!({"name": name, "namespace": "a"});
            object
        });
        let mut changes = match charge(&self.store, &request, new.as_ref(), Timestamp::UNIX_EPOCH) {
            Ok(changes) => changes,
            Err(error) => return error.message,
        };
        let expect = found.map_or(Expect::Absent, |object| Expect::Version(object.version));
        let op = new.map_or(Op::Delete, Op::Put);
        changes.push(Change { key: Key::new(&kind.into(), "a", name), expect, op });
        self.store.commit(changes).await.unwrap();
        "ok".to_owned()
    }

    fn used(&self) -> Value {
        let quota = self.store.get(QUOTA_STORAGE, "a", "q").unwrap().value();
        assert_eq!(
            quota["status"],
            status(&self.store, &quota, Timestamp::UNIX_EPOCH),
            "charged and counted"
        );
        quota["status"]["used"].clone()
    }
}

fn pod(requests: impl Into<Value>) -> Value {
    json!({"spec": {"containers": [{"name": "main", "resources": {"requests": requests.into()}}]}})
}

#[tokio::test]
async fn quota_is_charged_enforced_and_released() {
    let a = QuotaFixture::new(
        json!({"requests.cpu": "1", "pods": "3", "count/secrets": "1", "services.nodeports": "0"}),
        json!([]),
    )
    .await;
    let service = json!({"spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let table = [
        (
            "pods",
            "none",
            Some(pod(json!({}))),
            "pods \"none\" is forbidden: failed quota: q: must specify requests.cpu for: main",
        ),
        (
            "pods",
            "big",
            Some(pod(json!({"cpu": "2"}))),
            "pods \"big\" is forbidden: exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=0, limited: requests.cpu=1",
        ),
        ("pods", "fits", Some(pod(json!({"cpu": "600m"}))), "ok"),
        (
            "pods",
            "second",
            Some(pod(json!({"cpu": "600m"}))),
            "pods \"second\" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1",
        ),
        ("secrets", "one", Some(json!({})), "ok"),
        (
            "secrets",
            "two",
            Some(json!({})),
            "secrets \"two\" is forbidden: exceeded quota: q, requested: count/secrets=1, used: count/secrets=1, limited: count/secrets=1",
        ),
        ("secrets", "one", Some(json!({"data": {}})), "ok"),
        (
            "services",
            "np",
            Some(service),
            "services \"np\" is forbidden: exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=0, limited: services.nodeports=0",
        ),
    ];
    for (kind, name, new, expected) in table {
        assert_eq!(a.write(kind, name, new).await, expected);
    }
    assert_eq!(
        a.used(),
        json!({"requests.cpu": "600m", "pods": "1", "count/secrets": "1", "services.nodeports": "0"})
    );
    assert_eq!(a.write("secrets", "one", None).await, "ok");
    let mut finished = pod(json!({"cpu": "600m"}));
    finished["status"] = json!({"phase": "Succeeded"});
    assert_eq!(a.write("pods", "fits", Some(finished)).await, "ok");
    assert_eq!(
        a.used(),
        json!({"requests.cpu": "0", "pods": "0", "count/secrets": "0", "services.nodeports": "0"})
    );
}

#[tokio::test]
async fn quota_scopes_select_only_pods() {
    let a = QuotaFixture::new(json!({"pods": "1", "count/secrets": "0"}), json!(["BestEffort"])).await;
    assert_eq!(a.write("secrets", "s", Some(json!({}))).await, "ok");
    assert_eq!(a.write("pods", "asking", Some(pod(json!({"cpu": "1"})))).await, "ok");
    assert_eq!(a.write("pods", "first", Some(pod(json!({})))).await, "ok");
    assert!(
        a.write("pods", "second", Some(pod(json!({})))).await.contains("requested: pods=1, used: pods=1")
    );
    assert_eq!(a.used(), json!({"pods": "1", "count/secrets": "0"}));
}

#[tokio::test]
async fn quota_counts_claims_by_class_and_expansion() {
    let hard = json!({"requests.storage": "3Gi", "gold.storageclass.storage.k8s.io/requests.storage": "2Gi", "persistentvolumeclaims": "9"});
    let a = QuotaFixture::new(hard, json!([])).await;
    let claim = |size: &str, class: &str| json!({"spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}}});
    assert_eq!(a.write("persistentvolumeclaims", "a", Some(claim("1Gi", "gold"))).await, "ok");
    assert_eq!(a.write("persistentvolumeclaims", "b", Some(claim("1Gi", "tin"))).await, "ok");
    assert_eq!(
        a.write("persistentvolumeclaims", "a", Some(claim("3Gi", "gold"))).await,
        "persistentvolumeclaims \"a\" is forbidden: exceeded quota: q, requested: \
         gold.storageclass.storage.k8s.io/requests.storage=2Gi,requests.storage=2Gi, used: \
         gold.storageclass.storage.k8s.io/requests.storage=1Gi,requests.storage=2Gi, limited: \
         gold.storageclass.storage.k8s.io/requests.storage=2Gi,requests.storage=3Gi"
    );
    assert_eq!(a.write("persistentvolumeclaims", "a", Some(claim("2Gi", "gold"))).await, "ok");
    assert_eq!(a.used()["requests.storage"], "3Gi");
}

#[test]
fn quota_resource_names_map_to_counted_storage() {
    for (name, storage) in [
        ("count/deployments.apps", "deployments.apps"),
        ("count/pods", "pods"),
        ("limits.memory", "pods"),
        ("requests.nvidia.com/gpu", "pods"),
        ("gold.storageclass.storage.k8s.io/persistentvolumeclaims", "persistentvolumeclaims"),
        ("services.loadbalancers", "services"),
        ("secrets", "secrets"),
    ] {
        assert_eq!(storage_of_resource_name(name), storage);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// For any sequence of writes, the charged usage equals the counted one.
    #[test]
    fn charging_and_counting_agree(steps in prop::collection::vec((0_usize..4, 0_usize..5), 0..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let a = QuotaFixture::new(json!({"requests.cpu": "2", "pods": "3", "cpu": "2"}), json!([])).await;
            prop_assert_eq!(a.write("pods", "seed", Some(pod(json!({"cpu": "1m"})))).await, "ok");
            for (which, size) in steps {
                let name = format!("p{which}");
                let exists = a.store.get("pods", "a", &name).is_some();
                let new = match size {
                    0 if exists => None,
                    0 => continue,
                    n => {
                        let mut new = pod(json!({"cpu": format!("{}m", n.saturating_mul(300))}));
                        if exists { new["status"] = json!({"phase": "Failed"}); }
                        Some(new)
                    }
                };
                a.write("pods", &name, new).await;
                let used = a.used();
                prop_assert!(Quantity::parse(used["cpu"].as_str().unwrap()).unwrap() <= Quantity::parse("2").unwrap());
            }
            Ok(())
        })?;
    }
}
