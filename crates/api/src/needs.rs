//! What a route needs of whoever asks, decided before its handler runs. The functions behind the handlers ask again.

use domain::actor::{Actor, Place};
use domain::roles::Capability;

use crate::params::Params;
use crate::problem::Problem;

/// What a route needs of whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nobody has to be recognised, and nobody is.
    Nothing,
    /// Nobody has to be recognised, but some may do more here than others.
    Guest,
    /// From this machine nothing; from elsewhere the capability on the platform.
    Nearby(Capability),
    /// Anybody who is recognised.
    Anybody,
    /// A person, by a credential that is good for everything they may do.
    Themselves,
    /// Where `{user}` is the person who asks, as [`Needs::Themselves`]; for others the capability, in `{workspace}` where
    /// the path has one.
    Own(Capability),
    /// The capability on the platform.
    Platform(Capability),
    /// The capability in `{workspace}`.
    Workspace(Capability),
    /// The capability in the workspace whose namespace `{namespace}` is.
    Release(Capability),
    /// The capability in the workspace whose repository `{repo}` is, or, where it is everybody's, on the platform. To look at
    /// everybody's nothing is needed.
    Repo(Capability),
}

impl Needs {
    /// Whether a caller who is not recognised gets in.
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

    /// Whether `actor`, who was recognised, gets in.
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

/// What is in a namespace that is not theirs is not there for them, whoever's it is.
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
            // A token that is not good for everything does for its owner what it does for others.
            None => Ok(whole.or_else(|refused| actor.may(what, Place::Platform).map_err(|_| refused))?),
        };
    }
    match &place {
        Some(workspace) => Ok(actor.may(what, Place::Workspace(workspace))?),
        None => actor.may(what, Place::Platform).map_err(|refusal| match refusal {
            // Whether there is such an account is nothing for those who may not see it.
            domain::Refusal::Role(_) => Problem::not_found("user", user),
            other => other.into(),
        }),
    }
}
