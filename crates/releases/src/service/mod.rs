//! Service functions for HTTP and CLI: one function per use case, on top of requests.
//!
//! Every function takes an [`Actor`] and checks its capabilities, then checks with Kubernetes whether the user may do the same with a
//! `HelmRelease` in that namespace, and then writes as the platform. The controllers (`crate::controller`) do the rest.
//!
//! Invariants: a release runs as the user who last changed its chart, values, patches or overrides, with the group of its own workspace
//! and within the scope of that user's token. The rights of a platform administrator apply only to the one version that was requested
//! with them, and the administrator provides all of its content. Immediate actions (restart, test) run as the release. Reads (logs,
//! resources, plans) run as the caller. A release that the caller may not see is reported as not found.
//!
//! Modules:
//!
//! * [`idempotency`]: idempotency keys and preconditions.
//! * [`packages`]: uploaded chart archives.
//! * [`versions`]: values and options of each request version.
//! * [`install`], [`update`], [`plan`]: install, update, dry run.
//! * [`force_delete`], [`orphans`]: forced deletion, and the objects it leaves behind.
//! * [`immediate_actions`]: restart, test, adopt.
//! * [`operation`]: progress of an operation.
//! * [`get`], [`diff`], [`drift`], [`resources`]: reads, diffs, drift, objects.
//! * [`logs`], [`log_stream`]: logs and log streams.
//! * [`view`]: the release as callers see it.
//! * [`error`]: the error type.

pub mod diff;
pub mod drift;
pub mod error;
pub mod force_delete;
pub mod get;
pub mod idempotency;
pub mod immediate_actions;
pub mod install;
pub mod log_stream;
pub mod logs;
pub mod operation;
pub mod orphans;
pub mod packages;
pub mod plan;
pub mod resources;
pub mod update;
mod versions;
pub mod view;

use domain::ids::WorkspaceName;
use domain::roles::Capability;
use domain::{AccessScope, Actor};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::Api;
use kube_types::request::{AdministratorGrant, RunAs};
use kube_types::{HelmRelease, HelmRequest, HelmRequestSpec};

use crate::Releases;
use crate::release::identity::{self, ReleaseIdentity};
use crate::tenant_directory::is_of_namespace_owner;
use domain::actor::{AuthMethod, Impersonation, Principal};
pub use error::Error;
pub use idempotency::RequestPreconditions;
pub(crate) use versions::{VERSION_LABEL, request_name};

/// The name of the cluster that the platform runs on.
pub const HOST_CLUSTER: &str = "host";

impl Releases {
    /// The workspace of a namespace, if the actor has the capability there. A namespace of others is rejected whether it exists or not.
    fn authorized_workspace(
        &self,
        actor: &Actor,
        what: Capability,
        namespace: &str,
    ) -> Result<WorkspaceName, Error> {
        let workspace = self.inner().tenants.workspace_of(namespace);
        let workspace = workspace
            .filter(|name| actor.authorize(Capability::ReadReleases, AccessScope::Workspace(name)).is_ok());
        let workspace = workspace.ok_or_else(|| Error::NamespaceNotAccessible(namespace.to_owned()))?;
        actor.authorize(what, AccessScope::Workspace(&workspace))?;
        Ok(workspace)
    }

    /// The caller's identity for work on a release of the namespace: with the group of its workspace only.
    fn impersonation_in(
        &self,
        actor: &Actor,
        what: Capability,
        namespace: &str,
    ) -> Result<Impersonation, Error> {
        let workspace = self.authorized_workspace(actor, what, namespace)?;
        Ok(actor.workspace_impersonation(what, &workspace)?)
    }

    /// The current identity of a release, or the deployer of its namespace.
    fn release_identity(&self, release: Option<&HelmRelease>, namespace: &str) -> ReleaseIdentity {
        let parts = self.inner();
        let identity = release
            .and_then(|release| identity::resolve_identity(release, &parts.requests, &*parts.tenants).ok());
        identity.unwrap_or_else(|| identity::deployer_identity(namespace))
    }

