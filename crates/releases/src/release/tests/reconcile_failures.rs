//! Releases and requests whose reconciles keep failing for a reason that no operation reports.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use http::{Method, Request, Response};
use kube::client::Body;
use kube::core::Status as ApiStatus;
use kube_types::HelmRequest;
use outbound::{Dialer, EgressPolicy, FetchClient};
use tokio::sync::mpsc;
use tower::service_fn;

use super::*;
use crate::Releases;
use crate::controller::Subject;
use crate::controller::reconcile_failures::REASON;
use crate::error::ReconcileError;
use crate::service::install::InstallRequest;
use crate::testing::{developer, start_with_client};

/// A client whose requests with this method and path fail while `is_failing`.
fn failing(
    client: kube::Client,
    (method, path): (Method, &'static str),
    is_failing: &Arc<AtomicBool>,
) -> kube::Client {
    let is_failing = is_failing.clone();
    let call = move |request: Request<Body>| {
        let client = client.clone();
        let is_meant = *request.method() == method && request.uri().path().ends_with(path);
        let fails = is_meant && is_failing.load(Ordering::Relaxed);
        async move {
            if fails {
                let status = ApiStatus::failure("User \"longshore\" cannot reach etcd", "InternalError")
                    .with_code(500);
                let body = serde_json::to_vec(&status).unwrap();
                return Ok(Response::builder().status(500).body(Body::from(body)).unwrap());
            }
            client.send(request).await as Result<Response<Body>, kube::Error>
        }
    };
    kube::Client::new(service_fn(call), "default")
}

/// A harness whose server uses this client.
async fn failing_harness(method: Method, path: &'static str) -> (TestHarness, Releases, Arc<AtomicBool>) {
    let mut stage = TestHarness::new().await;
    stage.leader_task.abort();
    let is_failing = Arc::new(AtomicBool::new(true));
    let client = failing(stage.world.platform_client(), (method, path), &is_failing);
    let outgoing = FetchClient::new(Dialer::new(EgressPolicy::default()));
    let releases = start_with_client(client, outgoing, Arc::new(SystemClock), "test").await;
    let leading = releases.clone();
    let lead = async move {
        leading.run_as_leader().await;
    };
    stage.leader_task = tokio::spawn(lead).abort_handle();
    (stage, releases, is_failing)
}

#[tokio::test]
async fn release_whose_reconcile_keeps_failing_has_a_condition_until_it_succeeds() {
    let (stage, _releases, is_failing) = failing_harness(Method::PATCH, "/helmreleases/web").await;
    let package = stage.store_chart(web_chart()).await;
    stage.create_release("web", release_spec("web", &package)).await.unwrap();
    let status = wait_for("it has the condition", async || {
        let status = stage.namespaced_api::<HelmRelease>().get("web").await.unwrap().status?;
        is_condition_true(&status.conditions, STALLED).then_some(status)
    })
    .await;
    let condition = find_condition(&status.conditions, STALLED).unwrap();
    assert_eq!(condition.reason, REASON);
    let message = &condition.message;
    assert!(message.starts_with("5 consecutive reconciles failed"), "{message}");
    assert!(!message.contains("longshore"), "it does not name the platform: {message}");
    is_failing.store(false, Ordering::Relaxed);
    stage.wait_for_state("web", "active").await;
    wait_for("the condition is cleared", async || {
        let status = stage.namespaced_api::<HelmRelease>().get("web").await.unwrap().status?;
        (!is_condition_true(&status.conditions, STALLED) && is_condition_true(&status.conditions, READY))
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn request_whose_reconcile_keeps_failing_has_a_condition_until_it_succeeds() {
    let (stage, releases, is_failing) = failing_harness(Method::POST, "/shop/helmreleases").await;
    let request =
        InstallRequest { namespace: SHOP.to_owned(), name: "web".to_owned(), ..InstallRequest::default() };
    let source = chart_store::ChartSource::Archive(web_chart());
    releases.install(&developer(), &source, request).await.unwrap();
    let requests: Api<HelmRequest> = Api::all(stage.world.admin_client());
    let latest = async || requests.list(&ListParams::default()).await.unwrap().items.pop().unwrap().status;
    let message = wait_for("it has the condition", async || {
        let status = latest().await?;
        let stalled =
            find_condition(&status.conditions, STALLED).filter(|stalled| stalled.status == "True")?;
        (stalled.reason == REASON).then(|| stalled.message.clone())
    })
    .await;
    assert!(message.starts_with("5 consecutive reconciles failed"), "{message}");
    is_failing.store(false, Ordering::Relaxed);
    wait_for("the condition is cleared", async || {
        let status = latest().await?;
        (status.state == "active" && !is_condition_true(&status.conditions, STALLED)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn reconciles_that_panic_or_exceed_their_deadline_are_counted() {
    let stage = TestHarness::new().await;
    let api = stage.namespaced_api::<HelmRelease>();
    stage.leader_task.abort();
    for name in ["panics", "hangs"] {
        let spec = json!({"name": name, "source": {"package": "pkg-none"}});
        stage.create_release(name, spec).await.unwrap();
        let controller = Arc::new(stage.releases.new_controller(mpsc::unbounded_channel().0));
        wait_for("the release is cached", async || controller.releases.get_namespaced(SHOP, name)).await;
        for count in 1..=5 {
            let before = api.get(name).await.unwrap().status;
            assert!(before.is_none_or(|status| status.conditions.is_empty()), "{name}: after {count}");
            let subject = Subject::Release(ReleaseKey::new(SHOP, name));
            let reconcile = async move {
                assert_eq!(name, "hangs", "on purpose");
                Err(ReconcileError::DeadlineExceeded(Duration::from_secs(7)))
            };
            let done = AssertUnwindSafe(controller.clone().spawn_isolated(subject, reconcile)).catch_unwind();
            assert_eq!(done.await.is_err(), name == "panics");
        }
        let status = api.get(name).await.unwrap().status.unwrap();
        let stalled = find_condition(&status.conditions, STALLED).unwrap();
        assert_eq!((stalled.status.as_str(), stalled.reason.as_str()), ("True", REASON));
        let why = if name == "hangs" { "timeout after 7 s" } else { "internal error" };
        assert!(stalled.message.contains(why), "{}", stalled.message);
        // A success clears the condition.
        wait_for("the condition is cached", async || {
            controller.releases.get_namespaced(SHOP, name)?.status.clone()
        })
        .await;
        let subject = Subject::Release(ReleaseKey::new(SHOP, name));
        controller.spawn_isolated(subject, future::ready(Ok(Action::AwaitChange))).await.unwrap();
        let status = api.get(name).await.unwrap().status.unwrap();
        assert!(!is_condition_true(&status.conditions, STALLED), "{name}");
    }
}
