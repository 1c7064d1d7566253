//! Manual clock, shared by the platform's code and the embedded cluster.

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube_embedded::clock;

/// A clock that moves only by `advance`.
#[derive(Clone)]
pub struct ManualClock(Arc<clock::ManualClock>);

impl ManualClock {
    pub fn starting_at(now: Timestamp) -> Self {
        Self(clock::ManualClock::starting_at(now))
    }

    /// At `2026-01-02T03:04:05Z`.
    pub fn new() -> Self {
        Self::starting_at(Timestamp::from_second(1_767_323_045).unwrap())
    }

    pub fn advance(&self, by: SignedDuration) {
        self.0.advance(by);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl domain::clock::Clock for ManualClock {
    fn now(&self) -> Timestamp {
        clock::Clock::now(&*self.0)
    }
}

impl clock::Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn wait_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        self.0.wait_until(at)
    }
}

#[cfg(test)]
mod tests {
    use domain::clock::Clock;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::Api;
    use serde_json::json;

    use super::*;
    use crate::TestCluster;

    #[tokio::test]
    async fn cluster_and_platform_share_the_manual_clock() {
        let clock = ManualClock::new();
        let world = TestCluster::with_clock(Arc::new(clock.clone())).await;
        clock.advance(SignedDuration::from_hours(30));
        world.apply([json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}})]).await;
        let late = Api::<Namespace>::all(world.admin_client()).get("late").await.unwrap();
        assert_eq!(late.metadata.creation_timestamp.unwrap().0, Clock::now(&clock));
        assert_eq!(Clock::now(&clock).to_string(), "2026-01-03T09:04:05Z");
    }
}
