//! Concurrent actions: one wins, the others get a conflict; and the helm command, which takes no lock.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::clock::Clock;
use futures::poll;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use kube_apply::{NoProgress, ProgressEvent, ProgressSink};
use tokio::sync::Notify;

use super::fixture::{
    NAME, NAMESPACE, ReleaseHarness, assert_consistent, error_text, install, maps, maps_values, uninstall,
    upgrade,
};
use crate::actions::{ActionOptions, Install, Uninstall, Upgrade};
use crate::record::{Record, Status};
use crate::render::work_limits;
use crate::storage::secret_name;

/// Blocks the first writer of an object until it is opened.
#[derive(Default)]
struct Gate {
    is_closed: AtomicBool,
    reached: Notify,
}

impl ProgressSink for Gate {
    fn report(&self, step: ProgressEvent) {
        if matches!(step, ProgressEvent::Applying { .. }) && !self.is_closed.swap(true, Ordering::SeqCst) {
            self.reached.notify_one();
        }
    }
}

/// Runs the given change just before the installation writes its first object.
async fn install_with_concurrent_change(
    stage: &ReleaseHarness,
    ask: Install<'_>,
    meanwhile: impl AsyncFnOnce(),
) -> Result<Record, crate::Error> {
    let gate = Arc::new(Gate::default());
    let helm = stage.helm().await;
    let ask = Install { options: ActionOptions { progress: &*gate, ..ask.options.clone() }, ..ask };
    let mut act = std::pin::pin!(helm.install(&ask));
    tokio::select! {
        biased;
        done = &mut act => return done,
        () = gate.reached.notified() => {}
    }
    meanwhile().await;
    act.await
}

/// A first revision as the helm command leaves it.
fn helm_cli_record(stage: &ReleaseHarness, manifest: String) -> Record {
    let (name, namespace) = (NAME.to_owned(), NAMESPACE.to_owned());
    let mut record = Record { name, namespace, version: 1, manifest, ..Record::default() };
    record.info.last_deployed = stage.clock.now().into();
    record
}

#[tokio::test]
async fn concurrent_upgrades_exclude_each_other() {
    let stage = ReleaseHarness::new().await;
    stage.helm().await.install(&install(&maps(), &maps_values("a"))).await.unwrap();
    let (mut one, mut two) = (stage.helm().await, stage.helm().await);
    (one.holder, two.holder) = ("ann".into(), "bob".into());
    let (b, c) = (upgrade(&maps(), &maps_values("b")), upgrade(&maps(), &maps_values("c")));
    let (b, c) = tokio::join!(one.upgrade(&b), two.upgrade(&c));
    // Usually both succeed one after the other, never at the same time.
    let history = stage.history().await;
    assert_consistent(&history);
    let done = [&b, &c].iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(history.len(), 1 + done, "{history:?}");
    assert_eq!(stage.config_map_names().await.len(), 1);
    for outcome in [b, c] {
        if let Err(error) = outcome {
            let why = error.to_string();
            assert!(why.starts_with("another operation on release `web` is in progress, by "), "{why}");
        }
    }
}

#[tokio::test]
async fn lock_error_names_the_holder() {
    let stage = ReleaseHarness::new().await;
    let mut slow = stage.helm().await;
    slow.holder = "ann".into();
    let (entered, leave) = (Notify::new(), Notify::new());
    let hold = crate::ReleaseLock::new(slow.records.clone(), NAMESPACE, &slow.holder);
    let work = hold.with_lock(NAME, Duration::ZERO, || async {
        entered.notify_one();
        leave.notified().await;
    });
    let other = async {
        entered.notified().await;
        let why = error_text(stage.helm().await.install(&install(&maps(), &maps_values("a"))).await);
        leave.notify_one();
        why
    };
    let (done, why) = tokio::join!(work, other);
    done.unwrap();
    assert_eq!(why, "Conflict: another operation on release `web` is in progress, by ann");
}

#[tokio::test]
async fn upgrade_fails_when_revision_was_created_concurrently() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    helm.install(&install(&maps(), &maps_values("a"))).await.unwrap();
    // A record that appears after the history was read: without labels it is in no history.
    let mut theirs = Secret::default();
    theirs.metadata.name = Some(secret_name(NAME, 2));
    let secrets: Api<Secret> = Api::namespaced(stage.admin(), NAMESPACE);
    secrets.create(&PostParams::default(), &theirs).await.unwrap();
    let why = error_text(helm.upgrade(&upgrade(&maps(), &maps_values("b"))).await);
    assert_eq!(why, "Conflict: revision 2 of release `web` already exists");
    assert_eq!(stage.config_map_names().await, ["a"], "nothing half");
}

#[tokio::test]
async fn install_cleans_up_when_uninstalled_concurrently() {
    let stage = ReleaseHarness::new().await;
    let outcome = install_with_concurrent_change(&stage, install(&maps(), &maps_values("ab")), async || {
        stage.delete_all_records().await;
    })
    .await;
    assert_eq!(
        error_text(outcome),
        "Conflict: release \"web\" was changed by another client during the operation"
    );
    assert_eq!((stage.config_map_names().await.len(), stage.history().await.len()), (0, 0));
}

