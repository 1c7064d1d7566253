//! Remediation of failed operations: retries, rollbacks, and what `atomic` undoes.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube_types::HelmRelease;
use kube_types::conditions::is_condition_true;
use kube_types::release::conditions::OUT_OF_BAND;
use serde_json::{Value, json};
use testkit::wait_for;

use super::{record_statuses, release_spec};
use crate::service::install::InstallRequest;
use crate::testing::{SHOP, TestHarness, chart_archive, developer, web_chart};

/// A deployed release whose next version fails: it waits for pods that never become ready.
async fn fail_upgrade(stage: &TestHarness, name: &str, mut more: Value) {
    let package = stage.store_chart(web_chart()).await;
    let mut good = release_spec(name, &package);
    good["options"] = json!({"wait": true});
    stage.create_release(name, good).await.unwrap();
    stage.wait_for_state(name, "active").await;
    more["valuesObject"] = json!({"behaviour": "never-ready", "greeting": "hi"});
    more["options"]["timeout"] = "2s".into();
    stage.patch_release(name, json!({"spec": more})).await;
}

async fn greeting(stage: &TestHarness, name: &str) -> String {
    stage.namespaced_api::<ConfigMap>().get(name).await.unwrap().data.unwrap()["greeting"].clone()
}

#[tokio::test]
async fn failed_upgrade_stays_without_remediation() {
    let stage = TestHarness::new().await;
    fail_upgrade(&stage, "web", json!({"remediation": {"retries": 0}})).await;
    let status = stage.wait_for_state("web", "failed").await.status.unwrap();
    assert_eq!(record_statuses(&stage, "web").await, ["1 deployed", "2 failed"]);
    assert_eq!(greeting(&stage, "web").await, "hi");
    assert_eq!((status.attempts, status.next_retry_time), (1, None));
    assert_eq!(status.version, 1, "what was deployed last");
    let last = &status.deploy_status[0];
    assert_eq!((last.state.as_str(), last.helm_revision), ("failed", 2));
    // The previous spec again.
    stage.patch_release("web", json!({"spec": {"valuesObject": null, "options": {"timeout": null}}})).await;
    stage.wait_for_state("web", "active").await;
    assert_eq!(record_statuses(&stage, "web").await, ["1 superseded", "2 failed", "3 deployed"]);
    assert_eq!(greeting(&stage, "web").await, "hello");
}

#[tokio::test]
async fn failed_upgrade_is_rolled_back_by_remediation() {
    let stage = TestHarness::new().await;
    fail_upgrade(&stage, "web", json!({"remediation": {"retries": 0, "strategy": "rollback"}})).await;
    let status = stage.wait_for_state("web", "failed").await.status.unwrap();
    assert!(
        status.message.contains("never-ready") || status.message.contains("not ready"),
        "{}",
        status.message
    );
    assert_eq!(record_statuses(&stage, "web").await, ["1 superseded", "2 failed", "3 deployed"]);
    assert_eq!(greeting(&stage, "web").await, "hello");
    assert_eq!(status.helm.unwrap().revision, 3);
    // The previous spec is deployed already: no operation is needed.
    stage.patch_release("web", json!({"spec": {"valuesObject": null}})).await;
    let status = stage.wait_for_state("web", "active").await.status.unwrap();
    assert!(!is_condition_true(&status.conditions, OUT_OF_BAND), "{:?}", status.conditions);
    assert_eq!(record_statuses(&stage, "web").await, ["1 superseded", "2 failed", "3 deployed"]);
}

#[tokio::test]
async fn failed_upgrade_is_uninstalled_by_remediation() {
    let stage = TestHarness::new().await;
    fail_upgrade(&stage, "web", json!({"remediation": {"retries": 0, "strategy": "uninstall"}})).await;
    stage.wait_for_state("web", "failed").await;
    assert!(record_statuses(&stage, "web").await.is_empty());
    assert!(stage.namespaced_api::<Deployment>().get_opt("web").await.unwrap().is_none());
    stage.patch_release("web", json!({"spec": {"valuesObject": {"greeting": "again", "behaviour": null}, "options": {"timeout": null}}})).await;
    stage.wait_for_state("web", "active").await;
    assert_eq!(greeting(&stage, "web").await, "again");
}

