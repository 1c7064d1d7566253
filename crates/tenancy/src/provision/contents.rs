//! Removal of objects that the platform keeps for a workspace outside of its namespaces: requests, values, repositories,
//! credentials, packages, tokens.
//!
//! Each step reads the cluster, deletes by UID and is idempotent. Finalizers of requests and releases uninstall what a release
//! created in the cluster. A namespace waits [`UNINSTALL_GRACE`] for that; in a namespace that is being deleted the finalizer of a
//! release is removed in any case. The workspace itself remains until all of it is deleted.

use std::fmt::Debug;
use std::time::Duration;

use futures::future::try_join_all;
use futures::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use kube_types::marks::WORKSPACE;
use kube_types::{HelmRelease, HelmRepo, HelmRequest, Workspace};
use serde::de::DeserializeOwned;

use super::removal::gone;
use super::{AGAIN, AT_ONCE, Doing, ProvisionError, Provisioner};
use crate::directory::held::What;
use crate::pages;
use crate::register::claims::only_uid;
use crate::secrets::{self, writing};
use crate::tokens::TokenRecord;

/// How long uninstalling releases may delay the deletion of their namespace.
const UNINSTALL_GRACE: SignedDuration = SignedDuration::from_secs(30);

/// The requeue interval while releases are being uninstalled.
pub(super) const UNINSTALL_POLL: Duration = Duration::from_secs(1);

/// Requests and releases that are being uninstalled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Uninstalling {
    count: usize,
    /// When the first of them was deleted.
    since: Option<Timestamp>,
}

impl Uninstalling {
    fn add(&mut self, deleted: Timestamp) {
        self.count += 1;
        self.since = Some(self.since.map_or(deleted, |since| since.min(deleted)));
    }

    /// Combines both counts, with the earlier deletion time.
    pub fn and(mut self, other: Self) -> Self {
        self.count += other.count;
        self.since = self.since.into_iter().chain(other.since).min();
        self
    }

    pub fn is_done(self) -> bool {
        self.count == 0
    }

    /// The requeue delay.
    pub fn look_again(self, now: Timestamp) -> Duration {
        if self.holds_namespace(now) { UNINSTALL_POLL } else { AGAIN }
    }

    /// Whether their namespace waits for them. A deletion time far from this server's clock counts as expired.
    pub fn holds_namespace(self, now: Timestamp) -> bool {
        self.since.is_some_and(|since| now.duration_since(since).abs() < UNINSTALL_GRACE)
    }
}

impl Provisioner {
    /// Deletes the requests for releases of a workspace, in one of its namespaces or in all.
    pub(super) async fn delete_requests(
        &self,
        workspace: &Workspace,
        namespace: Option<&str>,
    ) -> Result<Uninstalling, ProvisionError> {
        let name = workspace.name_any();
        let labelled = ListParams::default().labels(&format!("{WORKSPACE}={name}"));
        let in_namespace = |request: &HelmRequest| {
            request.spec.workspace == name
                && namespace.is_none_or(|namespace| request.spec.namespace == namespace)
        };
        let keep = |request: HelmRequest| in_namespace(&request).then_some(request.metadata);
        let found = pages::all(&self.api::<HelmRequest>(), &labelled, keep).await;
        let found = found.doing(|| format!("list the requests of workspace `{name}`"))?;
        self.delete_all(&self.api::<HelmRequest>(), found).await
    }

    /// Deletes the releases of a namespace. Callers have checked that the namespace is the workspace's own.
    pub(super) async fn delete_releases(&self, namespace: &str) -> Result<Uninstalling, ProvisionError> {
        let releases: Api<HelmRelease> = Api::namespaced(self.client.clone(), namespace);
        let keep = |release: HelmRelease| Some(release.metadata);
        let found = pages::all(&releases, &ListParams::default(), keep).await;
        let found = found.doing(|| format!("list the releases in `{namespace}`"))?;
        self.delete_all(&releases, found).await
    }

