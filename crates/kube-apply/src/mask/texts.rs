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
const VERY_LONG: usize = 1024;

/// Maximum bytes one mask searches for very long forms. Beyond it, every text that may contain one is masked as a
/// whole.
const MOST_SEARCHED: u64 = 4 << 30;

/// Compiled search for sensitive texts.
#[derive(Clone, Default)]
pub struct Texts {
    together: Option<Arc<NFA>>,
    very_long: Vec<String>,
    /// Length of the shortest very long form.
    shortest: usize,
    searched: Arc<AtomicU64>,
}

impl Texts {
    pub fn of<'t>(texts: impl IntoIterator<Item = &'t Wanted>) -> Self {
        let forms: BTreeSet<String> = texts.into_iter().flat_map(Wanted::forms).collect();
        let (very_long, forms): (Vec<_>, Vec<_>) =
            forms.into_iter().partition(|form| form.len() >= VERY_LONG);
        let together = (!forms.is_empty())
            .then(|| Arc::new(NFA::new(&forms).expect("texts of this length fit into a searcher")));
        let shortest = very_long.iter().map(String::len).min().unwrap_or(usize::MAX);
        Self { together, very_long, shortest, searched: Arc::default() }
    }

    pub fn are_in(&self, text: &str) -> bool {
        !self.together_in(text).is_empty()
            || !self.may_search(text)
            || self.fitting(text).any(|long| text.contains(long.as_str()))
    }

    /// The text with all occurrences masked.
    pub fn over(&self, text: &str) -> String {
        if !self.may_search(text) {
            return MASKED.to_owned();
        }
        let mut masked = String::with_capacity(text.len());
        let mut shown = 0;
        for (start, end) in self.places(text) {
            masked.push_str(&text[shown..start]);
            masked.push_str(MASKED);
            shown = end;
        }
        masked.push_str(&text[shown..]);
        masked
    }

    /// Ranges of all occurrences in order; overlapping and adjacent ones are merged.
    fn places(&self, text: &str) -> Vec<(usize, usize)> {
        let mut found = self.together_in(text);
        for long in self.fitting(text) {
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

impl Texts {
    /// Very long forms that are not longer than the text.
    fn fitting<'s>(&'s self, text: &str) -> impl Iterator<Item = &'s String> {
        let length = text.len();
        self.very_long.iter().filter(move |long| long.len() <= length)
    }

    /// Counts a search for all very long forms; false if the budget is spent.
    fn may_search(&self, text: &str) -> bool {
        if text.len() < self.shortest {
            return true;
        }
        let bytes = (text.len() as u64).saturating_mul(self.very_long.len() as u64);
        self.searched.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= MOST_SEARCHED
    }

    /// Merged ranges of the shorter forms, in order. Linear in the text: of all forms that end at a byte only the
    /// longest counts, which the automaton returns first.
    fn together_in(&self, text: &str) -> Vec<(usize, usize)> {
        let mut merged: Vec<(usize, usize)> = Vec::new();
        let Some(automaton) = &self.together else { return merged };
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
pub struct Wanted {
    pub text: String,
    pub shortest: usize,
}

impl Wanted {
    fn forms(&self) -> Vec<String> {
        // Manifests indent texts of several lines, so each line is searched.
        let lines = self.text.lines().map(str::trim);
        let mut forms: Vec<String> =
            lines.chain([self.text.as_str(), self.text.trim()]).map(str::to_owned).collect();
        if self.is_long(&self.text) {
            forms.push(Value::from(self.text.as_str()).to_string().trim_matches('"').to_owned());
            for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
                // A complete base64 text also ends with its own last digit.
                forms.push(engine.encode(&self.text));
                forms.extend((0..3).map(|offset| inside(engine, self.text.as_bytes(), offset)));
            }
        }
        forms.retain(|form| self.is_long(form));
        forms
    }

    fn is_long(&self, form: &str) -> bool {
        form.chars().nth(self.shortest - 1).is_some()
    }
}

/// The base64 digits determined by these bytes alone, at an offset in a group of three bytes.
fn inside(engine: &GeneralPurpose, bytes: &[u8], offset: usize) -> String {
    let padded: Vec<u8> = std::iter::repeat_n(0, offset).chain(bytes.iter().copied()).collect();
    let encoded = engine.encode(&padded);
    // A digit encodes six bits: digits with bits of neighbouring bytes are excluded.
    let start = (offset * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    encoded[start..end].to_owned()
}
