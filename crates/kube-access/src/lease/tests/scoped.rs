//! Exclusive operations with a Lease of their own.

use super::*;
use crate::lease_rules::LEASE_DURATION;

/// A test cluster with a working connection.
async fn connected_harness() -> (ElectionHarness, watch::Sender<LinkState>, watch::Receiver<LinkState>) {
    let (line, cut) = watch::channel(LinkState::Up);
    (ElectionHarness::new().await, line, cut)
}

async fn is_lease_deleted(world: &ElectionHarness) -> bool {
    world.leases.get_opt("leader").await.unwrap().is_none()
}

/// Result of an operation.
type ScopedResult = Result<Result<(), LeaseLost>, AcquireError>;

/// An operation that never ends, and a signal that it has started.
fn endless_operation(lock: LeaseElection) -> (oneshot::Receiver<()>, JoinHandle<ScopedResult>) {
    let (begun, is_begun) = oneshot::channel();
    let task = tokio::spawn(async move {
        let work = || async {
            begun.send(()).unwrap();
            pending::<()>().await;
        };
        lock.run_scoped(Duration::ZERO, work).await
    });
    (is_begun, task)
}

#[tokio::test(start_paused = true)]
async fn lease_is_deleted_after_operation() {
    let (world, _line, cut) = connected_harness().await;
    let work = async || {
        sleep(Duration::from_mins(1)).await;
        world.spec().await.holder_identity.is_some()
    };
    assert!(world.election(cut.clone()).run_scoped(Duration::ZERO, work).await.unwrap().unwrap());
    assert!(is_lease_deleted(&world).await);
    // The Lease is changed during the work, as by a late renewal.
    let work = async || world.patch(json!({"metadata": {"labels": {"seen": "by-a-person"}}})).await;
    world.election(cut.clone()).run_scoped(Duration::ZERO, work).await.unwrap().unwrap();
    assert!(is_lease_deleted(&world).await);
    // A Lease that another holder has taken is not deleted.
    let work = async || world.patch(json!({"spec": {"holderIdentity": "other"}})).await;
    world.election(cut).run_scoped(Duration::ZERO, work).await.unwrap().unwrap();
    assert_eq!(world.spec().await.holder_identity.as_deref(), Some("other"));
}

#[tokio::test(start_paused = true)]
async fn live_holder_is_named_after_the_timeout() {
    let (world, _line, cut) = connected_harness().await;
    let (begun, first) = endless_operation(world.election(cut.clone()));
    begun.await.unwrap();
    let start = Instant::now();
    let busy = world.election(cut.clone()).run_scoped(Duration::ZERO, async || ()).await.unwrap_err();
    assert!(matches!(&busy, AcquireError::Held { holder, .. } if holder.starts_with("test_")), "{busy}");
    assert!(start.elapsed() <= RENEW_INTERVAL + RETRY_PERIOD, "{:?}", start.elapsed());
    let patience = Duration::from_secs(30);
    let start = Instant::now();
    world.election(cut).run_scoped(patience, async || ()).await.unwrap_err();
    assert!((patience..patience + RENEW_INTERVAL * 2).contains(&start.elapsed()), "{:?}", start.elapsed());
    first.abort();
}

#[tokio::test(start_paused = true)]
async fn lease_of_dead_holder_is_taken_over_within_20_seconds() {
    let (world, _line, cut) = connected_harness().await;
    let (begun, first) = endless_operation(world.election(cut.clone()));
    begun.await.unwrap();
    sleep(Duration::from_mins(1)).await;
    first.abort();
    let start = Instant::now();
    let done = world.election(cut).run_scoped(Duration::ZERO, async || "done").await.unwrap();
    assert_eq!(done.unwrap(), "done");
    assert!(TAKEOVER_TIME.contains(&start.elapsed()), "{:?}", start.elapsed());
    assert!(is_lease_deleted(&world).await);
}

/// A standby candidate has observed the Lease since it was acquired.
#[tokio::test(start_paused = true)]
async fn lease_of_dead_holder_is_taken_over_immediately_when_observed() {
    let (world, _line, cut) = connected_harness().await;
    let client = || client(&world.cluster, cut.clone());
    let sightings = LeaseObserver::start(client());
    let lock = || LeaseElection::for_operation(client(), "default", "leader", "test", sightings.clone());
    let (begun, first) = endless_operation(lock());
    begun.await.unwrap();
    sleep(Duration::from_mins(1)).await;
    // A holder that renews is alive, however long it has been observed.
    let busy = lock().run_scoped(Duration::ZERO, async || ()).await.unwrap_err();
    assert!(matches!(busy, AcquireError::Held { .. }), "{busy}");

    first.abort();
    sleep(LEASE_DURATION / 2).await;
    let start = Instant::now();
    let done = lock().run_scoped(Duration::ZERO, async || "done").await.unwrap();
    assert_eq!(done.unwrap(), "done");
    assert!(start.elapsed() <= LEASE_DURATION / 2, "{:?}", start.elapsed());
    assert!(is_lease_deleted(&world).await);
}

#[tokio::test(start_paused = true)]
async fn disconnected_holder_stops_before_takeover() {
    for broken in [LinkState::Failing, LinkState::Unresponsive] {
        let (world, line, cut) = connected_harness().await;
        let (begun, first) = endless_operation(world.election(cut));
        begun.await.unwrap();
        sleep(Duration::from_mins(1)).await;
        line.send_replace(broken);
        let second = world.election(watch::channel(LinkState::Up).1);
        let start = Instant::now();
        let stopped = async {
            assert!(first.await.unwrap().unwrap().is_err(), "its work is dropped");
            start.elapsed()
        };
        let succeeded = second.run_scoped(Duration::ZERO, async || start.elapsed());
        let (stopped, succeeded) = tokio::join!(stopped, succeeded);
        let succeeded = succeeded.unwrap().unwrap();
        assert!(stopped < succeeded && TAKEOVER_TIME.contains(&succeeded), "{stopped:?} {succeeded:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn acquire_reports_api_errors_and_timeouts() {
    let (world, line, cut) = connected_harness().await;
    let elsewhere = LeaseElection::new(client(&world.cluster, cut.clone()), "nowhere", "leader", "test");
    let refused = elsewhere.run_scoped(Duration::ZERO, async || ()).await.unwrap_err();
    assert!(matches!(refused, AcquireError::Api { .. }), "{refused}");
    line.send_replace(LinkState::Unresponsive);
    let silent = world.election(cut).run_scoped(Duration::ZERO, async || ()).await.unwrap_err();
    assert!(matches!(silent, AcquireError::Timeout { .. }), "{silent}");
}
