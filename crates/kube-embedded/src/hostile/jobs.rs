//! Jobs and CronJobs with extreme numbers: controllers keep working, and the memory of the process is bounded.

use serde_json::{Value, json};

use super::child::{kilobytes, run_test};
use super::deployment;
use crate::control::test_cluster::TestCluster;
use crate::sim::Simulation;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const CANARIES: &str = "/apis/apps/v1/namespaces/canary/deployments";
/// Environment variable that starts the test in a child process, so that its peak memory is measured alone.
const CHILD_ENV: &str = "HOSTILE_JOBS";
const MAX_MEGABYTES: usize = 500;

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}})
}

fn job(name: &str, spec: &Value) -> Value {
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec});
    job["spec"]["template"] = template();
    job
}

fn cron_job(name: &str, spec: &Value) -> Value {
    let mut cron =
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec});
    cron["spec"]["jobTemplate"] =
        json!({"spec": {"template": template(), "parallelism": i32::MAX, "backoffLimit": i32::MAX}});
    cron
}

fn job_specs() -> Vec<Value> {
    let most = i32::MAX;
    vec![
        json!({"parallelism": most}),
        json!({"parallelism": most, "completions": most, "backoffLimit": most}),
        json!({"parallelism": 0, "completions": 0}),
        json!({"parallelism": 0}),
        json!({"completions": most, "backoffLimit": 0}),
        json!({"parallelism": 100_000, "completions": 100_000, "completionMode": "Indexed"}),
        json!({"parallelism": 10, "completions": most, "completionMode": "Indexed"}),
        json!({"completions": 100_000, "completionMode": "Indexed", "backoffLimitPerIndex": most, "maxFailedIndexes": 100_000,
            "parallelism": 10_000}),
        json!({"completions": 10, "completionMode": "Indexed", "backoffLimitPerIndex": 0, "maxFailedIndexes": 0}),
        json!({"activeDeadlineSeconds": i64::MAX, "ttlSecondsAfterFinished": most}),
        json!({"activeDeadlineSeconds": 1, "ttlSecondsAfterFinished": 0}),
        json!({"activeDeadlineSeconds": i64::MAX, "parallelism": most, "suspend": true}),
        json!({"podReplacementPolicy": "Failed", "parallelism": most}),
    ]
}

fn cron_specs() -> Vec<Value> {
    let most = i32::MAX;
    vec![
        json!({"schedule": "* * * * *", "startingDeadlineSeconds": i64::MAX}),
        json!({"schedule": "* * * * *", "startingDeadlineSeconds": 0}),
        json!({"schedule": "* * * * *", "successfulJobsHistoryLimit": most, "failedJobsHistoryLimit": most}),
        json!({"schedule": "*/1 0-23 1-31 1-12 0-6", "successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0,
            "concurrencyPolicy": "Replace"}),
        json!({"schedule": "59 23 29 2 *", "concurrencyPolicy": "Forbid"}),
        json!({"schedule": "0 0 31 2 *"}),
        json!({"schedule": "* * 29 2 *", "timeZone": "Pacific/Kiritimati"}),
        json!({"schedule": "@every 1s"}),
        json!({"schedule": "@every 9223372036s", "startingDeadlineSeconds": i64::MAX}),
        json!({"schedule": "* * * * *", "suspend": true, "startingDeadlineSeconds": 1}),
    ]
}

#[test]
fn jobs_with_extreme_numbers_stop_nobody_and_take_bounded_memory() {
    let printed = run_test("hostile::jobs::extreme_jobs_in_this_process", &[(CHILD_ENV, "1")]);
    let megabytes = printed.lines().find_map(|line| line.split_once("@@peak@@")).unwrap().1;
    assert!(megabytes.parse::<usize>().unwrap() < MAX_MEGABYTES, "{megabytes} MB");
}

#[tokio::test]
#[ignore = "started by the test that measures memory"]
async fn extreme_jobs_in_this_process() {
    use std::io::Write as _;

    if std::env::var(CHILD_ENV).is_err() {
        return;
    }
    let world = TestCluster::with_simulation(Simulation::default()).await;
    // The quota that the platform sets for a workspace.
    let quota = json!({"metadata": {"name": "quota"}, "spec": {"hard": {"count/pods": "60", "count/jobs.batch": "60"}}});
    world.create("/api/v1/namespaces/default/resourcequotas", quota).await;
    let mut names = Vec::new();
    for (n, spec) in job_specs().iter().enumerate() {
        let name = format!("j{n}");
        let (code, answer) = world.send("POST", JOBS, "application/json", job(&name, spec)).await;
        assert!(matches!(code, 201 | 422), "{spec} {code}: {answer:#}");
        world.wait_until_idle().await;
        if code == 201 {
            names.push(format!("{JOBS}/{name}"));
        }
    }
    for (n, spec) in cron_specs().iter().enumerate() {
        let name = format!("c{n}");
        let (code, answer) = world.send("POST", CRON_JOBS, "application/json", cron_job(&name, spec)).await;
        assert!(matches!(code, 201 | 422), "{spec} {code}: {answer:#}");
        world.wait_until_idle().await;
        if code == 201 {
            names.push(format!("{CRON_JOBS}/{name}"));
        }
    }
    assert!(names.len() > 15, "{names:#?}");
    for is_suspended in [true, false, true, true, false] {
        for path in &names {
            let change = json!({"spec": {"suspend": is_suspended}});
            let (code, answer) = world.send("PATCH", path, "application/merge-patch+json", change).await;
            // A finished Job is deleted after its TTL.
            assert!(matches!(code, 200 | 404), "{path} {code}: {answer:#}");
        }
        world.advance(1).await;
    }
    for path in &names {
        let change = json!({"spec": {"parallelism": i32::MAX, "activeDeadlineSeconds": 1, "startingDeadlineSeconds": i64::MAX}});
        let (code, answer) = world.send("PATCH", path, "application/merge-patch+json", change).await;
        assert!(matches!(code, 200 | 404 | 422), "{path} {code}: {answer:#}");
    }
    // Some minutes, a day, and a century, in which each schedule misses very many runs.
    for seconds in [60, 60, 86_400, 100 * 365 * 86_400, 60] {
        world.advance(seconds).await;
    }
    world.create("/api/v1/namespaces", json!({"metadata": {"name": "canary"}})).await;
    world.create(CANARIES, deployment("canary", 1, &json!({}))).await;
    let canary = world.get(&format!("{CANARIES}/canary")).await;
    assert_eq!(canary["status"]["replicas"], 1, "{canary:#}");
    assert_eq!((world.cluster.metrics().panic_count(), world.cluster.health().failing()), (0, Vec::new()));
    writeln!(std::io::stdout(), "@@peak@@{}", kilobytes("VmHWM:") >> 10).unwrap();
}
