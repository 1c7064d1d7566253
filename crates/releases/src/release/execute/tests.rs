//! Writing the result of an operation under conflicts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::clock::SystemClock;
use http::{Method, Request, Response, StatusCode};
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube_types::HelmRelease;
use outbound::{Dialer, EgressPolicy, FetchClient};
use serde_json::json;
use tower::service_fn;

use super::*;
use crate::key::ReleaseKey;
use crate::testing::{SHOP, provisioned_cluster_with, start_with_client};

/// A client whose status writes all conflict, and the number of those writes.
fn conflicting_client(client: kube::Client) -> (kube::Client, Arc<AtomicUsize>) {
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = writes.clone();
    let call = move |request: Request<Body>| {
        let (client, counted) = (client.clone(), counted.clone());
        async move {
            if request.method() != Method::PUT || !request.uri().path().ends_with("/status") {
                return client.send(request).await;
            }
            counted.fetch_add(1, Ordering::SeqCst);
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409,
                "message": "the object has been modified",
            });
            let body = Body::from(serde_json::to_vec(&status).unwrap());
            Ok::<_, kube::Error>(Response::builder().status(StatusCode::CONFLICT).body(body).unwrap())
        }
    };
    (kube::Client::new(service_fn(call), "default"), writes)
}

#[tokio::test]
async fn finish_operation_gives_up_after_max_conflicts() {
    // No controller runs: only this test writes.
    let world = provisioned_cluster_with(None).await;
    let api: Api<HelmRelease> = Api::namespaced(world.platform_client(), SHOP);
    let release = json!({
        "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": "web", "namespace": SHOP},
        "spec": {"name": "web", "source": {"package": "pkg-none"}},
    });
    api.create(&PostParams::default(), &serde_json::from_value(release).unwrap()).await.unwrap();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let operation = json!({"id": "op-1", "kind": "install", "startedAt": now, "deadline": now});
    let patch = Patch::Merge(json!({"status": {"operation": operation}}));
    let begun = api.patch_status("web", &PatchParams::default(), &patch).await.unwrap();

    let (client, writes) = conflicting_client(world.platform_client());
    let outgoing = FetchClient::new(Dialer::new(EgressPolicy::default()));
    let releases = start_with_client(client, outgoing, Arc::new(SystemClock), "test").await;
    let (again, _waiting) = tokio::sync::mpsc::unbounded_channel();
    let controller = releases.new_controller(again);
    let key = ReleaseKey::new(SHOP, "web");
    let pass = ReleaseContext { key: &key, release: Arc::new(begun), now };
    let status = HelmReleaseStatus { message: "ended".to_owned(), ..pass.status() };
    let ended = controller.finish_operation(&pass, "op-1", status.clone()).await;
    assert!(matches!(ended, Err(ReconcileError::TooManyConflicts(_))), "{ended:?}");
    assert_eq!(writes.load(Ordering::SeqCst), 1 + MAX_CONFLICT_RETRIES);
    // Another operation has taken over: its status stays, and nothing is written after the first attempt.
    writes.store(0, Ordering::SeqCst);
    controller.finish_operation(&pass, "op-0", status).await.unwrap();
    assert_eq!(writes.load(Ordering::SeqCst), 1);
}
