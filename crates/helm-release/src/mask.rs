//! What must not be said is not said: texts of others, which may repeat what they were given, pass through here before they
//! reach a record, an error or a log.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube_apply::{Object, Step, Tell};
use serde_json::Value;

/// Shorter data of a Secret would be found everywhere by chance.
const SHORTEST: usize = 8;

const MASKED: &str = "[masked]";

/// Texts that are not said. They are not shown by anything here either.
#[derive(Clone, Default)]
pub struct Mask(Vec<String>);

impl Mask {
    /// The data of Secrets among these objects, and these texts.
    pub fn new<'o>(objects: impl IntoIterator<Item = &'o Object>, sensitive: &[String]) -> Self {
        let mut mask = Self(sensitive.iter().filter(|text| !text.trim().is_empty()).cloned().collect());
        for object in objects.into_iter().filter(|object| object.kind() == "Secret") {
            mask.add_fields(&object.value()["data"], true);
            mask.add_fields(&object.value()["stringData"], false);
        }
        // The longest first: another may be part of it.
        mask.0.sort_by_key(|text| std::cmp::Reverse(text.len()));
        mask.0.dedup();
        mask
    }

    fn add_fields(&mut self, fields: &Value, encoded: bool) {
        for field in fields.as_object().into_iter().flat_map(serde_json::Map::values) {
            let Some(text) = field.as_str() else {
                self.add(&field.to_string());
                continue;
            };
            self.add(text);
            if encoded
                && let Some(plain) = BASE64_STANDARD.decode(text).ok().and_then(|b| String::from_utf8(b).ok())
            {
                self.add(&plain);
                plain.lines().for_each(|line| self.add(line));
            } else if !encoded {
                self.add(&BASE64_STANDARD.encode(text));
                text.lines().for_each(|line| self.add(line));
            }
        }
    }

    fn add(&mut self, text: &str) {
        let text = text.trim();
        if text.len() >= SHORTEST {
            self.0.push(text.to_owned());
        }
    }

    /// The text without any of them.
    pub fn over(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), MASKED) } else { text }
        })
    }
}

/// Tells what somebody is told, without any of it.
pub struct Quiet<'q> {
    pub mask: &'q Mask,
    pub tell: &'q dyn Tell,
}

impl Tell for Quiet<'_> {
    fn tell(&self, step: Step) {
        let over = |text: String| self.mask.over(&text);
        self.tell.tell(match step {
            Step::Waiting { id, reason, event } => {
                Step::Waiting { id, reason: over(reason), event: event.map(over) }
            }
            Step::Failed { id, reason } => Step::Failed { id, reason: over(reason) },
            Step::Kept { id, reason } => Step::Kept { id, reason: over(reason) },
            told @ (Step::Applying { .. }
            | Step::Applied { .. }
            | Step::Ready { .. }
            | Step::Removing { .. }
            | Step::Removed { .. }) => told,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_secrets_is_masked_in_every_form() {
        let manifest = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {p: aHVudGVyMi1odW50ZXI=, s: aGk=}\n\
            stringData:\n  q: |\n    first line of it\n    second line of it\n---\n\
            apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {r: not-a-secret}\n";
        let mask = Mask::new(&Object::parse_all(manifest).unwrap(), &["abc".into(), " ".into()]);
        for (said, heard) in [
            ("got \"hunter2-hunter\"", "got \"[masked]\""),
            ("got aHVudGVyMi1odW50ZXI=!", "got [masked]!"),
            ("at second line of it.", "at [masked]."),
            ("hi not-a-secret", "hi not-a-secret"),
            ("xabcx", "x[masked]x"),
        ] {
            assert_eq!(mask.over(said), heard);
        }
    }
}
