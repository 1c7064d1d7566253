//! Manual clock, shared by the platform's code and the embedded cluster.

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube_embedded::clock;

/// A clock that moves only by `advance`.
#[derive(Clone)]
pub struct HeldClock(Arc<clock::HeldClock>);

impl HeldClock {
    pub fn at(now: Timestamp) -> Self {
        Self(clock::HeldClock::at(now))
    }

    /// At `2026-01-02T03:04:05Z`.
    pub fn new() -> Self {
        Self::at(Timestamp::from_second(1_767_323_045).unwrap())
    }

    pub fn advance(&self, by: SignedDuration) {
        self.0.advance(by);
    }
}

impl Default for HeldClock {
    fn default() -> Self {
        Self::new()
    }
}

impl domain::clock::Clock for HeldClock {
    fn now(&self) -> Timestamp {
        clock::Clock::now(&*self.0)
    }
}

impl clock::Clock for HeldClock {
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
    use crate::World;

    #[tokio::test]
    async fn the_cluster_and_we_see_the_same_time_and_it_stands_still() {
        let clock = HeldClock::new();
        let world = World::at(Arc::new(clock.clone())).await;
        clock.advance(SignedDuration::from_hours(30));
        world.apply([json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}})]).await;
        let late = Api::<Namespace>::all(world.admin()).get("late").await.unwrap();
        assert_eq!(late.metadata.creation_timestamp.unwrap().0, Clock::now(&clock));
        assert_eq!(Clock::now(&clock).to_string(), "2026-01-03T09:04:05Z");
    }
}
