//! Garbage collection of unreferenced packages, of values whose request was never written, and of repositories and credentials that were
//! left behind.
//!
//! A package is retained by references that tenants cannot forge: `HelmRequest` objects, the values of their versions in the system
//! namespace, and the status of `HelmRelease` objects. The spec of a `HelmRelease` counts only for packages that its workspace may read.
//! Labels of Helm records do not count: those are Secrets of tenants, and a rollback takes the chart from the record itself.

use std::collections::HashSet;
use std::time::Duration;

use chart_store::packages::PackageReferences;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::{Api, Resource, ResourceExt};
use kube_types::well_known::{CHART_PACKAGE, REPO_CREDENTIALS_TYPE, REQUEST, WORKSPACE_UID};
use kube_types::{HelmRepo, HelmRequestSpec, SYSTEM_NAMESPACE};

use crate::Releases;
use crate::requests::ignore_not_found;
use crate::service::Error;

/// The interval of garbage collection.
pub(crate) const GC_INTERVAL: Duration = Duration::from_hours(1);

/// The minimum age of values without a request: their request may be about to be written.
const MIN_ORPHAN_AGE: SignedDuration = SignedDuration::from_hours(1);

impl Releases {
    /// Collects packages, repositories, credentials and values.
    pub(crate) async fn gc(&self) -> Result<(), Error> {
        let kept = self.saved_values().await?;
        let mut references = self.package_references(true);
        for secret in &kept {
            let Some(package) = secret.labels().get(CHART_PACKAGE) else { continue };
            references.platform.insert(package.clone());
            let request = secret.labels().get(REQUEST).and_then(|request| self.inner().requests.get(request));
            if let Some(request) = request {
                references.add(&request.spec.workspace, package, created_at(&*request));
            }
        }
        let store = self.inner().charts.store();
        store.packages().collect_garbage(&references, &store.list_workspace_identities().await?).await?;
        self.gc_repos().await?;
        self.gc_credentials(self.inner().clock.now()).await?;
        self.gc_values(&kept, self.inner().clock.now()).await
    }

    /// Records the readers of packages that were stored before readers were recorded.
    pub(crate) async fn record_package_readers(&self) -> Result<(), Error> {
        let store = self.inner().charts.store();
        Ok(store
            .packages()
            .record_legacy_readers(&self.package_references(false), &store.list_workspace_identities().await?)
            .await?)
    }

    /// The packages that requests and releases refer to. `specs` includes the specs of releases, which tenants write.
    fn package_references(&self, specs: bool) -> PackageReferences {
        let mut references = PackageReferences::default();
        for request in self.inner().requests.list() {
            let HelmRequestSpec { workspace, chart, .. } = &request.spec;
            references.platform.insert(chart.package.clone());
            references.add(workspace, &chart.package, created_at(&*request));
        }
        for release in self.inner().releases.list() {
            let workspace = self.inner().tenants.workspace_of(&release.namespace().unwrap_or_default());
            let status = release.status.as_ref().and_then(|status| status.chart.as_ref());
            let asked = release.spec.source.as_ref().and_then(|source| source.package.clone());
            let of_status = status.map(|chart| chart.package.clone());
            references.platform.extend(of_status.clone());
            let counted = of_status.into_iter().chain(asked.filter(|_| specs));
            match workspace {
                Some(workspace) => counted.for_each(|package| {
                    references.add(&workspace.to_string(), &package, created_at(&*release));
                }),
                None => references.platform.extend(counted),
            }
        }
        references
    }

    async fn saved_values(&self) -> Result<Vec<PartialObjectMeta<Secret>>, Error> {
        Ok(self.system_secrets().list_metadata(&ListParams::default().labels(REQUEST)).await?.items)
    }

