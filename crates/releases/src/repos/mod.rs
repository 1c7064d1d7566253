//! Chart repositories, per workspace and shared by all.
//!
//! Invariants: credentials are in a Secret in the platform's namespace and are never returned. They are sent only to the origin that they
//! were provided for: a URL with another origin needs new ones.
//!
//! Modules:
//!
//! * [`view`]: a repository as callers see it.
//! * [`credentials`]: its credentials.
//! * [`charts`]: its charts.

pub mod charts;
pub mod credentials;
pub mod view;

use std::collections::BTreeMap;

use chart_store::charts::is_owned_by_workspace;
use chart_store::error::tenant_message;
use domain::ids::{WorkspaceName, truncate_for_error};
use domain::names::check_subdomain;
use domain::roles::Capability;
use domain::{AccessScope, Actor, AuthorizationError, ErrorKind};
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::core::ObjectMeta;
use kube::{Api, ResourceExt};
use kube_access::storage_budget;
use kube_types::repo::HelmRepoCredential;
use kube_types::well_known::{MANAGED_BY, WORKSPACE, WORKSPACE_UID};
use kube_types::{FIELD_MANAGER, HelmRepo, HelmRepoSpec};

use crate::Releases;
use crate::service::Error;
use crate::service::view::etag;
use crate::tenant_directory::account_label;
use credentials::Credentials;
use view::RepoView;

/// Input for creating a repository.
#[derive(Debug, Default)]
pub struct CreateRepoRequest {
    /// The display name.
    pub name: String,
    /// The owning workspace; empty if shared by all.
    pub workspace: String,
    pub url: String,
    pub description: String,
    /// Connects to an OCI registry without TLS.
    pub insecure: bool,
    pub credentials: Option<Credentials>,
    /// Fails unless the repository serves an index.
    pub check: bool,
}

/// Input for updating a repository. Absent fields keep their value.
#[derive(Debug, Default)]
pub struct RepoUpdate {
    pub url: Option<String>,
    pub description: Option<String>,
    pub suspended: Option<bool>,
    /// Replaces all previous credentials.
    pub credentials: Option<Credentials>,
    /// Fails unless the new URL serves an index with the new credentials.
    pub check: bool,
}

/// The object name. It is unambiguous, because workspace names contain no dot.
fn object_name(workspace: &str, name: &str) -> String {
    if workspace.is_empty() { name.to_owned() } else { format!("{workspace}.{name}") }
}

/// The workspace in an object name; `None` if the repository is shared.
pub fn workspace_of(repo: &str) -> Option<WorkspaceName> {
    repo.split_once('.')?.0.parse().ok()
}

fn check_name(name: &str) -> Result<(), Error> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fits = !name.is_empty()
        && name.len() <= 63
        && name.bytes().all(plain)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if fits {
        Ok(())
    } else {
        Err(Error::Invalid(
            "a repository name must have lower-case letters, digits and dashes only".to_owned(),
        ))
    }
}

impl Releases {
    fn repo_api(&self) -> Api<HelmRepo> {
        Api::all(self.inner().clients.platform())
    }

    /// The repositories that the actor may see, of one workspace or of all, including shared ones.
    pub async fn list_repos(&self, actor: &Actor, workspace: Option<&str>) -> Result<Vec<RepoView>, Error> {
        if let Some(name) = workspace {
            let seen = name.parse().ok().filter(|name| check_read(actor, Some(name)).is_ok());
            seen.ok_or_else(|| Error::WorkspaceNotAccessible(name.to_owned()))?;
        }
        let all = self.repo_api().list(&ListParams::default()).await.map_err(repo_error)?;
        let living = self.inner().charts.store().list_workspace_identities().await?;
        let wanted = |repo: &&HelmRepo| {
            let of = &repo.spec.workspace;
            (of.is_empty() || workspace.is_none_or(|wanted| wanted == of))
                && is_visible(actor, repo)
                && is_owned_by_workspace(repo, living.get(of))
        };
        Ok(all.items.iter().filter(wanted).map(RepoView::from_repo).collect())
    }

    pub async fn get_repo(&self, actor: &Actor, name: &str) -> Result<RepoView, Error> {
        Ok(RepoView::from_repo(&self.visible_repo(actor, name).await?))
    }

