//! What is served right now: the built-in kinds, and those that the stored CRDs define.
//!
//! A registry never changes; when a CRD does, the cluster puts a new one in its place. Always true: no two
//! rows have the same group, version and plural name.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::crd;
use crate::schema::builtin;
use crate::schema::resources::Resource;

pub struct Registry {
    resources: Vec<Arc<Resource>>,
    by_plural: HashMap<(Box<str>, Box<str>, Box<str>), Arc<Resource>>,
}

impl Registry {
    /// The built-in kinds and the served versions of `crds` (whose names have been accepted).
    pub fn new<'a>(crds: impl Iterator<Item = &'a Value>) -> Self {
        let mut resources: Vec<Arc<Resource>> = builtin::resources().into_iter().map(Arc::new).collect();
        for crd in crds.filter(|crd| crd::status::is_established(crd)) {
            match crd::resources(crd, builtin::types()) {
                Ok(rows) => resources.extend(rows.into_iter().map(Arc::new)),
                Err(error) => tracing::error!(crd = %crd["metadata"]["name"], %error, "cannot serve a CRD"),
            }
        }
        let by_plural = resources.iter().map(|r| ((r.group.clone(), r.version.clone(), r.name.clone()), r.clone()));
        Self { by_plural: by_plural.collect(), resources }
    }

    pub fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_plural.get(&(group.into(), version.into(), plural.into()))
    }

    pub fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let same = |r: &&Arc<Resource>| {
            r.kind.as_ref() == kind && r.group.as_ref() == group && r.version.as_ref() == version
        };
        self.resources.iter().find(same)
    }

    /// A row that shows the objects of `storage`, in the version they are stored in.
    pub fn of_storage(&self, storage: &str) -> Option<&Arc<Resource>> {
        let mut rows = self.resources.iter().filter(|r| r.storage.as_ref() == storage);
        let first = rows.clone().next();
        rows.find(|r| r.version == r.storage_version && !r.is_view()).or(first)
    }

    pub fn has_group(&self, group: &str) -> bool {
        self.resources.iter().any(|r| r.group.as_ref() == group)
    }

    pub fn has_version(&self, group: &str, version: &str) -> bool {
        self.resources.iter().any(|r| r.group.as_ref() == group && r.version.as_ref() == version)
    }
}