#[tokio::test]
async fn install_keeps_only_objects_of_concurrent_release() {
    let stage = ReleaseHarness::new().await;
    let meanwhile = async || {
        stage.delete_all_records().await;
        let manifest = "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n".to_owned();
        let mut theirs = helm_cli_record(&stage, manifest);
        theirs.set_status(Status::Deployed, "Install complete");
        stage.helm_cli_storage().create(&theirs).await.unwrap();
    };
    let outcome =
        install_with_concurrent_change(&stage, install(&maps(), &maps_values("ab")), meanwhile).await;
    assert_eq!(
        error_text(outcome),
        "Conflict: release \"web\" was changed by another client during the operation"
    );
    assert_eq!(stage.history().await, ["1 deployed: Install complete"]);
    assert_eq!(stage.config_map_names().await, ["b"]);
}

#[tokio::test]
async fn install_fails_when_marked_interrupted_concurrently() {
    let stage = ReleaseHarness::new().await;
    let meanwhile = async || {
        stage.overwrite_record(1, |record| record.set_status(Status::Failed, "operation interrupted")).await;
    };
    let outcome =
        install_with_concurrent_change(&stage, install(&maps(), &maps_values("ab")), meanwhile).await;
    assert_eq!(
        error_text(outcome),
        "Conflict: release \"web\" was changed by another client during the operation"
    );
    assert_eq!(stage.history().await, ["1 failed: operation interrupted"]);
    // The written objects belong to the failed revision and are removed with it.
    assert_eq!(stage.config_map_names().await, ["a", "b"]);
}

#[tokio::test]
async fn pending_revision_of_helm_cli_outlives_lease_of_dead_holder() {
    let stage = ReleaseHarness::new().await;
    // A holder that died with nothing but the Lease.
    let mut dead = stage.helm().await;
    dead.holder = "dead".into();
    let hold = crate::ReleaseLock::new(dead.records.clone(), NAMESPACE, &dead.holder);
    let died = hold.with_lock(NAME, Duration::ZERO, || async { pending::<()>().await });
    tokio::time::timeout(Duration::from_millis(200), died).await.unwrap_err();
    stage.expire_leases().await;

    let mut record = helm_cli_record(&stage, String::new());
    record.set_status(Status::PendingInstall, "Initial install underway");
    stage.helm_cli_storage().create(&record).await.unwrap();

    let helm = stage.helm().await;
    let ours = Upgrade { install: true, ..upgrade(&maps(), &maps_values("a")) };
    let busy = "Conflict: another operation (install/upgrade/rollback) is in progress";
    assert_eq!(error_text(helm.upgrade(&ours).await), busy);
    assert_eq!(
        error_text(helm.uninstall(&Uninstall { ignore_pending: false, ..uninstall(false) }).await),
        busy
    );
    assert_eq!(stage.history().await, ["1 pending-install: Initial install underway"]);
    stage.clock.advance(SignedDuration::from_mins(5));
    helm.upgrade(&ours).await.unwrap();
    assert_eq!(stage.history().await, ["1 failed: operation interrupted", "2 deployed: Upgrade complete"]);
}

/// A rollback during `helm uninstall` would give the helm command new objects to wait for and new records to delete.
#[tokio::test]
async fn running_uninstall_of_helm_cli_is_not_disturbed() {
    let stage = ReleaseHarness::new().await;
    let mut record = helm_cli_record(&stage, String::new());
    record.set_status(Status::Deployed, "Install complete");
    stage.helm_cli_storage().create(&record).await.unwrap();
    // Long after the revision was created.
    stage.clock.advance(SignedDuration::from_hours(1));
    let uninstalling = |record: &mut Record| {
        record.set_status(Status::Uninstalling, "Deletion in progress (or silently failed)");
        record.info.deleted = stage.clock.now().into();
    };
    stage.overwrite_record(1, uninstalling).await;

    let helm = stage.helm().await;
    let ours = Upgrade { install: true, ..upgrade(&maps(), &maps_values("a")) };
    let busy = "Conflict: another operation (install/upgrade/rollback) is in progress";
    stage.clock.advance(SignedDuration::from_mins(4));
    assert_eq!(error_text(helm.upgrade(&ours).await), busy);
    assert_eq!(error_text(helm.recover(NAMESPACE, NAME, &ActionOptions::new(&NoProgress)).await), busy);
    assert_eq!(
        error_text(helm.uninstall(&Uninstall { ignore_pending: false, ..uninstall(false) }).await),
        busy
    );
    assert_eq!(stage.history().await, ["1 uninstalling: Deletion in progress (or silently failed)"]);
    stage.clock.advance(SignedDuration::from_mins(1));
    helm.upgrade(&ours).await.unwrap();
    assert_eq!(
        stage.history().await,
        ["1 uninstalled: Uninstallation complete", "2 deployed: Install complete"]
    );
}

/// Merges and comparisons of large objects share the pool with renderings, so that no flow delays another.
#[tokio::test]
async fn work_on_large_objects_waits_for_the_share_of_the_flow() {
    let town = ReleaseHarness::new().await;
    let helm = town.helm().await;
    let pool = helm.renderer.pool();
    let mut held = Vec::new();
    for _ in 0..work_limits().slots_per_flow {
        held.push(pool.admit(pool.flow(NAMESPACE), 0).await.unwrap());
    }
    let (own, other) = (helm.target(NAMESPACE).compute, helm.target("other").compute);
    let mut waits = pin!(own.run(true, || 1));
    assert!(poll!(&mut waits).is_pending());
    assert_eq!(pool.slots().queued, 1);
    assert_eq!(other.run(true, || 2).await, 2);
    assert_eq!(pool.slots().queued, 1, "the first one is still waiting");
    drop(held);
    assert_eq!(waits.await, 1);
}
