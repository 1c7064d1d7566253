//! Masks sensitive values in texts and objects before they are shown.
//!
//! Masked are the data of Secrets (in the Secret itself always, elsewhere if long enough not to match by chance) and
//! values that the caller declares sensitive.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use crate::object::Object;
use searcher::{SensitiveText, TextSearcher};

mod searcher;

/// Minimum length of Secret data that is masked in other texts; shorter data would match by chance.
const MIN_SECRET_LEN: usize = 8;
/// Minimum length of a caller's sensitive value that is masked inside other texts; a shorter one is masked only as a
/// whole text.
const MIN_SENSITIVE_LEN: usize = 4;
/// Annotation with kubectl's copy of the object, including data of Secrets.
const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

pub const MASKED: &str = "[masked]";

/// Sensitive texts. Never shown, not even by `Debug`.
#[derive(Clone, Default)]
pub struct Mask {
    searcher: TextSearcher,
    /// Texts masked as a whole, possibly too short to search for.
    whole_texts: HashSet<String>,
}

impl Mask {
    /// Masks the data of the Secrets among these objects, and the texts in `sensitive`.
    pub fn new<'o>(objects: impl IntoIterator<Item = &'o Object>, sensitive: &[String]) -> Self {
        let known: Vec<&String> = sensitive.iter().filter(|text| !text.trim().is_empty()).collect();
        let mut wanted: Vec<SensitiveText> = known
            .iter()
            .map(|text| SensitiveText { text: (*text).clone(), min_len: MIN_SENSITIVE_LEN })
            .collect();
        for object in objects.into_iter().filter(|object| is_secret(object.value())) {
            wanted.extend(
                secret_values(object.value()).map(|text| SensitiveText { text, min_len: MIN_SECRET_LEN }),
            );
        }
        Self {
            searcher: TextSearcher::new(&wanted),
            whole_texts: known.into_iter().map(|text| text.trim().to_owned()).collect(),
        }
    }

    /// The text with all occurrences masked.
    pub fn mask_text(&self, text: &str) -> String {
        if self.whole_texts.contains(text.trim()) {
            return MASKED.to_owned();
        }
        self.searcher.mask(text)
    }

    /// Whether the text contains a sensitive text.
    pub fn matches(&self, text: &str) -> bool {
        self.whole_texts.contains(text.trim()) || self.searcher.matches(text)
    }

    /// Masks two states of an object. A changed value stays distinguishable from the old one.
    pub fn mask_pair(&self, before: Option<&Value>, after: Option<&Value>) -> (Option<Value>, Option<Value>) {
        let secret = [before, after].into_iter().flatten().any(is_secret);
        let place = if secret { MaskScope::Secret } else { MaskScope::Open };
        self.mask_values(before, after, place)
    }

    fn mask_values(
        &self,
        before: Option<&Value>,
        after: Option<&Value>,
        place: MaskScope,
    ) -> (Option<Value>, Option<Value>) {
        match (before, after) {
            (Some(Value::Object(before)), Some(Value::Object(after))) => {
                let (before, after) = self.mask_maps(before, after, place);
                (Some(before), Some(after))
            }
            (Some(Value::Array(before)), Some(Value::Array(after))) => {
                let longest = before.len().max(after.len());
                let items = (0..longest).map(|at| self.mask_values(before.get(at), after.get(at), place));
                let (before, after): (Vec<_>, Vec<_>) = items.unzip();
                (Some(before.into_iter().flatten().collect()), Some(after.into_iter().flatten().collect()))
            }
            (Some(Value::Object(map)), None) => (Some(self.mask_maps(map, &Map::new(), place).0), None),
            (None, Some(Value::Object(map))) => (None, Some(self.mask_maps(&Map::new(), map, place).1)),
            (Some(Value::Array(items)), None) => (
                Some(items.iter().filter_map(|item| self.mask_values(Some(item), None, place).0).collect()),
                None,
            ),
            (None, Some(Value::Array(items))) => (
                None,
                Some(items.iter().filter_map(|item| self.mask_values(None, Some(item), place).1).collect()),
            ),
            (Some(old @ (Value::Object(_) | Value::Array(_))), Some(new))
            | (Some(old), Some(new @ (Value::Object(_) | Value::Array(_)))) => {
                (self.mask_values(Some(old), None, place).0, self.mask_values(None, Some(new), place).1)
            }
            (before, after) => self.mask_scalars(before, after, place),
        }
    }

    fn mask_maps(
        &self,
        before: &Map<String, Value>,
        after: &Map<String, Value>,
        place: MaskScope,
    ) -> (Value, Value) {
        let (mut masked, mut counts) = ((Map::new(), Map::new()), (HashMap::new(), HashMap::new()));
        let new = after.keys().filter(|key| !before.contains_key(*key));
        for key in before.keys().chain(new) {
            let (old, new) = self.mask_values(before.get(key), after.get(key), place.child(key));
            let name = self.mask_text(key);
            if let Some(value) = old {
                insert_numbered(&mut masked.0, &mut counts.0, &name, value);
            }
            if let Some(value) = new {
                insert_numbered(&mut masked.1, &mut counts.1, &name, value);
            }
        }
        (masked.0.into(), masked.1.into())
    }

    fn mask_scalars(
        &self,
        before: Option<&Value>,
        after: Option<&Value>,
        place: MaskScope,
    ) -> (Option<Value>, Option<Value>) {
        let (mut old, mut new) = (
            before.map(|value| self.mask_scalar(value, place)),
            after.map(|value| self.mask_scalar(value, place)),
        );
        // Both look alike after masking. The difference itself is not secret.
        if before != after && old == new {
            old = old.as_ref().map(|value| with_suffix(value, "old value"));
            new = new.as_ref().map(|value| with_suffix(value, "new value"));
        }
        (old, new)
    }

    fn mask_scalar(&self, value: &Value, place: MaskScope) -> Value {
        match value {
            Value::Null => Value::Null,
            _ if place.is_masked() => MASKED.into(),
            Value::String(text) => self.mask_text(text).into(),
            Value::Number(number) if self.matches(&number.to_string()) => MASKED.into(),
            other => other.clone(),
        }
    }
}

