//! Tests of simulated kubelets under a manual clock: the lifecycle of pods that are bound to a node.

use serde_json::{Value, json};

use crate::control::test_cluster::TestCluster;
use crate::sim::Simulation;

const PODS: &str = "/api/v1/namespaces/default/pods";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

async fn world() -> TestCluster {
    TestCluster::with_simulation(Simulation { nodes: 1, ..Simulation::default() }).await
}

#[expect(clippy::needless_pass_by_value, reason = "what is passed is written in place")]
fn pod(name: &str, behaviour: &str, spec: Value) -> Value {
    let mut whole = json!({"containers": [{"name": "c", "image": "app:1"}]});
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    let annotations =
        if behaviour.is_empty() { json!({}) } else { json!({"sim.longshore.dev/behaviour": behaviour}) };
    json!({"metadata": {"name": name, "annotations": annotations}, "spec": whole})
}

async fn status(world: &TestCluster, name: &str) -> Value {
    world.get(&format!("{PODS}/{name}")).await["status"].clone()
}

/// Summarises a pod's status: `Running ready=True c: running x0`.
async fn summary(world: &TestCluster, name: &str) -> String {
    let status = status(world, name).await;
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let condition = |kind: &str| {
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().find(|c| c["type"] == kind).map_or("-".to_owned(), |c| text(&c["status"]))
    };
    let mut line = format!("{} ready={}", text(&status["phase"]), condition("Ready"));
    for list in ["initContainerStatuses", "containerStatuses"] {
        for container in status[list].as_array().into_iter().flatten() {
            let (kind, state) = container["state"].as_object().unwrap().iter().next().unwrap();
            let reason = state["reason"].as_str().map_or(kind.clone(), str::to_owned);
            let (name, restarts) = (text(&container["name"]), &container["restartCount"]);
            line = format!("{line} {name}: {reason} x{restarts}");
        }
    }
    line
}

#[tokio::test]
async fn pod_gets_node_and_address_and_runs() {
    let world = world().await;
    let init =
        json!([{"name": "first", "image": "i"}, {"name": "side", "image": "s", "restartPolicy": "Always"}]);
    world.create(PODS, pod("a", "", json!({"initContainers": init}))).await;
    assert_eq!(
        summary(&world, "a").await,
        "Running ready=True first: Completed x0 side: running x0 c: running x0"
    );
    let status = status(&world, "a").await;
    assert_eq!((&status["hostIP"], &status["podIP"]), (&json!("10.64.0.1"), &json!("10.128.0.2")));
    assert_eq!(status["initContainerStatuses"][0]["ready"], true);
    let mut kinds: Vec<_> =
        status["conditions"].as_array().unwrap().iter().map(|c| c["type"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    assert_eq!(
        kinds,
        ["ContainersReady", "Initialized", "PodReadyToStartContainers", "PodScheduled", "Ready"]
    );
    let told = world.list_events("default", "Pod").await;
    assert_eq!(told[0], "Scheduled: Successfully assigned default/a to node-0");
    assert_eq!(told.iter().filter(|line| *line == "Started: Container started").count(), 3);

    world.create(PODS, pod("host", "", json!({"hostNetwork": true}))).await;
    assert_eq!(world.get(&format!("{PODS}/host")).await["status"]["podIP"], "10.64.0.1");
    world.delete(&format!("{PODS}/a")).await;
    let left: Vec<_> = world.list(PODS).await.iter().map(|pod| pod["metadata"]["name"].clone()).collect();
    assert_eq!(left, ["host"]);
}

#[tokio::test]
async fn pods_of_jobs_and_hooks_complete_and_others_keep_running() {
    let world = world().await;
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = json!({"metadata": {"name": "j"}, "spec": {"suspend": true, "template": template}});
    let mut of_job = pod("job", "", json!({"restartPolicy": "OnFailure"}));
    of_job["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": world.create(JOBS, job).await["metadata"]["uid"],
    }]);
    world.create(PODS, of_job).await;
    assert_eq!(summary(&world, "job").await, "Succeeded ready=False c: Completed x0");
    let mut hook = pod("hook", "", json!({"restartPolicy": "Never"}));
    hook["metadata"]["annotations"]["helm.sh/hook"] = "test".into();
    world.create(PODS, hook).await;
    world.create(PODS, pod("bare", "", json!({"restartPolicy": "Never"}))).await;
    assert_eq!(summary(&world, "hook").await, "Succeeded ready=False c: Completed x0");
    assert_eq!(summary(&world, "bare").await, "Running ready=True c: running x0");
    world.create(PODS, pod("failing", "exit=3@5s", json!({"restartPolicy": "Never"}))).await;
    assert_eq!(summary(&world, "failing").await, "Running ready=True c: running x0");
    world.advance(5).await;
    assert_eq!(summary(&world, "failing").await, "Failed ready=False c: Error x0");
    world.create(PODS, pod("late", "", json!({"activeDeadlineSeconds": 7}))).await;
    world.advance(7).await;
    assert_eq!(status(&world, "late").await["reason"], "DeadlineExceeded");
}

