//! Provisioned objects and their hashes, which detect drift. Pure: no I/O, no clock.
//!
//! Invariant: a desired object sets every field that Kubernetes would default, so that a stored object without changes has the same
//! [`ObjectHash`] as the one that was applied.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::{LimitRange, ResourceQuota, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Resource, ResourceExt};
use kube_types::FIELD_MANAGER;
use kube_types::well_known::{MANAGED_BY, PROVISIONED_OBJECT, USER, WORKSPACE};
use serde::Serialize;
use serde_json::Value;

use super::partial_object::PartialObject;

/// The kinds of provisioned objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnedKind {
    RoleBinding,
    NetworkPolicy,
    ResourceQuota,
    LimitRange,
    ServiceAccount,
    ClusterRoleBinding,
}

impl OwnedKind {
    pub const ALL: [Self; 6] = [
        Self::RoleBinding,
        Self::NetworkPolicy,
        Self::ResourceQuota,
        Self::LimitRange,
        Self::ServiceAccount,
        Self::ClusterRoleBinding,
    ];

    pub fn resource(self) -> ApiResource {
        match self {
            Self::RoleBinding => ApiResource::erase::<RoleBinding>(&()),
            Self::NetworkPolicy => ApiResource::erase::<NetworkPolicy>(&()),
            Self::ResourceQuota => ApiResource::erase::<ResourceQuota>(&()),
            Self::LimitRange => ApiResource::erase::<LimitRange>(&()),
            Self::ServiceAccount => ApiResource::erase::<ServiceAccount>(&()),
            Self::ClusterRoleBinding => ApiResource::erase::<ClusterRoleBinding>(&()),
        }
    }

    /// The fields that the platform manages.
    pub(super) fn managed_fields(self) -> &'static [&'static str] {
        match self {
            Self::RoleBinding | Self::ClusterRoleBinding => &["roleRef", "subjects"],
            Self::NetworkPolicy | Self::ResourceQuota | Self::LimitRange => &["spec"],
            Self::ServiceAccount => &["automountServiceAccountToken"],
        }
    }
}

/// One desired object.
#[derive(Clone, Debug)]
pub struct OwnedObject {
    pub kind: OwnedKind,
    pub object: DynamicObject,
}

impl OwnedObject {
    pub fn new<K: Resource + Serialize>(kind: OwnedKind, object: &K) -> Self {
        let object = serde_json::to_value(object)
            .and_then(serde_json::from_value)
            .expect("a piece of ours is a Kubernetes object");
        Self { kind, object }
    }

    pub fn name(&self) -> String {
        self.object.name_any()
    }

    /// The hash of the desired object.
    pub fn hash(&self) -> ObjectHash {
        ObjectHash::new(self.kind, &self.object, |field| self.object.data.get(field))
    }
}

/// A hash of the managed fields of an object, in eight bytes: enough to detect changes, small enough to cache for every object of
/// every workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectHash(pub(super) u64);

impl ObjectHash {
    pub fn from_object(kind: OwnedKind, object: &PartialObject) -> Self {
        Self::new(kind, object, |field| object.field(field))
    }

    fn new<'a>(
        kind: OwnedKind,
        object: &impl Resource,
        field: impl Fn(&'static str) -> Option<&'a Value>,
    ) -> Self {
        // Random keys in each process, so that tenants cannot construct another object with the same hash.
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let label = |label| object.labels().get(label);
        let labels = [PROVISIONED_OBJECT, WORKSPACE, USER, MANAGED_BY].map(label);
        let fields: Vec<String> = kind
            .managed_fields()
            .iter()
            .map(|name| field(name).map_or_else(String::new, ToString::to_string))
            .collect();
        Self(KEYS.hash_one((labels, fields)))
    }
}

/// The labels of an object that belongs to a workspace or a user.
pub fn labels(whose: &str, name: &str) -> std::collections::BTreeMap<String, String> {
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    [label(PROVISIONED_OBJECT, "true"), label(whose, name), label(MANAGED_BY, FIELD_MANAGER)].into()
}
