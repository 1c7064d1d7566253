//! Searches for sensitive texts in every form they may take: plain, line by line, JSON-escaped, and in base64 at any
//! offset.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aho_corasick::Anchored;
use aho_corasick::automaton::Automaton as _;
use aho_corasick::nfa::contiguous::NFA;
use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;

use super::MASKED;

/// Forms from this length on are searched one by one: an automaton of all would take several times their length in
/// memory.
const LONG_FORM_LEN: usize = 1024;

/// Maximum bytes one mask searches for very long forms. Beyond it, every text that may contain one is masked as a
/// whole.
const MAX_SEARCHED_BYTES: u64 = 4 << 30;

/// Compiled search for sensitive texts.
#[derive(Clone, Default)]
pub struct TextSearcher {
    automaton: Option<Arc<NFA>>,
    long_forms: Vec<String>,
    /// Length of the shortest very long form.
    min_long_len: usize,
    searched_bytes: Arc<AtomicU64>,
}

impl TextSearcher {
    pub fn new<'t>(texts: impl IntoIterator<Item = &'t SensitiveText>) -> Self {
        let forms: BTreeSet<String> = texts.into_iter().flat_map(SensitiveText::forms).collect();
        let (very_long, forms): (Vec<_>, Vec<_>) =
            forms.into_iter().partition(|form| form.len() >= LONG_FORM_LEN);
        let together = (!forms.is_empty())
            .then(|| Arc::new(NFA::new(&forms).expect("texts of this length fit into a searcher")));
        let shortest = very_long.iter().map(String::len).min().unwrap_or(usize::MAX);
        Self {
            automaton: together,
            long_forms: very_long,
            min_long_len: shortest,
            searched_bytes: Arc::default(),
        }
    }

    pub fn matches(&self, text: &str) -> bool {
        !self.find_short_forms(text).is_empty()
            || !self.spend_search_budget(text)
            || self.long_candidates(text).any(|long| text.contains(long.as_str()))
    }

    /// The text with all occurrences masked.
    pub fn mask(&self, text: &str) -> String {
        if !self.spend_search_budget(text) {
            return MASKED.to_owned();
        }
        let mut masked = String::with_capacity(text.len());
        let mut shown = 0;
        for (start, end) in self.find_ranges(text) {
            masked.push_str(&text[shown..start]);
            masked.push_str(MASKED);
            shown = end;
        }
        masked.push_str(&text[shown..]);
        masked
    }

    /// Ranges of all occurrences in order; overlapping and adjacent ones are merged.
    fn find_ranges(&self, text: &str) -> Vec<(usize, usize)> {
        let mut found = self.find_short_forms(text);
        for long in self.long_candidates(text) {
            found.extend(text.match_indices(long.as_str()).map(|(at, _)| (at, at + long.len())));
        }
        found.sort_unstable();
        let mut merged: Vec<(usize, usize)> = Vec::new();
        for (start, end) in found {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        merged
    }
}

impl TextSearcher {
    /// Very long forms that are not longer than the text.
    fn long_candidates<'s>(&'s self, text: &str) -> impl Iterator<Item = &'s String> {
        let length = text.len();
        self.long_forms.iter().filter(move |long| long.len() <= length)
    }

    /// Counts a search for all very long forms; false if the budget is spent.
    fn spend_search_budget(&self, text: &str) -> bool {
        if text.len() < self.min_long_len {
            return true;
        }
        let bytes = (text.len() as u64).saturating_mul(self.long_forms.len() as u64);
        self.searched_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= MAX_SEARCHED_BYTES
    }

    /// Merged ranges of the shorter forms, in order. Linear in the text: of all forms that end at a byte only the
    /// longest counts, which the automaton returns first.
    fn find_short_forms(&self, text: &str) -> Vec<(usize, usize)> {
        let mut merged: Vec<(usize, usize)> = Vec::new();
        let Some(automaton) = &self.automaton else { return merged };
        let Ok(mut state) = automaton.start_state(Anchored::No) else { return merged };
        for (at, byte) in text.bytes().enumerate() {
            state = automaton.next_state(Anchored::No, state, byte);
            if !automaton.is_match(state) {
                continue;
            }
            let end = at + 1;
            let mut start = end - automaton.pattern_len(automaton.match_pattern(state, 0));
            while let Some(last) = merged.pop_if(|last| start <= last.1) {
                start = start.min(last.0);
            }
            merged.push((start, end));
        }
        merged
    }
}

/// A text to mask and the minimum length of its forms.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SensitiveText {
    pub text: String,
    pub min_len: usize,
}

impl SensitiveText {
    fn forms(&self) -> Vec<String> {
        // Manifests indent texts of several lines, so each line is searched.
        let lines = self.text.lines().map(str::trim);
        let mut forms: Vec<String> =
            lines.chain([self.text.as_str(), self.text.trim()]).map(str::to_owned).collect();
        if self.is_long_enough(&self.text) {
            forms.push(Value::from(self.text.as_str()).to_string().trim_matches('"').to_owned());
            for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
                // A complete base64 text also ends with its own last digit.
                forms.push(engine.encode(&self.text));
                forms.extend((0..3).map(|offset| base64_core(engine, self.text.as_bytes(), offset)));
            }
        }
        forms.retain(|form| self.is_long_enough(form));
        forms
    }

    fn is_long_enough(&self, form: &str) -> bool {
        form.chars().nth(self.min_len - 1).is_some()
    }
}

/// The base64 digits determined by these bytes alone, at an offset in a group of three bytes.
fn base64_core(engine: &GeneralPurpose, bytes: &[u8], offset: usize) -> String {
    let padded: Vec<u8> = std::iter::repeat_n(0, offset).chain(bytes.iter().copied()).collect();
    let encoded = engine.encode(&padded);
    // A digit encodes six bits: digits with bits of neighbouring bytes are excluded.
    let start = (offset * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    encoded[start..end].to_owned()
}
