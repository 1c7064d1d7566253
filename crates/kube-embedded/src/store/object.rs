//! A stored object: its serialised document, and the metadata that the store reads without parsing it.
//!
//! Clients get the bytes as they are. A [`Draft`] is the document before it has a version: the writer's task
//! serialises it, and the sequencer only inserts the digits.
//!
//! Invariant: `metadata.resourceVersion` inside the bytes equals [`Object::version`].

use std::any::Any;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Values of selectable fields, by path.
pub type Fields = Box<[(Box<str>, Box<str>)]>;

#[derive(Debug)]
pub struct Object {
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub version: u64,
    pub uid: Box<str>,
    /// Sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// The uids in `metadata.ownerReferences`.
    pub owner_uids: Box<[Box<str>]>,
    /// The uid of the owner reference with `controller: true`.
    pub controller_uid: Option<Box<str>>,
    /// `metadata.deletionTimestamp` is set.
    pub is_deleting: bool,
    /// The whole JSON document.
    pub bytes: Bytes,
    /// The offset of the version's digits in `bytes`.
    version_offset: usize,
    /// Length of the leading `kind` and `apiVersion` in `bytes`; 0 for a document without them.
    type_prefix_len: usize,
    fields: OnceLock<Fields>,
    view: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Object {
    /// Creates an object from a document and its version.
    pub fn new(value: Value, version: u64) -> Self {
        Draft::new(value).finish(version)
    }

    /// Parses the document.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.bytes).expect("stored bytes are the JSON that was serialised")
    }

    /// Returns the same content under another version, for a watch whose selector no longer matches the object.
    #[must_use]
    pub fn at_version(&self, version: u64) -> Self {
        let after = self.version_offset + version_digits(self.version).len();
        Self {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            version,
            uid: self.uid.clone(),
            labels: self.labels.clone(),
            owner_uids: self.owner_uids.clone(),
            controller_uid: self.controller_uid.clone(),
            is_deleting: self.is_deleting,
            bytes: splice(&self.bytes[..self.version_offset], version, &self.bytes[after..]),
            version_offset: self.version_offset,
            type_prefix_len: self.type_prefix_len,
            fields: self.fields.clone(),
            view: self.view.clone(),
        }
    }

    /// Returns the document without the digits of its version, and their offset.
    pub(super) fn without_version(&self) -> (Vec<u8>, usize) {
        let after = self.version_offset + version_digits(self.version).len();
        ([&self.bytes[..self.version_offset], &self.bytes[after..]].concat(), self.version_offset)
    }

    /// Returns the document without `kind` and `apiVersion`, in parts, as in the items of built-in lists.
    pub fn untyped(&self) -> [Bytes; 2] {
        if self.type_prefix_len == 0 {
            return [Bytes::new(), self.bytes.clone()];
        }
        [Bytes::from_static(b"{"), self.bytes.slice(self.type_prefix_len..)]
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(k, _)| k.as_ref().cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }

    /// Returns the document as a `T`, parsed once and stored with the object. Use one `T` per kind.
    /// Stored documents are validated and fit; one that does not is logged and reads as empty.
    pub fn view<T: DeserializeOwned + Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let read = || match serde_json::from_slice::<T>(&self.bytes) {
            Ok(view) => Arc::new(view),
            Err(error) => {
                tracing::error!(%error, namespace = %self.namespace, name = %self.name, "an object does not fit its kind");
                Arc::default()
            }
        };
        self.view.get_or_init(|| read()).clone().downcast().unwrap_or_else(|_| read())
    }

    /// Whether a parsed view is stored with the object.
    pub(super) fn has_view(&self) -> bool {
        self.view.get().is_some()
    }

    /// Returns the selectable fields, computed once.
    pub fn fields(&self, compute: impl FnOnce(&Value) -> Fields) -> &Fields {
        self.fields.get_or_init(|| compute(&self.value()))
    }
}

