//! Runs an operation with a crash injected at every write.
//!
//! A crashed process leaves the writes that it has made. The harness therefore runs the operation once per number of
//! writes, cuts it off at the next one, runs it again as after a restart, and checks the result.

use std::fmt::Debug;
use std::future;
use std::pin::pin;

use futures::{StreamExt, stream};
use tokio::time::timeout;

use crate::fault::{FailurePoint, FaultInjector};
use crate::wait_for::WAIT_TIMEOUT;

/// Upper bound on the writes of any operation under test.
const MAX_WRITES: usize = 500;
/// Runs at the same time, each on a test cluster of its own: controllers spend most of a run waiting.
const CONCURRENT_RUNS: usize = 4;

/// Runs `act` in a new test cluster once per crash point, restarts it to completion, and calls `check` on the result. Returns
/// the number of writes of an undisturbed run.
///
/// `act` must send its requests through the fault's clients ([`FaultInjector::wrap`]) and return when its work is done. Its
/// future is dropped at the crash. Some runs are concurrent, so the three functions share nothing that a run changes.
pub async fn every_kill_point<W, E: Debug>(
    make_world: impl AsyncFn() -> W,
    act: impl AsyncFn(&W, &FaultInjector) -> Result<(), E>,
    check: impl AsyncFn(&W),
) -> usize {
    let points = (0..MAX_WRITES).flat_map(|passing| {
        [FailurePoint::BeforeHandling, FailurePoint::AfterHandling].map(|blow| (passing, blow))
    });
    let (make_world, act, check) = (&make_world, &act, &check);
    let runs = stream::iter(points)
        .map(async |(passing, blow)| run_to_completion(passing, blow, make_world, act, check).await)
        .buffered(CONCURRENT_RUNS);
    let mut undisturbed = pin!(runs.filter_map(future::ready));
    undisturbed.next().await.unwrap_or_else(|| panic!("more than {MAX_WRITES} writes"))
}

/// Runs `act` with a crash after `passing` writes, and again without one. Returns `passing` if `act` made no more writes.
async fn run_to_completion<W, E: Debug>(
    passing: usize,
    blow: FailurePoint,
    make_world: &impl AsyncFn() -> W,
    act: &impl AsyncFn(&W, &FaultInjector) -> Result<(), E>,
    check: &impl AsyncFn(&W),
) -> Option<usize> {
    let point = format!("killed at write {} ({blow:?})", passing + 1);
    let (world, fault) = (make_world().await, FaultInjector::cut_after_writes(passing, blow));
    let attempt = async {
        tokio::select! {
            biased;
            () = fault.wait_until_disconnected() => None,
            done = act(&world, &fault) => Some(done),
        }
    };
    let outcome = timeout(WAIT_TIMEOUT, attempt).await.unwrap_or_else(|_| panic!("{point}: hangs before it"));
    // If `act` noticed the cut before this task did, it counts as crashed too.
    if let Some(done) = outcome.filter(|_| !fault.is_disconnected()) {
        done.unwrap_or_else(|error| panic!("failed without a fault after {passing} writes: {error:?}"));
        check(&world).await;
        return Some(passing);
    }
    let again = timeout(WAIT_TIMEOUT, act(&world, &FaultInjector::healthy())).await;
    let again = again.unwrap_or_else(|_| panic!("{point}: hangs after the restart"));
    again.unwrap_or_else(|error| panic!("{point}: fails after the restart: {error:?}"));
    check(&world).await;
    None
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{Api, ListParams, PostParams};
    use kube::core::ObjectMeta;

    use super::*;
    use crate::TestCluster;

    const NAMES: [&str; 3] = ["a", "b", "c"];

    async fn create(maps: &Api<ConfigMap>, name: &str) -> kube::Result<()> {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        maps.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await?;
        Ok(())
    }

    /// Creates the missing objects.
    async fn create_missing(world: &TestCluster, fault: &FaultInjector) -> kube::Result<()> {
        let maps = Api::namespaced(fault.wrap(world.platform_client()), "default");
        for name in NAMES {
            if maps.get_opt(name).await?.is_none() {
                create(&maps, name).await?;
            }
        }
        Ok(())
    }

    /// Takes the first object for proof that all exist.
    async fn create_all_if_first_is_missing(world: &TestCluster, fault: &FaultInjector) -> kube::Result<()> {
        let maps = Api::namespaced(fault.wrap(world.platform_client()), "default");
        if maps.get_opt(NAMES[0]).await?.is_none() {
            for name in NAMES {
                create(&maps, name).await?;
            }
        }
        Ok(())
    }

    async fn assert_all_exist(world: &TestCluster) {
        let maps: Api<ConfigMap> = Api::namespaced(world.admin_client(), "default");
        let all = maps.list(&ListParams::default()).await.unwrap();
        let made = all.items.iter().filter_map(|map| map.metadata.name.as_deref());
        assert_eq!(made.filter(|name| NAMES.contains(name)).count(), NAMES.len());
    }

    #[tokio::test]
    async fn idempotent_operation_passes_every_kill_point() {
        assert_eq!(every_kill_point(TestCluster::new, create_missing, assert_all_exist).await, NAMES.len());
    }

    #[tokio::test]
    #[should_panic = "assertion `left == right` failed"]
    async fn non_idempotent_operation_is_detected() {
        every_kill_point(TestCluster::new, create_all_if_first_is_missing, assert_all_exist).await;
    }

    #[tokio::test]
    async fn failure_point_is_before_or_after_the_server_handles_the_write() {
        for (blow, made) in [(FailurePoint::BeforeHandling, 1), (FailurePoint::AfterHandling, 2)] {
            let (world, fault) = (TestCluster::new().await, FaultInjector::cut_after_writes(1, blow));
            let maps = Api::namespaced(fault.wrap(world.platform_client()), "default");
            create(&maps, "a").await.unwrap();
            assert!(create(&maps, "b").await.is_err() && fault.is_disconnected());
            assert!(
                create(&maps, "c").await.is_err() && maps.get("a").await.is_err(),
                "nothing passes any more"
            );
            let admin_maps: Api<ConfigMap> = Api::namespaced(world.admin_client(), "default");
            let mut found = 0;
            for name in NAMES {
                found += usize::from(admin_maps.get_opt(name).await.unwrap().is_some());
            }
            assert_eq!((found, fault.writes(), fault.calls()), (made, 1, 1), "{blow:?}");
        }
    }
}
