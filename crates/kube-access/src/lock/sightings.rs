//! Observed Leases of running operations: since when each is unchanged.
//!
//! A new leader takes over the operations of the former one, and each Lease must first be unchanged for its whole duration. Standby
//! candidates measure that time continuously, so it has already passed at takeover. Nothing is decided here: a Lease is read
//! before it is taken, and if it differs from the observation its time starts anew.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::runtime::watcher::Config;
use kube_types::marks::ERRAND;
use tokio::time::Instant;

use super::Seen;
use crate::Feed;

/// Cache of observed operation Leases; the default observes nothing. Cheap to clone; clones share state.
#[derive(Clone, Default)]
pub struct Sightings(Option<Feed<Seen>>);

impl Sightings {
    /// Starts the watch. It need not be synced: the time of an unobserved Lease starts when it is first read.
    pub fn start(client: kube::Client) -> Self {
        let errands = Config::default().labels(ERRAND);
        let seen = |lease: Lease| Seen { spec: lease.spec, since: Instant::now() };
        Self(Some(Feed::keeping(Api::all(client), errands, seen)))
    }

    /// The observed state of a Lease, and since when it is unchanged.
    pub(super) fn of(&self, namespace: &str, name: &str) -> Seen {
        let seen = self.0.as_ref().and_then(|feed| feed.get_in(namespace, name));
        seen.map_or_else(Seen::nothing, |seen| Seen::clone(&seen))
    }
}
