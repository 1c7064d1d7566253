//! Fields common to all namespaced objects: name, labels, creation time, images.

use std::fmt;
use std::sync::Arc;

use kube::core::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::rows::{Image, Named, Pairs};
use crate::seen::{seconds, time};
use crate::words::Words;

/// Common metadata of an object.
#[derive(Debug, PartialEq)]
pub(crate) struct Head {
    pub namespace: Arc<str>,
    pub name: Box<str>,
    /// `app=web,tier=front`. Label keys and values contain neither commas nor equals signs. Interned, because pods of a
    /// workload mostly have the same labels.
    labels: Arc<str>,
    created: Option<i64>,
}

impl Head {
    pub fn of(metadata: &ObjectMeta, words: &Words) -> Self {
        let pairs = metadata.labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
        Self {
            namespace: words.word(metadata.namespace.as_deref().unwrap_or_default()),
            name: metadata.name.as_deref().unwrap_or_default().into(),
            labels: words.word(&pairs.collect::<Vec<_>>().join(",")),
            created: seconds(metadata.creation_timestamp.as_ref()),
        }
    }

    pub fn labels(&self) -> String {
        self.labels.as_ref().to_owned()
    }

    /// Common part of every row.
    pub fn row(&self, images: &Images) -> Named {
        Named {
            name: self.name.as_ref().to_owned(),
            namespace: self.namespace.as_ref().to_owned(),
            labels: self.labels(),
            label_map: self.label_map(),
            create_time: time(self.created),
            image: images.rows(),
            images: images.rows(),
            init_images: rows(&images.init),
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
pub(crate) enum Uid {
    Number(Uuid),
    Text(Box<str>),
}

impl Uid {
    pub fn of(metadata: &ObjectMeta) -> Self {
        let text = metadata.uid.as_deref().unwrap_or_default();
        let number = Uuid::try_parse(text).ok().filter(|number| number.to_string() == text);
        number.map_or_else(|| Self::Text(text.into()), Self::Number)
    }
}

impl fmt::Display for Uid {
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
pub(crate) struct ToldContainer {
    image: String,
    pub resources: Value,
    pub restart_policy: Option<String>,
}

impl ToldContainer {
    /// For init containers: whether it is a sidecar.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// Images of containers and init containers, in order.
#[derive(Debug, PartialEq)]
pub(crate) struct Images {
    own: Box<[Arc<str>]>,
    init: Box<[Arc<str>]>,
}

impl Images {
    pub fn of(containers: &[ToldContainer], init_containers: &[ToldContainer], words: &Words) -> Self {
        let of = |all: &[ToldContainer]| words.words(all.iter().map(|container| container.image.as_str()));
        Self { own: of(containers), init: of(init_containers) }
    }

    fn rows(&self) -> Vec<Image> {
        rows(&self.own)
    }
}

fn rows(images: &[Arc<str>]) -> Vec<Image> {
    images.iter().map(|image| Image { image: image.as_ref().to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_told_as_it_was() {
        for uid in [
            "0b5f4b3e-8f1c-4d2a-9d0e-000000000007",
            "0B5F4B3E-8F1C-4D2A-9D0E-000000000007",
            "0b5f4b3e8f1c4d2a9d0e000000000007",
            "of-a-test",
            "",
        ] {
            let metadata = ObjectMeta { uid: Some(uid.to_owned()), ..ObjectMeta::default() };
            assert_eq!(Uid::of(&metadata).to_string(), uid);
        }
        assert_eq!(Uid::of(&ObjectMeta::default()).to_string(), "");
    }
}
