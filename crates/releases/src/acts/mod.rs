//! What people can ask for: one function for each thing, over requests.
//!
//! Every function takes an [`Actor`] and asks it first, then asks Kubernetes whether the person may do the like with a release
//! of that namespace, and then writes as the platform. What follows from it, follows by itself (`crate::lead`).
//!
//! Always true: a release acts as whoever changed its chart, values, patches or overrides last, with the group of its own
//! workspace and within the scope of their token. The rights of an administrator of the platform apply to the one version that
//! was asked for with them, all of whose content the administrator states. What is done at once (restart, test) is done as the release, too; what is
//! looked at (logs, resources, plans) is looked at as the caller. What somebody may not see is not there for them.
//! Modules in reading order: that what is sent twice is done once ([`once`]); archives that somebody brings ([`packages`]), what
//! is kept of each version ([`versions`]), asking for one ([`ask`]), changing it ([`change`]) and what would come of that ([`plan`]), its end against all that is in the way ([`force`], [`left`]), what is done at once
//! ([`now`]), how far it has come ([`operation`]), looking ([`look`], [`compare`], [`live`], [`resources`], [`logs`] and [`listen`], [`view`]), why not ([`error`]).

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

/// The cluster that the platform runs on.
pub const HOST: &str = "host";

impl Releases {
    /// The workspace of a namespace in which they may do that. A namespace that is not theirs is refused, whether it is there
    /// or not.
    fn workspace(&self, actor: &Actor, what: Capability, namespace: &str) -> Result<WorkspaceName, Error> {
        let workspace = self.parts().people.workspace_of(namespace);
        let workspace =
            workspace.filter(|name| actor.may(Capability::ReadReleases, Place::Workspace(name)).is_ok());
        let workspace = workspace.ok_or_else(|| Error::NotYours(namespace.to_owned()))?;
        actor.may(what, Place::Workspace(&workspace))?;
        Ok(workspace)
    }

    /// The identity of a caller for what concerns a release of the namespace: the group of its workspace and no other.
    fn acts_in(&self, actor: &Actor, what: Capability, namespace: &str) -> Result<Impersonation, Error> {
        let workspace = self.workspace(actor, what, namespace)?;
        Ok(actor.impersonation_in(what, &workspace)?)
    }

    /// The identity that a release has now; the deployer of its namespace where it has none.
    fn identity_of(&self, release: Option<&HelmRelease>, namespace: &str) -> Identity {
        let parts = self.parts();
        let identity =
            release.and_then(|release| identity::identity(release, &parts.requests, &*parts.people).ok());
        identity.unwrap_or_else(|| identity::of_deployer(namespace))
    }

    /// Whether Kubernetes would let them do this with a release of the namespace.
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

    /// A request that they may change, as it is now.
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

    /// The request for a release; none where there is only what a former workspace of the namespace left behind.
    async fn living_request(&self, namespace: &str, name: &str) -> Result<Option<HelmRequest>, Error> {
        let found = self.requests().get_opt(&versions::request_name(HOST, namespace, name)).await?;
        Ok(found.filter(|request| self.is_living(request)))
    }

    /// Whether a request was made for the workspace that has its namespace now.
    fn is_living(&self, request: &HelmRequest) -> bool {
        let HelmRequestSpec { namespace, workspace, .. } = &request.spec;
        is_of_owner(&*self.parts().people, namespace, workspace, &request.metadata)
    }

    /// A release in a namespace that they may see; nothing where only Helm's records may tell of it.
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

/// The person whose rights the release will have.
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

/// The permission to use the caller's rights as an administrator for one version of a release. Refused to everybody else.
fn grant(actor: &Actor, version: i64) -> Result<AdministratorGrant, Error> {
    let user = actor.administrator()?.to_string();
    match &actor.who {
        Who::Person { uid, .. } => Ok(AdministratorGrant { user, uid: uid.clone(), version }),
        Who::ServiceAccount { .. } => Err(Error::NoPerson),
    }
}

/// The version that the caller saw must be the one that there is.
fn unmoved(request: &HelmRequest, seen: Option<&str>) -> Result<(), Error> {
    match seen {
        Some(seen) if view::wish(request) != seen => Err(Error::Moved(request.spec.release_name.clone())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
