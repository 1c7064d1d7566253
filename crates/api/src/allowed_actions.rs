//! Actions that a caller may take on an object: the mutating rows of the route table, checked as the route guard checks them.

use std::sync::LazyLock;

use domain::Actor;
use domain::roles::{Capability, PlatformRole, WorkspaceRole};
use schemars::JsonSchema;
use serde::Serialize;

use crate::openapi::path_param_names;
use crate::params::PathParams;
use crate::requirement::Requirement;
use crate::routes;

/// Action on an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ActionView {
    /// Action id, as in the audit log.
    id: &'static str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<ActionDenial>,
}

/// Why an action is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ActionDenial {
    /// `role`: the caller lacks the role. `state`: not possible in the object's current state.
    kind: &'static str,
    code: &'static str,
    /// Roles that allow the action.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    who: Vec<String>,
}

impl ActionView {
    pub fn id(&self) -> &'static str {
        self.id
    }

    /// Whether the caller lacks the role, while callers with another role may do it.
    pub fn requires_other_role(&self) -> bool {
        self.reason.as_ref().is_some_and(|reason| reason.kind == "role")
    }
}

struct RouteAction {
    path: &'static str,
    id: &'static str,
    requirement: Requirement,
}

static ROUTE_ACTIONS: LazyLock<Vec<RouteAction>> = LazyLock::new(|| {
    let changing = routes::table().into_iter().filter(|row| !row.method.is_safe());
    changing.map(|row| RouteAction { path: row.path, id: row.action, requirement: row.requirement }).collect()
});

/// The actions of `actor` on the object at `path`, a path of the route table whose parameters have these values. `blocked` lists
/// the actions that the object's state forbids to every caller, by id, with a reason code.
pub fn actions_for_path(
    actor: &Actor,
    path: &str,
    values: &[&str],
    blocked: &[(&'static str, &'static str)],
) -> Vec<ActionView> {
    let params = PathParams::from_pairs(path_param_names(path).zip(values.iter().copied()));
    actions_for_params(actor, path, &params, blocked)
}

/// As [`actions_for_path`], with parsed parameters.
pub fn actions_for_params(
    actor: &Actor,
    path: &str,
    params: &PathParams,
    blocked: &[(&'static str, &'static str)],
) -> Vec<ActionView> {
    let count = path_param_names(path).count();
    let of_object = ROUTE_ACTIONS.iter().filter(|act| {
        let rest = act.path.strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            && path_param_names(act.path).count() == count
    });
    let asked = of_object.map(|act| {
        let refused = act.requirement.check(actor, params).err().map(|problem| ActionDenial {
            kind: "role",
            code: problem.code(),
            who: allowed_roles(act.requirement),
        });
        let state = blocked.iter().find(|(id, _)| *id == act.id);
        let reason = refused.or(state.map(|(_, code)| ActionDenial { kind: "state", code, who: Vec::new() }));
        ActionView { id: act.id, allowed: reason.is_none(), reason }
    });
    asked.collect()
}

fn allowed_roles(needs: Requirement) -> Vec<String> {
    let (what, in_workspace) = match needs {
        Requirement::Workspace(what) | Requirement::Release(what) | Requirement::Repo(what) => (what, true),
        Requirement::Platform(what) | Requirement::SelfOr(what) | Requirement::LocalOr(what) => (what, false),
        Requirement::Public
        | Requirement::OptionalUser
        | Requirement::Authenticated
        | Requirement::UnrestrictedUser => return Vec::new(),
    };
    roles_with(what, in_workspace)
}

fn roles_with(what: Capability, in_workspace: bool) -> Vec<String> {
    let platform =
        PlatformRole::ALL.iter().filter(|role| role.allows(what)).map(|role| format!("platform:{role}"));
    let workspace = WorkspaceRole::ALL.iter().filter(|role| in_workspace && role.allows(what));
    platform.chain(workspace.map(|role| format!("workspace:{role}"))).collect()
}
