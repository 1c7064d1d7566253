//! String interner for strings shared by many objects: images, labels, names of namespaces and nodes.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// Below this size, unused strings are not removed.
const FEW: usize = 1024;

/// Interned strings, some of them no longer used. Cheap to clone; clones share state.
#[derive(Clone, Default)]
pub(crate) struct Words(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    words: HashSet<Arc<str>>,
    /// Size after the last removal of unused strings.
    kept: usize,
}

impl Words {
    /// Returns the shared copy of a string.
    pub fn word(&self, text: &str) -> Arc<str> {
        let mut known = self.0.lock();
        if let Some(word) = known.words.get(text) {
            return word.clone();
        }
        // Removal costs time proportional to the size, so it runs when the size has doubled.
        if known.words.len() >= FEW.max(known.kept * 2) {
            known.words.retain(|word| Arc::strong_count(word) > 1);
            known.words.shrink_to_fit();
            known.kept = known.words.len();
        }
        let word: Arc<str> = text.into();
        known.words.insert(word.clone());
        word
    }

    pub fn words<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> Box<[Arc<str>]> {
        texts.into_iter().map(|text| self.word(text)).collect()
    }

    /// Interns keys and values, in order.
    pub fn pairs<'a>(&self, pairs: impl IntoIterator<Item = (&'a String, &'a String)>) -> WordPairs {
        WordPairs(pairs.into_iter().map(|(key, value)| (self.word(key), self.word(value))).collect())
    }
}

/// Labels or annotations, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WordPairs(Box<[(Arc<str>, Arc<str>)]>);

impl WordPairs {
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
    fn a_word_is_kept_once_and_forgotten_when_nobody_has_it() {
        let words = Words::default();
        let kept: Vec<_> = (0..600).map(|number| words.word(&format!("kept-{number}"))).collect();
        assert!(Arc::ptr_eq(&kept[7], &words.word("kept-7")));
        for number in 0..100_000 {
            words.word(&format!("dropped-{number}"));
        }
        assert!(words.0.lock().words.len() <= FEW.max(2 * 601) + 1, "{}", words.0.lock().words.len());
        assert!(Arc::ptr_eq(&kept[599], &words.word("kept-599")));
    }

    #[test]
    fn a_pair_is_found_by_its_key() {
        let labels =
            [("b", "2"), ("a", "1"), ("c", "")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let labels = std::collections::BTreeMap::from(labels);
        let pairs = Words::default().pairs(&labels);
        assert_eq!(pairs.get("a").map(|value| &**value), Some("1"));
        assert_eq!(pairs.get("c").map(|value| &**value), Some(""));
        assert_eq!(pairs.get("d"), None);
        assert_eq!(pairs.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2"), ("c", "")]);
    }
}
