//! The release lock. Lease transitions are tested in `kube_access::lock`.

use std::time::Duration;

use helm_release::hold::{Hold, HoldError, lease_name};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use kube_embedded::access::User;
use kube_embedded::cluster::Cluster;
use testkit::Fault;
use tokio::sync::oneshot;

fn leases(client: &kube::Client) -> Api<Lease> {
    Api::namespaced(client.clone(), "default")
}

#[tokio::test]
async fn a_lease_is_there_for_the_work_and_gone_after_it() {
    let client = Cluster::in_memory().await.client(User::admin());
    let fault = Fault::none();
    let hold = Hold::new(fault.over(client.clone()), "default", "anna");
    let during = hold.during("app", Duration::ZERO, || async {
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
async fn who_comes_second_is_told_by_whom_it_is_held() {
    let client = Cluster::in_memory().await.client(User::admin());
    let (begun, is_begun) = oneshot::channel();
    let (end, is_ended) = oneshot::channel::<()>();
    let first = Hold::new(client.clone(), "default", "anna");
    let first = tokio::spawn(async move {
        let work = || async {
            begun.send(()).unwrap();
            is_ended.await.unwrap();
        };
        first.during("app", Duration::ZERO, work).await
    });
    is_begun.await.unwrap();
    let second = Hold::new(client.clone(), "default", "bert");
    let refused = second.during("app", Duration::ZERO, || async { panic!("nobody works on it twice") }).await;
    let refused: HoldError = refused.map(|(): ()| ()).unwrap_err();
    assert_eq!(refused.to_string(), "another operation on release `app` is in progress, by anna");
    // Another release has its own lock.
    second.during("other", Duration::ZERO, || async {}).await.unwrap();
    // A waiting client gets the lock after its release.
    let third = tokio::spawn(async move {
        let patience = Duration::from_mins(1);
        second.during("app", patience, || async { 3 }).await
    });
    end.send(()).unwrap();
    first.await.unwrap().unwrap();
    assert_eq!(third.await.unwrap().unwrap(), 3);
    assert!(leases(&client).list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_namespace_that_is_not_there_is_said_at_once() {
    let client = Cluster::in_memory().await.client(User::admin());
    let refused = Hold::new(client, "nowhere", "anna").during("app", Duration::ZERO, || async {}).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, HoldError::Refused { .. }), "{refused}");
    assert_eq!(refused.kind(), domain::failure::Kind::NotFound);
}
