//! The release lock. Lease transitions are tested in `kube_access::lease_rules`.

use std::time::Duration;

use helm_release::lock::{LockError, ReleaseLock, lease_name};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use kube_embedded::access::User;
use kube_embedded::cluster::Cluster;
use testkit::FaultInjector;
use tokio::sync::oneshot;

fn leases(client: &kube::Client) -> Api<Lease> {
    Api::namespaced(client.clone(), "default")
}

#[tokio::test]
async fn lease_exists_only_during_the_work() {
    let client = Cluster::in_memory().await.client(User::admin());
    let fault = FaultInjector::healthy();
    let hold = ReleaseLock::new(fault.wrap(client.clone()), "default", "anna");
    let during = hold.with_lock("app", Duration::ZERO, || async {
        let lease = leases(&client).get(&lease_name("app")).await.unwrap();
        lease.spec.unwrap().holder_identity.unwrap()
    });
    let holder = during.await.unwrap();
    assert!(holder.starts_with("anna_"), "{holder}");
    assert!(leases(&client).list(&ListParams::default()).await.unwrap().items.is_empty());
    // One create without a read, and one delete.
    assert_eq!((fault.calls(), fault.writes()), (2, 2));
}

#[tokio::test]
async fn second_holder_gets_error_or_waits() {
    let client = Cluster::in_memory().await.client(User::admin());
    let (begun, is_begun) = oneshot::channel();
    let (end, is_ended) = oneshot::channel::<()>();
    let first = ReleaseLock::new(client.clone(), "default", "anna");
    let first = tokio::spawn(async move {
        let work = || async {
            begun.send(()).unwrap();
            is_ended.await.unwrap();
        };
        first.with_lock("app", Duration::ZERO, work).await
    });
    is_begun.await.unwrap();
    let second = ReleaseLock::new(client.clone(), "default", "bert");
    let refused =
        second.with_lock("app", Duration::ZERO, || async { panic!("nobody works on it twice") }).await;
    let refused: LockError = refused.map(|(): ()| ()).unwrap_err();
    assert_eq!(refused.to_string(), "another operation on release `app` is in progress, by anna");
    // Another release has its own lock.
    second.with_lock("other", Duration::ZERO, || async {}).await.unwrap();
    // A waiting client gets the lock after its release.
    let third = tokio::spawn(async move {
        let patience = Duration::from_mins(1);
        second.with_lock("app", patience, || async { 3 }).await
    });
    end.send(()).unwrap();
    first.await.unwrap().unwrap();
    assert_eq!(third.await.unwrap().unwrap(), 3);
    assert!(leases(&client).list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn missing_namespace_is_an_immediate_error() {
    let client = Cluster::in_memory().await.client(User::admin());
    let refused =
        ReleaseLock::new(client, "nowhere", "anna").with_lock("app", Duration::ZERO, || async {}).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, LockError::Api { .. }), "{refused}");
    assert_eq!(refused.kind(), domain::error::ErrorKind::NotFound);
}