    /// Deletes repositories of deleted workspaces: one may have been created while its workspace was being removed.
    async fn gc_repos(&self) -> Result<(), Error> {
        let repos: Api<HelmRepo> = Api::all(self.inner().clients.platform());
        // Listed before the workspaces, so that the workspace of each repository was created earlier.
        let all = repos.list(&ListParams::default()).await?.items;
        let living = self.inner().charts.store().list_workspace_identities().await?;
        let is_orphan = |repo: &&HelmRepo| {
            let uid = repo.annotations().get(WORKSPACE_UID);
            uid.is_some_and(|uid| living.get(&repo.spec.workspace).is_none_or(|(now, _)| now != uid))
        };
        for repo in all.iter().filter(is_orphan) {
            let this_one = Preconditions { uid: repo.uid(), resource_version: None };
            let params = DeleteParams::default().preconditions(this_one);
            ignore_not_found(repos.delete(&repo.name_any(), &params).await.map(drop))?;
        }
        Ok(())
    }

    /// Deletes credentials without a repository. They remain when a server is killed before it creates or after it deletes the
    /// repository.
    async fn gc_credentials(&self, now: Timestamp) -> Result<(), Error> {
        let ours = ListParams::default().fields(&format!("type={REPO_CREDENTIALS_TYPE}"));
        let all = self.system_secrets().list_metadata(&ours).await?.items;
        let repos =
            Api::<HelmRepo>::all(self.inner().clients.platform()).list(&ListParams::default()).await?;
        let named: HashSet<String> =
            repos.items.into_iter().filter_map(|repo| Some(repo.spec.credential_ref?.name)).collect();
        for secret in all.iter().filter(|secret| !named.contains(&secret.name_any())) {
            if now.duration_since(created_at(secret)) > MIN_ORPHAN_AGE {
                let deleted =
                    self.system_secrets().delete(&secret.name_any(), &DeleteParams::default()).await;
                ignore_not_found(deleted.map(drop))?;
            }
        }
        Ok(())
    }

    /// Deletes values whose request does not exist.
    async fn gc_values(&self, kept: &[PartialObjectMeta<Secret>], now: Timestamp) -> Result<(), Error> {
        for secret in kept {
            let request = secret.labels().get(REQUEST).map(String::as_str).unwrap_or_default();
            let made = secret.metadata.creation_timestamp.as_ref().map_or(now, |made| made.0);
            if now.duration_since(made) > MIN_ORPHAN_AGE && self.inner().requests.get(request).is_none() {
                self.system_secrets().delete(&secret.name_any(), &DeleteParams::default()).await?;
            }
        }
        Ok(())
    }

    fn system_secrets(&self) -> Api<Secret> {
        Api::namespaced(self.inner().clients.platform(), SYSTEM_NAMESPACE)
    }
}