    /// Checks with Kubernetes that the caller may do this with a `HelmRelease` of the namespace.
    async fn check_access(
        &self,
        actor: &Actor,
        verb: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), Error> {
        let what = ResourceAttributes {
            group: Some("longshore.dev".to_owned()),
            resource: Some("helmreleases".to_owned()),
            verb: Some(verb.to_owned()),
            namespace: Some(namespace.to_owned()),
            name: (verb != "create").then(|| name.to_owned()),
            ..ResourceAttributes::default()
        };
        let identity = self.impersonation_in(actor, Capability::ReadReleases, namespace)?;
        let may = kube_access::is_allowed(&self.inner().clients.platform(), &identity, what).await?;
        if may {
            Ok(())
        } else {
            Err(Error::Forbidden { verb: verb.to_owned(), namespace: namespace.to_owned() })
        }
    }

    /// Reads the current request of a release that the caller may change.
    async fn writable_request(
        &self,
        actor: &Actor,
        verb: &str,
        namespace: &str,
        name: &str,
    ) -> Result<HelmRequest, Error> {
        let not_found = || Error::NotFound(format!("{namespace}/{name}"));
        let seen = self.authorized_workspace(actor, Capability::ChangeReleases, namespace);
        seen.map_err(|error| if let Error::NamespaceNotAccessible(_) = error { not_found() } else { error })?;
        self.check_access(actor, verb, namespace, name).await?;
        match self.current_request(namespace, name).await? {
            Some(request) => Ok(request),
            None if self.inner().releases.get_namespaced(namespace, name).is_some() => {
                Err(Error::NotManagedByRequest(name.to_owned()))
            }
            None => Err(not_found()),
        }
    }

    /// The request of a release, unless it is a leftover of a former workspace of the namespace.
    async fn current_request(&self, namespace: &str, name: &str) -> Result<Option<HelmRequest>, Error> {
        let found =
            self.request_api().get_opt(&versions::request_name(HOST_CLUSTER, namespace, name)).await?;
        Ok(found.filter(|request| self.is_current(request)))
    }

    /// Whether a request belongs to the workspace that owns its namespace now.
    fn is_current(&self, request: &HelmRequest) -> bool {
        let HelmRequestSpec { namespace, workspace, .. } = &request.spec;
        is_of_namespace_owner(&*self.inner().tenants, namespace, workspace, &request.metadata)
    }

    /// The release, if the caller may see its namespace. `None` if there is no `HelmRelease`; there may be Helm records.
    fn visible_release(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
    ) -> Result<Option<std::sync::Arc<HelmRelease>>, Error> {
        let unseen = |_| Error::NotFound(format!("{namespace}/{name}"));
        self.authorized_workspace(actor, Capability::ReadReleases, namespace).map_err(unseen)?;
        Ok(self.inner().releases.get_namespaced(namespace, name))
    }

    fn request_api(&self) -> Api<HelmRequest> {
        Api::all(self.inner().clients.platform())
    }
}

/// The user that the release will run as.
fn run_as(actor: &Actor) -> Result<RunAs, Error> {
    match &actor.principal {
        Principal::User { id, uid, .. } => {
            let scope = match &actor.auth_method {
                AuthMethod::Token { scopes, .. } if !scopes.is_unrestricted() => scopes.to_strings(),
                _ => Vec::new(),
            };
            Ok(RunAs { user: id.to_string(), uid: uid.clone(), scope })
        }
        Principal::ServiceAccount { .. } => Err(Error::UserRequired),
    }
}

/// Grants the caller's rights as a platform administrator to one version of a release. Fails for other callers.
fn administrator_grant(actor: &Actor, version: i64) -> Result<AdministratorGrant, Error> {
    let user = actor.require_administrator()?.to_string();
    match &actor.principal {
        Principal::User { uid, .. } => Ok(AdministratorGrant { user, uid: uid.clone(), version }),
        Principal::ServiceAccount { .. } => Err(Error::UserRequired),
    }
}

/// Checks the caller's precondition against the current version.
fn check_if_match(request: &HelmRequest, seen: Option<&str>) -> Result<(), Error> {
    match seen {
        Some(seen) if view::etag(request) != seen => {
            Err(Error::PreconditionFailed(request.spec.release_name.clone()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
