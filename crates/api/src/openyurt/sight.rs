//! Who sees what: nodes and pools of whose account, and workloads of which namespaces.
//!
//! A `namespace` that is asked for is a filter. Without one it is the caller's own, and for administrators every one; one that is
//! not the caller's is refused in the same words whether it exists or not.

use domain::actor::Who;
use domain::ids::WorkspaceName;
use domain::roles::Capability;
use domain::{Actor, Kind, Place};
use tenancy::Directory;

use crate::problem::{Problem, shortened};

/// Of which namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    All,
    One(String),
}

/// Of whose nodes and pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    Everybody,
    /// The tenant of this id.
    Tenant(String),
}

/// Where somebody is at home: their personal workspace, or that of the namespace in which a program runs.
fn home(actor: &Actor, directory: &Directory) -> Option<WorkspaceName> {
    match &actor.who {
        Who::Person { id, .. } => Some(WorkspaceName::personal(id)),
        Who::ServiceAccount { namespace, .. } => directory.workspace_of(namespace),
    }
}

/// Whose nodes `actor` sees, or may change.
pub fn owner(actor: &Actor, directory: &Directory, what: Capability) -> Result<Owner, Problem> {
    if actor.may(what, Place::Platform).is_ok() {
        return Ok(Owner::Everybody);
    }
    let home = home(actor, directory).ok_or_else(homeless)?;
    actor.may(what, Place::Workspace(&home)).map_err(|refusal| match refusal {
        domain::Refusal::Unseen(_) => homeless(),
        other => other.into(),
    })?;
    Ok(Owner::Tenant(home.to_string()))
}

/// Of which namespaces `actor` sees the workloads, who asks for `namespace`.
pub fn namespaces(
    actor: &Actor,
    directory: &Directory,
    namespace: Option<&str>,
) -> Result<Namespaces, Problem> {
    let sees = |place: Place<'_>| actor.may(Capability::ReadWorkspace, place).is_ok();
    match namespace {
        None if sees(Place::Platform) => Ok(Namespaces::All),
        None => {
            let home =
                home(actor, directory).filter(|home| sees(Place::Workspace(home))).ok_or_else(homeless)?;
            Ok(Namespaces::One(match &actor.who {
                Who::Person { .. } => home.to_string(),
                Who::ServiceAccount { namespace, .. } => namespace.clone(),
            }))
        }
        Some(name) => {
            let owner = directory.workspace_of(name);
            let own = owner.is_some_and(|owner| sees(Place::Workspace(&owner)));
            if own || sees(Place::Platform) {
                Ok(Namespaces::One(name.to_owned()))
            } else {
                Err(foreign(name))
            }
        }
    }
}

fn foreign(namespace: &str) -> Problem {
    let detail = format!("the namespace `{}` is not yours", shortened(namespace));
    Problem::new(Kind::Forbidden, "namespace", detail)
}

fn homeless() -> Problem {
    Problem::new(
        Kind::Forbidden,
        "forbidden",
        "there is no namespace of yours that this credential is good for",
    )
}