    /// Creates a repository.
    pub async fn create_repo(&self, actor: &Actor, new: CreateRepoRequest) -> Result<RepoView, Error> {
        let CreateRepoRequest { name, workspace, url, description, insecure, credentials, check } = new;
        let place =
            owner_workspace(&workspace).map_err(|()| Error::WorkspaceNotAccessible(workspace.clone()))?;
        check_write(actor, place.as_ref())?;
        check_name(&name)?;
        self.check_not_terminating(&workspace).await?;
        let object = object_name(&workspace, &name);
        let mut written = HelmRepo::new(
            &object,
            HelmRepoSpec {
                name,
                workspace: workspace.clone(),
                url,
                description,
                insecure,
                ..HelmRepoSpec::default()
            },
        );
        written.metadata = ObjectMeta {
            labels: Some(self.workspace_labels(&workspace)),
            annotations: self.workspace_annotations(&workspace).await?,
            ..written.metadata
        };
        if self.repo_api().get_opt(&object).await.map_err(repo_error)?.is_some() {
            return Err(Error::RepoAlreadyExists(object));
        }
        self.check_repo_limit(&workspace).await?;
        let stored_secret = self.store_credentials(&mut written, credentials).await?;
        self.check_reachable(&written, check, stored_secret.as_deref()).await?;
        match self.repo_api().create(&PostParams::default(), &written).await {
            Ok(made) => Ok(RepoView::from_repo(&made)),
            Err(error) => {
                self.delete_credentials(stored_secret.as_deref()).await;
                Err(match error {
                    kube::Error::Api(status) if status.is_already_exists() => {
                        Error::RepoAlreadyExists(object)
                    }
                    other => repo_error(other),
                })
            }
        }
    }

    pub async fn update_repo(
        &self,
        actor: &Actor,
        name: &str,
        changes: RepoUpdate,
        if_match: Option<&str>,
    ) -> Result<RepoView, Error> {
        let mut repo = self.writable_repo(actor, name, if_match).await?;
        let RepoUpdate { url, description, suspended, credentials, check } = changes;
        let check = check && (url.is_some() || credentials.is_some());
        let before = repo.spec.credential_ref.take().map(|reference| reference.name);
        if let Some(url) = url {
            let elsewhere = origin(&url) != origin(&repo.spec.url);
            if elsewhere && credentials.is_none() && (before.is_some() || !repo.spec.credential.is_empty()) {
                return Err(Error::Invalid("a URL on another host requires new `credentials`".to_owned()));
            }
            repo.spec.url = url;
        }
        crate::service::update::set_if_some(&mut repo.spec.description, description);
        crate::service::update::set_if_some(&mut repo.spec.suspend, suspended);
        let replaced = credentials.is_some();
        let kept = if replaced {
            repo.spec.credential = HelmRepoCredential::default();
            self.store_credentials(&mut repo, credentials).await?
        } else {
            repo.spec.credential_ref = before.clone().map(|name| kube_types::repo::CredentialRef { name });
            None
        };
        self.check_reachable(&repo, check && !repo.spec.suspend, kept.as_deref()).await?;
        match self.repo_api().replace(name, &PostParams::default(), &repo).await {
            Ok(written) => {
                if replaced {
                    self.delete_credentials(before.as_deref()).await;
                }
                Ok(RepoView::from_repo(&written))
            }
            Err(error) => {
                self.delete_credentials(kept.as_deref()).await;
                Err(match error {
                    kube::Error::Api(status) if status.is_conflict() => Error::Conflict(name.to_owned()),
                    other => repo_error(other),
                })
            }
        }
    }

    /// Checks that the repository answers; otherwise deletes the credentials that were stored for it.
    async fn check_reachable(&self, repo: &HelmRepo, check: bool, kept: Option<&str>) -> Result<(), Error> {
        if !check {
            return Ok(());
        }
        let answered = self.inner().charts.store().check_index(repo).await;
        if answered.is_err() {
            self.delete_credentials(kept).await;
        }
        answered.map_err(|error| match error.kind() {
            // The check did not run, so the repository may be fine.
            ErrorKind::Exhausted | ErrorKind::Internal => error.into(),
            _ => Error::InvalidRepo { url: repo.spec.url.clone(), why: error.to_string() },
        })
    }

    /// Fails if a workspace has reached its limit of repositories.
    async fn check_repo_limit(&self, workspace: &str) -> Result<(), Error> {
        if workspace.is_empty() {
            return Ok(());
        }
        let own = ListParams::default().labels(&format!("{WORKSPACE}={workspace}")).limit(MAX_REPOS + 1);
        let used = self.repo_api().list_metadata(&own).await.map_err(repo_error)?.items.len();
        let limit = MAX_REPOS as usize;
        if used >= limit {
            return Err(Error::TooManyRepos { workspace: workspace.to_owned(), used, limit });
        }
        Ok(())
    }

    /// Fails if the workspace is being deleted. A concurrent write is garbage-collected later.
    pub(crate) async fn check_not_terminating(&self, workspace: &str) -> Result<(), Error> {
        if !workspace.is_empty() && self.inner().charts.store().is_terminating(workspace).await? {
            return Err(Error::WorkspaceTerminating(workspace.to_owned()));
        }
        Ok(())
    }

