//! Background work of the leader: controllers and garbage collection.

use std::convert::Infallible;
use std::time::Duration;

use kube_access::controller::runtime;
use tokio::time::sleep;

use crate::{Tenancy, controller};

/// The interval of garbage collection.
const GC_INTERVAL: Duration = Duration::from_mins(5);

impl Tenancy {
    /// Runs until dropped. Only the leader may call it.
    pub async fn run_leader_tasks(&self) -> Infallible {
        // Supervised in place and not spawned: dropping this future, as on loss of the leader's Lease, stops all of it.
        futures::join!(
            runtime().run("tenancy-gc", "", || self.collect_garbage()),
            runtime().run("tenancy-controllers", "", || controller::run(self.clone())),
        )
        .0
    }

    async fn collect_garbage(&self) -> Infallible {
        loop {
            sleep(GC_INTERVAL).await;
            for swept in [
                self.collect_registration_garbage().await.map(drop),
                self.delete_expired_tokens().await,
                self.collect_join_garbage().await,
            ] {
                if let Err(error) = swept {
                    tracing::warn!(error = &error as &dyn std::error::Error, "garbage collection failed");
                }
            }
        }
    }
}
