//! Releases whose operations keep being interrupted.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::PostParams;
use kube_types::HelmRelease;
use kube_types::progress::condition;
use kube_types::release::conditions::STALLED;
use kube_types::release::status::Operation;
use serde_json::json;
use testkit::until;

use crate::stage::{Stage, web};

#[tokio::test]
async fn release_that_stops_the_server_is_quarantined() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    stage.lead.abort();
    let api = stage.of::<HelmRelease>();
    // As servers leave it that died five times in the middle of its installation.
    let release = json!({
        "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": "web"},
        "spec": {"name": "web", "source": {"package": package}},
    });
    let mut release =
        api.create(&PostParams::default(), &serde_json::from_value(release).unwrap()).await.unwrap();
    let at = Time(Timestamp::now());
    let status = release.status.get_or_insert_default();
    status.state = "creating".to_owned();
    status.interruptions = 4;
    status.observed_generation = release.metadata.generation;
    status.operation = Some(Operation {
        id: "0".to_owned(),
        kind: "install".to_owned(),
        started_at: at.clone(),
        deadline: at,
    });
    api.replace_status("web", &PostParams::default(), &release).await.unwrap();
    let leading = stage.releases.clone();
    let lead = tokio::spawn(async move {
        leading.lead().await;
    });
    let quarantined = until("it is quarantined", async || {
        let status = api.get("web").await.unwrap().status?;
        condition(&status.conditions, STALLED).filter(|stalled| stalled.status == "True")?;
        Some(status)
    })
    .await;
    let stalled = condition(&quarantined.conditions, STALLED).unwrap();
    assert_eq!((stalled.reason.as_str(), quarantined.state.as_str()), ("CrashLoop", "failed"));
    assert!(stalled.message.starts_with("5 operations in a row were interrupted"), "{}", stalled.message);
    assert_eq!((quarantined.interruptions, quarantined.operation), (5, None));
    assert!(quarantined.next_retry_time.is_some_and(|due| due.0 > Timestamp::now()));
    assert!(quarantined.helm.is_none(), "nothing was tried");
    // Another spec is tried at once, and a success ends the count.
    stage.change("web", json!({"spec": {"valuesObject": {"greeting": "next"}}})).await;
    stage.until_state("web", "active").await;
    assert_eq!(api.get("web").await.unwrap().status.unwrap().interruptions, 0);
    lead.abort();
}
