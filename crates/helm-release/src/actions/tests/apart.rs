//! Failed actions are reported and recorded, and the next action cleans up after them.

use super::stage::{Stage, install, letters, maps, rollback, said, uninstall, upgrade, values};
use crate::actions::Recovered;
use crate::record::Status;

/// An uppercase name, which every cluster rejects.
const REFUSED: &str = "ConfigMap \"X\" is invalid";

#[tokio::test]
async fn what_a_failed_upgrade_made_is_not_forgotten() {
    let stage = Stage::new().await;
    let helm = stage.helm().await;
    helm.install(&install(&maps(), &letters("a"))).await.unwrap();
    let why = said(helm.upgrade(&upgrade(&maps(), &letters("abX"))).await);
    assert!(why.starts_with("Invalid: ") && why.contains(REFUSED), "{why}");
    let history = stage.history().await;
    assert_eq!(history[0], "1 deployed: Install complete");
    assert!(history[1].starts_with("2 failed: Upgrade \"web\" failed: "), "{history:?}");
    assert_eq!(stage.maps().await, ["a", "b"], "b was made before X was refused");

    helm.upgrade(&upgrade(&maps(), &letters("ac"))).await.unwrap();
    assert_eq!(stage.maps().await, ["a", "c"], "Helm would have forgotten b");
    let statuses: Vec<_> =
        stage.history().await.iter().map(|line| line.split(':').next().unwrap().to_owned()).collect();
    assert_eq!(statuses, ["1 superseded", "2 failed", "3 deployed"]);
}

#[tokio::test]
async fn an_uninstallation_takes_what_failures_left() {
    let stage = Stage::new().await;
    let helm = stage.helm().await;
    let why = said(helm.install(&install(&maps(), &letters("aX"))).await);
    assert!(why.contains(REFUSED), "{why}");
    assert!(stage.history().await[0].starts_with("1 failed: Release \"web\" failed: "));
    helm.upgrade(&upgrade(&maps(), &letters("bX"))).await.unwrap_err();
    assert_eq!(stage.maps().await, ["a", "b"]);
    helm.uninstall(&uninstall(false)).await.unwrap();
    assert_eq!((stage.maps().await.len(), stage.history().await.len()), (0, 0));
}

#[tokio::test]
async fn what_is_atomic_is_done_or_undone() {
    let stage = Stage::new().await;
    let helm = stage.helm().await;
    let mut ask = install(&maps(), &letters("aX"));
    ask.atomic = true;
    let why = said(helm.install(&ask).await);
    assert!(
        why.starts_with(
            "Invalid: release web failed, and has been uninstalled due to rollback-on-failure being set: "
        ),
        "{why}"
    );
    assert_eq!((stage.maps().await.len(), stage.history().await.len()), (0, 0));

    helm.install(&install(&maps(), &letters("a"))).await.unwrap();
    let mut ask = upgrade(&maps(), &letters("bX"));
    ask.atomic = true;
    let why = said(helm.upgrade(&ask).await);
    assert!(
        why.starts_with(
            "Invalid: release web failed, and has been rolled back due to rollback-on-failure being set: "
        ),
        "{why}"
    );
    assert_eq!(stage.maps().await, ["a"]);
    assert_eq!(stage.history().await[2], "3 deployed: Rollback to 1");
}

#[tokio::test]
async fn what_was_created_in_vain_goes_if_asked() {
    let stage = Stage::new().await;
    let helm = stage.helm().await;
    helm.install(&install(&maps(), &letters("a"))).await.unwrap();
    let mut ask = upgrade(&maps(), &letters("abX"));
    ask.cleanup_on_fail = true;
    helm.upgrade(&ask).await.unwrap_err();
    assert_eq!(stage.maps().await, ["a"]);
}

