//! What one server of a cluster does by itself: provision, remove, and sweep up.

use std::convert::Infallible;
use std::time::Duration;

use kube_access::controller::runtime;
use tokio::time::sleep;

use crate::{Tenancy, provision};

/// How often is looked for what registrations left behind.
const SWEEP: Duration = Duration::from_mins(5);

impl Tenancy {
    /// Does it for ever; ended by dropping it. Only the leader may.
    pub async fn lead(&self) -> Infallible {
        // Supervised in place and not spawned: all of it is dropped with the Lease of the leader.
        futures::join!(
            runtime().run("tenancy-gc", "", || self.collect_garbage()),
            runtime().run("tenancy-controllers", "", || provision::run(self.clone())),
        )
        .0
    }

    async fn collect_garbage(&self) -> Infallible {
        loop {
            sleep(SWEEP).await;
            for swept in [self.sweep().await.map(drop), self.sweep_tokens().await, self.sweep_edge().await] {
                if let Err(error) = swept {
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot sweep up");
                }
            }
        }
    }
}
