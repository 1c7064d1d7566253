//! Leader election in paused time, against a cluster that runs in real time.

use std::io;
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::Request;
use jiff::SignedDuration;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube_embedded::access::User;
use kube_embedded::cluster::Cluster;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, spawn_blocking};
use tower::{ServiceExt, service_fn};

use super::*;

mod scoped;

/// Range of takeover times after the holder's death, which depends on the time of its last renewal.
const TAKEOVER_TIME: Range<Duration> = Duration::from_secs(6)..Duration::from_secs(20);

/// State of the connection between a candidate and the cluster.
#[derive(Clone, Copy, PartialEq)]
enum LinkState {
    Up,
    Failing,
    /// Requests get no response.
    Unresponsive,
}

/// Runtime of the cluster, whose time is not paused.
static CLUSTER_RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

fn client(cluster: &Cluster, line: watch::Receiver<LinkState>) -> kube::Client {
    let service = cluster.service_as(User::admin());
    let call = move |request: Request<Body>| {
        let (service, line) = (service.clone(), *line.borrow());
        async move {
            match line {
                LinkState::Failing => return Err(io::Error::other("the line is cut")),
                LinkState::Unresponsive => pending::<()>().await,
                LinkState::Up => {}
            }
            // Paused time does not advance while a blocking task runs.
            let answer =
                spawn_blocking(move || CLUSTER_RUNTIME.block_on(service.oneshot(request))).await.unwrap();
            answer.map_err(|never| match never {})
        }
    };
    kube::Client::new(service_fn(call), "default")
}

/// Several candidates for one Lease, and the maximum number of simultaneous leaders.
struct ElectionHarness {
    cluster: Cluster,
    leases: Api<Lease>,
    leaders: Arc<AtomicUsize>,
    max_leaders: Arc<AtomicUsize>,
}

