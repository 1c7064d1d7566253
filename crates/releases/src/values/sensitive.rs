//! What nobody may see of a release, and its removal from what is shown.
//!
//! A value is sensitive when a schema says so, when it came from a Secret, or when it equals what a rendered Secret holds.
//! From eight characters on it is looked for everywhere, also in the forms that it takes on the way: base64, at any
//! offset, and JSON's escapes. A shorter one is masked where the values have it: to look for `on` everywhere would leave
//! nothing to read, and tell what it is.
//!
//! Always true: no sensitive text of eight characters or more is in what comes out of a mask.

use std::collections::BTreeSet;
use std::fmt;

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use helm_chart::chart::Chart;
use helm_template::data::Data;
use kube_apply::Object;
use serde_json::{Map, Value};

use super::{Gathered, leaves, schema};

/// What is shown instead.
pub const MASK: &str = "***";
/// How many characters a text has at least that is looked for everywhere.
const LONG: usize = 8;
/// From so many bytes on a text is looked for by itself: all at once would take a table of several times their length.
const VERY_LONG: usize = 1024;

/// What is to be masked.
pub struct Sensitive {
    /// Where the release's values are sensitive, with all that is below.
    pointers: BTreeSet<String>,
    /// All forms of the sensitive texts.
    texts: Option<AhoCorasick>,
    very_long: Vec<String>,
}

/// Not for logs, of all things.
impl fmt::Debug for Sensitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sensitive").finish_non_exhaustive()
    }
}

impl Sensitive {
    /// What is sensitive in a release: by its chart, its values, and the objects that came of them.
    pub fn of(chart: &Chart, gathered: &Gathered, rendered: &[Object]) -> Self {
        let mut pointers = gathered.from_secrets.clone();
        pointers.extend(schema::secrets(chart, &gathered.values));
        let mut texts = BTreeSet::new();
        for (pointer, value) in leaves::of(&gathered.values) {
            if let Some(text) = said(&value).filter(|_| is_within(&pointers, &pointer)) {
                // A text of several lines is indented in a manifest: each line is looked for.
                texts.extend(text.lines().map(|line| line.trim().to_owned()));
                texts.insert(text);
            }
        }
        for object in rendered {
            texts.extend(kept_in(object.value()));
        }
        Self::new(pointers, &texts)
    }

    /// What is sensitive in objects alone, where nothing is known of values.
    pub fn of_objects<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Self {
        let texts = objects.into_iter().flat_map(|object| kept_in(object.value())).collect();
        Self::new(BTreeSet::new(), &texts)
    }

    fn new(pointers: BTreeSet<String>, texts: &BTreeSet<String>) -> Self {
        let forms: BTreeSet<String> =
            texts.iter().filter(|text| is_long(text)).flat_map(|text| forms(text)).collect();
        let (very_long, forms): (Vec<_>, Vec<_>) =
            forms.into_iter().partition(|form| form.len() >= VERY_LONG);
        let texts = (!forms.is_empty())
            .then(|| AhoCorasick::new(&forms).expect("texts of this length fit into a searcher"));
        Self { pointers, texts, very_long }
    }

    /// The release's values, with what is sensitive masked.
    pub fn mask_values(&self, values: &Value) -> Value {
        self.masked(values, Some(""))
    }

    /// Anything else, with the long sensitive texts masked; of a Secret everything that it holds.
    pub fn mask(&self, value: &Value) -> Value {
        let mut value = self.masked(value, None);
        if is_secret(&value) {
            for field in ["data", "stringData"] {
                if let Some(Value::Object(entries)) = value.get_mut(field) {
                    entries.values_mut().for_each(|entry| *entry = MASK.into());
                }
            }
        }
        value
    }

    pub fn mask_text(&self, text: &str) -> String {
        let mut masked = String::with_capacity(text.len());
        let mut shown = 0;
        for (start, end) in self.found_in(text) {
            masked.push_str(&text[shown..start]);
            masked.push_str(MASK);
            shown = end;
        }
        masked.push_str(&text[shown..]);
        masked
    }

