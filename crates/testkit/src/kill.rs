//! Runs an operation with a crash injected at every write.
//!
//! A crashed process leaves the writes that it has made. The harness therefore runs the operation once per number of
//! writes, cuts it off at the next one, runs it again as after a restart, and checks the result.

use std::fmt::Debug;

use tokio::time::timeout;

use crate::fault::{Blow, Fault};
use crate::until::LIMIT;

/// Upper bound on the writes of any operation under test.
const MANY: usize = 500;

/// Runs `act` in a new world once per crash point, restarts it to completion, and calls `check` on the result. Returns
/// the number of writes of an undisturbed run.
///
/// `act` must send its requests through the fault's clients ([`Fault::over`]) and return when its work is done. Its
/// future is dropped at the crash.
pub async fn every_kill_point<W, E: Debug>(
    make_world: impl AsyncFn() -> W,
    act: impl AsyncFn(&W, &Fault) -> Result<(), E>,
    check: impl AsyncFn(&W),
) -> usize {
    for passing in 0..MANY {
        for blow in [Blow::Before, Blow::After] {
            let point = format!("killed at write {} ({blow:?})", passing + 1);
            let (world, fault) = (make_world().await, Fault::after_writes(passing, blow));
            let whole = async {
                tokio::select! {
                    biased;
                    () = fault.cut() => None,
                    done = act(&world, &fault) => Some(done),
                }
            };
            let ended = timeout(LIMIT, whole).await.unwrap_or_else(|_| panic!("{point}: hangs before it"));
            // If `act` noticed the cut before this task did, it counts as crashed too.
            if let Some(done) = ended.filter(|_| !fault.is_cut()) {
                done.unwrap_or_else(|error| {
                    panic!("failed without a fault after {passing} writes: {error:?}")
                });
                check(&world).await;
                return passing;
            }
            let again = timeout(LIMIT, act(&world, &Fault::none())).await;
            let again = again.unwrap_or_else(|_| panic!("{point}: hangs after the restart"));
            again.unwrap_or_else(|error| panic!("{point}: fails after the restart: {error:?}"));
            check(&world).await;
        }
    }
    panic!("more than {MANY} writes")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{Api, ListParams, PostParams};
    use kube::core::ObjectMeta;

    use super::*;
    use crate::World;

    const NAMES: [&str; 3] = ["a", "b", "c"];

    async fn make(maps: &Api<ConfigMap>, name: &str) -> kube::Result<()> {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        maps.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await?;
        Ok(())
    }

    /// Creates what is missing.
    async fn careful(world: &World, fault: &Fault) -> kube::Result<()> {
        let maps = Api::namespaced(fault.over(world.platform()), "default");
        for name in NAMES {
            if maps.get_opt(name).await?.is_none() {
                make(&maps, name).await?;
            }
        }
        Ok(())
    }

    /// Takes the first object for proof that all exist.
    async fn careless(world: &World, fault: &Fault) -> kube::Result<()> {
        let maps = Api::namespaced(fault.over(world.platform()), "default");
        if maps.get_opt(NAMES[0]).await?.is_none() {
            for name in NAMES {
                make(&maps, name).await?;
            }
        }
        Ok(())
    }

    async fn all_are_there(world: &World) {
        let maps: Api<ConfigMap> = Api::namespaced(world.admin(), "default");
        let all = maps.list(&ListParams::default()).await.unwrap();
        let made = all.items.iter().filter_map(|map| map.metadata.name.as_deref());
        assert_eq!(made.filter(|name| NAMES.contains(name)).count(), NAMES.len());
    }

    #[tokio::test]
    async fn work_that_looks_before_it_writes_survives_every_kill() {
        assert_eq!(every_kill_point(World::new, careful, all_are_there).await, NAMES.len());
    }

    #[tokio::test]
    #[should_panic = "assertion `left == right` failed"]
    async fn work_that_does_not_is_found_out() {
        every_kill_point(World::new, careless, all_are_there).await;
    }

    #[tokio::test]
    async fn a_blow_falls_before_or_after_the_server_hears() {
        for (blow, made) in [(Blow::Before, 1), (Blow::After, 2)] {
            let (world, fault) = (World::new().await, Fault::after_writes(1, blow));
            let maps = Api::namespaced(fault.over(world.platform()), "default");
            make(&maps, "a").await.unwrap();
            assert!(make(&maps, "b").await.is_err() && fault.is_cut());
            assert!(
                make(&maps, "c").await.is_err() && maps.get("a").await.is_err(),
                "nothing passes any more"
            );
            let there: Api<ConfigMap> = Api::namespaced(world.admin(), "default");
            let mut found = 0;
            for name in NAMES {
                found += usize::from(there.get_opt(name).await.unwrap().is_some());
            }
            assert_eq!((found, fault.writes(), fault.calls()), (made, 1, 1), "{blow:?}");
        }
    }
}