fn is_secret(object: &Value) -> bool {
    object["kind"] == "Secret"
}

/// Values of a Secret, decoded and as stored.
fn secret_values(secret: &Value) -> impl Iterator<Item = String> {
    let entries = |field: &str| secret[field].as_object().into_iter().flat_map(Map::values);
    let plain = entries("stringData")
        .map(|entry| entry.as_str().map_or_else(|| entry.to_string(), ToOwned::to_owned));
    let encoded = entries("data").filter_map(Value::as_str).flat_map(|text| {
        let bytes = BASE64_STANDARD.decode(text.split_whitespace().collect::<String>()).ok();
        [Some(text.to_owned()), bytes.and_then(|bytes| String::from_utf8(bytes).ok())]
    });
    plain.chain(encoded.flatten())
}

fn with_suffix(value: &Value, suffix: &str) -> Value {
    let text = value.as_str().unwrap_or(MASKED);
    if text == MASKED { format!("[masked: {suffix}]").into() } else { format!("{text} [{suffix}]").into() }
}

/// Masked keys may collide: all but the first are numbered.
fn insert_numbered(
    map: &mut Map<String, Value>,
    counts: &mut HashMap<String, usize>,
    key: &str,
    value: Value,
) {
    let mut name = key.to_owned();
    while map.contains_key(&name) {
        let count = counts.entry(key.to_owned()).or_insert(0);
        *count += 1;
        name = if *count == 1 { format!("{key}'") } else { format!("{key}'{count}") };
    }
    map.insert(name, value);
}

/// Position of a value in an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MaskScope {
    Open,
    /// A Secret, on the path to its data.
    Secret,
    SecretMetadata,
    SecretAnnotations,
    /// Everything below is masked.
    Masked,
}

impl MaskScope {
    fn child(self, key: &str) -> Self {
        match (self, key) {
            (Self::Secret, "data" | "stringData")
            | (Self::Masked, _)
            | (Self::SecretAnnotations, LAST_APPLIED_ANNOTATION) => Self::Masked,
            (Self::Secret, "metadata") => Self::SecretMetadata,
            (Self::SecretMetadata, "annotations") => Self::SecretAnnotations,
            _ => Self::Open,
        }
    }