    /// Where sensitive texts are, in order; those that overlap or touch are one place.
    fn found_in(&self, text: &str) -> Vec<(usize, usize)> {
        let together = self.texts.iter().flat_map(|texts| texts.find_overlapping_iter(text));
        let mut found: Vec<(usize, usize)> = together.map(|found| (found.start(), found.end())).collect();
        for long in &self.very_long {
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

    fn masked(&self, value: &Value, pointer: Option<&str>) -> Value {
        if pointer.is_some_and(|pointer| self.pointers.contains(pointer)) {
            return MASK.into();
        }
        let below = |key: &str| pointer.map(|pointer| leaves::below(pointer, key));
        match value {
            Value::String(text) => self.mask_text(text).into(),
            Value::Number(number) => {
                let text = number.to_string();
                if self.found_in(&text).is_empty() { value.clone() } else { MASK.into() }
            }
            Value::Array(items) => {
                let items = items.iter().enumerate();
                items.map(|(index, item)| self.masked(item, below(&index.to_string()).as_deref())).collect()
            }
            Value::Object(members) => {
                let members = members.iter();
                let members = members
                    .map(|(key, item)| (self.mask_text(key), self.masked(item, below(key).as_deref())));
                Value::Object(members.collect::<Map<_, _>>())
            }
            Value::Null | Value::Bool(_) => value.clone(),
        }
    }
}

/// One of the places is this one, or around it.
fn is_within(places: &BTreeSet<String>, pointer: &str) -> bool {
    let around = pointer.match_indices('/').skip(1).map(|(at, _)| &pointer[..at]);
    places.contains(pointer) || around.into_iter().any(|pointer| places.contains(pointer))
}

fn is_secret(object: &Value) -> bool {
    object["apiVersion"] == "v1" && object["kind"] == "Secret"
}

fn is_long(text: &str) -> bool {
    text.chars().nth(LONG - 1).is_some()
}

/// A leaf as the text that it is somewhere else; truth and nothing are no secrets.
fn said(value: &Data) -> Option<String> {
    match value {
        Data::String(text) => Some(text.to_string()),
        Data::Int(number) => Some(number.to_string()),
        Data::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The texts that a Secret holds; of anything else nothing.
fn kept_in(object: &Value) -> Vec<String> {
    if !is_secret(object) {
        return Vec::new();
    }
    let entries = |field: &str| object[field].as_object().into_iter().flat_map(|entries| entries.values());
    let plain = entries("stringData").filter_map(Value::as_str).map(str::to_owned);
    let encoded = entries("data").filter_map(Value::as_str).filter_map(|text| {
        let bytes = STANDARD.decode(text.split_whitespace().collect::<String>()).ok()?;
        String::from_utf8(bytes).ok()
    });
    plain.chain(encoded).collect()
}

/// A text in the forms that it takes on its way into what is shown.
fn forms(text: &str) -> Vec<String> {
    let mut forms = vec![text.to_owned()];
    let escaped = Value::from(text).to_string();
    forms.push(escaped.trim_matches('"').to_owned());
    forms.push(text.trim_end().to_owned());
    for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        for offset in 0..3 {
            forms.push(inside(engine, text.as_bytes(), offset));
        }
    }
    forms.retain(|form| is_long(form));
    forms
}

/// The part of a base64 text that says just these bytes, so many bytes after the beginning of a group of three.
fn inside(engine: &base64::engine::GeneralPurpose, bytes: &[u8], offset: usize) -> String {
    let padded: Vec<u8> = std::iter::repeat_n(0, offset).chain(bytes.iter().copied()).collect();
    let encoded = engine.encode(&padded);
    // A digit stands for six bits: those that have bits of other bytes in them are not ours.
    let start = (offset * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    encoded[start..end].to_owned()
}

#[cfg(test)]
mod tests;
