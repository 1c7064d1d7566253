//! Releases whose operations or preparations keep being interrupted.

use std::sync::Arc;

use domain::clock::SystemClock;
use http::{Request, Response};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::PostParams;
use kube::client::Body;
use kube_types::HelmRelease;
use kube_types::progress::condition;
use kube_types::release::conditions::STALLED;
use kube_types::release::status::Operation;
use outbound::{Client, Dialer, Policy};
use serde_json::json;
use testkit::until;
use tower::service_fn;

use crate::Releases;
use crate::stage::{Stage, started, web};

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
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    stage.lead.abort();
    let api = stage.of::<HelmRelease>();
    stage.write("web", json!({"name": "web", "source": {"package": package}})).await.unwrap();
    let start = async |client: kube::Client| {
        let outgoing = Client::new(Dialer::new(Policy::default()));
        started(client, outgoing, Arc::new(SystemClock), "test").await
    };
    let lead = |releases: Releases| {
        tokio::spawn(async move {
            releases.lead().await;
        })
    };
    for deaths in 0..5 {
        let server = lead(start(hanging(stage.world.platform())).await);
        until("it is being prepared", async || {
            let release = api.get("web").await.unwrap();
            let status = release.status?;
            (status.preparing == release.metadata.generation && status.interruptions == deaths).then_some(())
        })
        .await;
        server.abort();
        let _ = server.await;
    }
    let server = lead(start(stage.world.platform()).await);
    let status = stage.until_state("web", "failed").await.status.unwrap();
    let stalled = condition(&status.conditions, STALLED).unwrap();
    assert_eq!((stalled.reason.as_str(), status.interruptions, status.preparing), ("CrashLoop", 5, None));
    assert!(status.helm.is_none(), "nothing was tried");
    assert!(status.next_retry_time.is_some_and(|due| due.0 > Timestamp::now()));
    // A new spec is tried at once, and a success resets the count.
    stage.change("web", json!({"spec": {"valuesObject": {"greeting": "next"}}})).await;
    let status = stage.until_state("web", "active").await.status.unwrap();
    assert_eq!((status.interruptions, status.preparing), (0, None));
    server.abort();
}

#[tokio::test]
async fn release_that_stops_the_server_is_quarantined() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    stage.lead.abort();
    let api = stage.of::<HelmRelease>();
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
    // A new spec is tried at once, and a success resets the count.
    stage.change("web", json!({"spec": {"valuesObject": {"greeting": "next"}}})).await;
    stage.until_state("web", "active").await;
    assert_eq!(api.get("web").await.unwrap().status.unwrap().interruptions, 0);
    lead.abort();
}
