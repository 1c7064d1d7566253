//! Chart packages of a removed workspace: removes its reader annotation, and deletes packages that are no longer referenced.
//!
//! Each package is written at the `resourceVersion` that was read. A conflict ends the reconcile, and the next one reads it again.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::ObjectMeta;
use kube::{Api, ResourceExt};
use kube_types::well_known::{CHART_PACKAGE, READER_PREFIX};
use kube_types::{HelmPackage, HelmRelease, HelmRequest, Workspace};
use serde_json::json;

use super::deletion::ignore_not_found;
use super::{ErrorContext, MAX_CONCURRENT_RECONCILES, ReconcileError, TenancyController};
use crate::{credential_store, paging};

/// A package that the workspace read.
struct ReadPackage {
    metadata: ObjectMeta,
    /// Whether it has other readers.
    has_other_readers: bool,
}

impl ReadPackage {
    fn from_package(package: HelmPackage, own: &str) -> Option<Self> {
        let is_other = |key: &String| key.starts_with(READER_PREFIX) && key != own;
        package.annotations().contains_key(own).then(|| Self {
            has_other_readers: package.annotations().keys().any(is_other),
            metadata: package.metadata,
        })
    }

    fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
}

impl TenancyController {
    /// Removes a workspace from the readers of packages. A package without another reader is deleted, unless an object refers to it.
    pub(super) async fn remove_workspace_from_packages(
        &self,
        workspace: &Workspace,
    ) -> Result<(), ReconcileError> {
        let Some(uid) = workspace.uid() else { return Ok(()) };
        let own = format!("{READER_PREFIX}{uid}");
        let found = paging::list_all(&self.api::<HelmPackage>(), &ListParams::default(), |package| {
            ReadPackage::from_package(package, &own)
        })
        .await;
        let found = found.context(|| format!("list the packages of workspace `{}`", workspace.name_any()))?;
        let referred = if found.iter().all(|package| package.has_other_readers) {
            BTreeSet::new()
        } else {
            self.referenced_packages().await?
        };
        let release = async |package: ReadPackage| {
            if package.has_other_readers || referred.contains(package.name()) {
                self.remove_reader(&package, &own).await
            } else {
                self.delete_package(&package).await
            }
        };
        stream::iter(found).map(release).buffer_unordered(MAX_CONCURRENT_RECONCILES).try_collect().await
    }

    /// The packages that requests, their stored versions and releases refer to. Tenants write the spec of a release: it counts only in
    /// namespaces outside all workspaces.
    async fn referenced_packages(&self) -> Result<BTreeSet<String>, ReconcileError> {
        let all = ListParams::default();
        let requested = |request: HelmRequest| Some(request.spec.chart.package);
        let requested = paging::list_all(&self.api::<HelmRequest>(), &all, requested).await;
        let labelled = all.clone().labels(CHART_PACKAGE);
        let kept = |mut secret: Secret| secret.labels_mut().remove(CHART_PACKAGE);
        let kept = paging::list_all(&credential_store::api(self.client.clone()), &labelled, kept).await;
        let deployed = |release: HelmRelease| {
            let is_tenants = self.directory.workspace_of(&release.namespace().unwrap_or_default()).is_some();
            let stated = release.spec.source.filter(|_| !is_tenants).and_then(|source| source.package);
            let deployed = release.status.and_then(|status| status.chart).map(|chart| chart.package);
            Some([stated, deployed])
        };
        let deployed = paging::list_all(&Api::<HelmRelease>::all(self.client.clone()), &all, deployed).await;
        let doing = || "list the objects that refer to packages".to_owned();
        let deployed = deployed.context(doing)?.into_iter().flatten().flatten();
        Ok(requested.context(doing)?.into_iter().chain(kept.context(doing)?).chain(deployed).collect())
    }

    /// Removes the workspace's reader annotation.
    async fn remove_reader(&self, package: &ReadPackage, own: &str) -> Result<(), ReconcileError> {
        let name = package.name();
        let patch = json!({"metadata": {
            "uid": package.metadata.uid,
            "resourceVersion": package.metadata.resource_version,
            "annotations": {own: null},
        }});
        let patched =
            self.api::<HelmPackage>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        ignore_not_found(patched.map(drop)).context(|| format!("remove a reader of package `{name}`"))
    }

    async fn delete_package(&self, package: &ReadPackage) -> Result<(), ReconcileError> {
        let name = package.name();
        let as_read = Preconditions {
            uid: package.metadata.uid.clone(),
            resource_version: package.metadata.resource_version.clone(),
        };
        let params = DeleteParams {
            preconditions: Some(as_read),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let deleted = self.api::<HelmPackage>().delete(name, &params).await;
        ignore_not_found(deleted.map(drop)).context(|| format!("delete package `{name}`"))
    }
}
