//! `--stay`: sends heartbeats and renews the certificate until stopped or until the Node is deleted.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use tokio::signal::unix::{SignalKind, signal};

use super::Failure;
use super::join::Joined;
use super::machine::condition;
use super::renewal::Renewal;

const EVERY: Duration = Duration::from_secs(10);
/// Number of consecutive heartbeats for which the Node may be missing.
const PATIENCE: u32 = 3;
/// Interval of status reports without a change.
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
            // The platform recreates the Node of a tenant's machine.
            Err(Failure::Deleted(_)) if missing < PATIENCE => missing += 1,
            // An unreachable cluster may come back; a deleted Node does not.
            Err(failure @ (Failure::Deleted(_) | Failure::NameTaken(_))) => return Err(failure),
            Err(failure) => {
                if !std::mem::replace(&mut complained, true) {
                    eprintln!("{failure}; trying again");
                }
            }
        }
    }
}

/// Sends one heartbeat. The Lease is renewed first, because it brings back a node that was considered lost.
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
