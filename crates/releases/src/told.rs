//! What was last written of each thing, until the watch has told of it.
//!
//! A pass that begins before a write of the last one was heard of would judge by what was before it: it would do work twice, and
//! be refused in the end. So it waits for the watch, which is a moment away.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;

/// The versions that were written, by what they are of.
pub(crate) struct Told<K>(Mutex<HashMap<K, u64>>);

impl<K> Default for Told<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq> Told<K> {
    /// Notes that this version was written. Versions of one kind grow.
    pub fn note(&self, key: K, version: Option<&str>) {
        if let Some(version) = number(version) {
            self.0.lock().insert(key, version);
        }
    }

    /// Whether what was written last is newer than what is known: the watch is yet to tell.
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
        // A version that is no number is not waited for.
        assert!(!told.is_ahead_of(&"web", None));
        told.note("web", Some("10"));
        assert!(!told.is_ahead_of(&"web", Some("10")));
        assert!(!told.is_ahead_of(&"web", Some("7")), "it was heard of, and is forgotten");
        told.note("web", Some("11"));
        told.forget(&"web");
        assert!(!told.is_ahead_of(&"web", Some("7")));
    }
}
