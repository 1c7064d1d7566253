//! Ownership of objects by a release, through Helm's labels and annotations.

use serde_json::{Map, Value, json};

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const HELM: &str = "Helm";
const RELEASE_NAME: &str = "meta.helm.sh/release-name";
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// The release that owns objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    pub release: String,
    pub namespace: String,
    /// Take over existing objects of other owners.
    pub take_ownership: bool,
}

impl Ownership {
    pub fn new(release: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self { release: release.into(), namespace: namespace.into(), take_ownership: false }
    }

    /// Sets the ownership metadata on an object.
    pub fn set_metadata(&self, object: &mut Value) {
        let metadata = member(object, "metadata");
        member(metadata, "labels")[MANAGED_BY] = json!(HELM);
        let annotations = member(metadata, "annotations");
        annotations[RELEASE_NAME] = json!(self.release);
        annotations[RELEASE_NAMESPACE] = json!(self.namespace);
    }

    /// Reason why a live object does not belong to this release, with Helm's message.
    pub fn validation_error(&self, live: &Value) -> Option<String> {
        let metadata = &live["metadata"];
        let wrong = |sort: &str, marks: &Value, key: &str, wanted: &str| match marks[key].as_str() {
            Some(found) if found == wanted => None,
            Some(found) => Some(format!(
                "{sort} validation error: key \"{key}\" must equal \"{wanted}\": current value is \"{found}\""
            )),
            None => {
                Some(format!("{sort} validation error: missing key \"{key}\": must be set to \"{wanted}\""))
            }
        };
        let complaints = [
            wrong("label", &metadata["labels"], MANAGED_BY, HELM),
            wrong("annotation", &metadata["annotations"], RELEASE_NAME, &self.release),
            wrong("annotation", &metadata["annotations"], RELEASE_NAMESPACE, &self.namespace),
        ];
        let complaints: Vec<String> = complaints.into_iter().flatten().collect();
        (!complaints.is_empty()).then(|| format!("invalid ownership metadata; {}", complaints.join("; ")))
    }

    /// The other release named in the object's annotations.
    pub fn other_owner(&self, live: &Value) -> Option<String> {
        let annotations = &live["metadata"]["annotations"];
        let (release, namespace) =
            (annotations[RELEASE_NAME].as_str()?, annotations[RELEASE_NAMESPACE].as_str()?);
        let ours = release == self.release && namespace == self.namespace;
        (!ours).then(|| format!("{namespace}/{release}"))
    }
}

/// Returns a map member, created if it is not a map.
fn member<'a>(value: &'a mut Value, key: &str) -> &'a mut Value {
    if !value[key].is_object() {
        value[key] = Value::Object(Map::new());
    }
    &mut value[key]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ownership_matches_only_its_release() {
        let ours = Ownership::new("shop", "prod");
        let mut object = json!({"metadata": {"name": "a", "labels": null}});
        ours.set_metadata(&mut object);
        assert_eq!(ours.validation_error(&object), None);
        assert_eq!(ours.other_owner(&object), None);
        let theirs = Ownership::new("other", "prod");
        assert_eq!(
            theirs.validation_error(&object).unwrap(),
            "invalid ownership metadata; annotation validation error: key \"meta.helm.sh/release-name\" must equal \
             \"other\": current value is \"shop\""
        );
        assert_eq!(theirs.other_owner(&object).unwrap(), "prod/shop");
        let nobodys = json!({"metadata": {}});
        assert!(ours.validation_error(&nobodys).unwrap().starts_with(
            "invalid ownership metadata; label validation error: missing key \"app.kubernetes.io/managed-by\": must \
             be set to \"Helm\"; annotation validation error: missing key"
        ));
        assert_eq!(ours.other_owner(&nobodys), None);
    }
}
