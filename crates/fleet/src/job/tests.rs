//! Tests of job rows.

use serde_json::json;

use super::*;

fn job(status: &Value) -> Job {
    let told = json!({
        "metadata": {"name": "import", "namespace": "uabc", "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"app": "import"}},
        "spec": {"template": {"spec": {"containers": [{"image": "busybox"}]}}},
        "status": status,
    });
    Job::from_object(&serde_json::from_value(told).unwrap(), &StringInterner::default())
}

#[test]
fn job_status_follows_from_conditions() {
    let condition =
        |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": format!("{kind}Reason")});
    #[rustfmt::skip]
    let table = [
        (json!({}), "Pending", "", true),
        (json!({"active": 1}), "Running", "", true),
        // Some of its pods failed, but not the job.
        (json!({"active": 1, "failed": 3}), "Running", "", true),
        (json!({"failed": 3}), "Pending", "", true),
        (json!({"conditions": [condition("Complete", "True")], "succeeded": 1, "failed": 1}), "Complete", "CompleteReason", true),
        (json!({"conditions": [condition("Failed", "True")]}), "Failed", "FailedReason", false),
        (json!({"conditions": [condition("Failed", "False")], "active": 1}), "Running", "", true),
        (json!({"conditions": [condition("Failed", "Unknown")]}), "Pending", "", true),
        (json!({"conditions": [condition("Suspended", "True")]}), "Suspended", "SuspendedReason", true),
        (json!({"conditions": [condition("Suspended", "False"), condition("Complete", "True")]}), "Complete", "CompleteReason", true),
        (json!({"conditions": [condition("Complete", "True"), condition("Failed", "True")]}), "Failed", "FailedReason", false),
        (json!({"conditions": [condition("FailureTarget", "True")], "active": 1}), "Running", "", true),
    ];
    for (status, expected, reason, healthy) in table {
        let job = job(&status);
        assert_eq!(
            (job.row().status, job.row().status_reason.as_str(), job.is_healthy()),
            (expected, reason, healthy),
            "{status}"
        );
    }
}

#[test]
fn job_start_time_defaults_to_creation_time() {
    assert_eq!(job(&json!({})).row().start_time, "2026-01-02T03:04:05Z");
    let ended =
        job(&json!({"startTime": "2026-01-02T04:00:00Z", "completionTime": "2026-01-02T05:00:00Z"})).row();
    assert_eq!(
        (ended.start_time.as_str(), ended.completion_time.as_str()),
        ("2026-01-02T04:00:00Z", "2026-01-02T05:00:00Z")
    );
}

#[test]
fn rows_as_the_console_reads_them() {
    insta::assert_json_snapshot!("job", job(&json!({"succeeded": 1})).row());
    let cron = json!({
        "metadata": {"name": "nightly", "namespace": "uabc"},
        "spec": {"schedule": "0 3 * * *", "timeZone": "Europe/Berlin", "suspend": true,
                 "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"image": "busybox"}]}}}}},
        "status": {"active": [{"name": "nightly-1"}], "lastScheduleTime": "2026-01-02T03:00:00Z"},
    });
    insta::assert_json_snapshot!(
        "cronjob",
        CronJob::from_object(&serde_json::from_value(cron).unwrap(), &StringInterner::default()).row()
    );
    let bare = json!({"metadata": {"name": "nightly"}, "spec": {"schedule": "@daily"}});
    let bare = CronJob::from_object(&serde_json::from_value(bare).unwrap(), &StringInterner::default()).row();
    assert_eq!((bare.status, bare.active, bare.last_schedule_time.as_str()), ("Active", 0, ""));
}
