//! One stored object: its bytes, and what must be known of it without parsing them.
//!
//! The bytes are the truth and go out to clients as they are. Always true: `metadata.resourceVersion`
//! inside the bytes equals [`Object::version`].

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;

/// Values that a field selector can ask for, by path.
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
    pub owners: Box<[Box<str>]>,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The whole JSON document.
    pub bytes: Bytes,
    fields: OnceLock<Fields>,
}

impl Object {
    /// `value` with `version` written into its metadata.
    pub fn new(mut value: Value, version: u64) -> Self {
        let metadata = &mut value["metadata"];
        metadata["resourceVersion"] = version.to_string().into();
        let text = |key: &str| metadata[key].as_str().unwrap_or_default().into();
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        Self {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            version,
            labels: labels.map(|(k, v)| (k.as_str().into(), v.as_str().unwrap_or_default().into())).collect(),
            owners: owners.filter_map(|owner| owner["uid"].as_str().map(Into::into)).collect(),
            deleting: !metadata["deletionTimestamp"].is_null(),
            bytes: serde_json::to_vec(&value).expect("a JSON value serialises").into(),
            fields: OnceLock::new(),
        }
    }

    /// The parsed document.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.bytes).expect("stored bytes are the JSON that was serialised")
    }

    /// The same content under another version, as a watcher sees what has left its selection.
    pub fn at_version(&self, version: u64) -> Self {
        Self::new(self.value(), version)
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(k, _)| k.as_ref().cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }

    /// Selectable fields, computed once.
    pub fn fields(&self, compute: impl FnOnce(&Value) -> Fields) -> &Fields {
        self.fields.get_or_init(|| compute(&self.value()))
    }
}
