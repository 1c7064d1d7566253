//! `--stay`: sends heartbeats and renews the certificate until stopped or until the Node is deleted.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use tokio::signal::unix::{SignalKind, signal};

use super::NodeError;
use super::join::JoinedNode;
use super::machine::find_condition;
use super::renewal::Renewal;

const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// Number of consecutive heartbeats for which the Node may be missing.
const MAX_MISSING_HEARTBEATS: u32 = 3;
/// Interval of status reports without a change.
const STATUS_REPORT_INTERVAL: SignedDuration = SignedDuration::from_mins(5);

pub(super) async fn run(joined: &mut JoinedNode, mut renewal: Renewal<'_>) -> Result<(), NodeError> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(NodeError::Signal)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(NodeError::Signal)?;
    let mut warned = false;
    let mut missing = 0;
    loop {
        tokio::select! {
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            () = tokio::time::sleep(HEARTBEAT_INTERVAL) => {}
        }
        let result = match send_heartbeat(joined).await {
            Ok(()) => renewal.step(joined).await,
            failed => failed,
        };
        match result {
            Ok(()) => (warned, missing) = (false, 0),
            // The platform recreates the Node of a tenant's machine.
            Err(NodeError::NodeDeleted(_)) if missing < MAX_MISSING_HEARTBEATS => missing += 1,
            // An unreachable cluster may come back; a deleted Node does not.
            Err(failure @ (NodeError::NodeDeleted(_) | NodeError::NameTaken(_))) => return Err(failure),
            Err(failure) => {
                if !std::mem::replace(&mut warned, true) {
                    eprintln!("{failure}; retrying");
                }
            }
        }
    }
}

/// Sends one heartbeat. The Lease is renewed first, because it brings back a node that was considered lost.
pub(super) async fn send_heartbeat(joined: &JoinedNode) -> Result<(), NodeError> {
    let node = joined.get_node().await?.ok_or_else(|| NodeError::NodeDeleted(joined.machine.name.clone()))?;
    joined.renew_lease(&node).await?;
    if is_report_due(&node, joined) { joined.update_status(&node).await } else { Ok(()) }
}

fn is_report_due(node: &Node, joined: &JoinedNode) -> bool {
    let Some(ready) = find_condition(node, "Ready").filter(|ready| ready.status == "True") else {
        return true;
    };
    let heard = ready.last_heartbeat_time.as_ref().map(|heard| heard.0);
    heard.is_none_or(|heard| joined.clock.now().duration_since(heard) >= STATUS_REPORT_INTERVAL)
}