struct Candidate {
    line: watch::Sender<LinkState>,
    leads: watch::Receiver<bool>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl ElectionHarness {
    async fn new() -> Self {
        let cluster = CLUSTER_RUNTIME.spawn(Cluster::in_memory()).await.unwrap();
        let leases = Api::namespaced(client(&cluster, watch::channel(LinkState::Up).1), "default");
        Self { cluster, leases, leaders: Arc::default(), max_leaders: Arc::default() }
    }

    fn election(&self, line: watch::Receiver<LinkState>) -> LeaseElection {
        LeaseElection::new(client(&self.cluster, line), "default", "leader", "test")
    }

    fn candidate(&self) -> Candidate {
        self.candidate_with_clock(Timestamp::now)
    }

    fn candidate_with_clock(&self, wall_clock: fn() -> Timestamp) -> Candidate {
        let (line, cut) = watch::channel(LinkState::Up);
        let (told, leads) = watch::channel(false);
        let (stop, stopped) = oneshot::channel();
        let lock = LeaseElection { wall_clock, ..self.election(cut) };
        let (now, most) = (self.leaders.clone(), self.max_leaders.clone());
        let work = move || {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            told.send_replace(true);
            let leading = LeadershipGuard(told.clone(), now.clone());
            async move {
                let _leading = leading;
                pending().await
            }
        };
        let task = tokio::spawn(lock.run_as_leader(work, async {
            let _ = stopped.await;
        }));
        Candidate { line, leads, stop, task }
    }

    async fn patch(&self, patch: Value) {
        self.leases.patch("leader", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn spec(&self) -> LeaseSpec {
        self.leases.get("leader").await.unwrap().spec.unwrap()
    }
}

/// Marks the candidate as leading until dropped.
struct LeadershipGuard(watch::Sender<bool>, Arc<AtomicUsize>);

impl Drop for LeadershipGuard {
    fn drop(&mut self) {
        self.0.send_replace(false);
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Candidate {
    /// Waits until the candidate leads or stops leading, and returns the time that took.
    async fn wait_until_leading(&self, leads: bool) -> Duration {
        let began = Instant::now();
        let mut told = self.leads.clone();
        let turned = told.wait_for(|now| *now == leads);
        assert!(timeout(Duration::from_mins(5), turned).await.is_ok(), "never leads = {leads}");
        began.elapsed()
    }

    fn is_leading(&self) -> bool {
        *self.leads.borrow()
    }

    /// Dies without cleanup, as by `kill -9`.
    fn kill(self) {
        self.task.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn lease_of_dead_leader_is_taken_over_within_20_seconds() {
    let world = ElectionHarness::new().await;
    let first = world.candidate();
    first.wait_until_leading(true).await;
    let second = world.candidate();
    sleep(Duration::from_mins(2)).await;
    assert!(first.is_leading() && !second.is_leading());
    first.kill();
    let took = second.wait_until_leading(true).await;
    assert!(TAKEOVER_TIME.contains(&took), "{took:?}");
    assert_eq!(world.spec().await.lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn released_lease_is_taken_over_immediately() {
    let world = ElectionHarness::new().await;
    let first = world.candidate();
    first.wait_until_leading(true).await;
    let second = world.candidate();
    sleep(Duration::from_mins(1)).await;
    first.stop.send(()).unwrap();
    first.task.await.unwrap();
    let took = second.wait_until_leading(true).await;
    assert!(took <= RENEW_INTERVAL, "{took:?}");
    second.stop.send(()).unwrap();
    second.task.await.unwrap();
    assert_eq!(world.spec().await.holder_identity, None);
}

#[tokio::test(start_paused = true)]
async fn disconnected_leader_steps_down_before_takeover() {
    for broken in [LinkState::Failing, LinkState::Unresponsive] {
        let world = ElectionHarness::new().await;
        let first = world.candidate();
        first.wait_until_leading(true).await;
        let second = world.candidate();
        sleep(Duration::from_mins(1)).await;
        first.line.send_replace(broken);
        let (down, up) = tokio::join!(first.wait_until_leading(false), second.wait_until_leading(true));
        assert!(down <= RENEW_DEADLINE && down + Duration::from_secs(1) < up, "{down:?} {up:?}");
        assert!(up < Duration::from_secs(20), "{up:?}");
        first.line.send_replace(LinkState::Up);
        sleep(Duration::from_mins(1)).await;
        assert!(second.is_leading() && !first.is_leading(), "who comes back does not steal");
    }
}

#[tokio::test(start_paused = true)]
async fn leader_survives_short_outages() {
    let world = ElectionHarness::new().await;
    let leader = world.candidate();
    leader.wait_until_leading(true).await;
    let _other = world.candidate();
    let mut told = leader.leads.clone();
    told.mark_unchanged();
    for _ in 0..20 {
        leader.line.send_replace(LinkState::Failing);
        sleep(Duration::from_secs(3)).await;
        leader.line.send_replace(LinkState::Up);
        sleep(Duration::from_secs(5)).await;
    }
    assert!(!told.has_changed().unwrap() && leader.is_leading());
}

#[tokio::test(start_paused = true)]
async fn election_does_not_depend_on_wall_clocks() {
    let slow = || Timestamp::now() - SignedDuration::from_hours(30);
    let fast = || Timestamp::now() + SignedDuration::from_hours(30);
    for (one, other) in [(slow as fn() -> Timestamp, fast as fn() -> Timestamp), (fast, slow)] {
        let world = ElectionHarness::new().await;
        let first = world.candidate_with_clock(one);
        first.wait_until_leading(true).await;
        let second = world.candidate_with_clock(other);
        sleep(Duration::from_mins(5)).await;
        assert!(first.is_leading() && !second.is_leading());
        first.kill();
        let took = second.wait_until_leading(true).await;
        assert!(TAKEOVER_TIME.contains(&took), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn leader_handles_lease_changed_by_others() {
    let world = ElectionHarness::new().await;
    let leader = world.candidate();
    leader.wait_until_leading(true).await;
    let mut told = leader.leads.clone();
    told.mark_unchanged();
    world.patch(json!({"metadata": {"labels": {"seen": "by-a-person"}}})).await;
    sleep(Duration::from_mins(1)).await;
    world.leases.delete("leader", &kube::api::DeleteParams::default()).await.unwrap();
    sleep(Duration::from_mins(1)).await;
    assert!(!told.has_changed().unwrap(), "a conflict that leaves it ours changes nothing");
    let identity = world.spec().await.holder_identity;

    world.patch(json!({"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 30}})).await;
    assert!(leader.wait_until_leading(false).await <= RENEW_INTERVAL, "the next renewal finds out");
    let again = leader.wait_until_leading(true).await;
    assert!(again >= Duration::from_secs(25), "somebody was given their time: {again:?}");
    assert_eq!(world.spec().await.holder_identity, identity);
}

#[tokio::test(start_paused = true)]
async fn lease_is_held_during_work_and_released() {
    let world = ElectionHarness::new().await;
    let (_line, sound) = watch::channel(LinkState::Up);
    let (mut one, mut other) = (world.election(sound.clone()), world.election(sound));
    let inside = AtomicUsize::new(0);
    let work = async || {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
        sleep(Duration::from_mins(1)).await;
        inside.fetch_sub(1, Ordering::SeqCst);
        "done"
    };
    let began = Instant::now();
    let (first, second) = tokio::join!(one.run_while_held(work), other.run_while_held(work));
    assert_eq!((first.unwrap(), second.unwrap()), ("done", "done"));
    assert!(began.elapsed() < Duration::from_secs(2 * 60 + 10), "{:?}", began.elapsed());
    assert_eq!(world.spec().await.holder_identity, None);
}

/// A process that was stopped by SIGSTOP or starved of CPU: its timers fire late.
#[tokio::test(start_paused = true)]
async fn work_is_not_polled_after_late_wakeup() {
    let world = ElectionHarness::new().await;
    let (line, cut) = watch::channel(LinkState::Up);
    let mut lock = world.election(cut);
    let worked_at = Arc::new(Mutex::new(Instant::now()));
    let (tell, told) = oneshot::channel();
    let at = worked_at.clone();
    let held = tokio::spawn(async move {
        lock.run_while_held(|| {
            tell.send(Instant::now()).unwrap();
            poll_fn(move |context| {
                *at.lock().unwrap() = Instant::now();
                context.waker().wake_by_ref(); // always busy
                Poll::<()>::Pending
            })
        })
        .await
    });
    let began = told.await.unwrap();
    line.send_replace(LinkState::Unresponsive);
    tokio::time::advance(Duration::from_secs(30)).await;
    assert!(held.await.unwrap().is_err());
    let last = *worked_at.lock().unwrap() - began;
    assert!(last < RENEW_DEADLINE, "worked {last:?} after the lease was taken");
}

/// Ten minutes of connection failures, stops and crashes, for ten seeds.
#[tokio::test(start_paused = true)]
async fn there_are_never_two_leaders() {
    for seed in 1..=10u64 {
        let world = ElectionHarness::new().await;
        let mut candidates: Vec<Candidate> = (0..3).map(|_| world.candidate()).collect();
        let mut state = seed;
        let mut dice = |sides: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % sides
        };
        for _ in 0..60 {
            sleep(Duration::from_millis(dice(20_000))).await;
            let chosen = usize::try_from(dice(3)).unwrap();
            match dice(8) {
                0 => std::mem::replace(&mut candidates[chosen], world.candidate()).kill(),
                1 => std::mem::replace(&mut candidates[chosen], world.candidate()).stop.send(()).unwrap(),
                2 | 3 => drop(candidates[chosen].line.send_replace(LinkState::Unresponsive)),
                4 => drop(candidates[chosen].line.send_replace(LinkState::Failing)),
                _ => drop(candidates[chosen].line.send_replace(LinkState::Up)),
            }
        }
        assert_eq!(world.max_leaders.load(Ordering::SeqCst), 1, "seed {seed}");
        for candidate in &candidates {
            candidate.line.send_replace(LinkState::Up);
        }
        sleep(Duration::from_secs(30)).await;
        assert_eq!(candidates.iter().filter(|candidate| candidate.is_leading()).count(), 1, "seed {seed}");
    }
}
