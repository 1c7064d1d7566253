//! Service functions for HTTP and CLI: one function per use case, on top of requests.
//!
//! Every function takes an [`Actor`] and checks its capabilities, then checks with Kubernetes whether the user may do the same with a
//! `HelmRelease` in that namespace, and then writes as the platform. The controllers (`crate::lead`) do the rest.
//!
//! Invariants: a release runs as the user who last changed its chart, values, patches or overrides, with the group of its own workspace
//! and within the scope of that user's token. The rights of a platform administrator apply only to the one version that was requested
//! with them, and the administrator provides all of its content. Immediate actions (restart, test) run as the release. Reads (logs,
//! resources, plans) run as the caller. A release that the caller may not see is reported as not found.
//!
//! Modules:
//!
//! * [`once`]: idempotency keys and preconditions.
//! * [`packages`]: uploaded chart archives.
//! * [`versions`]: values and options of each request version.
//! * [`ask`], [`change`], [`plan`]: install, update, dry run.
//! * [`force`], [`left`]: forced deletion, and what it leaves behind.
//! * [`now`]: restart, test, adopt.
//! * [`operation`]: progress of an operation.
//! * [`look`], [`compare`], [`live`], [`resources`]: reads, diffs, drift, objects.
//! * [`logs`], [`listen`]: logs and log streams.
//! * [`view`]: the release as callers see it.
//! * [`error`], errors.

pub mod ask;
pub mod change;
pub mod compare;
pub mod error;
pub mod force;
pub mod left;
pub mod listen;
pub mod live;
pub mod logs;
pub mod look;
pub mod now;
pub mod once;
pub mod operation;
pub mod packages;
pub mod plan;
pub mod resources;
mod versions;
pub mod view;

use domain::ids::WorkspaceName;
use domain::roles::Capability;
use domain::{Actor, Place};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::Api;
use kube_types::request::{AdministratorGrant, RunAs};
use kube_types::{HelmRelease, HelmRequest, HelmRequestSpec};

use crate::Releases;
use crate::people::is_of_owner;
use crate::release::identity::{self, Identity};
use domain::actor::{Impersonation, Via, Who};
pub use error::Error;
pub use once::Asked;
pub(crate) use versions::{VERSION, request_name};

/// The name of the cluster that the platform runs on.
pub const HOST: &str = "host";

impl Releases {
    /// The workspace of a namespace, if the actor has the capability there. A namespace of others is rejected whether it exists or not.
    fn workspace(&self, actor: &Actor, what: Capability, namespace: &str) -> Result<WorkspaceName, Error> {
        let workspace = self.parts().people.workspace_of(namespace);
        let workspace =
            workspace.filter(|name| actor.may(Capability::ReadReleases, Place::Workspace(name)).is_ok());
        let workspace = workspace.ok_or_else(|| Error::NotYours(namespace.to_owned()))?;
        actor.may(what, Place::Workspace(&workspace))?;
        Ok(workspace)
    }

    /// The caller's identity for work on a release of the namespace: with the group of its workspace only.
    fn acts_in(&self, actor: &Actor, what: Capability, namespace: &str) -> Result<Impersonation, Error> {
        let workspace = self.workspace(actor, what, namespace)?;
        Ok(actor.impersonation_in(what, &workspace)?)
    }

    /// The current identity of a release, or the deployer of its namespace.
    fn identity_of(&self, release: Option<&HelmRelease>, namespace: &str) -> Identity {
        let parts = self.parts();
        let identity =
            release.and_then(|release| identity::identity(release, &parts.requests, &*parts.people).ok());
        identity.unwrap_or_else(|| identity::of_deployer(namespace))
    }

    /// Checks with Kubernetes that the caller may do this with a `HelmRelease` of the namespace.
    async fn allowed(&self, actor: &Actor, verb: &str, namespace: &str, name: &str) -> Result<(), Error> {
        let what = ResourceAttributes {
            group: Some("longshore.dev".to_owned()),
            resource: Some("helmreleases".to_owned()),
            verb: Some(verb.to_owned()),
            namespace: Some(namespace.to_owned()),
            name: (verb != "create").then(|| name.to_owned()),
            ..ResourceAttributes::default()
        };
        let identity = self.acts_in(actor, Capability::ReadReleases, namespace)?;
        let may = kube_access::may(&self.parts().clients.own(), &identity, what).await?;
        if may {
            Ok(())
        } else {
            Err(Error::Forbidden { verb: verb.to_owned(), namespace: namespace.to_owned() })
        }
    }

    /// Reads the current request of a release that the caller may change.
    async fn request_for(
        &self,
        actor: &Actor,
        verb: &str,
        namespace: &str,
        name: &str,
    ) -> Result<HelmRequest, Error> {
        let unseen = || Error::NotFound(format!("{namespace}/{name}"));
        let seen = self.workspace(actor, Capability::ChangeReleases, namespace);
        seen.map_err(|error| if let Error::NotYours(_) = error { unseen() } else { error })?;
        self.allowed(actor, verb, namespace, name).await?;
        match self.living_request(namespace, name).await? {
            Some(request) => Ok(request),
            None if self.parts().releases.get_in(namespace, name).is_some() => {
                Err(Error::ByHand(name.to_owned()))
            }
            None => Err(unseen()),
        }
    }

    /// The request of a release, unless it is a leftover of a former workspace of the namespace.
    async fn living_request(&self, namespace: &str, name: &str) -> Result<Option<HelmRequest>, Error> {
        let found = self.requests().get_opt(&versions::request_name(HOST, namespace, name)).await?;
        Ok(found.filter(|request| self.is_living(request)))
    }

    /// Whether a request belongs to the workspace that owns its namespace now.
    fn is_living(&self, request: &HelmRequest) -> bool {
        let HelmRequestSpec { namespace, workspace, .. } = &request.spec;
        is_of_owner(&*self.parts().people, namespace, workspace, &request.metadata)
    }

    /// The release, if the caller may see its namespace. `None` if there is no `HelmRelease`; there may be Helm records.
    fn release_for(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
    ) -> Result<Option<std::sync::Arc<HelmRelease>>, Error> {
        let unseen = |_| Error::NotFound(format!("{namespace}/{name}"));
        self.workspace(actor, Capability::ReadReleases, namespace).map_err(unseen)?;
        Ok(self.parts().releases.get_in(namespace, name))
    }

    fn requests(&self) -> Api<HelmRequest> {
        Api::all(self.parts().clients.own())
    }
}

/// The user as whom the release will run.
fn run_as(actor: &Actor) -> Result<RunAs, Error> {
    match &actor.who {
        Who::Person { id, uid, .. } => {
            let scope = match &actor.via {
                Via::Token { scopes, .. } if !scopes.are_all() => scopes.words(),
                _ => Vec::new(),
            };
            Ok(RunAs { user: id.to_string(), uid: uid.clone(), scope })
        }
        Who::ServiceAccount { .. } => Err(Error::NoPerson),
    }
}

/// Grants the caller's rights as a platform administrator to one version of a release. Fails for other callers.
fn grant(actor: &Actor, version: i64) -> Result<AdministratorGrant, Error> {
    let user = actor.administrator()?.to_string();
    match &actor.who {
        Who::Person { uid, .. } => Ok(AdministratorGrant { user, uid: uid.clone(), version }),
        Who::ServiceAccount { .. } => Err(Error::NoPerson),
    }
}

/// Checks the caller's precondition against the current version.
fn unmoved(request: &HelmRequest, seen: Option<&str>) -> Result<(), Error> {
    match seen {
        Some(seen) if view::wish(request) != seen => Err(Error::Moved(request.spec.release_name.clone())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
