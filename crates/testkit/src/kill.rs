//! Work that is killed at every point where it can be.
//!
//! What a process leaves behind when it dies is what it has written so far. So the work is done once for each number of writes,
//! killed at the next one, begun again as after a restart, and what it ends with is looked at.

use std::fmt::Debug;

use tokio::time::timeout;

use crate::fault::{Blow, Fault};
use crate::until::LIMIT;

/// More writes than any work under test should need.
const MANY: usize = 500;

/// Does `act` in a new world for every point at which it can be killed, then once more to its end, and lets `check` look
/// at the outcome. Returns the number of points.
///
/// `act` lays the fault over the clients that it uses and ends when its work is done. It is dropped where it is killed.
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
            // An act that heard of the cut before we did has been killed all the same.
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
