//! Tests of the queue with paused time.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::stream;
use parking_lot::Mutex;
use tokio::time::sleep;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Started reconciles: key and time since the start of the test.
#[derive(Clone)]
struct ReconcileLog(Arc<Mutex<Vec<(String, Duration)>>>, Instant);

impl ReconcileLog {
    fn new() -> Self {
        Self(Arc::default(), Instant::now())
    }

    fn record(&self, key: &str) -> usize {
        let mut log = self.0.lock();
        log.push((key.to_owned(), self.1.elapsed()));
        log.iter().filter(|(other, _)| other == key).count()
    }

    /// Start times in seconds, rounded to a tenth.
    fn start_times(&self, key: &str) -> Vec<f64> {
        let log = self.0.lock();
        let of_key = log.iter().filter(|(other, _)| other == key);
        of_key.map(|(_, at)| (at.as_secs_f64() * 10.0).round() / 10.0).collect()
    }
}

/// [`super::run`] without reports of panics.
async fn run<K, E>(
    controller: &'static str,
    keys: impl Stream<Item = K>,
    max_concurrent: usize,
    sync: impl AsyncFn(&K) -> Result<Action, E>,
) where
    K: Ord + Clone + Display,
    E: Display,
{
    super::run(controller, keys, max_concurrent, sync, |_: &K| ready(())).await;
}

