//! Expectations: the last `resourceVersion` written per key, until the cache has caught up.
//!
//! A reconcile on a stale cache would repeat work and end in a conflict. It waits for the watch instead.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;

/// The last written version per key.
pub(crate) struct Told<K>(Mutex<HashMap<K, u64>>);

impl<K> Default for Told<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq> Told<K> {
    /// Records a written version. Versions of one kind increase.
    pub fn note(&self, key: K, version: Option<&str>) {
        if let Some(version) = number(version) {
            self.0.lock().insert(key, version);
        }
    }

    /// Whether the last written version is newer than the cached one.
    pub fn is_ahead_of(&self, key: &K, known: Option<&str>) -> bool {
        let mut written = self.0.lock();
        let ahead = written.get(key).zip(number(known)).is_some_and(|(written, known)| *written > known);
        if !ahead {
            written.remove(key);
        }
        ahead
    }

    pub fn forget(&self, key: &K) {
        self.0.lock().remove(key);
    }
}

fn number(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_waits_for_what_was_written_and_for_nothing_else() {
        let told = Told::default();
        assert!(!told.is_ahead_of(&"web", Some("7")));
        told.note("web", Some("9"));
        assert!(told.is_ahead_of(&"web", Some("7")));
        assert!(!told.is_ahead_of(&"api", Some("7")));
        // Versions that are not numbers are not waited for.
        assert!(!told.is_ahead_of(&"web", None));
        told.note("web", Some("10"));
        assert!(!told.is_ahead_of(&"web", Some("10")));
        assert!(!told.is_ahead_of(&"web", Some("7")), "it was heard of, and is forgotten");
        told.note("web", Some("11"));
        told.forget(&"web");
        assert!(!told.is_ahead_of(&"web", Some("7")));
    }
}
