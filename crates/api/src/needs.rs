//! Authorisation requirements of routes, checked before the handler runs. Service functions check again.

use domain::actor::{Actor, Place};
use domain::roles::Capability;

use crate::params::Params;
use crate::problem::Problem;

/// Authorisation requirement of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Public. Credentials are ignored.
    Nothing,
    /// Authentication is optional; authenticated callers may see more.
    Guest,
    /// Public for clients on this machine; for others the capability on the platform.
    Nearby(Capability),
    /// Any authenticated caller.
    Anybody,
    /// A user, by a session or an unscoped token.
    Themselves,
    /// The user in `{user}` as [`Needs::Themselves`]; other callers need the capability, in `{workspace}` if the path has one.
    Own(Capability),
    /// The capability on the platform.
    Platform(Capability),
    /// The capability in `{workspace}`.
    Workspace(Capability),
    /// The capability in the workspace that owns `{namespace}`.
    Release(Capability),
    /// The capability in the workspace that owns `{repo}`, or on the platform if the repository is shared. Reading a shared repository
    /// needs only authentication.
    Repo(Capability),
}

impl Needs {
    /// Whether unauthenticated callers are admitted.
    pub fn open(self, from_this_machine: bool) -> bool {
        match self {
            Self::Nothing | Self::Guest => true,
            Self::Nearby(_) => from_this_machine,
            Self::Anybody
            | Self::Themselves
            | Self::Own(_)
            | Self::Platform(_)
            | Self::Workspace(_)
            | Self::Release(_)
            | Self::Repo(_) => false,
        }
    }

    /// Checks an authenticated `actor`.
    pub fn ask(self, actor: &Actor, params: &Params) -> Result<(), Problem> {
        match self {
            Self::Nothing | Self::Guest | Self::Anybody => Ok(()),
            Self::Themselves => Ok(actor.themselves().map(drop)?),
            Self::Nearby(what) | Self::Platform(what) => Ok(actor.may(what, Place::Platform)?),
            Self::Workspace(what) => Ok(actor.may(what, Place::Workspace(&params.workspace()?))?),
            Self::Own(what) => own(what, actor, params),
            Self::Release(what) => in_namespace(what, actor, params),
            Self::Repo(what) if params.owner().is_none() && what.looks() => Ok(()),
            Self::Repo(what) => {
                let place = params.owner().map_or(Place::Platform, Place::Workspace);
                actor.may(what, place).map_err(|refusal| match refusal {
                    domain::Refusal::Unseen(_) => Problem::not_found("repository", params.get("repo")),
                    other => other.into(),
                })
            }
        }
    }
}

/// Checks the workspace that owns `{namespace}`. Releases in namespaces that the caller may not see are 404, whether they exist or not.
fn in_namespace(what: Capability, actor: &Actor, params: &Params) -> Result<(), Problem> {
    let unseen = || Problem::not_found("release", &params.release_key());
    let owner = params.owner().ok_or_else(unseen)?;
    actor.may(what, Place::Workspace(owner)).map_err(|refusal| match refusal {
        domain::Refusal::Unseen(_) => unseen(),
        other => other.into(),
    })
}

fn own(what: Capability, actor: &Actor, params: &Params) -> Result<(), Problem> {
    let user = params.get("user");
    let place = if params.has("workspace") { Some(params.workspace()?) } else { None };
    if params.is_self(actor) {
        let whole = actor.themselves().map(drop);
        return match &place {
            Some(workspace) => {
                Ok(whole.and(actor.may(Capability::ReadWorkspace, Place::Workspace(workspace)))?)
            }
            // With a scoped token, the owner of the account needs the same capability as other callers.
            None => Ok(whole.or_else(|refused| actor.may(what, Place::Platform).map_err(|_| refused))?),
        };
    }
    match &place {
        Some(workspace) => Ok(actor.may(what, Place::Workspace(workspace))?),
        None => actor.may(what, Place::Platform).map_err(|refusal| match refusal {
            // 404, not 403: the response must not reveal whether the account exists.
            domain::Refusal::Role(_) => Problem::not_found("user", user),
            other => other.into(),
        }),
    }
}
