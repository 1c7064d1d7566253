//! Observed Leases of running operations: since when each is unchanged.
//!
//! A new leader takes over the operations of the former one, and each Lease must first be unchanged for its whole duration. Standby
//! candidates measure that time continuously, so it has already passed at takeover. Nothing is decided here: a Lease is read
//! before it is taken, and if it differs from the observation its time starts anew.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::runtime::watcher::Config;
use kube_types::well_known::OPERATION_LEASE;
use tokio::time::Instant;

use super::ObservedLease;
use crate::WatchCache;

/// Cache of observed operation Leases; the default observes nothing. Cheap to clone; clones share state.
#[derive(Clone, Default)]
pub struct LeaseObserver(Option<WatchCache<ObservedLease>>);

impl LeaseObserver {
    /// Starts the watch. It need not be synced: the time of an unobserved Lease starts when it is first read.
    pub fn start(client: kube::Client) -> Self {
        let errands = Config::default().labels(OPERATION_LEASE);
        let seen = |lease: Lease| ObservedLease { spec: lease.spec, unchanged_since: Instant::now() };
        Self(Some(WatchCache::start_projected(Api::all(client), errands, seen)))
    }

    /// The observed state of a Lease, and since when it is unchanged.
    pub(super) fn observed(&self, namespace: &str, name: &str) -> ObservedLease {
        let seen = self.0.as_ref().and_then(|feed| feed.get_namespaced(namespace, name));
        seen.map_or_else(ObservedLease::absent, |seen| ObservedLease::clone(&seen))
    }
}
