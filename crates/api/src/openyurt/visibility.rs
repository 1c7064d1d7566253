//! Visibility per caller: nodes and pools of which tenant, workloads of which namespaces.
//!
//! A `namespace` parameter is a filter. The default is the caller's own namespace, and for administrators all namespaces. The error for
//! a foreign namespace is the same whether the namespace exists or not.

use domain::actor::Principal;
use domain::ids::WorkspaceName;
use domain::names::check_label;
use domain::roles::Capability;
use domain::{AccessScope, Actor, AuthorizationError, ErrorKind};
use fleet::{Namespaces, Visibility};
use tenancy::Directory;

use crate::problem::{Problem, abbreviate};
use crate::request::ApiRequest;

/// Objects that a caller may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerVisibility {
    /// Tenant whose nodes and pools are visible. `None`: all tenants. No tenant has an empty id, so empty text means none.
    tenant: Option<String>,
    /// Namespaces whose workloads are visible. `None`: all namespaces.
    namespaces: Option<Vec<String>>,
}

impl CallerVisibility {
    /// Visibility of nodes and pools only.
    pub fn for_nodes(call: &ApiRequest) -> Result<Self, Problem> {
        let tenant = visible_tenant(call.actor()?, call.api.tenancy.directory())?;
        Ok(Self { tenant, namespaces: Some(Vec::new()) })
    }

    /// Visibility of namespaced objects only.
    pub fn for_namespaces(call: &ApiRequest) -> Result<Self, Problem> {
        let namespaces =
            visible_namespaces(call.actor()?, call.api.tenancy.directory(), call.query_param("namespace"))?;
        Ok(Self { tenant: Some(String::new()), namespaces })
    }

    /// Visibility of both. A caller that may not read nodes still sees the namespaced objects.
    pub fn for_all(call: &ApiRequest) -> Result<Self, Problem> {
        let nobody = |_: Problem| Some(String::new());
        let tenant = visible_tenant(call.actor()?, call.api.tenancy.directory()).unwrap_or_else(nobody);
        Ok(Self { tenant, ..Self::for_namespaces(call)? })
    }

    pub fn visibility(&self) -> Visibility<'_> {
        let namespaces = self.namespaces.as_deref().map_or(Namespaces::All, Namespaces::Only);
        Visibility { tenant: self.tenant.as_deref(), namespaces }
    }
}

/// The caller's own workspace: a user's personal workspace, or the workspace of a ServiceAccount's namespace.
fn home_workspace(actor: &Actor, directory: &Directory) -> Option<WorkspaceName> {
    match &actor.principal {
        Principal::User { id, .. } => Some(WorkspaceName::personal(id)),
        Principal::ServiceAccount { namespace, .. } => directory.workspace_of(namespace),
    }
}

/// The tenant whose nodes `actor` may see; `None` for all tenants.
fn visible_tenant(actor: &Actor, directory: &Directory) -> Result<Option<String>, Problem> {
    let what = Capability::ReadNodes;
    if actor.authorize(what, AccessScope::Platform).is_ok() {
        return Ok(None);
    }
    let home = home_workspace(actor, directory).ok_or_else(no_home_workspace)?;
    match actor.authorize(what, AccessScope::Workspace(&home)) {
        Ok(()) => Ok(Some(home.to_string())),
        Err(AuthorizationError::WorkspaceNotFound(_)) => Err(no_home_workspace()),
        Err(other) => Err(other.into()),
    }
}

/// The namespaces whose workloads `actor` may see, filtered by `namespace`; `None` for all namespaces.
fn visible_namespaces(
    actor: &Actor,
    directory: &Directory,
    namespace: Option<&str>,
) -> Result<Option<Vec<String>>, Problem> {
    let sees = |place: AccessScope<'_>| actor.authorize(Capability::ReadWorkspace, place).is_ok();
    let everything = sees(AccessScope::Platform);
    let name = match namespace {
        None if everything => return Ok(None),
        None => {
            let home = home_workspace(actor, directory).filter(|home| sees(AccessScope::Workspace(home)));
            let home = home.ok_or_else(no_home_workspace)?;
            match &actor.principal {
                Principal::User { .. } => home.to_string(),
                Principal::ServiceAccount { namespace, .. } => namespace.clone(),
            }
        }
        Some(name) => {
            // No namespace is called so: it would be no part of a path.
            check_label(name).map_err(|_| namespace_forbidden(name))?;
            let owner = directory.workspace_of(name);
            let own = owner.is_some_and(|owner| sees(AccessScope::Workspace(&owner)));
            if !own && !everything {
                return Err(namespace_forbidden(name));
            }
            name.to_owned()
        }
    };
    Ok(Some(vec![name]))
}

fn namespace_forbidden(namespace: &str) -> Problem {
    let detail = format!("namespace `{}` not found or not accessible", abbreviate(namespace));
    Problem::new(ErrorKind::Forbidden, "namespace", detail)
}

fn no_home_workspace() -> Problem {
    let detail = "the credential gives access to no namespace";
    Problem::new(ErrorKind::Forbidden, "forbidden", detail)
}
