//! Hooks on a simulated cluster that runs Jobs.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::ListParams;

use super::fixture::{
    NAME, NAMESPACE, ReleaseHarness, chart, error_text, install, rollback, test, uninstall, upgrade, values,
};
use crate::actions::WaitMode;
use crate::record::HookPhase;
use crate::render::PreparedChart;

/// A Job at an event, with further annotations; `behaviour` controls its simulated pods.
fn job(name: &str, event: &str, more: &str, behaviour: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n  annotations: {{helm.sh/hook: \"{event}\"{more}}}\nspec:\n  \
         backoffLimit: 0\n  template:\n    metadata: {{annotations: {{sim.longshore.dev/behaviour: \"{behaviour}\"}}}}\n    \
         spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}\n"
    )
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n";

fn chart_with_jobs(jobs: &[String]) -> Arc<PreparedChart> {
    let names: Vec<String> = (0..jobs.len()).map(|at| format!("templates/{at}.yaml")).collect();
    let mut files: Vec<(&str, &str)> =
        names.iter().zip(jobs).map(|(name, text)| (&**name, &**text)).collect();
    files.push(("templates/m.yaml", MAP));
    chart(&files)
}

async fn job_names(stage: &ReleaseHarness) -> Vec<String> {
    let jobs: Api<Job> = Api::namespaced(stage.admin(), NAMESPACE);
    let mut names: Vec<String> = jobs
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .filter_map(|job| job.metadata.name)
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn hooks_run_and_are_deleted_by_policy() {
    let stage = ReleaseHarness::simulated().await;
    let helm = stage.helm().await;
    let chart = chart_with_jobs(&[
        job("before", "pre-install,pre-upgrade", "", ""),
        job("gone", "post-install", ", helm.sh/hook-delete-policy: hook-succeeded", ""),
        job("never", "post-delete", "", ""),
    ]);
    let record = helm.install(&install(&chart, &values("{}"))).await.unwrap();
    let phases: Vec<_> = record.hooks.iter().map(|hook| (hook.name.as_str(), hook.last_run.phase)).collect();
    assert_eq!(
        phases,
        [("before", HookPhase::Succeeded), ("gone", HookPhase::Succeeded), ("never", HookPhase::Never)]
    );
    assert_eq!(job_names(&stage).await, ["before"]);
    // The previous Job is deleted before it is created again.
    helm.upgrade(&upgrade(&chart, &values("{}"))).await.unwrap();
    assert_eq!(job_names(&stage).await, ["before"]);
    helm.rollback(&rollback(1)).await.unwrap();
    helm.uninstall(&uninstall(false)).await.unwrap();
    assert_eq!(
        (job_names(&stage).await, stage.config_map_names().await.len()),
        (vec!["before".into(), "never".into()], 0)
    );
}

#[tokio::test]
async fn failed_hook_fails_the_release() {
    let stage = ReleaseHarness::simulated().await;
    let helm = stage.helm().await;
    let chart = chart_with_jobs(&[
        job(
            "first",
            "pre-install",
            ", helm.sh/hook-weight: \"-1\", helm.sh/hook-delete-policy: hook-succeeded",
            "",
        ),
        job("bad", "pre-install", ", helm.sh/hook-delete-policy: hook-failed", "exit=1@0s"),
        job("late", "pre-install", ", helm.sh/hook-weight: \"7\"", ""),
    ]);
    let why = error_text(helm.install(&install(&chart, &values("{}"))).await);
    assert!(why.contains("failed pre-install: ") && why.contains("bad"), "{why}");
    let history = stage.history().await;
    assert!(history[0].starts_with("1 failed: Release \"web\" failed: failed pre-install: "), "{history:?}");
    assert_eq!(
        (job_names(&stage).await.len(), stage.config_map_names().await.len()),
        (0, 0),
        "nothing after it was done"
    );
    let record = helm.storage(NAMESPACE).get(NAME, 1).await.unwrap().unwrap().record;
    let phase = |name: &str| record.hooks.iter().find(|hook| hook.name == name).unwrap().last_run.phase;
    assert_eq!(
        [phase("first"), phase("bad"), phase("late")],
        [HookPhase::Succeeded, HookPhase::Failed, HookPhase::Never]
    );
}

#[tokio::test]
async fn hanging_hook_times_out() {
    let stage = ReleaseHarness::simulated().await;
    let helm = stage.helm().await;
    let chart = chart_with_jobs(&[job("slow", "post-install", "", "exit=0@10m")]);
    let mut ask = install(&chart, &values("{}"));
    ask.options.timeout = Duration::from_millis(300);
    let why = error_text(helm.install(&ask).await);
    assert!(why.starts_with("Timeout: failed post-install: ") && why.contains("slow"), "{why}");
    assert!(stage.history().await[0].starts_with("1 failed: "));
    assert_eq!(stage.config_map_names().await, ["m"]);
    ask.options.hooks = false;
    ask.replace = true;
    helm.install(&ask).await.unwrap();
}

#[tokio::test]
async fn test_results_are_recorded() {
    let stage = ReleaseHarness::simulated().await;
    let helm = stage.helm().await;
    let chart = chart_with_jobs(&[job("good", "test", "", ""), job("bad", "test", "", "exit=3@0s")]);
    helm.install(&install(&chart, &values("{}"))).await.unwrap();
    assert_eq!(job_names(&stage).await.len(), 0);
    let mut ask = test();
    ask.except = vec!["bad".into()];
    let record = helm.test(&ask).await.unwrap();
    let phases = |record: &crate::Record| -> Vec<_> {
        record.hooks.iter().map(|hook| (hook.name.clone(), hook.last_run.phase)).collect()
    };
    assert_eq!(phases(&record), [("good".into(), HookPhase::Succeeded), ("bad".into(), HookPhase::Never)]);
    assert!(helm.test(&test()).await.is_err());
    let record = helm.storage(NAMESPACE).newest(NAME).await.unwrap().unwrap().record;
    assert_eq!(phases(&record), [("good".into(), HookPhase::Succeeded), ("bad".into(), HookPhase::Failed)]);
    assert_eq!(stage.history().await, ["1 deployed: Install complete"]);
}

#[tokio::test]
async fn unready_upgrade_times_out_and_is_rolled_back() {
    let stage = ReleaseHarness::simulated().await;
    let helm = stage.helm().await;
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  selector: {matchLabels: {a: b}}\n  \
        template:\n    metadata: {labels: {a: b}, annotations: {sim.longshore.dev/behaviour: {{ .Values.does | quote }}}}\n    \
        spec: {containers: [{name: c, image: i}]}\n";
    let chart = chart(&[("templates/d.yaml", deployment)]);
    let mut ask = install(&chart, &values("{\"does\": \"\"}"));
    ask.options.wait = WaitMode::Watcher;
    helm.install(&ask).await.unwrap();
    let mut ask = upgrade(&chart, &values("{\"does\": \"never-ready\"}"));
    (ask.options.wait, ask.options.timeout, ask.atomic) = (WaitMode::Watcher, Duration::from_secs(2), true);
    let why = error_text(helm.upgrade(&ask).await);
    assert!(why.starts_with("Timeout: release web failed, and has been rolled back"), "{why}");
    let history = stage.history().await;
    assert!(
        history[1].starts_with("2 failed: Upgrade \"web\" failed: ")
            && history[1].contains("Deployment default/d"),
        "{history:?}"
    );
    assert_eq!(history[2], "3 deployed: Rollback to 1");
}
