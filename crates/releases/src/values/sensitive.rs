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

use helm_chart::chart::Chart;
use helm_template::data::{Data, Members};
use kube_apply::Object;
use kube_apply::mask::{MASKED, Mask};
use serde_json::{Map, Value};

use super::{Gathered, leaves, schema};

/// How many characters a text has at least that is looked for everywhere.
const LONG: usize = 8;

/// So many places of sensitive values are recorded one by one, and so many bytes.
const MOST_POINTERS: usize = 64;
const POINTERS_SIZE: usize = 4096;

/// What is to be masked.
pub struct Sensitive {
    /// Where the release's values are sensitive, with all that is below.
    pointers: BTreeSet<String>,
    texts: Vec<String>,
    mask: Mask,
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
        Self::at(Self::places(chart, gathered), &gathered.values, rendered)
    }

    /// Where the values of a release are sensitive: by its chart, and because they came from a Secret.
    pub fn places(chart: &Chart, gathered: &Gathered) -> BTreeSet<String> {
        let mut pointers = gathered.from_secrets.clone();
        pointers.extend(schema::secrets(chart, &gathered.values));
        pointers
    }

    /// What is sensitive where it was recorded which values are, or in all values where it was not.
    pub fn at(pointers: BTreeSet<String>, values: &Members, rendered: &[Object]) -> Self {
        let within = leaves::within(values, &pointers).into_iter();
        let texts: Vec<String> = within.filter_map(said).filter(|text| is_long(text)).collect();
        Self { mask: Mask::new(rendered, &texts), texts, pointers }
    }

    /// Where the values are sensitive, to be recorded; the empty pointer, which is all of them, where there are too many.
    pub fn pointers(&self) -> Vec<String> {
        let size: usize = self.pointers.iter().map(String::len).sum();
        if self.pointers.len() > MOST_POINTERS || size > POINTERS_SIZE {
            return vec![String::new()];
        }
        self.pointers.iter().cloned().collect()
    }

    /// What is sensitive in objects alone, where nothing is known of values.
    pub fn of_objects<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Self {
        Self { pointers: BTreeSet::new(), texts: Vec::new(), mask: Mask::new(objects, &[]) }
    }

    /// The values that are to be found nowhere, for those who mask by themselves.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The release's values, with what is sensitive masked.
    pub fn mask_values(&self, values: &Value) -> Value {
        self.masked(values, "")
    }

    /// An object, with the long sensitive texts masked; of a Secret everything that it holds.
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

/// A leaf as the text that it is somewhere else; truth and nothing are no secrets.
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
