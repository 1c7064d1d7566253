//! Failed actions are reported and recorded, and the next action cleans up after them.

use super::fixture::{
    ReleaseHarness, error_text, install, maps, maps_values, rollback, uninstall, upgrade, values,
};
use crate::actions::RecoveryOutcome;
use crate::record::Status;

/// An uppercase name, which every cluster rejects.
const INVALID_NAME_ERROR: &str = "ConfigMap \"X\" is invalid";

#[tokio::test]
async fn objects_of_failed_upgrade_are_removed_by_the_next() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    helm.install(&install(&maps(), &maps_values("a"))).await.unwrap();
    let why = error_text(helm.upgrade(&upgrade(&maps(), &maps_values("abX"))).await);
    assert!(why.starts_with("Invalid: ") && why.contains(INVALID_NAME_ERROR), "{why}");
    let history = stage.history().await;
    assert_eq!(history[0], "1 deployed: Install complete");
    assert!(history[1].starts_with("2 failed: Upgrade \"web\" failed: "), "{history:?}");
    assert_eq!(stage.config_map_names().await, ["a", "b"], "b was made before X was refused");

    helm.upgrade(&upgrade(&maps(), &maps_values("ac"))).await.unwrap();
    assert_eq!(stage.config_map_names().await, ["a", "c"], "Helm would have forgotten b");
    let statuses: Vec<_> =
        stage.history().await.iter().map(|line| line.split(':').next().unwrap().to_owned()).collect();
    assert_eq!(statuses, ["1 superseded", "2 failed", "3 deployed"]);
}

#[tokio::test]
async fn uninstall_removes_objects_of_failed_revisions() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    let why = error_text(helm.install(&install(&maps(), &maps_values("aX"))).await);
    assert!(why.contains(INVALID_NAME_ERROR), "{why}");
    assert!(stage.history().await[0].starts_with("1 failed: Release \"web\" failed: "));
    helm.upgrade(&upgrade(&maps(), &maps_values("bX"))).await.unwrap_err();
    assert_eq!(stage.config_map_names().await, ["a", "b"]);
    helm.uninstall(&uninstall(false)).await.unwrap();
    assert_eq!((stage.config_map_names().await.len(), stage.history().await.len()), (0, 0));
}

#[tokio::test]
async fn atomic_action_is_undone_on_failure() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    let mut ask = install(&maps(), &maps_values("aX"));
    ask.atomic = true;
    let why = error_text(helm.install(&ask).await);
    assert!(
        why.starts_with(
            "Invalid: release web failed, and has been uninstalled due to rollback-on-failure being set: "
        ),
        "{why}"
    );
    assert_eq!((stage.config_map_names().await.len(), stage.history().await.len()), (0, 0));

    helm.install(&install(&maps(), &maps_values("a"))).await.unwrap();
    let mut ask = upgrade(&maps(), &maps_values("bX"));
    ask.atomic = true;
    let why = error_text(helm.upgrade(&ask).await);
    assert!(
        why.starts_with(
            "Invalid: release web failed, and has been rolled back due to rollback-on-failure being set: "
        ),
        "{why}"
    );
    assert_eq!(stage.config_map_names().await, ["a"]);
    assert_eq!(stage.history().await[2], "3 deployed: Rollback to 1");
}

#[tokio::test]
async fn cleanup_on_fail_removes_created_objects() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    helm.install(&install(&maps(), &maps_values("a"))).await.unwrap();
    let mut ask = upgrade(&maps(), &maps_values("abX"));
    ask.cleanup_on_fail = true;
    helm.upgrade(&ask).await.unwrap_err();
    assert_eq!(stage.config_map_names().await, ["a"]);
}

#[tokio::test]
async fn failed_rollback_is_recorded() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    helm.install(&install(&maps(), &maps_values("aX"))).await.unwrap_err();
    helm.upgrade(&upgrade(&maps(), &maps_values("b"))).await.unwrap();
    assert_eq!(stage.config_map_names().await, ["b"]);
    helm.rollback(&rollback(1)).await.unwrap_err();
    let history = stage.history().await;
    assert!(history[2].starts_with("3 failed: Rollback \"web\" failed: "), "{history:?}");
    assert_eq!(history[1], "2 deployed: Upgrade complete", "the truth stays where it was");
    helm.upgrade(&upgrade(&maps(), &maps_values("b"))).await.unwrap();
    assert_eq!(stage.config_map_names().await, ["b"]);
}

#[tokio::test]
async fn failed_release_can_be_replaced() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    helm.install(&install(&maps(), &maps_values("aX"))).await.unwrap_err();
    assert_eq!(
        error_text(helm.install(&install(&maps(), &maps_values("b"))).await),
        "Conflict: cannot reuse a name that is still in use"
    );
    let mut ask = install(&maps(), &maps_values("b"));
    ask.replace = true;
    let record = helm.install(&ask).await.unwrap();
    assert_eq!((record.version, stage.config_map_names().await), (2, vec!["b".to_owned()]));
}

#[tokio::test]
async fn upgrade_starts_from_any_status() {
    for status in Status::ALL {
        let stage = ReleaseHarness::new().await;
        let helm = stage.helm().await;
        helm.install(&install(&maps(), &maps_values("ab"))).await.unwrap();
        // The record is old, so no client is assumed to be working on it.
        stage.overwrite_record(1, |record| record.info.status = status).await;
        stage.clock.advance(jiff::SignedDuration::from_mins(6));
        let mut ask = upgrade(&maps(), &maps_values("bc"));
        ask.install = true;
        helm.upgrade(&ask).await.unwrap();
        super::fixture::assert_consistent(&stage.history().await);
        let left = stage.config_map_names().await;
        let wanted: &[&str] = if status == Status::Uninstalled { &["a", "b", "c"] } else { &["b", "c"] };
        assert_eq!(left, wanted, "{status}");
    }
}

#[tokio::test]
async fn pending_revision_of_another_client_is_recovered_after_grace_period() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    helm.install(&install(&maps(), &maps_values("a"))).await.unwrap();
    stage.overwrite_record(1, |record| record.info.status = Status::PendingUpgrade).await;
    let busy = "Conflict: another operation (install/upgrade/rollback) is in progress";
    assert_eq!(error_text(helm.upgrade(&upgrade(&maps(), &maps_values("b"))).await), busy);
    assert_eq!(error_text(helm.rollback(&rollback(1)).await), busy);
    assert_eq!(error_text(helm.recover("default", "web", &super::fixture::default_options()).await), busy);
    stage.clock.advance(jiff::SignedDuration::from_mins(5));
    let found = helm.recover("default", "web", &super::fixture::default_options()).await.unwrap();
    assert_eq!(found, RecoveryOutcome::Interrupted(1));
    assert_eq!(stage.history().await, ["1 failed: operation interrupted"]);
    assert_eq!(
        helm.recover("default", "web", &super::fixture::default_options()).await.unwrap(),
        RecoveryOutcome::Nothing
    );
}

#[tokio::test]
async fn recover_supersedes_all_but_the_newest_deployed_revision() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    helm.install(&install(&maps(), &maps_values("a"))).await.unwrap();
    helm.upgrade(&upgrade(&maps(), &values("{\"maps\": \"a\", \"note\": \"two\"}"))).await.unwrap();
    stage.overwrite_record(1, |record| record.info.status = Status::Deployed).await;
    let found = helm.recover("default", "web", &super::fixture::default_options()).await.unwrap();
    assert_eq!(found, RecoveryOutcome::Superseded(2));
    assert_eq!(stage.history().await, ["1 superseded: Install complete", "2 deployed: Upgrade complete"]);
}
