//! Served resources: one [`Resource`] for each plural name in each group version.

use std::sync::Arc;

use super::types::{TypeArena, TypeId, TypeRef};
use crate::crd::CustomKind;

/// A served resource (discovery's `APIResource`).
#[derive(Clone)]
pub struct Resource {
    /// Empty for the core group.
    pub group: Box<str>,
    pub version: Box<str>,
    /// The plural: `deployments`.
    pub name: Box<str>,
    pub singular: Box<str>,
    pub kind: Box<str>,
    pub list_kind: Box<str>,
    pub namespaced: bool,
    pub short_names: Box<[Box<str>]>,
    pub categories: Box<[Box<str>]>,
    pub verbs: Box<[Box<str>]>,
    pub subresources: Box<[Subresource]>,
    pub columns: Box<[PrinterColumn]>,
    /// The storage of its objects: `<plural>` or `<plural>.<group>`. Two resources with the same objects (events, HPAs, the versions of a
    /// CRD) share one.
    pub storage: Arc<str>,
    /// The version of stored objects; `apiVersion` in the store.
    pub storage_version: Box<str>,
    /// The type of its objects.
    pub types: Arc<TypeArena>,
    pub ty: TypeId,
    /// For custom resources: the other properties of this CRD version.
    pub custom: Option<Arc<CustomKind>>,
}

#[derive(Clone, Debug)]
pub struct Subresource {
    /// `status`, `scale`, `eviction`, ...
    pub name: Box<str>,
    /// Group and version of the kind in requests and responses; empty if they are the resource's own.
    pub group: Box<str>,
    pub version: Box<str>,
    pub kind: Box<str>,
    pub verbs: Box<[Box<str>]>,
}

/// A column of a Table.
#[derive(Clone, Debug)]
pub struct PrinterColumn {
    pub name: Box<str>,
    /// `string`, `integer`, `number`, `boolean`, `date`.
    pub ty: Box<str>,
    pub format: Box<str>,
    pub description: Box<str>,
    pub priority: i32,
    /// For custom resources: the JSON path of the cell.
    pub json_path: Box<str>,
}

impl Resource {
    /// `apps/v1`, `v1`.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    pub fn root_type(&self) -> TypeRef<'_> {
        self.types.get(self.ty)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name.as_ref() == name)
    }

    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v.as_ref() == verb)
    }

    /// Whether stored objects must be converted: another version, or events of the other group.
    pub fn needs_conversion(&self) -> bool {
        self.version != self.storage_version || (self.name.as_ref() == "events" && !self.group.is_empty())
    }

    pub fn is_custom(&self) -> bool {
        self.custom.is_some()
    }
}

/// `apps/v1`, or `v1` for the core group.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
