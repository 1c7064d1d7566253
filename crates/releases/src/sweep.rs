//! Garbage collection of unreferenced packages, of values whose request was never written, and of repositories and credentials that were
//! left behind.
//!
//! A package is retained by references that tenants cannot forge: `HelmRequest` objects, the values of their versions in the system
//! namespace, and the status of `HelmRelease` objects. The spec of a `HelmRelease` counts only for packages that its workspace may read.
//! Labels of Helm records do not count: those are Secrets of tenants, and a rollback takes the chart from the record itself.

use std::collections::HashSet;
use std::time::Duration;

use chart_store::packages::References;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::{Api, Resource, ResourceExt};
use kube_types::marks::{CHART_PACKAGE, REPO_CREDENTIALS_TYPE, REQUEST, WORKSPACE_UID};
use kube_types::{HelmRepo, HelmRequestSpec, SYSTEM_NAMESPACE};

use crate::Releases;
use crate::acts::Error;
use crate::requests::gone;

/// The interval of garbage collection.
pub(crate) const EVERY: Duration = Duration::from_hours(1);

/// The minimum age of values without a request: their request may be about to be written.
const GRACE: SignedDuration = SignedDuration::from_hours(1);

impl Releases {
    /// Collects packages, repositories, credentials and values.
    pub(crate) async fn sweep(&self) -> Result<(), Error> {
        let kept = self.kept_values().await?;
        let mut references = self.references(true);
        for secret in &kept {
            let Some(package) = secret.labels().get(CHART_PACKAGE) else { continue };
            references.platform.insert(package.clone());
            let request = secret.labels().get(REQUEST).and_then(|request| self.parts().requests.get(request));
            if let Some(request) = request {
                references.add(&request.spec.workspace, package, created(&*request));
            }
        }
        let store = self.parts().charts.store();
        store.packages().collect(&references, &store.living().await?).await?;
        self.sweep_repos().await?;
        self.sweep_credentials(self.parts().clock.now()).await?;
        self.sweep_values(&kept, self.parts().clock.now()).await
    }

    /// Records the readers of packages that were stored before readers were recorded.
    pub(crate) async fn adopt_packages(&self) -> Result<(), Error> {
        let store = self.parts().charts.store();
        Ok(store.packages().adopt(&self.references(false), &store.living().await?).await?)
    }

    /// The packages that requests and releases refer to. `specs` includes the specs of releases, which tenants write.
    fn references(&self, specs: bool) -> References {
        let mut references = References::default();
        for request in self.parts().requests.all() {
            let HelmRequestSpec { workspace, chart, .. } = &request.spec;
            references.platform.insert(chart.package.clone());
            references.add(workspace, &chart.package, created(&*request));
        }
        for release in self.parts().releases.all() {
            let workspace = self.parts().people.workspace_of(&release.namespace().unwrap_or_default());
            let status = release.status.as_ref().and_then(|status| status.chart.as_ref());
            let asked = release.spec.source.as_ref().and_then(|source| source.package.clone());
            let of_status = status.map(|chart| chart.package.clone());
            references.platform.extend(of_status.clone());
            let counted = of_status.into_iter().chain(asked.filter(|_| specs));
            match workspace {
                Some(workspace) => counted.for_each(|package| {
                    references.add(&workspace.to_string(), &package, created(&*release));
                }),
                None => references.platform.extend(counted),
            }
        }
        references
    }

    async fn kept_values(&self) -> Result<Vec<PartialObjectMeta<Secret>>, Error> {
        Ok(self.system_secrets().list_metadata(&ListParams::default().labels(REQUEST)).await?.items)
    }

    /// Deletes repositories of deleted workspaces: one may have been created while its workspace was being removed.
    async fn sweep_repos(&self) -> Result<(), Error> {
        let repos: Api<HelmRepo> = Api::all(self.parts().clients.own());
        // Listed before the workspaces, so that the workspace of each repository was created earlier.
        let all = repos.list(&ListParams::default()).await?.items;
        let living = self.parts().charts.store().living().await?;
        let is_orphan = |repo: &&HelmRepo| {
            let uid = repo.annotations().get(WORKSPACE_UID);
            uid.is_some_and(|uid| living.get(&repo.spec.workspace).is_none_or(|(now, _)| now != uid))
        };
        for repo in all.iter().filter(is_orphan) {
            let this_one = Preconditions { uid: repo.uid(), resource_version: None };
            let params = DeleteParams::default().preconditions(this_one);
            gone(repos.delete(&repo.name_any(), &params).await.map(drop))?;
        }
        Ok(())
    }

    /// Deletes credentials without a repository. They remain when a server is killed before it creates or after it deletes the
    /// repository.
    async fn sweep_credentials(&self, now: Timestamp) -> Result<(), Error> {
        let ours = ListParams::default().fields(&format!("type={REPO_CREDENTIALS_TYPE}"));
        let all = self.system_secrets().list_metadata(&ours).await?.items;
        let repos = Api::<HelmRepo>::all(self.parts().clients.own()).list(&ListParams::default()).await?;
        let named: HashSet<String> =
            repos.items.into_iter().filter_map(|repo| Some(repo.spec.credential_ref?.name)).collect();
        for secret in all.iter().filter(|secret| !named.contains(&secret.name_any())) {
            if now.duration_since(created(secret)) > GRACE {
                let deleted =
                    self.system_secrets().delete(&secret.name_any(), &DeleteParams::default()).await;
                gone(deleted.map(drop))?;
            }
        }
        Ok(())
    }

