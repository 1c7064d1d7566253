//! Expectations: the last `resourceVersion` written per key, until the cache has caught up.
//!
//! A reconcile on a stale cache would repeat work and end in a conflict. It waits for the watch instead.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;

/// The last written version per key.
pub(crate) struct Expectations<K>(Mutex<HashMap<K, u64>>);

impl<K> Default for Expectations<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq> Expectations<K> {
    /// Records a written version. Versions of one kind increase.
    pub fn record_write(&self, key: K, version: Option<&str>) {
        if let Some(version) = parse_version(version) {
            self.0.lock().insert(key, version);
        }
    }

    /// Whether the last written version is newer than the cached one.
    pub fn is_cache_stale(&self, key: &K, known: Option<&str>) -> bool {
        let mut written = self.0.lock();
        let ahead =
            written.get(key).zip(parse_version(known)).is_some_and(|(written, known)| *written > known);
        if !ahead {
            written.remove(key);
        }
        ahead
    }

    pub fn remove(&self, key: &K) {
        self.0.lock().remove(key);
    }
}

fn parse_version(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_is_stale_until_it_has_the_written_version() {
        let told = Expectations::default();
        assert!(!told.is_cache_stale(&"web", Some("7")));
        told.record_write("web", Some("9"));
        assert!(told.is_cache_stale(&"web", Some("7")));
        assert!(!told.is_cache_stale(&"api", Some("7")));
        // Versions that are not numbers are not waited for.
        assert!(!told.is_cache_stale(&"web", None));
        told.record_write("web", Some("10"));
        assert!(!told.is_cache_stale(&"web", Some("10")));
        assert!(!told.is_cache_stale(&"web", Some("7")), "it was heard of, and is forgotten");
        told.record_write("web", Some("11"));
        told.remove(&"web");
        assert!(!told.is_cache_stale(&"web", Some("7")));
    }
}
