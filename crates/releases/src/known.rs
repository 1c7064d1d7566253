//! In-memory reconcile state per release, from its last full reconcile. A reconcile for a pod that became ready needs neither the chart
//! nor the values.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube_apply::Id;
use kube_types::HelmRelease;
use parking_lot::Mutex;

use crate::key::Key;

#[derive(Default)]
pub(crate) struct Known {
    all: Mutex<HashMap<Key, Entry>>,
    /// The UID and generation whose preparation last finished in this process, whether it succeeded or failed.
    prepared: Mutex<HashMap<Key, (String, Option<i64>)>>,
}

struct Entry {
    uid: String,
    generation: Option<i64>,
    at: Timestamp,
    /// The hash of the desired release.
    spec_hash: String,
    /// A revision and its objects.
    objects: Option<(i64, Arc<[Id]>)>,
}

impl Known {
    /// The hash of the desired release, if it was computed for this generation and within `interval`.
    pub fn spec_hash(
        &self,
        key: &Key,
        release: &HelmRelease,
        interval: Option<SignedDuration>,
        now: Timestamp,
    ) -> Option<String> {
        let all = self.all.lock();
        let entry = all.get(key).filter(|entry| entry.is_of(release))?;
        let fresh = interval.is_none_or(|interval| now.duration_since(entry.at) < interval);
        fresh.then(|| entry.spec_hash.clone())
    }

    /// The time of the last full reconcile.
    pub fn looked(&self, key: &Key) -> Option<Timestamp> {
        self.all.lock().get(key).map(|entry| entry.at)
    }

    /// Records a full reconcile.
    pub fn learn(&self, key: &Key, release: &HelmRelease, spec_hash: &str, now: Timestamp) {
        let mut all = self.all.lock();
        let objects = all
            .remove(key)
            .filter(|entry| Some(&entry.uid) == release.uid().as_ref())
            .and_then(|entry| entry.objects);
        let entry = Entry {
            uid: release.uid().unwrap_or_default(),
            generation: release.metadata.generation,
            at: now,
            spec_hash: spec_hash.to_owned(),
            objects,
        };
        all.insert(key.clone(), entry);
    }

    /// The objects of `revision`, if cached.
    pub fn objects(&self, key: &Key, revision: i64) -> Option<Arc<[Id]>> {
        let all = self.all.lock();
        let (of, objects) = all.get(key)?.objects.as_ref()?;
        (*of == revision).then(|| objects.clone())
    }

    pub fn learn_objects(&self, key: &Key, revision: i64, objects: Arc<[Id]>) {
        if let Some(entry) = self.all.lock().get_mut(key) {
            entry.objects = Some((revision, objects));
        }
    }

    /// Marks the preparation of a release as started.
    pub fn begin_preparation(&self, key: &Key) {
        self.prepared.lock().remove(key);
    }

    /// Marks the preparation of this generation as finished.
    pub fn end_preparation(&self, key: &Key, release: &HelmRelease) {
        let ended = (release.uid().unwrap_or_default(), release.metadata.generation);
        self.prepared.lock().insert(key.clone(), ended);
    }

    /// Whether the preparation of this generation finished in this process.
    pub fn is_prepared(&self, key: &Key, release: &HelmRelease) -> bool {
        let all = self.prepared.lock();
        all.get(key).is_some_and(|(uid, generation)| {
            Some(uid) == release.uid().as_ref() && *generation == release.metadata.generation
        })
    }

    pub fn forget(&self, key: &Key) {
        self.all.lock().remove(key);
        self.prepared.lock().remove(key);
    }
}

impl Entry {
    fn is_of(&self, release: &HelmRelease) -> bool {
        Some(&self.uid) == release.uid().as_ref() && self.generation == release.metadata.generation
    }
}
