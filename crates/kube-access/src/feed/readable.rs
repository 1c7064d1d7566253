//! An object as a cluster sends it, which may be one that we cannot read.
//!
//! `kube::core::DeserializeGuard` is for the same, and makes two more copies of everything: of a long list these cost
//! more than all that is kept of it.

use kube::Resource;
use kube::core::ObjectMeta;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};
use serde_json::value::RawValue;

/// An object, or of one that cannot be read what every object has.
#[derive(Clone, Debug)]
pub(super) struct Readable<K>(pub(super) Result<K, Unreadable>);

#[derive(Clone, Debug)]
pub(super) struct Unreadable {
    pub(super) metadata: ObjectMeta,
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

impl<'de, K: DeserializeOwned> Deserialize<'de> for Readable<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        struct Any {
            metadata: ObjectMeta,
        }
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(match serde_json::from_str(text.get()) {
            Ok(object) => Ok(object),
            Err(error) => {
                let Any { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
                Err(Unreadable { metadata, why: error.to_string() })
            }
        }))
    }
}