fn version_digits(version: u64) -> String {
    version.to_string()
}

fn splice(before: &[u8], version: u64, after: &[u8]) -> Bytes {
    let digits = version_digits(version);
    let mut bytes = Vec::with_capacity(before.len() + digits.len() + after.len());
    bytes.extend_from_slice(before);
    bytes.extend_from_slice(digits.as_bytes());
    bytes.extend_from_slice(after);
    bytes.into()
}

/// The `metadata` fields that the store uses.
#[derive(Debug)]
struct Metadata {
    namespace: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    owner_uids: Box<[Box<str>]>,
    controller_uid: Option<Box<str>>,
    is_deleting: bool,
}

/// The parts of a document that are read when a file is opened.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    kind: String,
    #[serde(default, rename = "apiVersion")]
    api_version: String,
    #[serde(default)]
    metadata: RawMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawMetadata {
    namespace: Value,
    name: Value,
    uid: Value,
    labels: Value,
    owner_references: Value,
    deletion_timestamp: Value,
}

/// A serialised document without its version.
#[derive(Debug)]
pub(super) struct Draft {
    metadata: Metadata,
    /// The JSON with an empty string as `metadata.resourceVersion`.
    pub text: Vec<u8>,
    /// The offset of that string's closing quote.
    pub version_offset: usize,
    type_prefix_len: usize,
}

/// The start of a document: its type comes first, so that lists can omit it without parsing.
fn type_prefix(kind: &str, api_version: &str) -> Vec<u8> {
    let mut text = b"{\"kind\":".to_vec();
    write_json(&mut text, kind);
    text.extend_from_slice(b",\"apiVersion\":");
    write_json(&mut text, api_version);
    text.push(b',');
    text
}

impl Draft {
    /// Serialises a document. If the document or its `metadata` is not an object, that part counts as empty.
    pub fn new(value: Value) -> Self {
        let mut root = into_map(value);
        let mut metadata = into_map(root.remove("metadata").unwrap_or_default());
        metadata.insert("resourceVersion".to_owned(), Value::String(String::new()));
        let known = RawMetadata::from_map(&metadata).metadata();
        root.insert("metadata".to_owned(), Value::Object(metadata));

        let mut text = Vec::with_capacity(1024);
        let mut typed = 0;
        if let (Some(Value::String(kind)), Some(Value::String(api_version))) =
            (root.get("kind"), root.get("apiVersion"))
        {
            text.extend(type_prefix(kind, api_version));
            typed = text.len();
            root.remove("kind");
            root.remove("apiVersion");
        }
        let mut gap = 0;
        write_map(&mut text, typed > 0, &root, |text, key, value| {
            let Value::Object(metadata) = value else { return write_json(text, value) };
            if key != "metadata" {
                return write_json(text, value);
            }
            write_map(text, false, metadata, |text, key, value| {
                write_json(text, value);
                if key == "resourceVersion" {
                    gap = text.len() - 1;
                }
            });
        });
        Self { metadata: known, text, version_offset: gap, type_prefix_len: typed }
    }

    /// Creates a draft from the file's content. `Err` is the message.
    pub fn from_text(text: Vec<u8>, gap: usize) -> Result<Self, String> {
        let Document { metadata: seen, kind, api_version } =
            serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let head = type_prefix(&kind, &api_version);
        let typed = if text.starts_with(&head) { head.len() } else { 0 };
        if !text.get(..gap).is_some_and(|before| before.ends_with(br#""resourceVersion":""#)) {
            return Err("the place of its version is lost".to_owned());
        }
        Ok(Self { metadata: seen.metadata(), text, version_offset: gap, type_prefix_len: typed })
    }

    pub fn finish(self, version: u64) -> Object {
        let Metadata {
            namespace,
            name,
            uid,
            labels,
            owner_uids: owners,
            controller_uid: controller,
            is_deleting: deleting,
        } = self.metadata;
        Object {
            namespace,
            name,
            version,
            uid,
            labels,
            owner_uids: owners,
            controller_uid: controller,
            is_deleting: deleting,
            bytes: splice(&self.text[..self.version_offset], version, &self.text[self.version_offset..]),
            version_offset: self.version_offset,
            type_prefix_len: self.type_prefix_len,
            fields: OnceLock::new(),
            view: OnceLock::new(),
        }
    }
}

impl RawMetadata {
    fn from_map(metadata: &Map<String, Value>) -> Self {
        let field = |key: &str| metadata.get(key).cloned().unwrap_or_default();
        Self {
            namespace: field("namespace"),
            name: field("name"),
            uid: field("uid"),
            labels: field("labels"),
            owner_references: field("ownerReferences"),
            deletion_timestamp: field("deletionTimestamp"),
        }
    }

