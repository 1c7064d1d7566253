//! Visibility per caller: nodes and pools of which tenant, workloads of which namespaces.
//!
//! A `namespace` parameter is a filter. The default is the caller's own namespace, and for administrators all namespaces. The error for
//! a foreign namespace is the same whether the namespace exists or not.

use domain::actor::Who;
use domain::ids::WorkspaceName;
use domain::names::check_label;
use domain::roles::Capability;
use domain::{Actor, Kind, Place, Refusal};
use fleet::{Namespaces, Whose};
use tenancy::Directory;

use crate::call::Call;
use crate::problem::{Problem, shortened};

/// Objects that a caller may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Tenant whose nodes and pools are visible. `None`: all tenants. No tenant has an empty id, so empty text means none.
    tenant: Option<String>,
    /// Namespaces whose workloads are visible. `None`: all namespaces.
    namespaces: Option<Vec<String>>,
}

impl Sight {
    /// Visibility of nodes and pools only.
    pub fn of_nodes(call: &Call) -> Result<Self, Problem> {
        let tenant = tenant(call.actor()?, call.api.tenancy.directory())?;
        Ok(Self { tenant, namespaces: Some(Vec::new()) })
    }

    /// Visibility of namespaced objects only.
    pub fn of_namespaces(call: &Call) -> Result<Self, Problem> {
        let namespaces = namespaces(call.actor()?, call.api.tenancy.directory(), call.said("namespace"))?;
        Ok(Self { tenant: Some(String::new()), namespaces })
    }

    /// Visibility of both. A caller that may not read nodes still sees the namespaced objects.
    pub fn of_all(call: &Call) -> Result<Self, Problem> {
        let nobody = |_: Problem| Some(String::new());
        let tenant = tenant(call.actor()?, call.api.tenancy.directory()).unwrap_or_else(nobody);
        Ok(Self { tenant, ..Self::of_namespaces(call)? })
    }

    pub fn whose(&self) -> Whose<'_> {
        let namespaces = self.namespaces.as_deref().map_or(Namespaces::All, Namespaces::Of);
        Whose { tenant: self.tenant.as_deref(), namespaces }
    }
}

/// The caller's own workspace: a user's personal workspace, or the workspace of a ServiceAccount's namespace.
fn home(actor: &Actor, directory: &Directory) -> Option<WorkspaceName> {
    match &actor.who {
        Who::Person { id, .. } => Some(WorkspaceName::personal(id)),
        Who::ServiceAccount { namespace, .. } => directory.workspace_of(namespace),
    }
}

/// The tenant whose nodes `actor` may see; `None` for all tenants.
fn tenant(actor: &Actor, directory: &Directory) -> Result<Option<String>, Problem> {
    let what = Capability::ReadNodes;
    if actor.may(what, Place::Platform).is_ok() {
        return Ok(None);
    }
    let home = home(actor, directory).ok_or_else(homeless)?;
    match actor.may(what, Place::Workspace(&home)) {
        Ok(()) => Ok(Some(home.to_string())),
        Err(Refusal::Unseen(_)) => Err(homeless()),
        Err(other) => Err(other.into()),
    }
}

/// The namespaces whose workloads `actor` may see, filtered by `namespace`; `None` for all namespaces.
fn namespaces(
    actor: &Actor,
    directory: &Directory,
    namespace: Option<&str>,
) -> Result<Option<Vec<String>>, Problem> {
    let sees = |place: Place<'_>| actor.may(Capability::ReadWorkspace, place).is_ok();
    let everything = sees(Place::Platform);
    let name = match namespace {
        None if everything => return Ok(None),
        None => {
            let home = home(actor, directory).filter(|home| sees(Place::Workspace(home)));
            let home = home.ok_or_else(homeless)?;
            match &actor.who {
                Who::Person { .. } => home.to_string(),
                Who::ServiceAccount { namespace, .. } => namespace.clone(),
            }
        }
        Some(name) => {
            // No namespace is called so: it would be no part of a path.
            check_label(name).map_err(|_| foreign(name))?;
            let owner = directory.workspace_of(name);
            let own = owner.is_some_and(|owner| sees(Place::Workspace(&owner)));
            if !own && !everything {
                return Err(foreign(name));
            }
            name.to_owned()
        }
    };
    Ok(Some(vec![name]))
}

fn foreign(namespace: &str) -> Problem {
    let detail = format!("the namespace `{}` is not yours", shortened(namespace));
    Problem::new(Kind::Forbidden, "namespace", detail)
}

fn homeless() -> Problem {
    let detail = "there is no namespace of yours that this credential is good for";
    Problem::new(Kind::Forbidden, "forbidden", detail)
}
