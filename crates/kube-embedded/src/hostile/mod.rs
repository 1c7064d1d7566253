//! Attacks by tenants: objects with extreme numbers, times and sizes, against a cluster with all controllers.

mod answers;
mod chaos;
mod child;
mod credentials;
mod errors;
mod growth;
mod inline;
mod inputs;
mod jobs;
mod lists;
mod races;
mod rules;
mod samples;
mod selectors;
mod tenant;

use serde_json::{Value, json};

use crate::cluster::{Cluster, Config, OpenError};
use crate::control::test_cluster::TestCluster;
use crate::sim::Simulation;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment(name: &str, replicas: i64, pod: &Value) -> Value {
    let mut spec = json!({"containers": [{"name": "a", "image": "a"}]});
    for (key, value) in pod.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    })
}

#[tokio::test]
async fn endless_grace_period_does_not_stop_the_replicaset_controller() {
    let world = TestCluster::with_simulation(Simulation::default()).await;
    let endless = json!({"terminationGracePeriodSeconds": 400_000_000_000_i64});
    world.create(DEPLOYMENTS, deployment("hostile", 2, &endless)).await;
    world.patch(&format!("{DEPLOYMENTS}/hostile"), json!({"spec": {"replicas": 0}})).await;
    for pod in world.list("/api/v1/namespaces/default/pods").await {
        assert_eq!(pod["metadata"]["deletionTimestamp"], "9999-12-30T22:00:00Z", "{pod:#}");
    }
    world.create(DEPLOYMENTS, deployment("canary", 1, &json!({}))).await;
    let canary = world.get(&format!("{DEPLOYMENTS}/canary")).await;
    assert_eq!(canary["status"]["readyReplicas"], 1, "{canary:#}");
    assert_eq!((world.cluster.metrics().panic_count(), world.cluster.health().failing()), (0, Vec::new()));
}

#[tokio::test]
async fn pod_with_thousands_of_spread_constraints_is_not_scheduled_and_delays_nobody() {
    let world = TestCluster::with_simulation(Simulation::default()).await;
    let constraint = |n: usize| {
        json!({"maxSkew": 1, "topologyKey": format!("k{n}"), "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "hostile"}}})
    };
    let hostile = json!({"topologySpreadConstraints": (0..3_000).map(constraint).collect::<Vec<_>>()});
    world.create(DEPLOYMENTS, deployment("hostile", 1, &hostile)).await;
    let pods = world.list("/api/v1/namespaces/default/pods").await;
    let why = &pods[0]["status"]["conditions"][0];
    let expected =
        "the pod has 3000 topology spread constraints and pod affinity terms (limit 100); use fewer";
    assert_eq!((&why["reason"], &why["message"]), (&json!("Unschedulable"), &json!(expected)), "{why:#}");
    let began = std::time::Instant::now();
    world.create(DEPLOYMENTS, deployment("canary", 1, &json!({}))).await;
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
    let canary = world.get(&format!("{DEPLOYMENTS}/canary")).await;
    assert_eq!(canary["status"]["readyReplicas"], 1, "{canary:#}");
}

#[tokio::test]
async fn pods_with_endless_node_affinity_or_tolerations_are_not_scheduled() {
    let world = TestCluster::with_simulation(Simulation::default()).await;
    let key = |n: usize| json!({"matchExpressions": [{"key": format!("k{n}"), "operator": "Exists"}]});
    let required = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
    let values: Vec<_> = (0..6_000).map(|n| format!("v{n}")).collect();
    let toleration = |n: usize| json!({"key": format!("k{n}"), "operator": "Exists"});
    let attacks = [
        (
            required((0..3_000).map(key).collect()),
            "the pod has 3000 node affinity terms (limit 100); use fewer",
        ),
        (
            required(json!([{"matchExpressions": [{"key": "k", "operator": "NotIn", "values": values}]}])),
            "the pod has more than 5000 expressions and values in its node affinity; use fewer",
        ),
        (
            json!({"tolerations": (0..3_000).map(toleration).collect::<Vec<_>>()}),
            "tolerations (limit 100); use fewer",
        ),
    ];
    for (n, (pod, expected)) in attacks.into_iter().enumerate() {
        let name = format!("hostile-{n}");
        world.create(DEPLOYMENTS, deployment(&name, 1, &pod)).await;
        let pods = world.list("/api/v1/namespaces/default/pods").await;
        let own = pods.iter().find(|pod| pod["metadata"]["labels"]["app"] == name.as_str()).unwrap();
        let why = &own["status"]["conditions"][0];
        assert_eq!(why["reason"], "Unschedulable", "{why:#}");
        assert!(why["message"].as_str().unwrap().ends_with(expected), "{why:#}");
    }
    world.create(DEPLOYMENTS, deployment("canary", 1, &json!({}))).await;
    let canary = world.get(&format!("{DEPLOYMENTS}/canary")).await;
    assert_eq!(canary["status"]["readyReplicas"], 1, "{canary:#}");
}

#[tokio::test]
async fn object_that_grows_past_the_limit_of_etcd_is_refused_and_the_store_opens_again() {
    let folder = tempfile::TempDir::new().unwrap();
    let open = || async {
        let config = Config { data_dir: Some(folder.path().to_owned()), ..Config::default() };
        Cluster::open(config).await
    };
    let send = async |cluster: &Cluster, method: &str, path: &str, body: Value| {
        let client = cluster.client(crate::access::User::admin());
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("content-type", media);
        let answer = client.send(request.body(body.to_string().into_bytes().into()).unwrap()).await.unwrap();
        let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
        serde_json::from_slice::<Value>(&body).unwrap_or_default()
    };
    let cluster = open().await.unwrap();
    let mut maker = deployment("big", 0, &json!({}));
    maker["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "x".repeat(1_400_000)}]);
    let made = send(&cluster, "POST", DEPLOYMENTS, maker).await;
    assert_eq!(made["kind"], "Deployment", "{made:#}");
    for (length, said) in [
        (1_700_000, "etcdserver: request is too large"),
        (2_900_000, "rpc error: code = ResourceExhausted desc = trying to send message larger than max ("),
    ] {
        let env = json!([{"name": "A", "value": "y".repeat(length)}]);
        let containers = json!([{"name": "a", "image": "a", "env": env}]);
        let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let refused = send(&cluster, "PATCH", &format!("{DEPLOYMENTS}/big"), patch).await;
        assert_eq!((&refused["code"], &refused["reason"]), (&json!(500), &Value::Null), "{refused:#}");
        assert!(refused["message"].as_str().unwrap().starts_with(said), "{refused:#}");
    }
    cluster.stop();
    drop(cluster);
    // The controllers of the first cluster release the store asynchronously.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let cluster = loop {
        match open().await {
            Ok(cluster) => break cluster,
            Err(OpenError::Store(crate::store::OpenError::InUse { .. }))
                if std::time::Instant::now() < until =>
            {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert!(cluster.store().get("deployments.apps", "default", "big").is_some());
    cluster.stop();
}
