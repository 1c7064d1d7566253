//! Every action is killed before and after each of its writes. The next action recovers, and the history is
//! consistent.

use testkit::{FaultInjector, every_kill_point};

use super::fixture::{
    ReleaseHarness, assert_consistent, default_options, install, maps, maps_values, rollback, uninstall,
    upgrade,
};
use crate::actions::Upgrade;
use crate::record::Status;
use crate::{Error, Helm};

/// As in a controller: recover first, then run the desired action.
async fn recovered_helm(stage: &ReleaseHarness, fault: &FaultInjector) -> Result<Helm, Error> {
    stage.expire_leases().await;
    let helm = stage.helm_over(fault).await;
    helm.recover("default", "web", &default_options()).await?;
    assert_consistent(&stage.history().await);
    Ok(helm)
}

fn upgrade_request(maps: &str) -> Upgrade<'static> {
    Upgrade { install: true, ..upgrade(&super::fixture::maps(), &maps_values(maps)) }
}

async fn harness_with_release(maps_: &str) -> ReleaseHarness {
    let stage = ReleaseHarness::new().await;
    stage.helm().await.install(&install(&maps(), &maps_values(maps_))).await.unwrap();
    stage
}

/// Asserts one deployed revision, these objects and no Lease.
async fn assert_deployed(stage: &ReleaseHarness, maps: &[&str]) {
    let history = stage.history().await;
    assert_consistent(&history);
    assert!(history.last().unwrap().contains(&format!(" {}:", Status::Deployed)), "{history:?}");
    assert_eq!(
        (stage.config_map_names().await, stage.lease_count().await),
        (maps.iter().map(ToString::to_string).collect(), 0)
    );
}

#[tokio::test]
async fn install_recovers_from_any_kill_point() {
    let act = async |stage: &ReleaseHarness, fault: &FaultInjector| {
        let helm = recovered_helm(stage, fault).await?;
        helm.upgrade(&upgrade_request("ab")).await.map(|_| ())
    };
    let points =
        every_kill_point(ReleaseHarness::new, act, async |stage| assert_deployed(stage, &["a", "b"]).await)
            .await;
    assert_eq!(points, 6);
}

#[tokio::test]
async fn upgrade_recovers_from_any_kill_point() {
    let act = async |stage: &ReleaseHarness, fault: &FaultInjector| {
        let helm = recovered_helm(stage, fault).await?;
        helm.upgrade(&upgrade_request("bc")).await.map(|_| ())
    };
    let points = every_kill_point(
        async || harness_with_release("ab").await,
        act,
        async |stage| assert_deployed(stage, &["b", "c"]).await,
    )
    .await;
    assert_eq!(points, 8);
}

/// An upgrade is killed, then another one is requested: nothing of the first remains.
#[tokio::test]
async fn killed_upgrade_is_replaced_by_another_one() {
    let act = async |stage: &ReleaseHarness, fault: &FaultInjector| {
        let helm = recovered_helm(stage, fault).await?;
        let history = stage.history().await;
        let again = history.len() > 1 || fault.writes() > 0;
        helm.upgrade(&upgrade_request(if again { "ad" } else { "bc" })).await.map(|_| ())
    };
    let check = async |stage: &ReleaseHarness| {
        assert_consistent(&stage.history().await);
        let maps = stage.config_map_names().await;
        assert!(maps == ["a", "d"] || maps == ["b", "c"], "{maps:?}");
    };
    every_kill_point(async || harness_with_release("ab").await, act, check).await;
}

#[tokio::test]
async fn rollback_recovers_from_any_kill_point() {
    let world = async || {
        let stage = harness_with_release("ab").await;
        stage.helm().await.upgrade(&upgrade_request("bc")).await.unwrap();
        stage
    };
    let act = async |stage: &ReleaseHarness, fault: &FaultInjector| {
        let helm = recovered_helm(stage, fault).await?;
        helm.rollback(&rollback(1)).await.map(|_| ())
    };
    let points = every_kill_point(world, act, async |stage| assert_deployed(stage, &["a", "b"]).await).await;
    assert_eq!(points, 8);
}

async fn assert_uninstalled(stage: &ReleaseHarness) {
    let left = (stage.config_map_names().await, stage.history().await, stage.lease_count().await);
    assert_eq!(left, (vec![], vec![], 0));
}

#[tokio::test]
async fn uninstall_recovers_from_any_kill_point() {
    let act = async |stage: &ReleaseHarness, fault: &FaultInjector| {
        stage.expire_leases().await;
        let helm = stage.helm_over(fault).await;
        let mut ask = uninstall(false);
        ask.ignore_not_found = true;
        helm.uninstall(&ask).await.map(|_| ())
    };
    let world = async || {
        let stage = harness_with_release("ab").await;
        stage.helm().await.upgrade(&upgrade_request("bc")).await.unwrap();
        stage
    };
    // Writes: a Lease, the record, two objects, two records, the Lease.
    let without_lease = async |stage: &ReleaseHarness| {
        stage.expire_leases().await;
        assert_eq!((stage.config_map_names().await, stage.history().await), (vec![], vec![]));
    };
    let points = every_kill_point(world, act, without_lease).await;
    assert_eq!(points, 7);
    let stage = world().await;
    act(&stage, &FaultInjector::healthy()).await.unwrap();
    assert_uninstalled(&stage).await;
}

#[tokio::test]
async fn killed_uninstall_is_finished_by_recovery() {
    let act = async |stage: &ReleaseHarness, fault: &FaultInjector| {
        let helm = recovered_helm(stage, fault).await?;
        match helm.uninstall(&uninstall(true)).await {
            Ok(_) | Err(Error::AlreadyDeleted { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    };
    let check = async |stage: &ReleaseHarness| {
        assert_eq!(stage.config_map_names().await, [""; 0]);
        assert_eq!(stage.history().await, ["1 uninstalled: Uninstallation complete"]);
    };
    every_kill_point(async || harness_with_release("ab").await, act, check).await;
}
