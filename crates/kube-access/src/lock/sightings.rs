//! The Leases of errands, seen from afar: since when each is as it is.
//!
//! Whoever waits to lead will have to take over what the former leader was at, and each of its Leases must have been silent
//! for its whole time. That time need not begin with the first look of who comes next: it is measured for all of them
//! meanwhile. Nothing is decided here: a Lease is read before it is taken, and one that is no longer as it was
//! seen has its time from then on.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::runtime::watcher::Config;
use kube_types::marks::ERRAND;
use tokio::time::Instant;

use super::Seen;
use crate::Feed;

/// What is seen of them, if anybody looks. Clones are the same.
#[derive(Clone, Default)]
pub struct Sightings(Option<Feed<Seen>>);

impl Sightings {
    /// Begins to look. That all are seen is not waited for: one that is not yet gets its time when it is met.
    pub fn start(client: kube::Client) -> Self {
        let errands = Config::default().labels(ERRAND);
        let seen = |lease: Lease| Seen { spec: lease.spec, since: Instant::now() };
        Self(Some(Feed::keeping(Api::all(client), errands, seen)))
    }

    /// How a Lease was last seen, and since when.
    pub(super) fn of(&self, namespace: &str, name: &str) -> Seen {
        let seen = self.0.as_ref().and_then(|feed| feed.get_in(namespace, name));
        seen.map_or_else(Seen::nothing, |seen| Seen::clone(&seen))
    }
}
