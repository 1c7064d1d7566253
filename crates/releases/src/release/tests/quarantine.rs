//! Releases whose operations or preparations keep being interrupted.

use std::sync::Arc;

use domain::clock::SystemClock;
use http::{Request, Response};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::PostParams;
use kube::client::Body;
use kube_types::HelmRelease;
use kube_types::conditions::find_condition;
use kube_types::release::conditions::STALLED;
use kube_types::release::status::CurrentOperation;
use outbound::{Dialer, EgressPolicy, FetchClient};
use serde_json::json;
use testkit::wait_for;
use tower::service_fn;

use crate::Releases;
use crate::testing::{TestHarness, start_with_client, web_chart};

/// A client whose reads of package contents hang, so that preparation never ends.
fn hanging(client: kube::Client) -> kube::Client {
    let call = move |request: Request<Body>| {
        let client = client.clone();
        async move {
            if request.uri().path().contains("/helmpackages/") {
                std::future::pending::<()>().await;
            }
            client.send(request).await as Result<Response<Body>, kube::Error>
        }
    };
    kube::Client::new(service_fn(call), "default")
}

#[tokio::test]
async fn release_whose_preparation_stops_the_server_is_quarantined() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    stage.leader_task.abort();
    let api = stage.namespaced_api::<HelmRelease>();
    stage.create_release("web", json!({"name": "web", "source": {"package": package}})).await.unwrap();
    let start = async |client: kube::Client| {
        let outgoing = FetchClient::new(Dialer::new(EgressPolicy::default()));
        start_with_client(client, outgoing, Arc::new(SystemClock), "test").await
    };
    let lead = |releases: Releases| {
        tokio::spawn(async move {
            releases.run_as_leader().await;
        })
    };
    for deaths in 0..5 {
        let server = lead(start(hanging(stage.world.platform_client())).await);
        wait_for("it is being prepared", async || {
            let release = api.get("web").await.unwrap();
            let status = release.status?;
            (status.preparing == release.metadata.generation && status.interruptions == deaths).then_some(())
        })
        .await;
        server.abort();
        let _ = server.await;
    }
    let server = lead(start(stage.world.platform_client()).await);
    let status = stage.wait_for_state("web", "failed").await.status.unwrap();
    let stalled = find_condition(&status.conditions, STALLED).unwrap();
    assert_eq!((stalled.reason.as_str(), status.interruptions, status.preparing), ("CrashLoop", 5, None));
    assert!(status.helm.is_none(), "nothing was tried");
    assert!(status.next_retry_time.is_some_and(|due| due.0 > Timestamp::now()));
    // A new spec is tried at once, and a success resets the count.
    stage.patch_release("web", json!({"spec": {"valuesObject": {"greeting": "next"}}})).await;
    let status = stage.wait_for_state("web", "active").await.status.unwrap();
    assert_eq!((status.interruptions, status.preparing), (0, None));
    server.abort();
}

#[tokio::test]
async fn release_that_stops_the_server_is_quarantined() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    stage.leader_task.abort();
    let api = stage.namespaced_api::<HelmRelease>();
    // As left by servers that crashed five times during the installation.
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
    status.operation = Some(CurrentOperation {
        id: "0".to_owned(),
        kind: "install".to_owned(),
        started_at: at.clone(),
        deadline: at,
    });
    api.replace_status("web", &PostParams::default(), &release).await.unwrap();
    let leading = stage.releases.clone();
    let lead = tokio::spawn(async move {
        leading.run_as_leader().await;
    });
    let quarantined = wait_for("it is quarantined", async || {
        let status = api.get("web").await.unwrap().status?;
        find_condition(&status.conditions, STALLED).filter(|stalled| stalled.status == "True")?;
        Some(status)
    })
    .await;
    let stalled = find_condition(&quarantined.conditions, STALLED).unwrap();
    assert_eq!((stalled.reason.as_str(), quarantined.state.as_str()), ("CrashLoop", "failed"));
    assert!(stalled.message.starts_with("5 consecutive operations were interrupted"), "{}", stalled.message);
    assert_eq!((quarantined.interruptions, quarantined.operation), (5, None));
    assert!(quarantined.next_retry_time.is_some_and(|due| due.0 > Timestamp::now()));
    assert!(quarantined.helm.is_none(), "nothing was tried");
    // A new spec is tried at once, and a success resets the count.
    stage.patch_release("web", json!({"spec": {"valuesObject": {"greeting": "next"}}})).await;
    stage.wait_for_state("web", "active").await;
    assert_eq!(api.get("web").await.unwrap().status.unwrap().interruptions, 0);
    lead.abort();
}
