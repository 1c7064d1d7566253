//! Exclusive operations with a Lease of their own.

use super::*;
use crate::judge::LEASE;

/// A test cluster with a working connection.
async fn sound() -> (World, watch::Sender<Line>, watch::Receiver<Line>) {
    let (line, cut) = watch::channel(Line::Sound);
    (World::new().await, line, cut)
}

async fn is_gone(world: &World) -> bool {
    world.leases.get_opt("leader").await.unwrap().is_none()
}

/// Result of an operation.
type Errand = Result<Result<(), Lost>, Missed>;

/// An operation that never ends, and a signal that it has started.
fn endless(lock: Lock) -> (oneshot::Receiver<()>, JoinHandle<Errand>) {
    let (begun, is_begun) = oneshot::channel();
    let task = tokio::spawn(async move {
        let work = || async {
            begun.send(()).unwrap();
            pending::<()>().await;
        };
        lock.errand(Duration::ZERO, work).await
    });
    (is_begun, task)
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_an_errand_is_gone_after_it() {
    let (world, _line, cut) = sound().await;
    let work = async || {
        sleep(Duration::from_mins(1)).await;
        world.spec().await.holder_identity.is_some()
    };
    assert!(world.lock(cut.clone()).errand(Duration::ZERO, work).await.unwrap().unwrap());
    assert!(is_gone(&world).await);
    // The Lease was changed meanwhile, as by a late renewal.
    let work = async || world.patch(json!({"metadata": {"labels": {"seen": "by-a-person"}}})).await;
    world.lock(cut.clone()).errand(Duration::ZERO, work).await.unwrap().unwrap();
    assert!(is_gone(&world).await);
    // A Lease that another holder has taken is not deleted.
    let work = async || world.patch(json!({"spec": {"holderIdentity": "other"}})).await;
    world.lock(cut).errand(Duration::ZERO, work).await.unwrap().unwrap();
    assert_eq!(world.spec().await.holder_identity.as_deref(), Some("other"));
}

#[tokio::test(start_paused = true)]
async fn who_lives_is_named_and_who_is_patient_waits() {
    let (world, _line, cut) = sound().await;
    let (begun, first) = endless(world.lock(cut.clone()));
    begun.await.unwrap();
    let start = Instant::now();
    let busy = world.lock(cut.clone()).errand(Duration::ZERO, async || ()).await.unwrap_err();
    assert!(matches!(&busy, Missed::Busy { holder, .. } if holder.starts_with("test_")), "{busy}");
    assert!(start.elapsed() <= RENEW + RETRY, "{:?}", start.elapsed());
    let patience = Duration::from_secs(30);
    let start = Instant::now();
    world.lock(cut).errand(patience, async || ()).await.unwrap_err();
    assert!((patience..patience + RENEW * 2).contains(&start.elapsed()), "{:?}", start.elapsed());
    first.abort();
}

#[tokio::test(start_paused = true)]
async fn who_dies_is_succeeded_within_20_seconds() {
    let (world, _line, cut) = sound().await;
    let (begun, first) = endless(world.lock(cut.clone()));
    begun.await.unwrap();
    sleep(Duration::from_mins(1)).await;
    first.abort();
    let start = Instant::now();
    let done = world.lock(cut).errand(Duration::ZERO, async || "done").await.unwrap();
    assert_eq!(done.unwrap(), "done");
    assert!(TAKEOVER.contains(&start.elapsed()), "{:?}", start.elapsed());
    assert!(is_gone(&world).await);
}

/// A standby candidate has observed the Lease meanwhile.
#[tokio::test(start_paused = true)]
async fn who_was_seen_dying_is_succeeded_at_once() {
    let (world, _line, cut) = sound().await;
    let client = || client(&world.cluster, cut.clone());
    let sightings = Sightings::start(client());
    let lock = || Lock::for_errand(client(), "default", "leader", "test", sightings.clone());
    let (begun, first) = endless(lock());
    begun.await.unwrap();
    sleep(Duration::from_mins(1)).await;
    // A holder that renews is alive, however long it has been observed.
    let busy = lock().errand(Duration::ZERO, async || ()).await.unwrap_err();
    assert!(matches!(busy, Missed::Busy { .. }), "{busy}");

    first.abort();
    sleep(LEASE / 2).await;
    let start = Instant::now();
    let done = lock().errand(Duration::ZERO, async || "done").await.unwrap();
    assert_eq!(done.unwrap(), "done");
    assert!(start.elapsed() <= LEASE / 2, "{:?}", start.elapsed());
    assert!(is_gone(&world).await);
}

#[tokio::test(start_paused = true)]
async fn who_is_cut_off_stops_before_somebody_else_begins() {
    for broken in [Line::Failing, Line::Dead] {
        let (world, line, cut) = sound().await;
        let (begun, first) = endless(world.lock(cut));
        begun.await.unwrap();
        sleep(Duration::from_mins(1)).await;
        line.send_replace(broken);
        let second = world.lock(watch::channel(Line::Sound).1);
        let start = Instant::now();
        let stopped = async {
            assert!(first.await.unwrap().unwrap().is_err(), "its work is dropped");
            start.elapsed()
        };
        let succeeded = second.errand(Duration::ZERO, async || start.elapsed());
        let (stopped, succeeded) = tokio::join!(stopped, succeeded);
        let succeeded = succeeded.unwrap().unwrap();
        assert!(stopped < succeeded && TAKEOVER.contains(&succeeded), "{stopped:?} {succeeded:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_hears_of_it() {
    let (world, line, cut) = sound().await;
    let elsewhere = Lock::new(client(&world.cluster, cut.clone()), "nowhere", "leader", "test");
    let refused = elsewhere.errand(Duration::ZERO, async || ()).await.unwrap_err();
    assert!(matches!(refused, Missed::Refused { .. }), "{refused}");
    line.send_replace(Line::Dead);
    let silent = world.lock(cut).errand(Duration::ZERO, async || ()).await.unwrap_err();
    assert!(matches!(silent, Missed::Silent { .. }), "{silent}");
}
