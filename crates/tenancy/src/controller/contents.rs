//! Removal of objects that the platform keeps for a workspace outside of its namespaces: requests, values, repositories,
//! credentials, packages, tokens.
//!
//! Each step reads the cluster, deletes by UID and is idempotent. Finalizers of requests and releases uninstall the objects that a
//! release created in the cluster. A namespace waits [`UNINSTALL_GRACE`] for that; in a namespace that is being deleted the
//! finalizer of a release is removed in any case. The workspace itself remains until all of it is deleted.

use std::fmt::Debug;
use std::time::Duration;

use futures::future::try_join_all;
use futures::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use kube_types::well_known::WORKSPACE;
use kube_types::{HelmRelease, HelmRepo, HelmRequest, Workspace};
use serde::de::DeserializeOwned;

use super::deletion::ignore_not_found;
use super::{ErrorContext, MAX_CONCURRENT_RECONCILES, REQUEUE_AFTER, ReconcileError, TenancyController};
use crate::credential_store::{self, post_params};
use crate::directory::user_secret::UserSecretKind;
use crate::paging;
use crate::register::email_claims::delete_if_uid;
use crate::tokens::TokenRecord;

/// How long uninstalling releases may delay the deletion of their namespace.
const UNINSTALL_GRACE: SignedDuration = SignedDuration::from_secs(30);

/// The requeue interval while releases are being uninstalled.
pub(super) const UNINSTALL_POLL: Duration = Duration::from_secs(1);

/// Requests and releases that are being uninstalled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PendingUninstalls {
    count: usize,
    /// When the first of them was deleted.
    since: Option<Timestamp>,
}

impl PendingUninstalls {
    fn add(&mut self, deleted: Timestamp) {
        self.count += 1;
        self.since = Some(self.since.map_or(deleted, |since| since.min(deleted)));
    }

    /// Combines both counts, with the earlier deletion time.
    pub fn merge(mut self, other: Self) -> Self {
        self.count += other.count;
        self.since = self.since.into_iter().chain(other.since).min();
        self
    }

    pub fn is_done(self) -> bool {
        self.count == 0
    }

    /// The requeue delay.
    pub fn requeue_after(self, now: Timestamp) -> Duration {
        if self.blocks_namespace_deletion(now) { UNINSTALL_POLL } else { REQUEUE_AFTER }
    }

    /// Whether their namespace waits for them. A deletion time far from this server's clock counts as expired.
    pub fn blocks_namespace_deletion(self, now: Timestamp) -> bool {
        self.since.is_some_and(|since| now.duration_since(since).abs() < UNINSTALL_GRACE)
    }
}

impl TenancyController {
    /// Deletes the requests for releases of a workspace, in one of its namespaces or in all.
    pub(super) async fn delete_requests(
        &self,
        workspace: &Workspace,
        namespace: Option<&str>,
    ) -> Result<PendingUninstalls, ReconcileError> {
        let name = workspace.name_any();
        let labelled = ListParams::default().labels(&format!("{WORKSPACE}={name}"));
        let in_namespace = |request: &HelmRequest| {
            request.spec.workspace == name
                && namespace.is_none_or(|namespace| request.spec.namespace == namespace)
        };
        let keep = |request: HelmRequest| in_namespace(&request).then_some(request.metadata);
        let found = paging::list_all(&self.api::<HelmRequest>(), &labelled, keep).await;
        let found = found.context(|| format!("list the requests of workspace `{name}`"))?;
        self.delete_all(&self.api::<HelmRequest>(), found).await
    }

    /// Deletes the releases of a namespace. Callers have checked that the namespace is the workspace's own.
    pub(super) async fn delete_releases(&self, namespace: &str) -> Result<PendingUninstalls, ReconcileError> {
        let releases: Api<HelmRelease> = Api::namespaced(self.client.clone(), namespace);
        let keep = |release: HelmRelease| Some(release.metadata);
        let found = paging::list_all(&releases, &ListParams::default(), keep).await;
        let found = found.context(|| format!("list the releases in `{namespace}`"))?;
        self.delete_all(&releases, found).await
    }

