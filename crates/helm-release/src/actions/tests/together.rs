//! Concurrent actions: one wins, the others get a conflict; and the helm command, which takes no lock.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::clock::Clock;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use kube_apply::{Silent, Step, Tell};
use tokio::sync::Notify;

use super::stage::{NAME, NAMESPACE, Stage, assert_sound, install, letters, maps, said, uninstall, upgrade};
use crate::actions::{Install, Run, Uninstall, Upgrade};
use crate::record::{Record, Status};
use crate::storage::secret_name;

/// Blocks the first writer of an object until it is opened.
#[derive(Default)]
struct Gate {
    shut: AtomicBool,
    reached: Notify,
}

impl Tell for Gate {
    fn tell(&self, step: Step) {
        if matches!(step, Step::Applying { .. }) && !self.shut.swap(true, Ordering::SeqCst) {
            self.reached.notify_one();
        }
    }
}

/// Runs `meanwhile` just before the installation writes its first object.
async fn in_the_middle(
    stage: &Stage,
    ask: Install<'_>,
    meanwhile: impl AsyncFnOnce(),
) -> Result<Record, crate::Error> {
    let gate = Arc::new(Gate::default());
    let helm = stage.helm().await;
    let ask = Install { run: Run { tell: &*gate, ..ask.run.clone() }, ..ask };
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
fn made_by_helm(stage: &Stage, manifest: String) -> Record {
    let (name, namespace) = (NAME.to_owned(), NAMESPACE.to_owned());
    let mut record = Record { name, namespace, version: 1, manifest, ..Record::default() };
    record.info.last_deployed = stage.clock.now().into();
    record
}

#[tokio::test]
async fn one_of_two_wins_and_the_other_knows_by_whom() {
    let stage = Stage::new().await;
    stage.helm().await.install(&install(&maps(), &letters("a"))).await.unwrap();
    let (mut one, mut two) = (stage.helm().await, stage.helm().await);
    (one.holder, two.holder) = ("ann".into(), "bob".into());
    let (b, c) = (upgrade(&maps(), &letters("b")), upgrade(&maps(), &letters("c")));
    let (b, c) = tokio::join!(one.upgrade(&b), two.upgrade(&c));
    // Usually both succeed one after the other, never at the same time.
    let history = stage.history().await;
    assert_sound(&history);
    let done = [&b, &c].iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(history.len(), 1 + done, "{history:?}");
    assert_eq!(stage.maps().await.len(), 1);
    for outcome in [b, c] {
        if let Err(error) = outcome {
            let why = error.to_string();
            assert!(why.starts_with("another operation on release `web` is in progress, by "), "{why}");
        }
    }
}

#[tokio::test]
async fn somebody_at_work_is_named() {
    let stage = Stage::new().await;
    let mut slow = stage.helm().await;
    slow.holder = "ann".into();
    let (entered, leave) = (Notify::new(), Notify::new());
    let hold = crate::Hold::new(slow.records.clone(), NAMESPACE, &slow.holder);
    let work = hold.during(NAME, Duration::ZERO, || async {
        entered.notify_one();
        leave.notified().await;
    });
    let other = async {
        entered.notified().await;
        let why = said(stage.helm().await.install(&install(&maps(), &letters("a"))).await);
        leave.notify_one();
        why
    };
    let (done, why) = tokio::join!(work, other);
    done.unwrap();
    assert_eq!(why, "Conflict: another operation on release `web` is in progress, by ann");
}

#[tokio::test]
async fn a_revision_that_helm_made_meanwhile_is_found() {
    let stage = Stage::new().await;
    let helm = stage.helm().await;
    helm.install(&install(&maps(), &letters("a"))).await.unwrap();
    // A record that appears after the history was read: without labels it is in no history.
    let mut theirs = Secret::default();
    theirs.metadata.name = Some(secret_name(NAME, 2));
    let secrets: Api<Secret> = Api::namespaced(stage.admin(), NAMESPACE);
    secrets.create(&PostParams::default(), &theirs).await.unwrap();
    let why = said(helm.upgrade(&upgrade(&maps(), &letters("b"))).await);
    assert_eq!(why, "Conflict: revision 2 of release `web` exists already");
    assert_eq!(stage.maps().await, ["a"], "nothing half");
}

#[tokio::test]
async fn what_helm_uninstalls_meanwhile_leaves_nothing() {
    let stage = Stage::new().await;
    let outcome =
        in_the_middle(&stage, install(&maps(), &letters("ab")), async || stage.forget().await).await;
    assert_eq!(said(outcome), "Conflict: release \"web\" was changed by somebody else in the middle of it");
    assert_eq!((stage.maps().await.len(), stage.history().await.len()), (0, 0));
}

#[tokio::test]
async fn what_helm_made_of_it_instead_stays_and_nothing_else() {
    let stage = Stage::new().await;
    let meanwhile = async || {
        stage.forget().await;
        let manifest = "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n".to_owned();
        let mut theirs = made_by_helm(&stage, manifest);
        theirs.set_status(Status::Deployed, "Install complete");
        stage.records_of_helm().create(&theirs).await.unwrap();
    };
    let outcome = in_the_middle(&stage, install(&maps(), &letters("ab")), meanwhile).await;
    assert_eq!(said(outcome), "Conflict: release \"web\" was changed by somebody else in the middle of it");
    assert_eq!(stage.history().await, ["1 deployed: Install complete"]);
    assert_eq!(stage.maps().await, ["b"]);
}

#[tokio::test]
async fn whoever_was_given_up_does_not_write() {
    let stage = Stage::new().await;
    let meanwhile = async || {
        stage.overwrite(1, |record| record.set_status(Status::Failed, "operation interrupted")).await;
    };
    let outcome = in_the_middle(&stage, install(&maps(), &letters("ab")), meanwhile).await;
    assert_eq!(said(outcome), "Conflict: release \"web\" was changed by somebody else in the middle of it");
    assert_eq!(stage.history().await, ["1 failed: operation interrupted"]);
    // The written objects belong to the failed revision and are removed with it.
    assert_eq!(stage.maps().await, ["a", "b"]);
}

#[tokio::test]
async fn what_helm_makes_is_not_given_up_for_another_who_died() {
    let stage = Stage::new().await;
    // A holder that died with nothing but the Lease.
    let mut dead = stage.helm().await;
    dead.holder = "dead".into();
    let hold = crate::Hold::new(dead.records.clone(), NAMESPACE, &dead.holder);
    let died = hold.during(NAME, Duration::ZERO, || async { pending::<()>().await });
    tokio::time::timeout(Duration::from_millis(200), died).await.unwrap_err();
    stage.let_leases_run_out().await;

    let mut record = made_by_helm(&stage, String::new());
    record.set_status(Status::PendingInstall, "Initial install underway");
    stage.records_of_helm().create(&record).await.unwrap();

    let helm = stage.helm().await;
    let ours = Upgrade { install: true, ..upgrade(&maps(), &letters("a")) };
    let busy = "Conflict: another operation (install/upgrade/rollback) is in progress";
    assert_eq!(said(helm.upgrade(&ours).await), busy);
    assert_eq!(said(helm.uninstall(&Uninstall { interrupts: false, ..uninstall(false) }).await), busy);
    assert_eq!(stage.history().await, ["1 pending-install: Initial install underway"]);
    stage.clock.advance(SignedDuration::from_mins(5));
    helm.upgrade(&ours).await.unwrap();
    assert_eq!(stage.history().await, ["1 failed: operation interrupted", "2 deployed: Upgrade complete"]);
}

/// A rollback during `helm uninstall` would give the helm command new objects to wait for and new records to delete.
#[tokio::test]
async fn what_helm_takes_away_is_left_to_it() {
    let stage = Stage::new().await;
    let mut record = made_by_helm(&stage, String::new());
    record.set_status(Status::Deployed, "Install complete");
    stage.records_of_helm().create(&record).await.unwrap();
    // Long after the revision was created.
    stage.clock.advance(SignedDuration::from_hours(1));
    let uninstalling = |record: &mut Record| {
        record.set_status(Status::Uninstalling, "Deletion in progress (or silently failed)");
        record.info.deleted = stage.clock.now().into();
    };
    stage.overwrite(1, uninstalling).await;

    let helm = stage.helm().await;
    let ours = Upgrade { install: true, ..upgrade(&maps(), &letters("a")) };
    let busy = "Conflict: another operation (install/upgrade/rollback) is in progress";
    stage.clock.advance(SignedDuration::from_mins(4));
    assert_eq!(said(helm.upgrade(&ours).await), busy);
    assert_eq!(said(helm.recover(NAMESPACE, NAME, &Run::new(&Silent)).await), busy);
    assert_eq!(said(helm.uninstall(&Uninstall { interrupts: false, ..uninstall(false) }).await), busy);
    assert_eq!(stage.history().await, ["1 uninstalling: Deletion in progress (or silently failed)"]);
    stage.clock.advance(SignedDuration::from_mins(1));
    helm.upgrade(&ours).await.unwrap();
    assert_eq!(
        stage.history().await,
        ["1 uninstalled: Uninstallation complete", "2 deployed: Install complete"]
    );
}
