//! A desired object: a parsed manifest with its identity.
//!
//! Invariant: the value is a map with an `apiVersion`, a `kind` and a `name` or `generateName`. See also: parsing
//! (`crate::manifest`), API resources (`crate::discovery`).

use std::fmt;
use std::sync::Arc;

use domain::ErrorKind;
use domain::names::{check_label, check_name};
use serde_json::{Map, Value, json};

use crate::remove::RESOURCE_POLICY;

/// A manifest. Cheap to clone.
#[derive(Clone, PartialEq)]
pub struct Object {
    value: Arc<Value>,
    /// Chart file of the object, if known.
    pub source: Option<String>,
}

/// Identity of an object, independent of its version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    pub group: String,
    pub kind: String,
    /// `None` for cluster-scoped objects and for manifests without a namespace.
    pub namespace: Option<String>,
    pub name: String,
}

/// A text that is not a valid manifest. The message does not repeat the text, which may contain secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", place(source_file.as_deref()))]
pub struct ParseError {
    pub source_file: Option<String>,
    pub why: String,
}

impl ParseError {
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

fn place(source: Option<&str>) -> String {
    source.map(|file| format!("{file}: ")).unwrap_or_default()
}

impl Object {
    /// Validates a value as an object.
    pub fn from_value(value: Value) -> Result<Self, ParseError> {
        let why = match &value {
            Value::Object(map) => validation_error(map),
            _ => Some("a Kubernetes object must be a map".to_owned()),
        };
        match why {
            None => Ok(Self { value: Arc::new(value), source: None }),
            Some(why) => Err(ParseError { source_file: None, why }),
        }
    }

    /// Sets the chart file.
    #[must_use]
    pub fn with_source(mut self, source: Option<String>) -> Self {
        self.source = source;
        self
    }

    /// Replaces the content. Fails if the new value is not a valid object.
    pub fn with_value(&self, value: Value) -> Result<Self, ParseError> {
        let object = Self::from_value(value)
            .map_err(|error| ParseError { source_file: self.source.clone(), ..error })?;
        Ok(object.with_source(self.source.clone()))
    }

    /// Reduces the object to its identity and its resource policy.
    #[must_use]
    pub fn without_content(&self) -> Self {
        let mut value = json!({"apiVersion": self.api_version(), "kind": self.kind(), "metadata": {}});
        let metadata = &mut value["metadata"];
        for field in ["name", "generateName", "namespace"] {
            if let Some(text) = self.value["metadata"][field].as_str() {
                metadata[field] = text.into();
            }
        }
        if let Some(policy) = self.annotation(RESOURCE_POLICY) {
            metadata["annotations"] = json!({RESOURCE_POLICY: policy});
        }
        Self { value: Arc::new(value), source: self.source.clone() }
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    pub fn into_value(self) -> Value {
        Arc::unwrap_or_clone(self.value)
    }

    pub fn api_version(&self) -> &str {
        string_field(&self.value, "apiVersion")
    }

    pub fn kind(&self) -> &str {
        string_field(&self.value, "kind")
    }

    /// Empty if the API server generates the name.
    pub fn name(&self) -> &str {
        string_field(&self.value["metadata"], "name")
    }

    pub fn namespace(&self) -> Option<&str> {
        self.value["metadata"]["namespace"].as_str().filter(|namespace| !namespace.is_empty())
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.value["metadata"]["annotations"][key].as_str()
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.value["metadata"]["labels"][key].as_str()
    }

    /// The identity as stated by the manifest.
    pub fn id(&self) -> ObjectId {
        ObjectId {
            group: group(self.api_version()).to_owned(),
            kind: self.kind().to_owned(),
            namespace: self.namespace().map(ToOwned::to_owned),
            name: self.name().to_owned(),
        }
    }
}

/// Identity only: a manifest may contain secrets.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({})", self.id())
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group: _, kind, namespace, name } = self;
        match namespace {
            Some(namespace) => write!(f, "{kind} {namespace}/{name}"),
            None => write!(f, "{kind} {name}"),
        }
    }
}

/// The group of an `apiVersion`; empty for the core group.
pub fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The version of an `apiVersion`.
pub fn version(api_version: &str) -> &str {
    api_version.split_once('/').map_or(api_version, |(_, version)| version)
}

fn string_field<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Reason why a map is not a valid object.
fn validation_error(map: &Map<String, Value>) -> Option<String> {
    let said = |field: &str| map.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if !said("apiVersion") {
        return Some("apiVersion not set".to_owned());
    }
    let kind = map.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind.is_empty() {
        return Some("kind not set".to_owned());
    }
    let metadata = map.get("metadata").and_then(Value::as_object);
    let named = |field: &str| {
        metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or_default()
    };
    match (named("name"), named("generateName")) {
        ("", "") => Some(format!("a {kind} without a name: metadata.name not set")),
        (name, beginning) if !name.is_empty() && !beginning.is_empty() => {
            Some(format!("{kind} {name}: metadata.name and metadata.generateName cannot both be set"))
        }
        (name, beginning) => {
            // Both become segments of an API path.
            let name = if name.is_empty() { beginning } else { name };
            let invalid = check_name(name).err().map(|why| format!("metadata.name: {why}"));
            let namespace = Some(named("namespace")).filter(|namespace| !namespace.is_empty());
            let invalid =
                invalid.or_else(|| Some(format!("metadata.namespace: {}", check_label(namespace?).err()?)));
            invalid.map(|why| format!("{kind}: {why}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn accessors_read_the_manifest() {
        let object = Object::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "annotations": {"a": "b"}},
        }))
        .unwrap();
        assert_eq!(object.id().to_string(), "Deployment shop/web");
        assert_eq!((object.id().group.as_str(), version(object.api_version())), ("apps", "v1"));
        assert_eq!((object.annotation("a"), object.annotation("b")), (Some("b"), None));
        assert_eq!(format!("{object:?}"), "Object(Deployment shop/web)");
    }

    #[test]
    fn hostile_names_and_namespaces_are_refused() {
        for name in domain::names::hostile_names() {
            for (field, metadata) in [
                ("name", json!({"name": name})),
                ("name", json!({"generateName": name})),
                ("namespace", json!({"name": "a", "namespace": name})),
            ] {
                let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
                let error = Object::from_value(object).unwrap_err().to_string();
                assert!(error.starts_with(&format!("ConfigMap: metadata.{field}: ")), "{error}");
            }
        }
    }

    #[test]
    fn invalid_objects_are_rejected_with_a_reason() {
        let table = [
            (json!([1]), "a Kubernetes object must be a map"),
            (json!({"kind": "Pod"}), "apiVersion not set"),
            (json!({"apiVersion": "v1", "kind": 1}), "kind not set"),
            (
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}}),
                "a Pod without a name: metadata.name not set",
            ),
            (
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "generateName": "b"}}),
                "Pod a: metadata.name and metadata.generateName cannot both be set",
            ),
        ];
        for (value, why) in table {
            assert_eq!(Object::from_value(value).unwrap_err().to_string(), why);
        }
    }
}
