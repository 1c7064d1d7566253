//! Tests of Jobs from creation to completion; the test terminates the pods.

use serde_json::{Value, json};

use crate::control::test_cluster::TestCluster;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const PODS: &str = "/api/v1/namespaces/default/pods";

struct JobHarness(TestCluster);

impl JobHarness {
    /// Creates the Job `j` with this spec and a template of one container.
    async fn with_spec(spec: Value) -> Self {
        let scene = Self(TestCluster::without_nodes().await);
        scene.add("j", spec).await;
        scene
    }

    async fn add(&self, name: &str, mut spec: Value) {
        let pods = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        if spec["template"].is_null() {
            spec["template"] = json!({"spec": pods});
        }
        self.0.create(JOBS, json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    async fn change(&self, spec: Value) {
        self.0.patch(&format!("{JOBS}/j"), json!({"spec": spec})).await;
    }

    async fn status(&self) -> Value {
        self.0.get(&format!("{JOBS}/j")).await["status"].clone()
    }

    /// A condition as `status reason: message`, or nothing.
    async fn condition(&self, kind: &str) -> String {
        let status = self.status().await;
        let found = status["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == kind);
        found.map_or_else(String::new, |c| {
            let text = |key: &str| c[key].as_str().unwrap().to_owned();
            format!("{} {}: {}", text("status"), text("reason"), text("message"))
        })
    }

    /// The pods that have not terminated and are not being deleted, by name.
    async fn pods(&self) -> Vec<Value> {
        let mut pods = self.0.list(PODS).await;
        pods.retain(|pod| {
            let phase = pod["status"]["phase"].as_str().unwrap();
            !matches!(phase, "Succeeded" | "Failed") && pod["metadata"]["deletionTimestamp"].is_null()
        });
        pods
    }

    /// Terminates the first active pod.
    async fn finish_first_pod(&self, phase: &str) -> Value {
        let pod = self.pods().await.remove(0);
        self.finish_pod(&pod, phase, i64::from(phase == "Failed")).await;
        pod
    }

    async fn finish_pod(&self, pod: &Value, phase: &str, code: i64) {
        let now = crate::clock::rfc3339(crate::clock::Clock::now(self.0.clock.as_ref()));
        let ended = json!({"exitCode": code, "finishedAt": now, "startedAt": now});
        let status = json!({"phase": phase, "containerStatuses": [{"name": "c", "state": {"terminated": ended},
            "image": "i", "imageID": "", "ready": false, "restartCount": 0}]});
        self.0.patch(&format!("{PODS}/{}/status", name(pod)), json!({"status": status})).await;
    }

    async fn list_events(&self) -> Vec<String> {
        self.0.list_events("default", "Job").await
    }

    /// The number of pods with the tracking finalizer.
    async fn count_tracked_pods(&self) -> usize {
        self.0.list(PODS).await.iter().filter(|pod| !pod["metadata"]["finalizers"].is_null()).count()
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

#[tokio::test]
async fn job_runs_its_pods_and_completes() {
    let scene = JobHarness::with_spec(json!({"completions": 3, "parallelism": 2})).await;
    let start = "2026-01-02T03:04:05Z";
    let expected =
        json!({"active": 2, "ready": 0, "startTime": start, "terminating": 0, "uncountedTerminatedPods": {}});
    assert_eq!(scene.status().await, expected);
    let pods = scene.pods().await;
    let pod = &pods[0]["metadata"];
    assert_eq!((pods.len(), pod["generateName"].as_str()), (2, Some("j-")));
    assert_eq!(pod["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
    assert_eq!(pod["labels"]["job-name"], "j");
    assert_eq!(pod["labels"]["batch.kubernetes.io/controller-uid"], pod["ownerReferences"][0]["uid"]);
    assert_eq!(pod["ownerReferences"][0]["blockOwnerDeletion"], true);

    scene.0.set_pod_phase("default", name(&pods[1]), "Running", true).await;
    assert_eq!(scene.status().await["ready"], 1);
    scene.0.advance(60).await;
    for left in [2, 1, 0] {
        scene.finish_first_pod("Succeeded").await;
        assert_eq!(scene.pods().await.len(), left);
    }
    let reached = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "CompletionsReached",
            "message": "Reached expected number of succeeded pods",
            "lastProbeTime": "2026-01-02T03:05:05Z", "lastTransitionTime": "2026-01-02T03:05:05Z"})
    };
    let expected = json!({
        "startTime": start, "completionTime": "2026-01-02T03:05:05Z", "succeeded": 3, "ready": 0, "terminating": 0,
        "uncountedTerminatedPods": {}, "conditions": [reached("SuccessCriteriaMet"), reached("Complete")],
    });
    assert_eq!((scene.status().await, scene.count_tracked_pods().await), (expected, 0));
    let told = scene.list_events().await;
    assert_eq!(told.len(), 4);
    assert!(told[0].starts_with("SuccessfulCreate: Created pod: j-"));
    assert_eq!(told[3], "Completed: Job completed");
}

#[tokio::test]
async fn failures_back_off_until_backoff_limit() {
    let scene = JobHarness::with_spec(json!({"backoffLimit": 2})).await;
    for (failures, wait) in [(1, 10), (2, 20)] {
        scene.finish_first_pod("Failed").await;
        assert_eq!((scene.pods().await.len(), &scene.status().await["failed"]), (0, &json!(failures)));
        scene.0.advance(wait - 1).await;
        assert_eq!(scene.pods().await.len(), 0);
        scene.0.advance(1).await;
        assert_eq!(scene.pods().await.len(), 1);
    }
    scene.finish_first_pod("Failed").await;
    let expected = "True BackoffLimitExceeded: Job has reached the specified backoff limit";
    assert_eq!(scene.condition("FailureTarget").await, expected);
    assert_eq!(scene.condition("Failed").await, expected);
    let status = scene.status().await;
    assert_eq!((&status["failed"], &status["completionTime"]), (&json!(3), &Value::Null));
    let told = scene.list_events().await;
    assert_eq!(told[3..], ["BackoffLimitExceeded: Job has reached the specified backoff limit"]);
    scene.0.advance(3600).await;
    assert_eq!(scene.pods().await.len(), 0);
}

#[tokio::test]
async fn success_resets_backoff_and_completes_job_without_completions() {
    let scene = JobHarness::with_spec(json!({"parallelism": 3})).await;
    assert_eq!(scene.pods().await.len(), 3);
    scene.finish_first_pod("Failed").await;
    assert_eq!(scene.pods().await.len(), 2, "it waits");
    scene.finish_first_pod("Succeeded").await;
    scene.0.advance(60).await;
    assert_eq!(scene.pods().await.len(), 1, "no more are made");
    assert_eq!(scene.condition("Complete").await, "");
    scene.finish_first_pod("Failed").await;
    assert!(scene.condition("Complete").await.starts_with("True"));
    assert_eq!(scene.status().await["succeeded"], 1);
}

#[tokio::test]
async fn indexed_pods_have_their_index() {
    let spec = json!({"completions": 4, "parallelism": 3, "completionMode": "Indexed"});
    let scene = JobHarness::with_spec(spec).await;
    let pods = scene.pods().await;
    assert_eq!(pods.len(), 3);
    let (meta, spec) = (&pods[1]["metadata"], &pods[1]["spec"]);
    let index = "batch.kubernetes.io/job-completion-index";
    assert_eq!((&meta["annotations"][index], &meta["labels"][index]), (&json!("1"), &json!("1")));
    assert_eq!((meta["generateName"].as_str(), &spec["hostname"]), (Some("j-1-"), &json!("j-1")));
    assert_eq!(
        spec["containers"][0]["env"],
        json!([{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"apiVersion": "v1",
            "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}}])
    );
    scene.finish_pod(&pods[0], "Succeeded", 0).await;
    scene.finish_pod(&pods[2], "Succeeded", 0).await;
    let status = scene.status().await;
    assert_eq!((&status["completedIndexes"], &status["succeeded"]), (&json!("0,2"), &json!(2)));
    scene.finish_pod(&pods[1], "Failed", 1).await;
    scene.0.advance(10).await;
    let names: Vec<_> = scene.pods().await.iter().map(|pod| name(pod)[..4].to_owned()).collect();
    assert_eq!(names, ["j-1-", "j-3-"]);
    scene.finish_first_pod("Succeeded").await;
    scene.finish_first_pod("Succeeded").await;
    assert_eq!(scene.status().await["completedIndexes"], "0-3");
    assert!(scene.condition("Complete").await.starts_with("True"));
}

#[tokio::test]
async fn backoff_limit_per_index_is_applied() {
    let limits =
        json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1});
    let scene = JobHarness::with_spec(limits).await;
    assert_eq!(scene.status().await["failedIndexes"], "");
    let failures = "batch.kubernetes.io/job-index-failure-count";
    let failed = scene.finish_first_pod("Failed").await;
    assert_eq!(failed["metadata"]["annotations"][failures], "0");
    assert_eq!(scene.count_tracked_pods().await, 2, "the failed pod stays until there is another");
    scene.0.advance(10).await;
    let next = scene.pods().await.remove(0);
    assert_eq!(next["metadata"]["annotations"][failures], "1");
    assert_eq!(scene.count_tracked_pods().await, 2);
    scene.finish_pod(&next, "Failed", 1).await;
    let status = scene.status().await;
    assert_eq!(
        (&status["failedIndexes"], &status["failed"], &status["active"]),
        (&json!("0"), &json!(2), &json!(1))
    );
    scene.finish_first_pod("Succeeded").await;
    assert_eq!(scene.condition("Failed").await, "True FailedIndexes: Job has failed indexes");
    assert_eq!(scene.status().await["completedIndexes"], "1");
}

#[tokio::test]
async fn suspended_job_has_no_pods_and_resumes() {
    let scene = JobHarness::with_spec(
        json!({"suspend": true, "parallelism": 2, "completions": 2, "activeDeadlineSeconds": 30}),
    )
    .await;
    let status = scene.status().await;
    assert_eq!((&status["startTime"], scene.pods().await.len()), (&Value::Null, 0));
    assert_eq!(scene.condition("Suspended").await, "True JobSuspended: Job suspended");
    scene.0.advance(100).await;
    scene.change(json!({"suspend": false})).await;
    assert_eq!(scene.condition("Suspended").await, "False JobResumed: Job resumed");
    assert_eq!(
        (&scene.status().await["startTime"], scene.pods().await.len()),
        (&json!("2026-01-02T03:05:45Z"), 2)
    );
    scene.change(json!({"suspend": true})).await;
    let status = scene.status().await;
    assert_eq!(
        (&status["startTime"], &status["failed"], &status["active"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!((&status["terminating"], scene.0.list(PODS).await.len()), (&json!(0), 0));
    let mut told: Vec<_> =
        scene.list_events().await.iter().map(|event| event.split(':').next().unwrap().to_owned()).collect();
    told.sort();
    told.dedup();
    assert_eq!(told, ["Resumed", "SuccessfulCreate", "SuccessfulDelete", "Suspended"]);
}

#[tokio::test]
async fn job_fails_at_active_deadline() {
    let scene =
        JobHarness::with_spec(json!({"activeDeadlineSeconds": 30, "parallelism": 2, "completions": 2})).await;
    scene.finish_first_pod("Succeeded").await;
    scene.0.advance(29).await;
    assert_eq!(scene.condition("Failed").await, "");
    scene.0.advance(1).await;
    let expected = "True DeadlineExceeded: Job was active longer than specified deadline";
    assert_eq!(scene.condition("Failed").await, expected);
    let status = scene.status().await;
    assert_eq!(
        (&status["failed"], &status["succeeded"], &status["active"]),
        (&json!(1), &json!(1), &Value::Null)
    );
    assert_eq!((scene.pods().await.len(), scene.count_tracked_pods().await), (0, 0));
}

#[tokio::test]
async fn pod_failure_policy_is_applied() {
    let rule = |action: &str, code: i64| json!({"action": action, "onExitCodes": {"operator": "In", "values": [code]}});
    let policy = json!({"rules": [rule("Ignore", 3), rule("FailJob", 42)]});
    let scene = JobHarness::with_spec(json!({"backoffLimit": 0, "podFailurePolicy": policy})).await;
    let pod = scene.pods().await.remove(0);
    scene.finish_pod(&pod, "Failed", 3).await;
    scene.0.advance(10).await;
    assert_eq!((scene.pods().await.len(), &scene.status().await["failed"]), (1, &Value::Null));
    let pod = scene.pods().await.remove(0);
    scene.finish_pod(&pod, "Failed", 42).await;
    let why = format!(
        "Container c for pod default/{} failed with exit code 42 matching FailJob rule at index 1",
        name(&pod)
    );
    assert_eq!(scene.condition("Failed").await, format!("True PodFailurePolicy: {why}"));
    assert_eq!(scene.status().await["failed"], 1);
}

#[tokio::test]
async fn success_policy_ends_remaining_pods() {
    let policy = json!({"rules": [{"succeededIndexes": "1"}]});
    let scene = JobHarness::with_spec(
        json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "successPolicy": policy}),
    )
    .await;
    let pod = scene.pods().await.remove(1);
    scene.finish_pod(&pod, "Succeeded", 0).await;
    assert_eq!(scene.condition("Complete").await, "True SuccessPolicy: Matched rules at index 0");
    let status = scene.status().await;
    assert_eq!(
        (&status["succeeded"], &status["failed"], &status["active"]),
        (&json!(1), &Value::Null, &Value::Null)
    );
    assert_eq!(scene.0.list(PODS).await.len(), 1);
}

#[tokio::test]
async fn manually_deleted_pod_counts_as_failure() {
    let scene = JobHarness::with_spec(json!({})).await;
    let pod = scene.pods().await.remove(0);
    scene.0.delete(&format!("{PODS}/{}", name(&pod))).await;
    assert_eq!(scene.status().await["failed"], 1);
    assert_eq!(scene.0.list(PODS).await.len(), 0, "nothing holds it");
    scene.0.advance(10).await;
    assert_eq!(scene.pods().await.len(), 1);
}

#[tokio::test]
async fn replacement_policy_failed_waits_for_terminating_pod() {
    let scene =
        JobHarness::with_spec(json!({"podReplacementPolicy": "Failed", "completions": 2, "parallelism": 2}))
            .await;
    let pods = scene.pods().await;
    // On an unreachable node the grace period does not end.
    let binding = json!({"metadata": {"name": name(&pods[0])}, "target": {"kind": "Node", "name": "far"}});
    scene.0.create(&format!("{PODS}/{}/binding", name(&pods[0])), binding).await;
    for pod in &pods {
        scene.0.delete(&format!("{PODS}/{}", name(pod))).await;
    }
    let status = scene.status().await;
    assert_eq!(
        (&status["terminating"], &status["failed"], &status["active"]),
        (&json!(1), &json!(1), &Value::Null)
    );
    scene.0.advance(10).await;
    assert_eq!(scene.pods().await.len(), 1, "one of the two may be replaced");
    let options = json!({"gracePeriodSeconds": 0});
    scene.0.send("DELETE", &format!("{PODS}/{}", name(&pods[0])), "application/json", options).await;
    scene.0.advance(20).await;
    let status = scene.status().await;
    assert_eq!(
        (&status["terminating"], &status["failed"], &status["active"]),
        (&json!(0), &json!(2), &json!(2))
    );
}

#[tokio::test]
async fn excess_pods_are_deleted_without_count() {
    let scene = JobHarness::with_spec(json!({"completions": 5, "parallelism": 3})).await;
    let kept = name(&scene.pods().await[1]).to_owned();
    scene.0.set_pod_phase("default", &kept, "Running", true).await;
    scene.change(json!({"parallelism": 1})).await;
    let pods = scene.0.list(PODS).await;
    assert_eq!((pods.len(), name(&pods[0])), (1, kept.as_str()));
    assert_eq!((&scene.status().await["active"], &scene.status().await["failed"]), (&json!(1), &Value::Null));
}

#[tokio::test]
async fn pods_of_deleted_job_lose_tracking_finalizer() {
    for (propagation, left) in [("Background", 0), ("Foreground", 0), ("Orphan", 2)] {
        let scene = JobHarness::with_spec(json!({"completions": 2, "parallelism": 2})).await;
        let options = json!({"propagationPolicy": propagation});
        let (code, _) = scene.0.send("DELETE", &format!("{JOBS}/j"), "application/json", options).await;
        scene.0.wait_until_idle().await;
        assert_eq!((code, scene.0.list(JOBS).await.len()), (200, 0), "{propagation}");
        assert_eq!(
            (scene.0.list(PODS).await.len(), scene.count_tracked_pods().await),
            (left, 0),
            "{propagation}"
        );
    }
}

#[tokio::test]
async fn matching_pods_are_adopted_and_others_released() {
    let scene = JobHarness::with_spec(json!({"completions": 2, "parallelism": 1})).await;
    let pod = scene.pods().await.remove(0);
    let path = format!("{PODS}/{}", name(&pod));
    let leave = json!({"metadata": {"labels": {"batch.kubernetes.io/controller-uid": "x"}}});
    scene.0.patch(&path, leave).await;
    let left = scene.0.get(&path).await;
    assert_eq!(
        (&left["metadata"]["finalizers"], &left["metadata"]["ownerReferences"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(scene.pods().await.len(), 2, "another takes its place");
    let back = json!({"metadata": {"labels": {"batch.kubernetes.io/controller-uid": pod["metadata"]["labels"]["controller-uid"]}}});
    scene.0.patch(&path, back).await;
    let pods = scene.pods().await;
    assert_eq!((pods.len(), &scene.status().await["active"]), (1, &json!(1)), "one too many");
}

#[tokio::test]
async fn refused_pod_creation_is_reported_and_retried() {
    let scene = JobHarness(TestCluster::without_nodes().await);
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}});
    scene.0.create("/api/v1/namespaces/default/resourcequotas", quota).await;
    scene.add("j", json!({"completions": 4, "parallelism": 4})).await;
    assert_eq!((scene.pods().await.len(), &scene.status().await["active"]), (2, &json!(2)));
    let told = scene.list_events().await.join("\n");
    assert!(told.contains("FailedCreate: Error creating: pods \"j-"), "{told}");
    assert!(
        told.contains("is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2"),
        "{told}"
    );
}

#[tokio::test]
async fn job_managed_by_other_controller_is_ignored() {
    let scene = JobHarness::with_spec(json!({"managedBy": "example.com/other"})).await;
    assert_eq!((scene.status().await, scene.pods().await.len()), (json!({}), 0));
}
