//! The registry of served resources: built-in kinds, and the kinds of stored CRDs.
//!
//! A registry is immutable; when a CRD changes, the cluster replaces it. Invariant: no two
//! resources have the same group, version and plural name.

use std::collections::HashMap;
use std::sync::Arc;

use crate::crd;
use crate::schema::builtin;
use crate::schema::resources::Resource;
use crate::store::Object;

/// Group, version and plural.
type ResourceKey = (Box<str>, Box<str>, Box<str>);

#[must_use]
pub struct Registry {
    resources: Vec<Arc<Resource>>,
    by_plural: HashMap<ResourceKey, Arc<Resource>>,
    /// The resources of each CRD, by its name and version: compiling them is expensive, and few change at a time.
    compiled_crds: HashMap<(Box<str>, u64), Vec<Arc<Resource>>>,
}

impl Registry {
    /// Only the built-in kinds.
    pub fn builtin() -> Self {
        Self::from_resources(builtin::resources().into_iter().map(Arc::new).collect(), HashMap::new())
    }

    /// The built-in kinds and the served versions of `crds` (those with accepted names).
    pub fn with_crds(&self, crds: &[Arc<Object>]) -> Self {
        let mut compiled = HashMap::new();
        for object in crds {
            let key = (object.name.clone(), object.version);
            let rows = self.compiled_crds.get(&key).cloned().unwrap_or_else(|| compile_crd(object));
            compiled.insert(key, rows);
        }
        Self::from_resources(
            self.resources.iter().filter(|row| !row.is_custom()).cloned().collect(),
            compiled,
        )
    }

    /// Whether the registry is up to date with `crds`.
    pub fn is_current(&self, crds: &[Arc<Object>]) -> bool {
        let known =
            |object: &Arc<Object>| self.compiled_crds.contains_key(&(object.name.clone(), object.version));
        crds.len() == self.compiled_crds.len() && crds.iter().all(known)
    }

    fn from_resources(
        builtin: Vec<Arc<Resource>>,
        compiled: HashMap<(Box<str>, u64), Vec<Arc<Resource>>>,
    ) -> Self {
        let mut resources = builtin;
        let mut custom: Vec<_> = compiled.values().flatten().cloned().collect();
        custom.sort_by(|a, b| (&a.group, &a.name, &a.version).cmp(&(&b.group, &b.name, &b.version)));
        resources.extend(custom);
        let by_plural =
            resources.iter().map(|r| ((r.group.clone(), r.version.clone(), r.name.clone()), r.clone()));
        Self { by_plural: by_plural.collect(), resources, compiled_crds: compiled }
    }

    pub fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    /// Whether the group version has a resource.
    pub fn serves(&self, group: &str, version: &str) -> bool {
        self.resources.iter().any(|resource| &*resource.group == group && &*resource.version == version)
    }

    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_plural.get(&(group.into(), version.into(), plural.into()))
    }

    pub fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let same = |r: &&Arc<Resource>| {
            r.kind.as_ref() == kind && r.group.as_ref() == group && r.version.as_ref() == version
        };
        self.resources.iter().find(same)
    }

    /// The resource of a storage, in the storage version.
    pub fn by_storage(&self, storage: &str) -> Option<&Arc<Resource>> {
        let mut rows = self.resources.iter().filter(|r| r.storage.as_ref() == storage);
        let first = rows.clone().next();
        rows.find(|r| r.version == r.storage_version && !r.needs_conversion()).or(first)
    }

    pub fn is_builtin_group(&self, group: &str) -> bool {
        self.resources.iter().any(|r| r.group.as_ref() == group && !r.is_custom())
    }
}

fn compile_crd(object: &Object) -> Vec<Arc<Resource>> {
    let crd = object.value();
    if !crd::status::is_established(&crd) {
        return Vec::new();
    }
    match crd::resources(&crd, builtin::types()) {
        Ok(rows) => rows.into_iter().map(Arc::new).collect(),
        Err(error) => {
            tracing::error!(crd.name = %object.name, error, "cannot serve a CRD");
            Vec::new()
        }
    }
}
