//! Authorisation requirements of routes, checked before the handler runs. Service functions check again.

use domain::actor::{AccessScope, Actor};
use domain::roles::Capability;

use crate::params::PathParams;
use crate::problem::Problem;

/// Authorisation requirement of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// Public. Credentials are ignored.
    Public,
    /// Authentication is optional; authenticated callers may see more.
    OptionalUser,
    /// Public for clients on this machine; for others the capability on the platform.
    LocalOr(Capability),
    /// Any authenticated caller.
    Authenticated,
    /// A user, by a session or an unscoped token.
    UnrestrictedUser,
    /// The user in `{user}` as [`Requirement::UnrestrictedUser`]; other callers need the capability, in `{workspace}` if the path has one.
    SelfOr(Capability),
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

impl Requirement {
    /// Whether unauthenticated callers are admitted.
    pub fn allows_anonymous(self, from_this_machine: bool) -> bool {
        match self {
            Self::Public | Self::OptionalUser => true,
            Self::LocalOr(_) => from_this_machine,
            Self::Authenticated
            | Self::UnrestrictedUser
            | Self::SelfOr(_)
            | Self::Platform(_)
            | Self::Workspace(_)
            | Self::Release(_)
            | Self::Repo(_) => false,
        }
    }

    /// Checks an authenticated `actor`.
    pub fn check(self, actor: &Actor, params: &PathParams) -> Result<(), Problem> {
        match self {
            Self::Public | Self::OptionalUser | Self::Authenticated => Ok(()),
            Self::UnrestrictedUser => Ok(actor.require_unrestricted_user().map(drop)?),
            Self::LocalOr(what) | Self::Platform(what) => Ok(actor.authorize(what, AccessScope::Platform)?),
            Self::Workspace(what) => Ok(actor.authorize(what, AccessScope::Workspace(&params.workspace()?))?),
            Self::SelfOr(what) => check_self_or(what, actor, params),
            Self::Release(what) => check_namespace_owner(what, actor, params),
            Self::Repo(what) if params.owner().is_none() && what.is_read_only() => Ok(()),
            Self::Repo(what) => {
                let place = params.owner().map_or(AccessScope::Platform, AccessScope::Workspace);
                actor.authorize(what, place).map_err(|refusal| match refusal {
                    domain::AuthorizationError::WorkspaceNotFound(_) => {
                        Problem::not_found("repository", params.get("repo"))
                    }
                    other => other.into(),
                })
            }
        }
    }
}

/// Checks the workspace that owns `{namespace}`. Releases in namespaces that the caller may not see are 404, whether they exist or not.
fn check_namespace_owner(what: Capability, actor: &Actor, params: &PathParams) -> Result<(), Problem> {
    let unseen = || Problem::not_found("release", &params.release_key());
    let owner = params.owner().ok_or_else(unseen)?;
    actor.authorize(what, AccessScope::Workspace(owner)).map_err(|refusal| match refusal {
        domain::AuthorizationError::WorkspaceNotFound(_) => unseen(),
        other => other.into(),
    })
}

fn check_self_or(what: Capability, actor: &Actor, params: &PathParams) -> Result<(), Problem> {
    let user = params.get("user");
    let place = if params.has("workspace") { Some(params.workspace()?) } else { None };
    if params.is_self(actor) {
        let whole = actor.require_unrestricted_user().map(drop);
        return match &place {
            Some(workspace) => {
                Ok(whole
                    .and(actor.authorize(Capability::ReadWorkspace, AccessScope::Workspace(workspace)))?)
            }
            // With a scoped token, the owner of the account needs the same capability as other callers.
            None => {
                Ok(whole
                    .or_else(|refused| actor.authorize(what, AccessScope::Platform).map_err(|_| refused))?)
            }
        };
    }
    match &place {
        Some(workspace) => Ok(actor.authorize(what, AccessScope::Workspace(workspace))?),
        None => actor.authorize(what, AccessScope::Platform).map_err(|refusal| match refusal {
            // 404, not 403: the response must not reveal whether the account exists.
            domain::AuthorizationError::MissingCapability(_) => Problem::not_found("user", user),
            other => other.into(),
        }),
    }
}