    /// Deletes the other objects of a workspace: repositories, Secrets, packages and token scopes.
    pub(super) async fn delete_kept(&self, workspace: &Workspace) -> Result<(), ProvisionError> {
        let name = workspace.name_any();
        let labelled = ListParams::default().labels(&format!("{WORKSPACE}={name}"));
        let repos = self.api::<HelmRepo>();
        let keep = |repo: HelmRepo| (repo.spec.workspace == name).then_some(repo.metadata);
        let found = pages::all(&repos, &labelled, keep).await;
        let found = found.doing(|| format!("list the repositories of workspace `{name}`"))?;
        self.delete_all(&repos, found).await?;
        // Only the platform writes Secrets in the system namespace.
        let kept = secrets::api(self.client.clone());
        let found = pages::all(&kept, &labelled, |secret: Secret| Some(secret.metadata)).await;
        let found = found.doing(|| format!("list the Secrets of workspace `{name}`"))?;
        self.delete_all(&kept, found).await?;
        self.release_packages(workspace).await?;
        self.limit_tokens(&name).await
    }

    /// Removes a workspace from the scopes of all tokens. A token without any other scope is deleted.
    async fn limit_tokens(&self, workspace: &str) -> Result<(), ProvisionError> {
        let Ok(name) = workspace.parse() else { return Ok(()) };
        let token = |held: &What| match held {
            What::Token(_, Some(token)) if token.scopes.names(&name) => Some(token.clone()),
            _ => None,
        };
        let held = self.secrets.all();
        let tokens = held.iter().filter_map(|held| token(&held.what));
        try_join_all(tokens.map(|token| self.limit_token(token.id.clone(), &name))).await?;
        Ok(())
    }

    /// Removes a workspace from the scopes of one token.
    async fn limit_token(
        &self,
        id: domain::ids::TokenId,
        workspace: &domain::ids::WorkspaceName,
    ) -> Result<(), ProvisionError> {
        let (api, name) = (secrets::api(self.client.clone()), TokenRecord::secret_name(&id));
        let doing = || format!("take workspace `{workspace}` out of token `{id}`");
        let Some(found) = api.get_opt(&name).await.doing(doing)? else { return Ok(()) };
        let Some(token) = TokenRecord::of(&found) else { return Ok(()) };
        match token.scopes.without(workspace) {
            None => gone(api.delete(&name, &only_uid(&found.metadata)).await.map(drop)).doing(doing),
            Some(scopes) if scopes == token.scopes => Ok(()),
            Some(scopes) => {
                let data = token.with_scopes(scopes).to_secret().data;
                let limited = Secret { data, ..found };
                api.replace(&name, &writing(), &limited).await.map(drop).doing(doing)
            }
        }
    }

    /// Deletes these objects by UID. Returns those that a finalizer retains.
    async fn delete_all<K>(
        &self,
        api: &Api<K>,
        objects: Vec<kube::core::ObjectMeta>,
    ) -> Result<Uninstalling, ProvisionError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let now = self.clock.now();
        let delete = async |meta: kube::core::ObjectMeta| {
            let name = meta.name.as_deref().unwrap_or_default();
            if meta.deletion_timestamp.is_none() {
                let deleted = api.delete(name, &only_uid(&meta)).await.map(drop);
                gone(deleted).doing(|| format!("delete {} `{name}`", K::kind(&())))?;
            }
            let is_held = meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
            let deleted = meta.deletion_timestamp.as_ref().map_or(now, |time| time.0);
            Ok::<_, ProvisionError>(is_held.then_some(deleted))
        };
        let mut left = Uninstalling::default();
        let mut deleting = stream::iter(objects).map(delete).buffer_unordered(AT_ONCE);
        while let Some(held) = deleting.next().await {
            if let Some(deleted) = held? {
                left.add(deleted);
            }
        }
        Ok(left)
    }
}
