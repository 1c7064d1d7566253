//! A partial object: the fields of watched objects that provisioning compares.
//!
//! There are a dozen objects in each namespace. `kube::core::DynamicObject` would build a tree of every field, most of them
//! `managedFields`; here other fields are skipped while parsing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use kube::core::{DynamicResourceScope, ObjectMeta};
use kube::discovery::ApiResource;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// An object of any watched kind with the compared fields.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartialObject {
    #[serde(deserialize_with = "metadata")]
    metadata: ObjectMeta,
    spec: Option<Value>,
    role_ref: Option<Value>,
    subjects: Option<Value>,
    automount_service_account_token: Option<Value>,
}

impl PartialObject {
    /// Returns a top-level field, if it is watched.
    pub fn field(&self, name: &str) -> Option<&Value> {
        match name {
            "spec" => self.spec.as_ref(),
            "roleRef" => self.role_ref.as_ref(),
            "subjects" => self.subjects.as_ref(),
            "automountServiceAccountToken" => self.automount_service_account_token.as_ref(),
            _ => None,
        }
    }
}

/// Deserializes the used fields of the metadata.
fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        labels: Option<BTreeMap<String, String>>,
        annotations: Option<BTreeMap<String, String>>,
        deletion_timestamp: Option<Time>,
    }
    let Meta { name, namespace, uid, resource_version, labels, annotations, deletion_timestamp } =
        Meta::deserialize(deserializer)?;
    let rest = ObjectMeta::default();
    Ok(ObjectMeta { name, namespace, uid, resource_version, labels, annotations, deletion_timestamp, ..rest })
}

impl Resource for PartialObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn group(kind: &ApiResource) -> Cow<'_, str> {
        kind.group.as_str().into()
    }

    fn version(kind: &ApiResource) -> Cow<'_, str> {
        kind.version.as_str().into()
    }

    fn kind(kind: &ApiResource) -> Cow<'_, str> {
        kind.kind.as_str().into()
    }

    fn plural(kind: &ApiResource) -> Cow<'_, str> {
        kind.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::owned_object::OwnedKind;

    #[test]
    fn partial_object_contains_every_hashed_field() {
        for kind in OwnedKind::ALL {
            for field in kind.managed_fields() {
                let object = serde_json::json!({"metadata": {"name": "a"}, (*field): {"x": 1}});
                let bare: PartialObject = serde_json::from_value(object).unwrap();
                assert_eq!(bare.field(field), Some(&serde_json::json!({"x": 1})), "{field} of {kind:?}");
            }
        }
    }
}
