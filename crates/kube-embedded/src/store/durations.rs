//! Durations of durable commits, as metrics.

use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// What writers wait for. The next group is written to the store file while the mark of the one before it is synced.
#[derive(Clone, Debug)]
pub struct CommitDurations {
    /// Writing and syncing a group of transactions to the store file.
    pub file: Histogram,
    /// Syncing the high-water mark.
    pub mark: Histogram,
}

impl Default for CommitDurations {
    fn default() -> Self {
        let histogram = || Histogram::new(exponential_buckets(0.000_25, 2.0, 14));
        Self { file: histogram(), mark: histogram() }
    }
}

impl CommitDurations {
    pub fn register(&self, shown: &mut Registry) {
        let help = "Time to write and sync a group of transactions to the store file";
        shown.register("kube_embedded_store_commit_duration_seconds", help, self.file.clone());
        let help = "Time to sync the high-water mark, before the transactions are acknowledged";
        shown.register("kube_embedded_store_high_water_mark_sync_duration_seconds", help, self.mark.clone());
    }
}
