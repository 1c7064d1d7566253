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

use super::{MergedValues, leaves, schema};

/// The minimum length of texts that are masked everywhere, in characters.
const MIN_MASKED_LEN: usize = 8;

/// Limits on recorded pointers: number and bytes.
const MAX_POINTERS: usize = 64;
const MAX_POINTERS_BYTES: usize = 4096;

/// The mask of a release.
pub struct SensitiveValues {
    /// Pointers of the sensitive values, including everything below.
    pointers: BTreeSet<String>,
    texts: Vec<String>,
    mask: Mask,
}

/// Omits the values, for logs.
impl fmt::Debug for SensitiveValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sensitive").finish_non_exhaustive()
    }
}

impl SensitiveValues {
    /// The mask of a release from its chart, its values and its rendered objects.
    pub fn from_chart(chart: &Chart, gathered: &MergedValues, rendered: &[Object]) -> Self {
        Self::from_pointers(Self::sensitive_pointers(chart, gathered), &gathered.values, rendered)
    }

    /// Pointers of the sensitive values, by the chart's schemas and by origin in a Secret.
    pub fn sensitive_pointers(chart: &Chart, gathered: &MergedValues) -> BTreeSet<String> {
        let mut pointers = gathered.from_secrets.clone();
        pointers.extend(schema::secret_pointers(chart, &gathered.values));
        pointers
    }

    /// The mask for recorded pointers. The empty pointer masks all values.
    pub fn from_pointers(pointers: BTreeSet<String>, values: &Members, rendered: &[Object]) -> Self {
        let within = leaves::leaves_below(values, &pointers).into_iter();
        let texts: Vec<String> = within.filter_map(leaf_text).filter(|text| is_long(text)).collect();
        Self { mask: Mask::new(rendered, &texts), texts, pointers }
    }

    /// The pointers to record; the empty pointer, which means all values, if there are too many.
    pub fn pointers(&self) -> Vec<String> {
        let size: usize = self.pointers.iter().map(String::len).sum();
        if self.pointers.len() > MAX_POINTERS || size > MAX_POINTERS_BYTES {
            return vec![String::new()];
        }
        self.pointers.iter().cloned().collect()
    }

    /// The mask of objects whose values are not known.
    pub fn from_objects<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Self {
        Self { pointers: BTreeSet::new(), texts: Vec::new(), mask: Mask::new(objects, &[]) }
    }

    /// The texts to mask, for callers with their own mask.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Masks the values of a release.
    pub fn mask_values(&self, values: &Value) -> Value {
        self.mask_at(values, "")
    }

    /// Masks long sensitive texts in an object; in a Secret, all data.
    pub fn mask(&self, object: &Value) -> Value {
        self.mask.mask_pair(Some(object), None).0.unwrap_or_default()
    }

    pub fn mask_text(&self, text: &str) -> String {
        self.mask.mask_text(text)
    }

    fn mask_at(&self, value: &Value, pointer: &str) -> Value {
        if self.pointers.contains(pointer) {
            return MASKED.into();
        }
        let below = |key: &str| leaves::child_pointer(pointer, key);
        match value {
            Value::String(text) => self.mask.mask_text(text).into(),
            Value::Number(number) if self.mask.matches(&number.to_string()) => MASKED.into(),
            Value::Array(items) => {
                let items = items.iter().enumerate();
                items.map(|(index, item)| self.mask_at(item, &below(&index.to_string()))).collect()
            }
            Value::Object(members) => {
                let members = members.iter();
                let members =
                    members.map(|(key, item)| (self.mask.mask_text(key), self.mask_at(item, &below(key))));
                Value::Object(members.collect::<Map<_, _>>())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

fn is_long(text: &str) -> bool {
    text.chars().nth(MIN_MASKED_LEN - 1).is_some()
}

/// A leaf as it appears in other texts. Booleans and nulls are not sensitive.
fn leaf_text(value: &Data) -> Option<String> {
    match value {
        Data::String(text) => Some(text.to_string()),
        Data::Int(number) => Some(number.to_string()),
        Data::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
