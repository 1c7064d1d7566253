//! An object as a cluster sends it, which may be one that we cannot read.
//!
//! `kube::core::DeserializeGuard` is for the same, and makes two more copies of everything: of a long list these cost
//! more than all that is kept of it. So would `metadata.managedFields`, which nobody asks a feed for: as a tree it is many
//! times the size of all the rest. It is cut out of the text before anything is made of it.

use std::borrow::Cow;

use kube::Resource;
use kube::core::{ListMeta, ObjectMeta};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};
use serde_json::value::RawValue;

/// An object, or of one that cannot be read what every object has.
#[derive(Clone, Debug)]
pub(super) struct Readable<K>(pub(super) Result<K, Unreadable>);

#[derive(Clone, Debug)]
pub(super) struct Unreadable {
    pub(super) metadata: Box<ObjectMeta>,
    pub(super) why: String,
}

impl<K: Resource> Readable<K> {
    pub(super) fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(object) => object.meta(),
            Err(unreadable) => &unreadable.metadata,
        }
    }
}

impl<K: DeserializeOwned> Readable<K> {
    /// Reads one object; an error if not even its metadata can be read.
    pub(super) fn read(text: &RawValue) -> Result<Self, serde_json::Error> {
        #[derive(serde::Deserialize)]
        struct Any {
            metadata: Box<ObjectMeta>,
        }
        let text = without_managed_fields(text.get());
        Ok(Self(match serde_json::from_str(&text) {
            Ok(object) => Ok(object),
            Err(error) => {
                let Any { metadata } = serde_json::from_str(&text)?;
                Err(Unreadable { metadata, why: error.to_string() })
            }
        }))
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Readable<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(&Box::<RawValue>::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A page of a list whose objects are still text.
#[derive(serde::Deserialize)]
pub(super) struct Page<'a> {
    #[serde(default)]
    pub(super) metadata: ListMeta,
    /// A list of nothing may say `null`.
    #[serde(borrow, default)]
    pub(super) items: Option<Vec<&'a RawValue>>,
}

/// The text of the same object, as if nobody managed any of its fields.
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
    // Of what is no object at all, whoever reads it says so.
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
    fn managed_fields_are_cut_out_of_the_metadata_and_of_nothing_else() {
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
