//! Attacks with malformed and extreme inputs: deep documents, huge numbers, forged continue tokens, long owner chains, extreme ordinals.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::tenant::{Tenant, put};
use super::{DEPLOYMENTS, deployment};
use crate::cluster::Cluster;
use crate::control::test_cluster::TestCluster;
use crate::sim::Simulation;

#[tokio::test]
async fn deep_documents_and_huge_numbers_are_refused() {
    let cluster = Cluster::in_memory().await;
    let tenant =
        Tenant::new(&cluster, json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}])).await;
    let path = "/api/v1/namespaces/default/configmaps";
    let map = json!({"metadata": {"name": "m"}, "data": {"a": "b"}});
    assert_eq!(tenant.post(path, &map).await.0, 201);
    for depth in [200, 10_000, 1_000_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let (open, close) = (open.repeat(depth), close.repeat(depth));
            let deep = format!("{open}1{close}");
            let bodies = [
                (
                    "POST",
                    path.to_owned(),
                    "application/json",
                    format!("{{\"metadata\":{{\"name\":\"a\"}},\"x\":{deep}}}"),
                ),
                ("POST", path.to_owned(), "application/yaml", format!("metadata: {{name: a}}\nx: {deep}")),
                ("PATCH", format!("{path}/m"), "application/merge-patch+json", format!("{{\"x\":{deep}}}")),
                (
                    "PATCH",
                    format!("{path}/m"),
                    "application/strategic-merge-patch+json",
                    format!("{{\"x\":{deep}}}"),
                ),
                (
                    "PATCH",
                    format!("{path}/m"),
                    "application/json-patch+json",
                    format!("[{{\"op\":\"add\",\"path\":\"/x\",\"value\":{deep}}}]"),
                ),
                (
                    "PATCH",
                    format!("{path}/m?fieldManager=a"),
                    "application/apply-patch+yaml",
                    format!("{{\"x\":{deep}}}"),
                ),
            ];
            for (method, path, media, body) in bodies {
                if body.len() > crate::http::service::BODY_LIMIT {
                    continue;
                }
                let (code, answer) = tenant.send(method, &path, media, body).await;
                assert!(matches!(code, 400 | 422), "{depth} {media} {code}: {:.300}", answer.to_string());
            }
        }
    }
    let numbers = [
        "1e400",
        "-1e400",
        "9223372036854775808",
        "-9223372036854775809",
        &"9".repeat(100_000),
        "1e-400",
        "0.5",
        "NaN",
    ];
    for number in numbers {
        for media in ["application/json", "application/yaml"] {
            let body = format!(
                "{{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{{\"name\":\"a\"}},\"spec\":{{\"replicas\":{number}}}}}"
            );
            let (code, answer) = tenant.send("POST", DEPLOYMENTS, media, body).await;
            assert!(matches!(code, 400 | 422), "{number:.40} {media} {code}: {:.300}", answer.to_string());
        }
        let query = format!("{path}?limit={number}&timeoutSeconds={number}&resourceVersion={number}");
        let (code, answer) = tenant.get(&query.replace(&"9".repeat(100_000), &"9".repeat(1_000))).await;
        assert!(
            (400..500).contains(&code) || code == 504,
            "{number:.40} {code}: {:.300}",
            answer.to_string()
        );
    }
    assert_eq!(cluster.metrics().panic_count(), 0);
    cluster.stop();
}

#[tokio::test]
async fn forged_continue_tokens_return_nothing_of_others() {
    let cluster = Cluster::in_memory().await;
    let tenant = Tenant::new(&cluster, json!([])).await;
    let group = "rbac.authorization.k8s.io";
    let objects = |storage: &str, kind: &str| -> (String, Vec<Value>) {
        let each = ["aa", "mine", "zz"].into_iter().flat_map(|namespace| {
            (0..5).map(move |n| {
                json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": namespace, "name": format!("o{n}"),
                    "uid": format!("{namespace}{n}")}})
            })
        });
        (storage.to_owned(), each.collect())
    };
    for (storage, objects) in [objects("configmaps", "ConfigMap"), objects("secrets", "Secret")] {
        put(&cluster, &storage, objects).await;
    }
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": {"name": "r", "namespace": "mine"},
        "rules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]}]});
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": "r", "namespace": "mine"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": super::tenant::NAME}]});
    put(&cluster, &format!("roles.{group}"), vec![role]).await;
    put(&cluster, &format!("rolebindings.{group}"), vec![binding]).await;
    let path = "/api/v1/namespaces/mine/configmaps";
    let (code, first) = tenant.get(&format!("{path}?limit=2")).await;
    assert_eq!(code, 200, "{first:#}");
    let honest = first["metadata"]["continue"].as_str().unwrap().to_owned();
    assert_eq!(
        tenant.get(&format!("{path}?limit=2&continue={honest}")).await.1["items"][0]["metadata"]["name"],
        "o2"
    );
    let now = cluster.store().version();
    let starts = [
        "/",
        "o1\0",
        "/o1\0",
        "zz/o0\0",
        "/zz/o0\0",
        "aa/o0",
        "../zz/o0",
        "/mine/../zz/o0",
        "mine/o1\0",
        "secrets/mine/o1\0",
        "/registry/secrets/zz/o0\0",
        "\0",
        "\u{10ffff}",
        "o1\0\0",
        "%2e%2e/zz",
    ];
    for start in starts {
        for version in [1, i64::try_from(now).unwrap(), -1, i64::MAX, i64::MIN, 0] {
            let token = URL_SAFE_NO_PAD
                .encode(json!({"v": "meta.k8s.io/v1", "rv": version, "start": start}).to_string());
            for limit in ["", "&limit=2"] {
                let (code, list) = tenant.get(&format!("{path}?continue={token}{limit}")).await;
                assert!(matches!(code, 200 | 400 | 410), "{start:?} {version} {code}: {list:#}");
                assert!(code != 200 || list["kind"] == "ConfigMapList", "{list:#}");
                for item in list["items"].as_array().into_iter().flatten() {
                    assert_eq!(item["metadata"]["namespace"], "mine", "{start:?} {version}: {list:#}");
                }
            }
            for foreign in
                ["/api/v1/configmaps", "/api/v1/namespaces/zz/configmaps", "/api/v1/namespaces/mine/secrets"]
            {
                assert_eq!(tenant.get(&format!("{foreign}?continue={token}")).await.0, 403);
            }
        }
    }
    assert_eq!(cluster.metrics().panic_count(), 0);
    cluster.stop();
}