    fn is_masked(self) -> bool {
        self == Self::Masked
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_of_secrets_is_masked_in_every_form() {
        let manifest = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {p: aHVudGVyMi1odW50ZXI=, s: aGk=}\n\
            stringData:\n  q: |\n    first line of it\n    second line of it\n---\n\
            apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {r: not-a-secret}\n";
        let mask =
            Mask::new(&Object::parse_all(manifest).unwrap(), &["abcd".into(), "ab".into(), " ".into()]);
        for (said, heard) in [
            ("got \"hunter2-hunter\"", "got \"[masked]\""),
            ("got aHVudGVyMi1odW50ZXI=!", "got [masked]!"),
            ("at second line of it.", "at [masked]."),
            ("hi not-a-secret", "hi not-a-secret"),
            ("xabcdx", "x[masked]x"),
            ("YWJjZA==", "[masked]=="),
            ("about ab", "about ab"),
            ("ab", "[masked]"),
        ] {
            assert_eq!(mask.mask_text(said), heard);
        }
    }

    #[test]
    fn changed_values_are_masked_but_distinguishable() {
        let secret = |value: &str, copy: &str| json!({"kind": "Secret", "metadata": {"name": "s", "annotations": {LAST_APPLIED_ANNOTATION: copy}}, "data": {"p": value, "same": "x"}});
        let (before, after) = (secret("MQ==", "{1}"), secret("Mg==", "{2}"));
        let (old, new) = Mask::default().mask_pair(Some(&before), Some(&after));
        let masked = |which: &str| {
            let value = format!("[masked: {which} value]");
            json!({"kind": "Secret", "metadata": {"name": "s", "annotations": {LAST_APPLIED_ANNOTATION: value}}, "data": {"p": value, "same": "[masked]"}})
        };
        assert_eq!((old, new), (Some(masked("old")), Some(masked("new"))));
    }

    #[test]
    fn part_of_a_text_is_masked_and_the_rest_is_shown() {
        let mask = Mask::new([], &["one-secret".into(), "two-secret".into()]);
        let url =
            |password: &str| json!({"kind": "ConfigMap", "data": {"url": format!("pg://u:{password}@h")}});
        let (old, new) = mask.mask_pair(Some(&url("one-secret")), Some(&url("two-secret")));
        assert_eq!(old.unwrap()["data"]["url"], "pg://u:[masked]@h [old value]");
        assert_eq!(new.unwrap()["data"]["url"], "pg://u:[masked]@h [new value]");
    }

    /// Each line of the Secret matches at every position of the text.
    #[test]
    fn masking_is_linear_in_overlapping_secrets() {
        let lines: Vec<String> = (8..1_000).map(|length| "a".repeat(length)).collect();
        let mask = Mask::new([], &lines);
        let text = "a".repeat(1_000_000);
        assert_eq!(mask.mask_text(&format!("x{text}y")), "x[masked]y");
        let mask = Mask::new([], &["abcdefgh".into(), "efghijkl".into(), "cdefghij".into()]);
        assert_eq!(mask.mask_text("-abcdefghijkl-abcdefgh-efghijkl"), "-[masked]-[masked]-[masked]");
    }

    #[test]
    fn colliding_masked_keys_are_numbered() {
        let secrets: Vec<String> = (0..20_000).map(|n| format!("secret-{n:05}")).collect();
        let object: Map<String, Value> = secrets.iter().map(|key| (key.clone(), json!(1))).collect();
        let mask = Mask::new([], &secrets);
        let (masked, _) = mask.mask_pair(Some(&Value::Object(object)), None);
        let masked = masked.unwrap();
        let keys = masked.as_object().unwrap();
        assert_eq!(keys.len(), 20_000);
        assert!(keys.contains_key("[masked]") && keys.contains_key("[masked]'"));
        assert!(keys.keys().map(String::len).max() <= Some(20));
    }

    #[test]
    fn too_many_long_secrets_mask_whole_texts() {
        let secrets: Vec<String> = (0..3_000).map(|n| format!("{n:04}{}", "x".repeat(2_000))).collect();
        let mask = Mask::new([], &secrets);
        assert_eq!(mask.mask_text("short"), "short");
        assert_eq!(mask.mask_text(&"y".repeat(1 << 20)), MASKED);
    }
}
