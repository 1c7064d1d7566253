//! Garbage collection of packages, and of the records of readers that no longer use them.
//!
//! A package stays while a recorded reader refers to it, while an object that only the platform writes refers to it, or for a grace
//! period after its last use. References of tenants count for packages that they may read, and so are charged for.

use std::collections::{HashMap, HashSet};

use futures::TryStreamExt;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube_types::package::HelmPackage;
use kube_types::well_known::READERS_RECORDED;
use serde_json::{Map, Value, json};

use super::readers::{self, ReaderEntry, Subject};
use super::{PackageStore, last_platform_use};
use crate::error::ChartError;

/// Result of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectResult {
    pub removed: Vec<String>,
    pub bytes: i64,
}

/// References to packages.
#[derive(Clone, Debug, Default)]
pub struct PackageReferences {
    /// Packages referenced by objects that only the platform writes.
    pub platform: HashSet<String>,
    /// By workspace name: packages referenced by its objects, with the creation of the newest such object.
    pub workspaces: HashMap<String, HashMap<String, Timestamp>>,
}

impl PackageReferences {
    pub fn add(&mut self, workspace: &str, package: &str, made: Timestamp) {
        let newest = self.workspaces.entry(workspace.to_owned()).or_default();
        let newest = newest.entry(package.to_owned()).or_insert(made);
        *newest = made.max(*newest);
    }

    fn contains(&self, workspace: &str, package: &str) -> bool {
        self.workspaces.get(workspace).is_some_and(|packages| packages.contains_key(package))
    }
}

/// Existing workspaces by name: UID and creation time.
pub type WorkspaceIdentities = HashMap<String, (String, Timestamp)>;

impl PackageStore {
    /// Removes readers that no longer exist or no longer use a package, and packages without references. Concurrent
    /// use is safe: every write is conditional on the `resourceVersion` that was read.
    pub async fn collect_garbage(
        &self,
        references: &PackageReferences,
        living: &WorkspaceIdentities,
    ) -> Result<CollectResult, ChartError> {
        let all: Vec<HelmPackage> = self.list_all().try_collect().await?;
        let mut collected = CollectResult::default();
        for package in all {
            let name = package.name_any();
            let (stay, go): (Vec<ReaderEntry>, Vec<ReaderEntry>) = readers::entries(&package)
                .partition(|entry| self.is_retained(entry, &name, references, living));
            let referred = references.platform.contains(&name)
                || stay.iter().any(|entry| references.contains(&entry.workspace, &name));
            let fresh = stay.iter().map(|entry| entry.last_use).chain([last_platform_use(&package)]).max();
            if !referred && fresh.is_none_or(|at| self.is_stale(at)) {
                if self.remove(&package).await? {
                    collected.bytes = collected.bytes.saturating_add(package.spec.size);
                    collected.removed.push(name);
                }
            } else if !go.is_empty() {
                let dropped = go.into_iter().map(|entry| (entry.key, Value::Null)).collect();
                self.patch_annotations(&package, dropped).await?;
            }
        }
        Ok(collected)
    }

    fn is_retained(
        &self,
        entry: &ReaderEntry,
        package: &str,
        references: &PackageReferences,
        living: &WorkspaceIdentities,
    ) -> bool {
        let is_former = match (entry.uid(), living.get(&entry.workspace)) {
            (Some(uid), Some((now, _))) => uid != now,
            (Some(_), None) => true,
            (None, _) => false,
        };
        !is_former && (references.contains(&entry.workspace, package) || !self.is_stale(entry.last_use))
    }

    /// Records the readers of packages stored before readers were recorded: the workspaces whose objects, as written
    /// by the platform, refer to them. An object older than its workspace belongs to a former workspace of that name.
    pub async fn record_legacy_readers(
        &self,
        references: &PackageReferences,
        living: &WorkspaceIdentities,
    ) -> Result<(), ChartError> {
        let all =
            self.list_all().try_filter(|package| std::future::ready(!readers::has_recorded_readers(package)));
        let all: Vec<HelmPackage> = all.try_collect().await?;
        for package in all {
            let name = package.name_any();
            let mut annotations = Map::from_iter([(READERS_RECORDED.to_owned(), json!("true"))]);
            for (workspace, packages) in &references.workspaces {
                let (Some(made), Some((uid, began))) = (packages.get(&name), living.get(workspace)) else {
                    continue;
                };
                let subject = Subject::Workspace { name: workspace.clone(), uid: Some(uid.clone()) };
                if let Some(key) = subject.annotation_key().filter(|_| made >= began) {
                    annotations
                        .insert(key, ReaderEntry::annotation_value(workspace, self.clock.now()).into());
                }
                if annotations.len() > readers::MAX_READERS {
                    break;
                }
            }
            self.patch_annotations(&package, annotations).await?;
        }
        Ok(())
    }

    /// Changes annotations of a package unless it changed since it was read; a changed one is left for the next run.
    async fn patch_annotations(
        &self,
        package: &HelmPackage,
        annotations: Map<String, Value>,
    ) -> Result<(), ChartError> {
        let name = package.name_any();
        self.invalidate_digest(&name);
        let metadata = json!({"resourceVersion": package.resource_version(), "annotations": annotations});
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        match self.package_api.patch(&name, &PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            done => Ok(done.map(drop)?),
        }
    }

    fn is_stale(&self, used: Timestamp) -> bool {
        let age = self.clock.now().duration_since(used);
        jiff::SignedDuration::try_from(self.limits.grace).is_ok_and(|grace| age >= grace)
    }

    /// Removes a package and its chunks. Returns false if it changed since it was read.
    async fn remove(&self, package: &HelmPackage) -> Result<bool, ChartError> {
        let preconditions =
            Preconditions { uid: package.uid(), resource_version: package.resource_version() };
        let params = DeleteParams {
            preconditions: Some(preconditions),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let name = package.name_any();
        self.invalidate_digest(&name);
        match self.package_api.delete(&name, &params).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(true),
        }
    }
}
