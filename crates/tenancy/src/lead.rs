//! What one server of a cluster does by itself: provision, remove, and sweep up.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::sleep;

use crate::provision::{self, Sources};
use crate::{Tenancy, directory};

/// How often is looked for what registrations left behind.
const SWEEP: Duration = Duration::from_mins(5);

impl Tenancy {
    /// Does it for ever; ended by dropping it. Only the leader may.
    pub async fn lead(&self) -> Infallible {
        let directory::Feeds { users, workspaces, secrets } = self.0.directory.feeds().clone();
        let sources = Sources { users, workspaces, secrets };
        let (client, quota) = (self.0.clients.own(), self.0.settings.quota.clone());
        let sweeping = async {
            loop {
                sleep(SWEEP).await;
                if let Err(error) = self.sweep().await {
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot sweep up");
                }
            }
        };
        let provisioning = provision::run(client, sources, quota, self.0.clock.clone());
        futures::join!(sweeping, provisioning).0
    }
}