    /// Deletes values whose request does not exist.
    async fn sweep_values(&self, kept: &[PartialObjectMeta<Secret>], now: Timestamp) -> Result<(), Error> {
        for secret in kept {
            let request = secret.labels().get(REQUEST).map(String::as_str).unwrap_or_default();
            let made = secret.metadata.creation_timestamp.as_ref().map_or(now, |made| made.0);
            if now.duration_since(made) > GRACE && self.parts().requests.get(request).is_none() {
                self.system_secrets().delete(&secret.name_any(), &DeleteParams::default()).await?;
            }
        }
        Ok(())
    }

    fn system_secrets(&self) -> Api<Secret> {
        Api::namespaced(self.parts().clients.own(), SYSTEM_NAMESPACE)
    }
}

fn created(object: &impl Resource) -> Timestamp {
    object.meta().creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube_types::HelmPackage;
    use serde_json::json;
    use testkit::{Fault, HeldClock};

    use super::*;
    use crate::stage::{Stage, web};

    #[tokio::test]
    async fn package_stays_while_a_release_refers_to_it() {
        let stage = Stage::new().await;
        let package = stage.keep(web()).await;
        stage.write("web", json!({"name": "web", "source": {"package": package}})).await.unwrap();
        stage.until_state("web", "active").await;
        let packages: Api<HelmPackage> = Api::all(stage.world.admin());
        // A month later.
        let later = HeldClock::at(Timestamp::now() + SignedDuration::from_hours(24 * 30));
        let other = crate::stage::releases_at(&stage.world, &Fault::none(), Arc::new(later)).await;
        other.sweep().await.unwrap();
        assert!(packages.get_opt(&package).await.unwrap().is_some());
        let releases = stage.of::<kube_types::HelmRelease>();
        releases.delete("web", &DeleteParams::default()).await.unwrap();
        stage.until_gone(&releases, "web").await;
        // The watches of the other server may lag.
        testkit::until("it is gone", async || {
            other.sweep().await.unwrap();
            packages.get_opt(&package).await.unwrap().is_none().then_some(())
        })
        .await;
    }

    #[tokio::test]
    async fn repository_of_a_removed_workspace_goes_with_its_credentials() {
        let stage = Stage::new().await;
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
        let workspaces: Api<kube_types::Workspace> = Api::all(stage.world.admin());
        let uid = workspaces.get("acme").await.unwrap().uid().unwrap();
        stage
            .world
            .apply([
                repo("gone.charts", "former", "gone"),
                repo("acme.former", "former", "gone"),
                repo("acme.charts", &uid, "acme"),
            ])
            .await;
        let later = HeldClock::at(Timestamp::now() + SignedDuration::from_hours(2));
        let other = crate::stage::releases_at(&stage.world, &Fault::none(), Arc::new(later)).await;
        other.sweep().await.unwrap();
        let repos = Api::<HelmRepo>::all(stage.world.admin()).list(&ListParams::default()).await.unwrap();
        assert_eq!(repos.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["acme.charts"]);
        let secrets = Api::<Secret>::namespaced(stage.world.admin(), SYSTEM_NAMESPACE);
        assert!(secrets.get_opt("gone").await.unwrap().is_none());
        assert!(secrets.get_opt("acme").await.unwrap().is_some());
    }

    #[tokio::test]
    async fn tenant_pins_packages_by_labels_and_by_releases_that_may_not_read_them() {
        let stage = Stage::new().await;
        let (labelled, foreign) = (stage.keep(web()).await, crate::stage::archive("other", "1.0.0", &[]));
        let source = chart_store::Source::Archive(foreign);
        let foreign = stage
            .releases
            .charts()
            .get(&source, &chart_store::Reader::Platform)
            .await
            .unwrap()
            .resolved
            .package;
        // A Helm record as a tenant can forge it.
        stage
            .world
            .apply([json!({
                "apiVersion": "v1", "kind": "Secret", "type": crate::records::TYPE,
                "metadata": {"name": "sh.helm.release.v1.x.v1", "namespace": crate::stage::SHOP, "labels": {
                    "owner": "helm", "name": "x", "version": "1", "status": "deployed", CHART_PACKAGE: labelled,
                }},
            })])
            .await;
        stage.write("thief", json!({"name": "thief", "source": {"package": foreign}})).await.unwrap();
        let later = HeldClock::at(Timestamp::now() + SignedDuration::from_hours(24 * 30));
        let other = crate::stage::releases_at(&stage.world, &Fault::none(), Arc::new(later)).await;
        other.parts().marks.synced().await;
        other.sweep().await.unwrap();
        let packages: Api<HelmPackage> = Api::all(stage.world.admin());
        for package in [labelled, foreign] {
            assert!(packages.get_opt(&package).await.unwrap().is_none(), "{package}");
        }
    }
}
