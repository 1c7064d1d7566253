//! Tests of `CronJobs` under a manual clock.

use serde_json::{Value, json};

use super::local_time;
use crate::control::test_cluster::TestCluster;

const CRONS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// A cluster with the `CronJob` `c`, created at 03:04:05.
struct CronJobHarness(TestCluster);

impl CronJobHarness {
    async fn with_spec(mut spec: Value) -> Self {
        let scene = Self(TestCluster::without_nodes().await);
        let pods = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        let job = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec": pods}}});
        spec["jobTemplate"] = job;
        scene.0.create(CRONS, json!({"metadata": {"name": "c"}, "spec": spec})).await;
        scene
    }

    async fn cron(&self) -> Value {
        self.0.get(&format!("{CRONS}/c")).await
    }

    async fn change(&self, spec: Value) {
        self.0.patch(&format!("{CRONS}/c"), json!({"spec": spec})).await;
    }

    async fn jobs(&self) -> Vec<String> {
        self.0
            .list(JOBS)
            .await
            .iter()
            .map(|job| job["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Terminates all pods with this phase.
    async fn set_pod_phases(&self, phase: &str) {
        for pod in self.0.list("/api/v1/namespaces/default/pods").await {
            if pod["status"]["phase"] == "Pending" {
                self.0
                    .set_pod_phase("default", pod["metadata"]["name"].as_str().unwrap(), phase, false)
                    .await;
            }
        }
    }

    async fn list_events(&self, reason: &str) -> Vec<String> {
        let mut told = self.0.list_events("default", "CronJob").await;
        told.retain(|event| event.starts_with(reason));
        told
    }
}

#[tokio::test]
async fn scheduled_jobs_are_created_and_old_ones_deleted() {
    let scene =
        CronJobHarness::with_spec(json!({"schedule": "*/10 * * * *", "successfulJobsHistoryLimit": 2})).await;
    assert_eq!(scene.cron().await["status"], json!({}));
    scene.0.advance(354).await;
    assert_eq!(scene.jobs().await.len(), 0);
    scene.0.advance(1).await;
    let job = scene.0.list(JOBS).await.remove(0);
    let meta = &job["metadata"];
    assert_eq!((&meta["name"], &meta["labels"]), (&json!("c-29455390"), &json!({"a": "b"})));
    assert_eq!(
        meta["annotations"],
        json!({"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-02T03:10:00Z"})
    );
    assert_eq!(
        (&meta["ownerReferences"][0]["kind"], &meta["ownerReferences"][0]["controller"]),
        (&json!("CronJob"), &json!(true))
    );
    let status = scene.cron().await["status"].clone();
    let active = &status["active"][0];
    assert_eq!(
        (&active["name"], &active["uid"], &active["apiVersion"]),
        (&meta["name"], &meta["uid"], &json!("batch/v1"))
    );
    assert_eq!(status["lastScheduleTime"], "2026-01-02T03:10:00Z");
    scene.0.advance(60).await;
    scene.set_pod_phases("Succeeded").await;
    let status =
        json!({"lastScheduleTime": "2026-01-02T03:10:00Z", "lastSuccessfulTime": "2026-01-02T03:11:00Z"});
    assert_eq!(scene.cron().await["status"], status);
    for _ in 0..3 {
        scene.0.advance(600).await;
        scene.set_pod_phases("Succeeded").await;
    }
    assert_eq!(scene.jobs().await, ["c-29455410", "c-29455420"]);
    assert_eq!(
        scene.list_events("SawCompletedJob").await[0],
        "SawCompletedJob: Saw completed job: c-29455390, condition: Complete"
    );
    assert_eq!(
        scene.list_events("SuccessfulDelete").await,
        ["SuccessfulDelete: Deleted job c-29455390", "SuccessfulDelete: Deleted job c-29455400"]
    );
    assert_eq!(scene.list_events("SuccessfulCreate").await[0], "SuccessfulCreate: Created job c-29455390");
}

#[tokio::test]
async fn concurrency_policy_is_applied() {
    for (policy, jobs, told) in [
        ("Allow", vec!["c-29455390", "c-29455400"], ""),
        (
            "Forbid",
            vec!["c-29455390"],
            "JobAlreadyActive: Not starting job because prior execution is running and concurrency policy is Forbid",
        ),
        ("Replace", vec!["c-29455400"], "SuccessfulDelete: Deleted job c-29455390"),
    ] {
        let scene =
            CronJobHarness::with_spec(json!({"schedule": "*/10 * * * *", "concurrencyPolicy": policy})).await;
        scene.0.advance(600).await;
        scene.0.advance(600).await;
        assert_eq!(scene.jobs().await, jobs, "{policy}");
        let active = scene.cron().await["status"]["active"].as_array().unwrap().len();
        assert_eq!(active, jobs.len(), "{policy}");
        if !told.is_empty() {
            assert_eq!(scene.list_events(told.split(':').next().unwrap()).await, [told]);
        }
        if policy == "Forbid" {
            scene.set_pod_phases("Succeeded").await;
            assert_eq!(scene.jobs().await, ["c-29455390", "c-29455400"], "late rather than never");
        }
    }
}

#[tokio::test]
async fn most_recent_missed_time_is_started_within_deadline() {
    for (deadline, jobs, told) in
        [(json!(null), vec!["c-29462580"], 1), (json!(3600), vec!["c-29462580"], 0), (json!(60), vec![], 0)]
    {
        let spec = json!({"schedule": "0 * * * *", "suspend": true, "startingDeadlineSeconds": deadline});
        let scene = CronJobHarness::with_spec(spec).await;
        scene.0.advance(5 * 24 * 3600).await;
        assert_eq!(scene.jobs().await.len(), 0, "suspended");
        scene.change(json!({"suspend": false})).await;
        assert_eq!(scene.jobs().await, jobs);
        let words = "TooManyMissedTimes: too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        assert_eq!(scene.list_events(words).await.len(), told);
    }
}

#[tokio::test]
async fn changed_schedule_applies_to_later_times() {
    let scene = CronJobHarness::with_spec(json!({"schedule": "0 0 * * *"})).await;
    scene.0.advance(1800).await;
    scene.change(json!({"schedule": "15 * * * *"})).await;
    assert_eq!(scene.jobs().await.len(), 0, "03:15 has passed");
    scene.0.advance(3600).await;
    assert_eq!(scene.jobs().await, ["c-29455455"]);
}

#[tokio::test]
async fn foreign_and_removed_jobs_are_reported() {
    let scene = CronJobHarness::with_spec(json!({"schedule": "*/10 * * * *"})).await;
    scene.0.advance(600).await;
    scene.0.delete(&format!("{JOBS}/c-29455390")).await;
    assert_eq!(scene.list_events("MissingJob").await, ["MissingJob: Active job went missing: c-29455390"]);
    let cron = scene.cron().await;
    let owner = json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": cron["metadata"]["uid"], "controller": true});
    let manual = json!({"metadata": {"name": "manual", "ownerReferences": [owner]}, "spec": cron["spec"]["jobTemplate"]["spec"]});
    scene.0.create(JOBS, manual).await;
    assert_eq!(
        scene.list_events("UnexpectedJob").await,
        ["UnexpectedJob: Saw a job that the controller did not create or forgot: manual"]
    );
    scene.set_pod_phases("Succeeded").await;
    assert_eq!(scene.cron().await["status"]["lastSuccessfulTime"], "2026-01-02T03:14:05Z");
}

#[tokio::test]
async fn schedule_without_times_is_reported() {
    let scene = CronJobHarness::with_spec(json!({"schedule": "0 0 31 2 *"})).await;
    let words = "InvalidSchedule: invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second";
    assert_eq!(scene.list_events("InvalidSchedule").await, [words]);
}

#[tokio::test]
async fn finished_job_is_deleted_after_ttl() {
    let world = TestCluster::without_nodes().await;
    let pods = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let spec = json!({"ttlSecondsAfterFinished": 60, "template": {"spec": pods}});
    world.create(JOBS, json!({"metadata": {"name": "j"}, "spec": spec})).await;
    world.advance(600).await;
    let pod = world.list("/api/v1/namespaces/default/pods").await.remove(0);
    world.set_pod_phase("default", pod["metadata"]["name"].as_str().unwrap(), "Succeeded", false).await;
    world.advance(59).await;
    assert_eq!(world.list(JOBS).await.len(), 1);
    world.advance(1).await;
    assert_eq!(
        (world.list(JOBS).await.len(), world.list("/api/v1/namespaces/default/pods").await.len()),
        (0, 0)
    );
}

#[test]
fn local_time_includes_offset() {
    let at = "2026-07-02T03:10:00Z".parse().unwrap();
    assert_eq!(local_time("", at), "2026-07-02T03:10:00Z");
    assert_eq!(local_time("Europe/Berlin", at), "2026-07-02T05:10:00+02:00");
    assert_eq!(local_time("Atlantic/Reykjavik", at), "2026-07-02T03:10:00Z");
}