    fn metadata(&self) -> Metadata {
        let text = |value: &Value| value.as_str().unwrap_or_default().into();
        let labels = self.labels.as_object().into_iter().flatten();
        let owners = || self.owner_references.as_array().into_iter().flatten();
        let uid = |owner: &Value| owner["uid"].as_str().map(Into::into);
        Metadata {
            namespace: text(&self.namespace),
            name: text(&self.name),
            uid: text(&self.uid),
            labels: labels.map(|(key, value)| (key.as_str().into(), text(value))).collect(),
            owner_uids: owners().filter_map(uid).collect(),
            controller_uid: owners().find(|owner| owner["controller"] == true).and_then(uid),
            is_deleting: !self.deletion_timestamp.is_null(),
        }
    }
}

fn into_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn write_json(text: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    serde_json::to_writer(text, value).expect("a JSON value serialises into memory");
}

/// Writes the members of a map; `begun` if its opening brace is written already.
fn write_map(
    text: &mut Vec<u8>,
    begun: bool,
    map: &Map<String, Value>,
    mut write_value: impl FnMut(&mut Vec<u8>, &str, &Value),
) {
    for (at, (key, value)) in map.iter().enumerate() {
        if at > 0 || !begun {
            text.push(if at == 0 { b'{' } else { b',' });
        }
        write_json(text, key.as_str());
        text.push(b':');
        write_value(text, key, value);
    }
    text.push(b'}');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn version_is_spliced_in_at_its_serialised_position() {
        let value = json!({
            "apiVersion": "v1", "kind": "Tricky\"resourceVersion\":\"",
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "77",
                "labels": {"b": "2", "a": "1"}, "annotations": {"resourceVersion": ""},
                "ownerReferences": [{"uid": "o"}], "deletionTimestamp": "2026-01-02T03:04:05Z",
            },
            "spec": {"metadata": {"resourceVersion": ""}},
        });
        let mut expected = value.clone();
        for version in [9, 10, 123_456] {
            expected["metadata"]["resourceVersion"] = version.to_string().into();
            let object = Object::new(value.clone(), version);
            assert_eq!(object.value(), expected);
            let untyped: Value = serde_json::from_slice(&object.untyped().concat()).unwrap();
            assert_eq!((untyped.get("kind"), untyped.get("apiVersion")), (None, None));
            assert_eq!(object.at_version(7).bytes, Object::new(value.clone(), 7).bytes);
            assert_eq!((object.label("b"), object.label("c")), (Some("2"), None));
            assert_eq!((object.owner_uids[0].as_ref(), object.is_deleting), ("o", true));
        }
        let draft = Draft::new(value.clone());
        let again = Draft::from_text(draft.text.clone(), draft.version_offset).unwrap().finish(5);
        assert_eq!(again.bytes, draft.finish(5).bytes);
        assert_eq!(again.label("a"), Some("1"));
        assert!(Draft::from_text(again.bytes.to_vec(), 4).is_err());
        assert_eq!(Object::new(json!([]), 3).bytes.as_ref(), br#"{"metadata":{"resourceVersion":"3"}}"#);
    }
}