#[tokio::test]
async fn chain_of_a_thousand_owners_is_collected() {
    let world = TestCluster::without_nodes().await;
    let link = |n: usize| {
        let owners: Vec<Value> = (n > 0)
            .then(|| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("c{}", n - 1), "uid": format!("u{}", n - 1)}))
            .into_iter()
            .collect();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{n}"), "namespace": "default",
            "uid": format!("u{n}"), "ownerReferences": owners}})
    };
    put(&world.cluster, "configmaps", (0..1_000).map(link).collect()).await;
    // A cycle of owners has no root that could be deleted: the objects stay and cause no work.
    let circle = |n: usize| {
        let next = (n + 1) % 100;
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("r{n}"), "namespace": "default",
            "uid": format!("r{n}"), "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": format!("r{next}"), "uid": format!("r{next}")}]}})
    };
    put(&world.cluster, "configmaps", (0..100).map(circle).collect()).await;
    world.wait_until_idle().await;
    let count = || {
        let objects = world.cluster.store().list("configmaps", Some("default")).objects;
        objects.iter().filter(|object| object.name.starts_with('c')).count()
    };
    assert_eq!(count(), 1_000);
    world.delete("/api/v1/namespaces/default/configmaps/c0").await;
    assert_eq!(count(), 0);
    world.delete("/api/v1/namespaces/default/configmaps/r0?propagationPolicy=Foreground").await;
    assert_eq!((world.cluster.metrics().panic_count(), world.cluster.health().failing()), (0, Vec::new()));
}

#[tokio::test]
async fn statefulsets_with_extreme_ordinals_stop_nobody() {
    let world = TestCluster::with_simulation(Simulation::default()).await;
    let path = "/apis/apps/v1/namespaces/default/statefulsets";
    let set = |name: &str, replicas: i64, start: i64, policy: &str| {
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": {
            "replicas": replicas, "ordinals": {"start": start}, "podManagementPolicy": policy, "serviceName": "s",
            "selector": {"matchLabels": {"app": name}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": i32::MAX}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}}})
    };
    let largest = i64::from(i32::MAX);
    for (n, (replicas, start)) in
        [(3, largest), (2, largest - 1), (0, largest), (1, 0)].into_iter().enumerate()
    {
        for (policy, short) in [("Parallel", "p"), ("OrderedReady", "o")] {
            let name = format!("{short}{n}");
            world.create(path, set(&name, replicas, start, policy)).await;
            let stored = world.get(&format!("{path}/{name}")).await;
            assert_eq!(stored["status"]["replicas"].as_i64().unwrap_or(0), replicas, "{stored:#}");
        }
    }
    for (replicas, start) in [(1, -1), (-1, 0), (1, largest + 1), (largest + 1, 0), (i64::MAX, i64::MAX)] {
        let body = set("bad", replicas, start, "Parallel");
        let (code, answer) = world.send("POST", path, "application/json", body).await;
        assert!(matches!(code, 400 | 422), "{replicas} {start} {code}: {answer:#}");
    }
    world.create(DEPLOYMENTS, deployment("canary", 1, &json!({}))).await;
    let canary = world.get(&format!("{DEPLOYMENTS}/canary")).await;
    assert_eq!(canary["status"]["readyReplicas"], 1, "{canary:#}");
    assert_eq!((world.cluster.metrics().panic_count(), world.cluster.health().failing()), (0, Vec::new()));
}
