//! Sensitive values of a release, and masking.
//!
//! A value is sensitive if a schema says so, if it came from a Secret, or if a rendered Secret contains it. Texts of eight or more
//! characters are masked wherever they occur, including as base64 at any offset and with JSON escapes. Shorter ones are masked only at
//! their place in the values: replacing every `on` would make the output unreadable and reveal the value.
//!
//! Invariant: no sensitive text of eight or more characters is in the output of a mask.

use std::collections::BTreeSet;
use std::fmt;

use helm_chart::chart::Chart;
use helm_template::data::{Data, Members};
use kube_apply::Object;
use kube_apply::mask::{MASKED, Mask};
use serde_json::{Map, Value};

use super::{Gathered, leaves, schema};

/// The minimum length of texts that are masked everywhere, in characters.
const LONG: usize = 8;

/// Limits on recorded pointers: number and bytes.
const MOST_POINTERS: usize = 64;
const POINTERS_SIZE: usize = 4096;

/// The mask of a release.
pub struct Sensitive {
    /// Pointers of the sensitive values, including everything below.
    pointers: BTreeSet<String>,
    texts: Vec<String>,
    mask: Mask,
}

/// Omits the values, for logs.
impl fmt::Debug for Sensitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sensitive").finish_non_exhaustive()
    }
}

impl Sensitive {
    /// The mask of a release from its chart, its values and its rendered objects.
    pub fn of(chart: &Chart, gathered: &Gathered, rendered: &[Object]) -> Self {
        Self::at(Self::places(chart, gathered), &gathered.values, rendered)
    }

    /// Pointers of the sensitive values, by the chart's schemas and by origin in a Secret.
    pub fn places(chart: &Chart, gathered: &Gathered) -> BTreeSet<String> {
        let mut pointers = gathered.from_secrets.clone();
        pointers.extend(schema::secrets(chart, &gathered.values));
        pointers
    }

    /// The mask for recorded pointers. The empty pointer masks all values.
    pub fn at(pointers: BTreeSet<String>, values: &Members, rendered: &[Object]) -> Self {
        let within = leaves::within(values, &pointers).into_iter();
        let texts: Vec<String> = within.filter_map(said).filter(|text| is_long(text)).collect();
        Self { mask: Mask::new(rendered, &texts), texts, pointers }
    }

    /// The pointers to record; the empty pointer, which means all values, if there are too many.
    pub fn pointers(&self) -> Vec<String> {
        let size: usize = self.pointers.iter().map(String::len).sum();
        if self.pointers.len() > MOST_POINTERS || size > POINTERS_SIZE {
            return vec![String::new()];
        }
        self.pointers.iter().cloned().collect()
    }

    /// The mask of objects whose values are not known.
    pub fn of_objects<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Self {
        Self { pointers: BTreeSet::new(), texts: Vec::new(), mask: Mask::new(objects, &[]) }
    }

    /// The texts to mask, for callers with their own mask.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Masks the values of a release.
    pub fn mask_values(&self, values: &Value) -> Value {
        self.masked(values, "")
    }

    /// Masks long sensitive texts in an object; in a Secret, all data.
    pub fn mask(&self, object: &Value) -> Value {
        self.mask.pair(Some(object), None).0.unwrap_or_default()
    }

    pub fn mask_text(&self, text: &str) -> String {
        self.mask.over(text)
    }

    fn masked(&self, value: &Value, pointer: &str) -> Value {
        if self.pointers.contains(pointer) {
            return MASKED.into();
        }
        let below = |key: &str| leaves::below(pointer, key);
        match value {
            Value::String(text) => self.mask.over(text).into(),
            Value::Number(number) if self.mask.covers(&number.to_string()) => MASKED.into(),
            Value::Array(items) => {
                let items = items.iter().enumerate();
                items.map(|(index, item)| self.masked(item, &below(&index.to_string()))).collect()
            }
            Value::Object(members) => {
                let members = members.iter();
                let members =
                    members.map(|(key, item)| (self.mask.over(key), self.masked(item, &below(key))));
                Value::Object(members.collect::<Map<_, _>>())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

fn is_long(text: &str) -> bool {
    text.chars().nth(LONG - 1).is_some()
}

/// A leaf as it appears in other texts. Booleans and nulls are not sensitive.
fn said(value: &Data) -> Option<String> {
    match value {
        Data::String(text) => Some(text.to_string()),
        Data::Int(number) => Some(number.to_string()),
        Data::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
