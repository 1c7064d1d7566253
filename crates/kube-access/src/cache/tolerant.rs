//! Objects as the API server sends them, including objects that do not decode.
//!
//! `kube::core::DeserializeGuard` serves the same purpose but makes two more copies of each object, which for a long list cost more than
//! the cached projections. So would `metadata.managedFields`: as a tree it is many times the size of the rest, and no reader needs it.
//! It is cut out of the text before parsing.

use std::borrow::Cow;

use kube::Resource;
use kube::core::{ListMeta, ObjectMeta};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};
use serde_json::value::RawValue;

/// A decoded object, or the metadata of one that does not decode.
#[derive(Clone, Debug)]
pub(super) struct Tolerant<K>(pub(super) Result<K, Undecodable>);

#[derive(Clone, Debug)]
pub(super) struct Undecodable {
    pub(super) metadata: Box<ObjectMeta>,
    pub(super) error: String,
}

impl<K: Resource> Tolerant<K> {
    pub(super) fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(object) => object.meta(),
            Err(unreadable) => &unreadable.metadata,
        }
    }
}

impl<K: DeserializeOwned> Tolerant<K> {
    /// Decodes one object. Fails only if the metadata does not decode either.
    pub(super) fn decode(text: &RawValue) -> Result<Self, serde_json::Error> {
        #[derive(serde::Deserialize)]
        struct Any {
            metadata: Box<ObjectMeta>,
        }
        let text = without_managed_fields(text.get());
        Ok(Self(match serde_json::from_str(&text) {
            Ok(object) => Ok(object),
            Err(error) => {
                let Any { metadata } = serde_json::from_str(&text)?;
                Err(Undecodable { metadata, error: error.to_string() })
            }
        }))
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Tolerant<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::decode(&Box::<RawValue>::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A page of a list, with its objects still as text.
#[derive(serde::Deserialize)]
pub(super) struct ListPage<'a> {
    #[serde(default)]
    pub(super) metadata: ListMeta,
    /// An empty list may be `null`.
    #[serde(borrow, default)]
    pub(super) items: Option<Vec<&'a RawValue>>,
}

/// The object's text with `metadata.managedFields` set to `null`.
fn without_managed_fields(text: &str) -> Cow<'_, str> {
    #[derive(serde::Deserialize)]
    struct Any<'a> {
        #[serde(borrow)]
        metadata: Meta<'a>,
    }
    #[derive(serde::Deserialize)]
    struct Meta<'a> {
        #[serde(borrow, rename = "managedFields")]
        managed_fields: Option<&'a RawValue>,
    }
    // Text that is not an object is returned unchanged; parsing it fails later.
    let Ok(Any { metadata: Meta { managed_fields: Some(part) } }) = serde_json::from_str(text) else {
        return Cow::Borrowed(text);
    };
    let start = part.get().as_ptr().addr() - text.as_ptr().addr();
    let end = start + part.get().len();
    Cow::Owned([&text[..start], "null", &text[end..]].concat())
}

#[cfg(test)]
mod tests {
    use super::without_managed_fields;

    #[test]
    fn managed_fields_are_removed_from_metadata_only() {
        for (before, after) in [
            (
                r#"{"metadata":{"managedFields":[{"x":{"f:é":"]}"}}],"name":"a"},"managedFields":[1]}"#,
                r#"{"metadata":{"managedFields":null,"name":"a"},"managedFields":[1]}"#,
            ),
            (
                r#"{"spec":{"managedFields":[]},"metadata":{"managedFields": [ ] }}"#,
                r#"{"spec":{"managedFields":[]},"metadata":{"managedFields": null }}"#,
            ),
            (r#"{"metadata":{"name":"a"}}"#, r#"{"metadata":{"name":"a"}}"#),
            (r#"{"metadata":7}"#, r#"{"metadata":7}"#),
            ("[1,", "[1,"),
        ] {
            assert_eq!(without_managed_fields(before), after);
        }
    }
}