fn created_at(object: &impl Resource) -> Timestamp {
    object.meta().creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube_types::HelmPackage;
    use serde_json::json;
    use testkit::{FaultInjector, ManualClock};

    use super::*;
    use crate::testing::{TestHarness, web_chart};

    #[tokio::test]
    async fn gc_keeps_packages_that_releases_refer_to() {
        let stage = TestHarness::new().await;
        let package = stage.store_chart(web_chart()).await;
        stage.create_release("web", json!({"name": "web", "source": {"package": package}})).await.unwrap();
        stage.wait_for_state("web", "active").await;
        let packages: Api<HelmPackage> = Api::all(stage.world.admin_client());
        // A month later.
        let later = ManualClock::starting_at(Timestamp::now() + SignedDuration::from_hours(24 * 30));
        let other =
            crate::testing::start_releases_at(&stage.world, &FaultInjector::healthy(), Arc::new(later)).await;
        other.gc().await.unwrap();
        assert!(packages.get_opt(&package).await.unwrap().is_some());
        let releases = stage.namespaced_api::<kube_types::HelmRelease>();
        releases.delete("web", &DeleteParams::default()).await.unwrap();
        stage.wait_until_deleted(&releases, "web").await;
        // The watches of the other server may lag.
        testkit::wait_for("it is gone", async || {
            other.gc().await.unwrap();
            packages.get_opt(&package).await.unwrap().is_none().then_some(())
        })
        .await;
    }

    #[tokio::test]
    async fn gc_deletes_repositories_and_credentials_of_deleted_workspaces() {
        let stage = TestHarness::new().await;
        let repo = |name: &str, uid: &str, secret: &str| {
            json!({"apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRepo",
                "metadata": {"name": name, "annotations": {WORKSPACE_UID: uid}},
                "spec": {"name": "charts", "workspace": name.split('.').next(), "url": "https://charts.example.com",
                    "credentialRef": {"name": secret}}})
        };
        let secret = |name: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "type": REPO_CREDENTIALS_TYPE,
                "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE}})
        };
        let workspace = json!({"apiVersion": "longshore.dev/v1alpha1", "kind": "Workspace", "metadata": {"name": "acme"},
            "spec": {"namespaces": [{"name": "acme"}], "clusters": ["host"]}});
        stage.world.apply([workspace, secret("gone"), secret("acme")]).await;
        let workspaces: Api<kube_types::Workspace> = Api::all(stage.world.admin_client());
        let uid = workspaces.get("acme").await.unwrap().uid().unwrap();
        stage
            .world
            .apply([
                repo("gone.charts", "former", "gone"),
                repo("acme.former", "former", "gone"),
                repo("acme.charts", &uid, "acme"),
            ])
            .await;
        let later = ManualClock::starting_at(Timestamp::now() + SignedDuration::from_hours(2));
        let other =
            crate::testing::start_releases_at(&stage.world, &FaultInjector::healthy(), Arc::new(later)).await;
        other.gc().await.unwrap();
        let repos =
            Api::<HelmRepo>::all(stage.world.admin_client()).list(&ListParams::default()).await.unwrap();
        assert_eq!(repos.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["acme.charts"]);
        let secrets = Api::<Secret>::namespaced(stage.world.admin_client(), SYSTEM_NAMESPACE);
        assert!(secrets.get_opt("gone").await.unwrap().is_none());
        assert!(secrets.get_opt("acme").await.unwrap().is_some());
    }

    #[tokio::test]
    async fn gc_ignores_package_references_that_tenants_forge() {
        let stage = TestHarness::new().await;
        let (labelled, foreign) =
            (stage.store_chart(web_chart()).await, crate::testing::chart_archive("other", "1.0.0", &[]));
        let source = chart_store::ChartSource::Archive(foreign);
        let foreign = stage
            .releases
            .charts()
            .get(&source, &chart_store::ChartReader::Platform)
            .await
            .unwrap()
            .resolved
            .package;
        // A Helm record as a tenant can forge it.
        stage
            .world
            .apply([json!({
                "apiVersion": "v1", "kind": "Secret", "type": crate::helm_records::RECORD_SECRET_TYPE,
                "metadata": {"name": "sh.helm.release.v1.x.v1", "namespace": crate::testing::SHOP, "labels": {
                    "owner": "helm", "name": "x", "version": "1", "status": "deployed", CHART_PACKAGE: labelled,
                }},
            })])
            .await;
        stage
            .create_release("thief", json!({"name": "thief", "source": {"package": foreign}}))
            .await
            .unwrap();
        let later = ManualClock::starting_at(Timestamp::now() + SignedDuration::from_hours(24 * 30));
        let other =
            crate::testing::start_releases_at(&stage.world, &FaultInjector::healthy(), Arc::new(later)).await;
        other.inner().record_labels.wait_until_synced().await;
        other.gc().await.unwrap();
        let packages: Api<HelmPackage> = Api::all(stage.world.admin_client());
        for package in [labelled, foreign] {
            assert!(packages.get_opt(&package).await.unwrap().is_none(), "{package}");
        }
    }
}
