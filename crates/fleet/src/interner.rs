//! String interner for strings shared by many objects: images, labels, names of namespaces and nodes.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// Below this size, unused strings are not removed.
const MIN_CLEANUP_SIZE: usize = 1024;

/// Interned strings, some of them no longer used. Cheap to clone; clones share state.
#[derive(Clone, Default)]
pub(crate) struct StringInterner(Arc<Mutex<InternedStrings>>);

#[derive(Default)]
struct InternedStrings {
    strings: HashSet<Arc<str>>,
    /// Size after the last removal of unused strings.
    size_after_cleanup: usize,
}

impl StringInterner {
    /// Returns the shared copy of a string.
    pub fn intern(&self, text: &str) -> Arc<str> {
        let mut known = self.0.lock();
        if let Some(word) = known.strings.get(text) {
            return word.clone();
        }
        // Removal costs time proportional to the size, so it runs when the size has doubled.
        if known.strings.len() >= MIN_CLEANUP_SIZE.max(known.size_after_cleanup * 2) {
            known.strings.retain(|word| Arc::strong_count(word) > 1);
            known.strings.shrink_to_fit();
            known.size_after_cleanup = known.strings.len();
        }
        let word: Arc<str> = text.into();
        known.strings.insert(word.clone());
        word
    }

    pub fn intern_all<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> Box<[Arc<str>]> {
        texts.into_iter().map(|text| self.intern(text)).collect()
    }

    /// Interns keys and values, in order.
    pub fn intern_map<'a>(&self, pairs: impl IntoIterator<Item = (&'a String, &'a String)>) -> InternedMap {
        InternedMap(pairs.into_iter().map(|(key, value)| (self.intern(key), self.intern(value))).collect())
    }
}

/// Labels or annotations, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InternedMap(Box<[(Arc<str>, Arc<str>)]>);

impl InternedMap {
    pub fn get(&self, key: &str) -> Option<&Arc<str>> {
        let place = self.0.binary_search_by(|(found, _)| (**found).cmp(key)).ok()?;
        Some(&self.0[place].1)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_is_shared_and_removed_when_unused() {
        let words = StringInterner::default();
        let kept: Vec<_> = (0..600).map(|number| words.intern(&format!("kept-{number}"))).collect();
        assert!(Arc::ptr_eq(&kept[7], &words.intern("kept-7")));
        for number in 0..100_000 {
            words.intern(&format!("dropped-{number}"));
        }
        assert!(
            words.0.lock().strings.len() <= MIN_CLEANUP_SIZE.max(2 * 601) + 1,
            "{}",
            words.0.lock().strings.len()
        );
        assert!(Arc::ptr_eq(&kept[599], &words.intern("kept-599")));
    }

    #[test]
    fn pair_is_found_by_key() {
        let labels =
            [("b", "2"), ("a", "1"), ("c", "")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let labels = std::collections::BTreeMap::from(labels);
        let pairs = StringInterner::default().intern_map(&labels);
        assert_eq!(pairs.get("a").map(|value| &**value), Some("1"));
        assert_eq!(pairs.get("c").map(|value| &**value), Some(""));
        assert_eq!(pairs.get("d"), None);
        assert_eq!(pairs.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2"), ("c", "")]);
    }
}
