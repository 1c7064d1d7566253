//! Every action is killed before and after each of its writes. The next action recovers, and the history is
//! consistent.

use testkit::{Fault, every_kill_point};

use super::stage::{Stage, assert_sound, install, letters, maps, rollback, run, uninstall, upgrade};
use crate::actions::Upgrade;
use crate::record::Status;
use crate::{Error, Helm};

/// As in a controller: recover first, then run the desired action.
async fn helm(stage: &Stage, fault: &Fault) -> Result<Helm, Error> {
    stage.let_leases_run_out().await;
    let helm = stage.helm_over(fault).await;
    helm.recover("default", "web", &run()).await?;
    assert_sound(&stage.history().await);
    Ok(helm)
}

fn wanted(maps: &str) -> Upgrade<'static> {
    Upgrade { install: true, ..upgrade(&super::stage::maps(), &letters(maps)) }
}

async fn installed(maps_: &str) -> Stage {
    let stage = Stage::new().await;
    stage.helm().await.install(&install(&maps(), &letters(maps_))).await.unwrap();
    stage
}

/// Asserts one deployed revision, these objects and no Lease.
async fn is(stage: &Stage, maps: &[&str]) {
    let history = stage.history().await;
    assert_sound(&history);
    assert!(history.last().unwrap().contains(&format!(" {}:", Status::Deployed)), "{history:?}");
    assert_eq!(
        (stage.maps().await, stage.leases().await),
        (maps.iter().map(ToString::to_string).collect(), 0)
    );
}

#[tokio::test]
async fn an_installation() {
    let act = async |stage: &Stage, fault: &Fault| {
        let helm = helm(stage, fault).await?;
        helm.upgrade(&wanted("ab")).await.map(|_| ())
    };
    let points = every_kill_point(Stage::new, act, async |stage| is(stage, &["a", "b"]).await).await;
    assert_eq!(points, 6);
}

#[tokio::test]
async fn an_upgrade() {
    let act = async |stage: &Stage, fault: &Fault| {
        let helm = helm(stage, fault).await?;
        helm.upgrade(&wanted("bc")).await.map(|_| ())
    };
    let points =
        every_kill_point(async || installed("ab").await, act, async |stage| is(stage, &["b", "c"]).await)
            .await;
    assert_eq!(points, 8);
}

/// An upgrade is killed, then another one is requested: nothing of the first remains.
#[tokio::test]
async fn an_upgrade_that_is_not_wanted_any_more() {
    let act = async |stage: &Stage, fault: &Fault| {
        let helm = helm(stage, fault).await?;
        let history = stage.history().await;
        let again = history.len() > 1 || fault.writes() > 0;
        helm.upgrade(&wanted(if again { "ad" } else { "bc" })).await.map(|_| ())
    };
    let check = async |stage: &Stage| {
        assert_sound(&stage.history().await);
        let maps = stage.maps().await;
        assert!(maps == ["a", "d"] || maps == ["b", "c"], "{maps:?}");
    };
    every_kill_point(async || installed("ab").await, act, check).await;
}

#[tokio::test]
async fn a_rollback() {
    let world = async || {
        let stage = installed("ab").await;
        stage.helm().await.upgrade(&wanted("bc")).await.unwrap();
        stage
    };
    let act = async |stage: &Stage, fault: &Fault| {
        let helm = helm(stage, fault).await?;
        helm.rollback(&rollback(1)).await.map(|_| ())
    };
    let points = every_kill_point(world, act, async |stage| is(stage, &["a", "b"]).await).await;
    assert_eq!(points, 8);
}

async fn is_gone(stage: &Stage) {
    let left = (stage.maps().await, stage.history().await, stage.leases().await);
    assert_eq!(left, (vec![], vec![], 0));
}

#[tokio::test]
async fn an_uninstallation() {
    let act = async |stage: &Stage, fault: &Fault| {
        stage.let_leases_run_out().await;
        let helm = stage.helm_over(fault).await;
        let mut ask = uninstall(false);
        ask.ignore_not_found = true;
        helm.uninstall(&ask).await.map(|_| ())
    };
    let world = async || {
        let stage = installed("ab").await;
        stage.helm().await.upgrade(&wanted("bc")).await.unwrap();
        stage
    };
    // Writes: a Lease, the record, two objects, two records, the Lease.
    let without_lease = async |stage: &Stage| {
        stage.let_leases_run_out().await;
        assert_eq!((stage.maps().await, stage.history().await), (vec![], vec![]));
    };
    let points = every_kill_point(world, act, without_lease).await;
    assert_eq!(points, 7);
    let stage = world().await;
    act(&stage, &Fault::none()).await.unwrap();
    is_gone(&stage).await;
}

#[tokio::test]
async fn an_uninstallation_that_is_finished_by_somebody_else() {
    let act = async |stage: &Stage, fault: &Fault| {
        let helm = helm(stage, fault).await?;
        match helm.uninstall(&uninstall(true)).await {
            Ok(_) | Err(Error::AlreadyDeleted { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    };
    let check = async |stage: &Stage| {
        assert_eq!(stage.maps().await, [""; 0]);
        assert_eq!(stage.history().await, ["1 uninstalled: Uninstallation complete"]);
    };
    every_kill_point(async || installed("ab").await, act, check).await;
}