#[tokio::test]
async fn a_rollback_that_fails_says_so() {
    let stage = Stage::new().await;
    let helm = stage.helm().await;
    helm.install(&install(&maps(), &letters("aX"))).await.unwrap_err();
    helm.upgrade(&upgrade(&maps(), &letters("b"))).await.unwrap();
    assert_eq!(stage.maps().await, ["b"]);
    helm.rollback(&rollback(1)).await.unwrap_err();
    let history = stage.history().await;
    assert!(history[2].starts_with("3 failed: Rollback \"web\" failed: "), "{history:?}");
    assert_eq!(history[1], "2 deployed: Upgrade complete", "the truth stays where it was");
    helm.upgrade(&upgrade(&maps(), &letters("b"))).await.unwrap();
    assert_eq!(stage.maps().await, ["b"]);
}

#[tokio::test]
async fn a_failed_release_can_be_replaced() {
    let stage = Stage::new().await;
    let helm = stage.helm().await;
    helm.install(&install(&maps(), &letters("aX"))).await.unwrap_err();
    assert_eq!(
        said(helm.install(&install(&maps(), &letters("b"))).await),
        "Conflict: cannot reuse a name that is still in use"
    );
    let mut ask = install(&maps(), &letters("b"));
    ask.replace = true;
    let record = helm.install(&ask).await.unwrap();
    assert_eq!((record.version, stage.maps().await), (2, vec!["b".to_owned()]));
}

#[tokio::test]
async fn an_upgrade_starts_from_any_state() {
    for status in Status::ALL {
        let stage = Stage::new().await;
        let helm = stage.helm().await;
        helm.install(&install(&maps(), &letters("ab"))).await.unwrap();
        // The record is old, so no client is assumed to be working on it.
        stage.overwrite(1, |record| record.info.status = status).await;
        stage.clock.advance(jiff::SignedDuration::from_mins(6));
        let mut ask = upgrade(&maps(), &letters("bc"));
        ask.install = true;
        helm.upgrade(&ask).await.unwrap();
        super::stage::assert_sound(&stage.history().await);
        let left = stage.maps().await;
        let wanted: &[&str] = if status == Status::Uninstalled { &["a", "b", "c"] } else { &["b", "c"] };
        assert_eq!(left, wanted, "{status}");
    }
}

#[tokio::test]
async fn somebody_elses_operation_is_waited_for_and_not_forever() {
    let stage = Stage::new().await;
    let helm = stage.helm().await;
    helm.install(&install(&maps(), &letters("a"))).await.unwrap();
    stage.overwrite(1, |record| record.info.status = Status::PendingUpgrade).await;
    let busy = "Conflict: another operation (install/upgrade/rollback) is in progress";
    assert_eq!(said(helm.upgrade(&upgrade(&maps(), &letters("b"))).await), busy);
    assert_eq!(said(helm.rollback(&rollback(1)).await), busy);
    assert_eq!(said(helm.recover("default", "web", &super::stage::run()).await), busy);
    stage.clock.advance(jiff::SignedDuration::from_mins(5));
    let found = helm.recover("default", "web", &super::stage::run()).await.unwrap();
    assert_eq!(found, Recovered::Interrupted(1));
    assert_eq!(stage.history().await, ["1 failed: operation interrupted"]);
    assert_eq!(helm.recover("default", "web", &super::stage::run()).await.unwrap(), Recovered::Nothing);
}

#[tokio::test]
async fn of_two_deployed_revisions_the_newest_is() {
    let stage = Stage::new().await;
    let helm = stage.helm().await;
    helm.install(&install(&maps(), &letters("a"))).await.unwrap();
    helm.upgrade(&upgrade(&maps(), &values("{\"maps\": \"a\", \"note\": \"two\"}"))).await.unwrap();
    stage.overwrite(1, |record| record.info.status = Status::Deployed).await;
    let found = helm.recover("default", "web", &super::stage::run()).await.unwrap();
    assert_eq!(found, Recovered::Superseded(2));
    assert_eq!(stage.history().await, ["1 superseded: Install complete", "2 deployed: Upgrade complete"]);
}
