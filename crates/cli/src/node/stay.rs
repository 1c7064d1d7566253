//! `--stay`: a machine that says every few seconds that it lives, and renews its certificate, until it is stopped or its node is gone.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use tokio::signal::unix::{SignalKind, signal};

use super::Failure;
use super::join::Joined;
use super::machine::condition;
use super::renewal::Renewal;

const EVERY: Duration = Duration::from_secs(10);
/// How many times in a row the Node may be missing.
const PATIENCE: u32 = 3;
/// How often it says how it is, though nothing has changed.
const REPORTED_EVERY: SignedDuration = SignedDuration::from_mins(5);

pub(super) async fn run(joined: &mut Joined, mut renewal: Renewal<'_>) -> Result<(), Failure> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::Signal)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::Signal)?;
    let mut complained = false;
    let mut missing = 0;
    loop {
        tokio::select! {
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            () = tokio::time::sleep(EVERY) => {}
        }
        let lived = match beat(joined).await {
            Ok(()) => renewal.step(joined).await,
            failed => failed,
        };
        match lived {
            Ok(()) => (complained, missing) = (false, 0),
            // The platform creates the Node of a tenant's machine again.
            Err(Failure::Deleted(_)) if missing < PATIENCE => missing += 1,
            // A cluster that cannot be reached may come back; a node that was taken away does not.
            Err(failure @ (Failure::Deleted(_) | Failure::NameTaken(_))) => return Err(failure),
            Err(failure) => {
                if !std::mem::replace(&mut complained, true) {
                    eprintln!("{failure}; trying again");
                }
            }
        }
    }
}

/// One sign of life. The Lease comes first: who is taken for lost is heard again by it.
pub(super) async fn beat(joined: &Joined) -> Result<(), Failure> {
    let node = joined.found().await?.ok_or_else(|| Failure::Deleted(joined.machine.name.clone()))?;
    joined.live(&node).await?;
    if is_due(&node, joined) { joined.report(&node).await } else { Ok(()) }
}

fn is_due(node: &Node, joined: &Joined) -> bool {
    let Some(ready) = condition(node, "Ready").filter(|ready| ready.status == "True") else { return true };
    let heard = ready.last_heartbeat_time.as_ref().map(|heard| heard.0);
    heard.is_none_or(|heard| joined.clock.now().duration_since(heard) >= REPORTED_EVERY)
}
