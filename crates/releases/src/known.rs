//! What was found of each release when it was last looked at whole: so that a pass for a pod that became ready fetches no
//! chart and reads no values.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube_apply::Id;
use kube_types::HelmRelease;
use parking_lot::Mutex;

use crate::key::Key;

#[derive(Default)]
pub(crate) struct Known(Mutex<HashMap<Key, Entry>>);

struct Entry {
    uid: String,
    generation: Option<i64>,
    at: Timestamp,
    /// The hash of what is wanted.
    spec_hash: String,
    /// The objects of a revision.
    objects: Option<(i64, Arc<[Id]>)>,
}

impl Known {
    /// The hash of what this release wants, if that was looked at since its spec changed, and within `interval`.
    pub fn spec_hash(
        &self,
        key: &Key,
        release: &HelmRelease,
        interval: Option<SignedDuration>,
        now: Timestamp,
    ) -> Option<String> {
        let all = self.0.lock();
        let entry = all.get(key).filter(|entry| entry.is_of(release))?;
        let fresh = interval.is_none_or(|interval| now.duration_since(entry.at) < interval);
        fresh.then(|| entry.spec_hash.clone())
    }

    /// When it was last looked at whole.
    pub fn looked(&self, key: &Key) -> Option<Timestamp> {
        self.0.lock().get(key).map(|entry| entry.at)
    }

    /// It was looked at whole.
    pub fn learn(&self, key: &Key, release: &HelmRelease, spec_hash: &str, now: Timestamp) {
        let mut all = self.0.lock();
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

    /// The objects of that revision.
    pub fn objects(&self, key: &Key, revision: i64) -> Option<Arc<[Id]>> {
        let all = self.0.lock();
        let (of, objects) = all.get(key)?.objects.as_ref()?;
        (*of == revision).then(|| objects.clone())
    }

    pub fn learn_objects(&self, key: &Key, revision: i64, objects: Arc<[Id]>) {
        if let Some(entry) = self.0.lock().get_mut(key) {
            entry.objects = Some((revision, objects));
        }
    }

    pub fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

impl Entry {
    fn is_of(&self, release: &HelmRelease) -> bool {
        Some(&self.uid) == release.uid().as_ref() && self.generation == release.metadata.generation
    }
}
