//! What is served: one [`Resource`] for each plural name in each group version.

use std::sync::Arc;

use super::types::{TypeId, TypeRef, Types};
use crate::crd::CustomKind;

/// One row of the table of what is served.
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
    pub columns: Box<[Column]>,
    /// Where its objects are kept; two rows that show the same objects (events, HPAs, the versions of a
    /// CRD) have the same: `<plural>` or `<plural>.<group>` of the one that is stored.
    pub storage: Arc<str>,
    /// The version in which objects are stored; `apiVersion` in the store.
    pub storage_version: Box<str>,
    /// The shape of its objects.
    pub types: Arc<Types>,
    pub ty: TypeId,
    /// For custom resources: everything else that the CRD says about this version.
    pub custom: Option<Arc<CustomKind>>,
}

#[derive(Clone, Debug)]
pub struct Subresource {
    /// `status`, `scale`, `eviction`, ...
    pub name: Box<str>,
    /// Group and version of the kind that it takes and gives; empty where it is the resource's own.
    pub group: Box<str>,
    pub version: Box<str>,
    pub kind: Box<str>,
    pub verbs: Box<[Box<str>]>,
}

/// A column of a Table.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: Box<str>,
    /// `string`, `integer`, `number`, `boolean`, `date`.
    pub ty: Box<str>,
    pub format: Box<str>,
    pub description: Box<str>,
    pub priority: i32,
    /// For custom resources: where the cell comes from.
    pub json_path: Box<str>,
}

impl Resource {
    /// `apps/v1`, `v1`.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    pub fn root(&self) -> TypeRef<'_> {
        self.types.at(self.ty)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name.as_ref() == name)
    }

    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v.as_ref() == verb)
    }

    /// Its objects are stored in another form than it shows: another version, or another group's events.
    pub fn is_view(&self) -> bool {
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