    /// Deletes the other objects of a workspace: repositories, Secrets, packages and token scopes.
    pub(super) async fn delete_workspace_objects(&self, workspace: &Workspace) -> Result<(), ReconcileError> {
        let name = workspace.name_any();
        let labelled = ListParams::default().labels(&format!("{WORKSPACE}={name}"));
        let repos = self.api::<HelmRepo>();
        let keep = |repo: HelmRepo| (repo.spec.workspace == name).then_some(repo.metadata);
        let found = paging::list_all(&repos, &labelled, keep).await;
        let found = found.context(|| format!("list the repositories of workspace `{name}`"))?;
        self.delete_all(&repos, found).await?;
        // Only the platform writes Secrets in the system namespace.
        let kept = credential_store::api(self.client.clone());
        let found = paging::list_all(&kept, &labelled, |secret: Secret| Some(secret.metadata)).await;
        let found = found.context(|| format!("list the Secrets of workspace `{name}`"))?;
        self.delete_all(&kept, found).await?;
        self.remove_workspace_from_packages(workspace).await?;
        self.remove_from_token_scopes(&name).await
    }

    /// Removes a workspace from the scopes of all tokens. A token without any other scope is deleted.
    async fn remove_from_token_scopes(&self, workspace: &str) -> Result<(), ReconcileError> {
        let Ok(name) = workspace.parse() else { return Ok(()) };
        let token = |held: &UserSecretKind| match held {
            UserSecretKind::Token(_, Some(token)) if token.scopes.is_restricted_to(&name) => {
                Some(token.clone())
            }
            _ => None,
        };
        let held = self.secrets.list();
        let tokens = held.iter().filter_map(|held| token(&held.kind));
        try_join_all(tokens.map(|token| self.remove_from_scopes_of_token(token.id.clone(), &name))).await?;
        Ok(())
    }

    /// Removes a workspace from the scopes of one token.
    async fn remove_from_scopes_of_token(
        &self,
        id: domain::ids::TokenId,
        workspace: &domain::ids::WorkspaceName,
    ) -> Result<(), ReconcileError> {
        let (api, name) = (credential_store::api(self.client.clone()), TokenRecord::secret_name(&id));
        let doing = || format!("remove workspace `{workspace}` from the scopes of token `{id}`");
        let Some(found) = api.get_opt(&name).await.context(doing)? else { return Ok(()) };
        let Some(token) = TokenRecord::from_secret(&found) else { return Ok(()) };
        match token.scopes.without_workspace(workspace) {
            None => ignore_not_found(api.delete(&name, &delete_if_uid(&found.metadata)).await.map(drop))
                .context(doing),
            Some(scopes) if scopes == token.scopes => Ok(()),
            Some(scopes) => {
                let data = token.with_scopes(scopes).to_secret().data;
                let limited = Secret { data, ..found };
                api.replace(&name, &post_params(), &limited).await.map(drop).context(doing)
            }
        }
    }

    /// Deletes these objects by UID. Returns the objects that a finalizer retains.
    async fn delete_all<K>(
        &self,
        api: &Api<K>,
        objects: Vec<kube::core::ObjectMeta>,
    ) -> Result<PendingUninstalls, ReconcileError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let now = self.clock.now();
        let delete = async |meta: kube::core::ObjectMeta| {
            let name = meta.name.as_deref().unwrap_or_default();
            if meta.deletion_timestamp.is_none() {
                let deleted = api.delete(name, &delete_if_uid(&meta)).await.map(drop);
                ignore_not_found(deleted).context(|| format!("delete {} `{name}`", K::kind(&())))?;
            }
            let is_held = meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
            let deleted = meta.deletion_timestamp.as_ref().map_or(now, |time| time.0);
            Ok::<_, ReconcileError>(is_held.then_some(deleted))
        };
        let mut left = PendingUninstalls::default();
        let mut deleting = stream::iter(objects).map(delete).buffer_unordered(MAX_CONCURRENT_RECONCILES);
        while let Some(held) = deleting.next().await {
            if let Some(deleted) = held? {
                left.add(deleted);
            }
        }
        Ok(left)
    }
}
