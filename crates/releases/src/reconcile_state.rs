//! In-memory reconcile state per release, from its last full reconcile. A reconcile for a pod that became ready needs neither the chart
//! nor the values.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube_apply::ObjectId;
use kube_types::HelmRelease;
use parking_lot::Mutex;

use crate::key::ReleaseKey;

#[derive(Default)]
pub(crate) struct ReconcileState {
    entries: Mutex<HashMap<ReleaseKey, ReconcileEntry>>,
    /// The UID and generation whose preparation last finished in this process, whether it succeeded or failed.
    prepared: Mutex<HashMap<ReleaseKey, (String, Option<i64>)>>,
}

struct ReconcileEntry {
    uid: String,
    generation: Option<i64>,
    reconciled_at: Timestamp,
    /// The hash of the desired release.
    spec_hash: String,
    /// A revision and its objects.
    objects: Option<(i64, Arc<[ObjectId]>)>,
}

impl ReconcileState {
    /// The hash of the desired release, if it was computed for this generation and within `interval`.
    pub fn spec_hash(
        &self,
        key: &ReleaseKey,
        release: &HelmRelease,
        interval: Option<SignedDuration>,
        now: Timestamp,
    ) -> Option<String> {
        let all = self.entries.lock();
        let entry = all.get(key).filter(|entry| entry.matches_generation(release))?;
        let fresh = interval.is_none_or(|interval| now.duration_since(entry.reconciled_at) < interval);
        fresh.then(|| entry.spec_hash.clone())
    }

    /// The time of the last full reconcile.
    pub fn last_reconciled(&self, key: &ReleaseKey) -> Option<Timestamp> {
        self.entries.lock().get(key).map(|entry| entry.reconciled_at)
    }

    /// Records a full reconcile.
    pub fn record_reconcile(&self, key: &ReleaseKey, release: &HelmRelease, spec_hash: &str, now: Timestamp) {
        let mut all = self.entries.lock();
        let objects = all
            .remove(key)
            .filter(|entry| Some(&entry.uid) == release.uid().as_ref())
            .and_then(|entry| entry.objects);
        let entry = ReconcileEntry {
            uid: release.uid().unwrap_or_default(),
            generation: release.metadata.generation,
            reconciled_at: now,
            spec_hash: spec_hash.to_owned(),
            objects,
        };
        all.insert(key.clone(), entry);
    }

    /// The objects of `revision`, if cached.
    pub fn objects(&self, key: &ReleaseKey, revision: i64) -> Option<Arc<[ObjectId]>> {
        let all = self.entries.lock();
        let (of, objects) = all.get(key)?.objects.as_ref()?;
        (*of == revision).then(|| objects.clone())
    }

    pub fn record_objects(&self, key: &ReleaseKey, revision: i64, objects: Arc<[ObjectId]>) {
        if let Some(entry) = self.entries.lock().get_mut(key) {
            entry.objects = Some((revision, objects));
        }
    }

    /// Marks the preparation of a release as started.
    pub fn begin_preparation(&self, key: &ReleaseKey) {
        self.prepared.lock().remove(key);
    }

    /// Marks the preparation of this generation as finished.
    pub fn end_preparation(&self, key: &ReleaseKey, release: &HelmRelease) {
        let ended = (release.uid().unwrap_or_default(), release.metadata.generation);
        self.prepared.lock().insert(key.clone(), ended);
    }

    /// Whether the preparation of this generation finished in this process.
    pub fn is_prepared(&self, key: &ReleaseKey, release: &HelmRelease) -> bool {
        let all = self.prepared.lock();
        all.get(key).is_some_and(|(uid, generation)| {
            Some(uid) == release.uid().as_ref() && *generation == release.metadata.generation
        })
    }

    pub fn remove(&self, key: &ReleaseKey) {
        self.entries.lock().remove(key);
        self.prepared.lock().remove(key);
    }
}

impl ReconcileEntry {
    fn matches_generation(&self, release: &HelmRelease) -> bool {
        Some(&self.uid) == release.uid().as_ref() && self.generation == release.metadata.generation
    }
}
