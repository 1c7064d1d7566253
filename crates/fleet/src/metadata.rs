//! Fields common to all namespaced objects: name, labels, creation time, images.

use std::fmt;
use std::sync::Arc;

use kube::core::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::interner::StringInterner;
use crate::partial_object::{format_time, unix_seconds};
use crate::rows::{Image, Named, Pairs};

/// Common metadata of an object.
#[derive(Debug, PartialEq)]
pub(crate) struct ObjectHeader {
    pub namespace: Arc<str>,
    pub name: Box<str>,
    /// `app=web,tier=front`. Label keys and values contain neither commas nor equals signs. Interned, because pods of a
    /// workload mostly have the same labels.
    labels: Arc<str>,
    created: Option<i64>,
}

impl ObjectHeader {
    pub fn from_metadata(metadata: &ObjectMeta, words: &StringInterner) -> Self {
        let pairs = metadata.labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
        Self {
            namespace: words.intern(metadata.namespace.as_deref().unwrap_or_default()),
            name: metadata.name.as_deref().unwrap_or_default().into(),
            labels: words.intern(&pairs.collect::<Vec<_>>().join(",")),
            created: unix_seconds(metadata.creation_timestamp.as_ref()),
        }
    }

    pub fn labels(&self) -> String {
        self.labels.as_ref().to_owned()
    }

    /// Common part of every row.
    pub fn row(&self, images: &ContainerImages) -> Named {
        Named {
            name: self.name.as_ref().to_owned(),
            namespace: self.namespace.as_ref().to_owned(),
            labels: self.labels(),
            label_map: self.label_map(),
            create_time: format_time(self.created),
            image: images.rows(),
            images: images.rows(),
            init_images: rows(&images.init_containers),
        }
    }

    fn label_map(&self) -> Pairs {
        let pairs = self.labels.split(',').filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    pub fn created(&self) -> Option<i64> {
        self.created
    }
}

/// UID of an object. Almost always a UUID, which is stored as a number.
#[derive(Debug, PartialEq)]
pub(crate) enum ObjectUid {
    Number(Uuid),
    Text(Box<str>),
}

impl ObjectUid {
    pub fn from_metadata(metadata: &ObjectMeta) -> Self {
        let text = metadata.uid.as_deref().unwrap_or_default();
        let number = Uuid::try_parse(text).ok().filter(|number| number.to_string() == text);
        number.map_or_else(|| Self::Text(text.into()), Self::Number)
    }
}

impl fmt::Display for ObjectUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A container from the API server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerObject {
    image: String,
    pub resources: Value,
    pub restart_policy: Option<String>,
}

impl ContainerObject {
    /// For init containers: whether it is a sidecar.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// Images of containers and init containers, in order.
#[derive(Debug, PartialEq)]
pub(crate) struct ContainerImages {
    containers: Box<[Arc<str>]>,
    init_containers: Box<[Arc<str>]>,
}

impl ContainerImages {
    pub fn from_containers(
        containers: &[ContainerObject],
        init_containers: &[ContainerObject],
        words: &StringInterner,
    ) -> Self {
        let of =
            |all: &[ContainerObject]| words.intern_all(all.iter().map(|container| container.image.as_str()));
        Self { containers: of(containers), init_containers: of(init_containers) }
    }

    fn rows(&self) -> Vec<Image> {
        rows(&self.containers)
    }
}

fn rows(images: &[Arc<str>]) -> Vec<Image> {
    images.iter().map(|image| Image { image: image.as_ref().to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uid_round_trips() {
        for uid in [
            "0b5f4b3e-8f1c-4d2a-9d0e-000000000007",
            "0B5F4B3E-8F1C-4D2A-9D0E-000000000007",
            "0b5f4b3e8f1c4d2a9d0e000000000007",
            "of-a-test",
            "",
        ] {
            let metadata = ObjectMeta { uid: Some(uid.to_owned()), ..ObjectMeta::default() };
            assert_eq!(ObjectUid::from_metadata(&metadata).to_string(), uid);
        }
        assert_eq!(ObjectUid::from_metadata(&ObjectMeta::default()).to_string(), "");
    }
}