    fn workspace_labels(&self, workspace: &str) -> BTreeMap<String, String> {
        let ours = (MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned());
        let workspace_label = (!workspace.is_empty()).then(|| (WORKSPACE.to_owned(), workspace.to_owned()));
        let account = workspace.parse::<WorkspaceName>().ok();
        let account = account.and_then(|workspace| account_label(&*self.inner().tenants, &workspace));
        [ours].into_iter().chain(workspace_label).chain(account).collect()
    }

    /// Annotations of objects of a workspace: its UID, which distinguishes it from a later one of the same name.
    async fn workspace_annotations(
        &self,
        workspace: &str,
    ) -> Result<Option<BTreeMap<String, String>>, Error> {
        if workspace.is_empty() {
            return Ok(None);
        }
        let uid = self.inner().charts.store().workspace_uid(workspace).await?;
        Ok(uid.map(|uid| [(WORKSPACE_UID.to_owned(), uid)].into()))
    }

    /// Deletes a repository. Releases of its charts stay, because their packages are stored.
    pub async fn delete_repo(&self, actor: &Actor, name: &str, if_match: Option<&str>) -> Result<(), Error> {
        let repo = self.writable_repo(actor, name, if_match).await?;
        let uid_precondition = Preconditions { uid: repo.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(uid_precondition), ..DeleteParams::default() };
        self.repo_api().delete(name, &params).await.map_err(repo_error)?;
        self.delete_credentials(repo.spec.credential_ref.as_ref().map(|named| named.name.as_str())).await;
        Ok(())
    }

    /// Reads a repository that the actor may see.
    async fn visible_repo(&self, actor: &Actor, name: &str) -> Result<HelmRepo, Error> {
        let unknown = || Error::RepoNotFound(truncate_for_error(name));
        check_subdomain(name).map_err(|_| unknown())?;
        let found = self.repo_api().get_opt(name).await.map_err(repo_error)?;
        let found = found.filter(|repo| is_visible(actor, repo)).ok_or_else(unknown)?;
        if self.inner().charts.store().is_owned_by_existing_workspace(&found).await? {
            Ok(found)
        } else {
            Err(unknown())
        }
    }

    /// Reads a repository that the actor may change, and checks the precondition.
    async fn writable_repo(
        &self,
        actor: &Actor,
        name: &str,
        if_match: Option<&str>,
    ) -> Result<HelmRepo, Error> {
        let repo = self.visible_repo(actor, name).await?;
        let place =
            owner_workspace(&repo.spec.workspace).map_err(|()| Error::RepoNotFound(name.to_owned()))?;
        check_write(actor, place.as_ref())?;
        match if_match {
            Some(seen) if etag(&repo) != seen => Err(Error::PreconditionFailed(name.to_owned())),
            _ => Ok(repo),
        }
    }
}

/// Maximum number of repositories of one workspace.
pub const MAX_REPOS: u32 = 64;

/// Maps a failed call of the platform's own identity: validation errors are passed on, for others the caller gets only a reason.
fn repo_error(error: kube::Error) -> Error {
    if storage_budget::exceeded_message(&error).is_some() {
        return error.into();
    }
    match &error {
        kube::Error::Api(status) if matches!(status.code, 400 | 422) => error.into(),
        kube::Error::Api(status) if !matches!(status.code, 429 | 500..) => {
            let message = format!("cannot read or write the repository: {}", tenant_message(&error));
            Error::Kubernetes { kind: ErrorKind::from_http_status(status.code), message }
        }
        _ => error.into(),
    }
}

/// The owning workspace; `None` if shared.
fn owner_workspace(workspace: &str) -> Result<Option<WorkspaceName>, ()> {
    if workspace.is_empty() { Ok(None) } else { workspace.parse().map(Some).map_err(|_| ()) }
}

fn check_read(actor: &Actor, workspace: Option<&WorkspaceName>) -> Result<(), AuthorizationError> {
    match workspace {
        Some(name) => actor.authorize(Capability::ReadStore, AccessScope::Workspace(name)),
        None => Ok(()),
    }
}

fn is_visible(actor: &Actor, repo: &HelmRepo) -> bool {
    owner_workspace(&repo.spec.workspace).is_ok_and(|place| check_read(actor, place.as_ref()).is_ok())
}

fn check_write(actor: &Actor, workspace: Option<&WorkspaceName>) -> Result<(), Error> {
    let place = workspace.map_or(AccessScope::Platform, AccessScope::Workspace);
    actor.authorize(Capability::WriteRepositories, place).map_err(|refusal| match refusal {
        AuthorizationError::WorkspaceNotFound(name) => Error::WorkspaceNotAccessible(name.to_string()),
        other => other.into(),
    })
}

/// Scheme, host and port of a URL.
fn origin(url: &str) -> &str {
    let after = url.find("://").map_or(0, |at| at.saturating_add(3));
    let end = url[after..].find('/').map_or(url.len(), |at| after.saturating_add(at));
    &url[..end]
}