fn enqueue(keys: &UnboundedSender<String>, key: &str) {
    keys.unbounded_send(key.to_owned()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn key_is_queued_once_when_added_repeatedly() {
    let log = ReconcileLog::new();
    let keys = stream::iter(["a", "b", "a", "a", "b"].map(str::to_owned));
    let pass = async |key: &String| {
        log.record(key);
        sleep(SECOND).await;
        Ok::<_, String>(Action::AwaitChange)
    };
    run("test", keys.chain(stream::once(async { "c".to_owned() })), 1, pass).await;
    // All keys arrive during the first reconcile of `a`, so `a` is reconciled again.
    assert_eq!(
        (log.start_times("a").len(), log.start_times("b").len(), log.start_times("c").len()),
        (2, 1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn key_added_during_its_reconcile_is_reconciled_again() {
    let (log, under_way) = (ReconcileLog::new(), Arc::new(AtomicUsize::new(0)));
    let (keys, handed_in) = unbounded();
    let (noted, inside) = (log.clone(), under_way.clone());
    // On a separate task, as controllers run.
    let running = tokio::spawn(run("test", handed_in, 4, async move |key: &String| {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "one key is never passed over twice at once");
        noted.record(key);
        sleep(SECOND).await;
        inside.fetch_sub(1, Ordering::SeqCst);
        Ok::<_, String>(Action::AwaitChange)
    }));
    enqueue(&keys, "a");
    sleep(SECOND / 2).await;
    enqueue(&keys, "a");
    enqueue(&keys, "a");
    sleep(10 * SECOND).await;
    assert_eq!(log.start_times("a"), [0.0, 1.0]);
    enqueue(&keys, "a");
    drop(keys);
    running.await.unwrap();
    assert_eq!(log.start_times("a"), [0.0, 1.0, 10.5]);
}

#[tokio::test(start_paused = true)]
async fn backoff_doubles_and_is_reset_by_success() {
    let log = ReconcileLog::new();
    let (keys, handed_in) = unbounded();
    let passes = run("test", handed_in, 1, async |key: &String| match log.record(key) {
        5 => Ok(Action::RequeueAfter(2 * SECOND)),
        7 | 9 => Ok(Action::AwaitChange),
        _ => Err("not yet"),
    });
    let told = async {
        enqueue(&keys, "a");
        sleep(10 * SECOND).await;
        enqueue(&keys, "a");
        sleep(10 * SECOND).await;
        drop(keys);
    };
    tokio::join!(passes, told);
    assert_eq!(log.start_times("a"), [0.0, 0.2, 0.6, 1.4, 3.0, 5.0, 5.2, 10.0, 10.2]);
    assert_eq!(backoff_delay(3), Duration::from_millis(1600));
    assert_eq!(backoff_delay(8), MAX_BACKOFF);
    assert_eq!(backoff_delay(u32::MAX), MAX_BACKOFF);
}

#[tokio::test(start_paused = true)]
async fn change_ends_backoff_and_failing_key_does_not_delay_others() {
    let log = ReconcileLog::new();
    let (keys, handed_in) = unbounded();
    let passes = run("test", handed_in, 1, async |key: &String| {
        let times = log.record(key);
        if key == "bad" && times < 9 { Err("never") } else { Ok(Action::RequeueAfter(60 * SECOND)) }
    });
    let told = async {
        enqueue(&keys, "bad");
        sleep(20 * SECOND).await;
        enqueue(&keys, "good");
        enqueue(&keys, "bad");
        sleep(70 * SECOND).await;
        enqueue(&keys, "good");
        sleep(59 * SECOND).await;
        drop(keys);
    };
    tokio::join!(passes, told);
    let bad = log.start_times("bad");
    assert!(bad.contains(&20.0), "{bad:?}");
    // Added at 90, so it is due again at 150, after the end of the test.
    assert_eq!(log.start_times("good"), [20.0, 80.0, 90.0]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_reconciles_are_limited() {
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let began = Instant::now();
    let keys = stream::iter((0..100).map(|number| format!("key-{number}")));
    run("test", keys, 10, async |_: &String| {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        sleep(SECOND).await;
        now.fetch_sub(1, Ordering::SeqCst);
        Ok::<_, String>(Action::AwaitChange)
    })
    .await;
    assert_eq!(most.load(Ordering::SeqCst), 10);
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn reconcile_that_panics_is_an_error_of_its_key_alone() {
    let log = ReconcileLog::new();
    let keys = stream::iter(["hostile", "a", "b"].map(str::to_owned)).chain(stream::pending());
    let pass = async |key: &String| {
        let passes = log.record(key);
        assert!(key != "hostile" || passes >= 4, "injected");
        Ok::<_, String>(Action::RequeueAfter(SECOND))
    };
    let controller = run("test", keys, 2, pass);
    assert!(tokio::time::timeout(SECOND * 49 / 10, controller).await.is_err(), "the controller goes on");
    // Retried with backoff until it succeeds; other keys are not delayed.
    assert_eq!(log.start_times("hostile"), [0.0, 0.2, 0.6, 1.4, 2.4, 3.4, 4.4]);
    for other in ["a", "b"] {
        assert_eq!(log.start_times(other), [0.0, 1.0, 2.0, 3.0, 4.0], "{other}");
    }
}

#[tokio::test(start_paused = true)]
async fn panic_is_reported_before_the_retry_and_a_panicking_report_changes_nothing() {
    let (log, reports) = (ReconcileLog::new(), ReconcileLog::new());
    let keys = stream::iter(["hostile", "good"].map(str::to_owned)).chain(stream::pending());
    let pass = async |key: &String| {
        let passes = log.record(key);
        assert!(key != "hostile" || passes > 2, "injected");
        Ok::<_, String>(Action::AwaitChange)
    };
    let report = async |key: &String| assert!(reports.record(key) > 1, "injected");
    let controller = super::run("test", keys, 2, pass, report);
    assert!(tokio::time::timeout(10 * SECOND, controller).await.is_err(), "the controller goes on");
    assert_eq!(log.start_times("hostile"), [0.0, 0.2, 0.6]);
    assert_eq!((reports.start_times("hostile"), reports.start_times("good")), (vec![0.0, 0.2], vec![]));
}

#[tokio::test(start_paused = true)]
async fn requeue_delay_has_an_upper_bound() {
    let log = ReconcileLog::new();
    let keys = stream::iter(["a".to_owned()]).chain(stream::pending());
    let pass = async |key: &String| {
        log.record(key);
        Ok::<_, String>(Action::RequeueAfter(Duration::MAX))
    };
    assert!(tokio::time::timeout(MAX_DELAY + SECOND, run("test", keys, 1, pass)).await.is_err());
    assert_eq!(log.start_times("a").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn six_hundred_hanging_reconciles_of_one_tenant_do_not_delay_another() {
    let log = ReconcileLog::new();
    let limits = SlotLimits {
        active: 64,
        active_share: 8,
        reserve: 16,
        slow: 512,
        slow_share: 128,
        slow_after: 10 * SECOND,
        deadline: 3600 * SECOND,
    };
    let (keys, handed_in) = unbounded();
    for number in 0..600 {
        enqueue(&keys, &format!("hostile/{number}"));
    }
    let tenant_of = |key: &String| key.split('/').next().unwrap_or_default().to_owned();
    let pass = async |key: &String| {
        log.record(key);
        if key.starts_with("hostile") {
            std::future::pending::<()>().await;
        }
        sleep(SECOND / 10).await;
        Ok::<_, String>(Action::AwaitChange)
    };
    let controller = run_fair("fair-test", handed_in, limits, tenant_of, pass, |_: &String| ready(()));
    let good = async {
        for round in 0..30 {
            sleep(7 * SECOND).await;
            enqueue(&keys, &format!("good/{round}"));
        }
        sleep(SECOND).await;
        assert!(
            !runtime().failing_tasks().iter().any(|line| line.contains("fair-test")),
            "a tenant at its share is not starved"
        );
    };
    tokio::select! {
        () = controller => panic!("the controller ended"),
        () = good => {}
    }
    for round in 0..30_u32 {
        let begun = log.start_times(&format!("good/{round}"));
        assert_eq!(begun, [f64::from(round + 1) * 7.0], "begun at once");
    }
}

#[tokio::test(start_paused = true)]
async fn queue_without_a_slot_shows_as_not_healthy() {
    let (keys, handed_in) = unbounded();
    let controller = run("stuck-test", handed_in, 1, async |_: &String| {
        std::future::pending::<()>().await;
        Ok::<_, String>(Action::AwaitChange)
    });
    let told = async {
        enqueue(&keys, "a");
        enqueue(&keys, "b");
        sleep(59 * SECOND).await;
        let stuck = || runtime().failing_tasks().into_iter().find(|line| line.contains("stuck-test"));
        assert_eq!(stuck(), None);
        sleep(2 * SECOND).await;
        assert_eq!(stuck().unwrap(), "controller stuck-test: no slot for 61 s, 1 keys wait");
    };
    tokio::select! {
        () = controller => panic!("the controller ended"),
        () = told => {}
    }
    assert!(
        !runtime().failing_tasks().iter().any(|line| line.contains("stuck-test")),
        "it is gone with its queue"
    );
}

#[tokio::test(start_paused = true)]
async fn reconcile_that_exceeds_its_deadline_is_cancelled_and_quarantined() {
    let log = ReconcileLog::new();
    let (keys, handed_in) = unbounded();
    let limits = SlotLimits { deadline: 10 * SECOND, ..SlotLimits::from(2) };
    let pass = async |key: &String| {
        log.record(key);
        if key == "bad" {
            std::future::pending::<()>().await;
        }
        Ok::<_, String>(Action::AwaitChange)
    };
    let report = |key: &String| -> Ready<()> { panic!("`{key}` did not panic") };
    let controller = run_fair("deadline-test", handed_in, limits, String::clone, pass, report);
    let told = async {
        enqueue(&keys, "bad");
        sleep(60 * SECOND).await;
        // Changes continuously.
        for _ in 0..1200 {
            enqueue(&keys, "bad");
            sleep(SECOND / 10).await;
        }
        enqueue(&keys, "good");
        sleep(SECOND).await;
    };
    tokio::select! {
        () = controller => panic!("the controller ended"),
        () = told => {}
    }
    // Five with backoff, then at most one in 30 s.
    assert_eq!(log.start_times("bad"), [0.0, 10.2, 20.6, 31.4, 43.0, 83.0, 123.0, 163.0]);
    assert_eq!(log.start_times("good").len(), 1);
    assert_eq!(
        (quarantine_delay(5), quarantine_delay(6), quarantine_delay(u32::MAX)),
        (60 * SECOND, 120 * SECOND, MAX_QUARANTINE)
    );
}