#[tokio::test]
async fn behaviour_annotation_causes_failures() {
    let world = world().await;
    for (name, behaviour) in [
        ("slow", "slow-ready=20s"),
        ("never", "never-ready"),
        ("crash", "crash-loop=7"),
        ("image", "image-pull-fail"),
        ("config", "config-error"),
        ("oom", "oom=5s"),
        ("nowhere", "unschedulable"),
        ("stuck", "stuck-terminating"),
    ] {
        world.create(PODS, pod(name, behaviour, json!({}))).await;
    }
    let expect = async |table: &[(&str, &str)]| {
        for (name, line) in table {
            assert_eq!(summary(&world, name).await, *line, "{name}");
        }
    };
    expect(&[
        ("slow", "Running ready=False c: running x0"),
        ("never", "Running ready=False c: running x0"),
        ("crash", "Running ready=False c: CrashLoopBackOff x1"),
        ("image", "Pending ready=False c: ErrImagePull x0"),
        ("config", "Pending ready=False c: CreateContainerConfigError x0"),
        ("oom", "Running ready=True c: running x0"),
        ("nowhere", "Pending ready=-"),
        ("stuck", "Running ready=True c: running x0"),
    ])
    .await;
    world.advance(10).await;
    expect(&[
        ("crash", "Running ready=False c: CrashLoopBackOff x2"),
        ("image", "Pending ready=False c: ImagePullBackOff x0"),
        ("oom", "Running ready=True c: running x1"),
    ])
    .await;
    let crashed = &status(&world, "crash").await["containerStatuses"][0];
    assert_eq!(crashed["lastState"]["terminated"]["exitCode"], 7);
    let message = crashed["state"]["waiting"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("back-off 20s restarting failed container=c pod=crash_default("),
        "{message}"
    );
    world.advance(10).await;
    expect(&[
        ("slow", "Running ready=True c: running x0"),
        ("never", "Running ready=False c: running x0"),
        ("crash", "Running ready=False c: CrashLoopBackOff x2"),
        ("oom", "Running ready=False c: CrashLoopBackOff x1"),
    ])
    .await;
    world.advance(3600).await;
    expect(&[
        ("crash", "Running ready=False c: CrashLoopBackOff x3"),
        ("never", "Running ready=False c: running x0"),
    ])
    .await;
    world.delete(&format!("{PODS}/stuck")).await;
    assert_eq!(summary(&world, "stuck").await, "Running ready=True c: running x0");
}

#[tokio::test]
async fn pod_waits_for_missing_references() {
    let world = world().await;
    let env = json!([{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}],
        "env": [{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
            {"name": "F", "valueFrom": {"configMapKeyRef": {"name": "other", "key": "k", "optional": true}}}]}]);
    let volume = json!([{"name": "v", "configMap": {"name": "m"}}]);
    world.create(PODS, pod("a", "", json!({"containers": env, "volumes": volume}))).await;
    assert_eq!(summary(&world, "a").await, "Pending ready=False c: ContainerCreating x0");
    let told = world.list_events("default", "Pod").await;
    let mount = "FailedMount: MountVolume.SetUp failed for volume \"v\" : configmap \"m\" not found";
    assert!(told.iter().any(|line| line == mount), "{told:?}");
    let map = json!({"metadata": {"name": "m"}, "data": {"other": "1"}});
    world.create("/api/v1/namespaces/default/configmaps", map).await;
    let waiting = |status: Value| status["containerStatuses"][0]["state"]["waiting"]["message"].clone();
    assert_eq!(waiting(status(&world, "a").await), "secret \"s\" not found");
    world.create("/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "s"}})).await;
    assert_eq!(waiting(status(&world, "a").await), "couldn't find key k in ConfigMap default/m");
    world.patch("/api/v1/namespaces/default/configmaps/m", json!({"data": {"k": "1"}})).await;
    assert_eq!(summary(&world, "a").await, "Running ready=True c: running x0");
}