#[tokio::test]
async fn failed_atomic_upgrade_is_rolled_back() {
    let stage = TestHarness::new().await;
    fail_upgrade(&stage, "web", json!({"remediation": {"retries": 0}, "options": {"atomic": true}})).await;
    let status = stage.wait_for_state("web", "failed").await.status.unwrap();
    assert_eq!(record_statuses(&stage, "web").await, ["1 superseded", "2 failed", "3 deployed"]);
    assert_eq!(greeting(&stage, "web").await, "hello");
    assert_eq!(status.helm.unwrap().revision, 3);
    // Our own rollback is not reported as another client's change.
    stage.patch_release("web", json!({"spec": {"valuesObject": null}})).await;
    let status = stage.wait_for_state("web", "active").await.status.unwrap();
    assert!(!is_condition_true(&status.conditions, OUT_OF_BAND), "{:?}", status.conditions);
    let package = stage.store_chart(web_chart()).await;
    let mut new = release_spec("new", &package);
    new["valuesObject"] = json!({"behaviour": "never-ready"});
    new["options"] = json!({"timeout": "1s", "atomic": true});
    new["remediation"] = json!({"retries": 0});
    stage.create_release("new", new).await.unwrap();
    stage.wait_for_state("new", "failed").await;
    assert!(record_statuses(&stage, "new").await.is_empty());
    assert!(stage.namespaced_api::<Deployment>().get_opt("new").await.unwrap().is_none());
}

#[tokio::test]
async fn failed_upgrade_is_retried_up_to_the_limit() {
    let stage = TestHarness::new().await;
    fail_upgrade(&stage, "web", json!({"remediation": {"retries": 1}})).await;
    let first = stage.wait_for_state("web", "failed").await.status.unwrap();
    assert_eq!(first.attempts, 1);
    assert!(first.next_retry_time.is_some());
    // Makes the retry due now.
    let releases = stage.namespaced_api::<HelmRelease>();
    let mut past = first.clone();
    past.next_retry_time = past.next_retry_time.map(|mut due| {
        due.0 -= jiff::SignedDuration::from_mins(10);
        due
    });
    let patch = Patch::Merge(json!({"status": {"nextRetryTime": past.next_retry_time}}));
    releases.patch_status("web", &PatchParams::default(), &patch).await.unwrap();
    let last = wait_for("it is given up", async || {
        let status = releases.get("web").await.unwrap().status?;
        (status.attempts == 2 && status.operation.is_none()).then_some(status)
    })
    .await;
    assert_eq!((last.state.as_str(), last.next_retry_time), ("failed", None));
    assert_eq!(record_statuses(&stage, "web").await, ["1 deployed", "2 failed", "3 failed"]);
}

#[tokio::test]
async fn helm_tests_report_their_results() {
    let stage = TestHarness::new().await;
    let test = |name: &str, behaviour: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{{{ .Release.Name }}}}-{name}\n  annotations: {{helm.sh/hook: test, sim.longshore.dev/behaviour: \"{behaviour}\"}}\n\
             spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}\n"
        )
    };
    for (name, behaviour, went) in
        [("well", "exit=0", ("Succeeded", true)), ("badly", "exit=4", ("Failed", false))]
    {
        let chart = chart_archive("web", "1.0.0", &[("templates/tests/a.yaml", &test("a", behaviour))]);
        let wanted =
            InstallRequest { namespace: SHOP.to_owned(), name: name.to_owned(), ..InstallRequest::default() };
        let source = chart_store::ChartSource::Archive(chart);
        stage.releases.install(&developer(), &source, wanted).await.unwrap();
        stage.wait_for_state(name, "active").await;
        let all = crate::service::immediate_actions::TestOptions::default();
        let tested =
            stage.releases.test(&developer(), SHOP, name, all, &kube_apply::NoProgress).await.unwrap();
        assert_eq!((tested.tests[0].phase.as_str(), tested.passed), went);
        assert_eq!(tested.why.contains(&format!("{name}-a")), !tested.passed, "{}", tested.why);
        assert_eq!(record_statuses(&stage, name).await, ["1 deployed"], "a test changes no state");
    }
}
