//! The ConfigMaps and Secrets that a pod requires.

use std::sync::Arc;

use serde_json::Value;

use crate::access::{items, text};
use crate::store::{Key, Store};

const CONFIG_MAPS: &str = "configmaps";
const SECRETS: &str = "secrets";

pub(super) fn is_reference(storage: &str) -> bool {
    matches!(storage, CONFIG_MAPS | SECRETS)
}

/// A missing object or key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MissingReference {
    pub key: Key,
    /// The message as a kubelet words it.
    pub message: String,
}

/// The resource and kind names that the two kinds of kubelet messages use.
fn names(storage: &str) -> (&'static str, &'static str) {
    if storage == SECRETS { ("secret", "Secret") } else { ("configmap", "ConfigMap") }
}

struct ConfigReference<'a> {
    storage: &'static str,
    name: &'a str,
    /// The keys of it that are required.
    keys: Vec<&'a str>,
}

impl<'a> ConfigReference<'a> {
    /// `None` for an optional or absent reference.
    fn parse(storage: &'static str, reference: &'a Value, name: &str, keys: Vec<&'a str>) -> Option<Self> {
        let is_wanted = !reference.is_null() && reference["optional"] != true;
        is_wanted.then(|| Self { storage, name: text(reference, name), keys })
    }

    fn missing(&self, store: &Store, namespace: &str) -> Option<MissingReference> {
        let (word, kind) = names(self.storage);
        let missing = |message: String| {
            Some(MissingReference { key: Key::new(&Arc::from(self.storage), namespace, self.name), message })
        };
        let Some(object) = store.get(self.storage, namespace, self.name) else {
            return missing(format!("{word} \"{}\" not found", self.name));
        };
        if self.keys.is_empty() {
            return None;
        }
        let value = object.value();
        let has =
            |key: &&&str| value["data"].get(**key).is_none() && value["binaryData"].get(**key).is_none();
        let key = self.keys.iter().find(has)?;
        missing(format!("couldn't find key {key} in {kind} {namespace}/{}", self.name))
    }
}

/// Returns the first object or key that the environment of a container requires and that is missing.
pub(super) fn missing_for_container(
    store: &Store,
    namespace: &str,
    container: &Value,
) -> Option<MissingReference> {
    let single = items(container, "env").iter().flat_map(|variable| {
        let from = &variable["valueFrom"];
        let read = |storage, reference: &'_ Value| -> Option<MissingReference> {
            let keys = vec![text(reference, "key")];
            ConfigReference::parse(storage, reference, "name", keys)?.missing(store, namespace)
        };
        [read(CONFIG_MAPS, &from["configMapKeyRef"]), read(SECRETS, &from["secretKeyRef"])]
    });
    let whole = items(container, "envFrom").iter().flat_map(|source| {
        let read = |storage, reference: &'_ Value| -> Option<MissingReference> {
            ConfigReference::parse(storage, reference, "name", Vec::new())?.missing(store, namespace)
        };
        [read(CONFIG_MAPS, &source["configMapRef"]), read(SECRETS, &source["secretRef"])]
    });
    whole.chain(single).flatten().next()
}

/// Returns the first volume that cannot be mounted: its name, and the missing object.
pub(super) fn missing_for_volumes<'v>(
    store: &Store,
    namespace: &str,
    volumes: &'v [Value],
) -> Option<(&'v str, MissingReference)> {
    volumes.iter().find_map(|volume| {
        let mut references = vec![
            volume_reference(CONFIG_MAPS, &volume["configMap"], "name"),
            volume_reference(SECRETS, &volume["secret"], "secretName"),
        ];
        for source in items(&volume["projected"], "sources") {
            references.push(volume_reference(CONFIG_MAPS, &source["configMap"], "name"));
            references.push(volume_reference(SECRETS, &source["secret"], "name"));
        }
        let missing =
            references.iter().flatten().find_map(|reference| reference.missing(store, namespace))?;
        Some((text(volume, "name"), missing))
    })
}

fn volume_reference<'v>(storage: &'static str, source: &'v Value, name: &str) -> Option<ConfigReference<'v>> {
    let keys = items(source, "items").iter().map(|item| text(item, "key")).collect();
    ConfigReference::parse(storage, source, name, keys)
}
