//! Actions that a caller may take on an object: the mutating rows of the route table, checked as the route guard checks them.

use std::sync::LazyLock;

use domain::Actor;
use domain::roles::{Capability, PlatformRole, WorkspaceRole};
use schemars::JsonSchema;
use serde::Serialize;

use crate::needs::Needs;
use crate::openapi::names;
use crate::params::Params;
use crate::routes;

/// One thing that can be done with an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Action {
    /// The act, by the word that the audit trail has for it.
    id: &'static str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
}

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Reason {
    /// `role`: not for this caller. `state`: not now, for anybody.
    kind: &'static str,
    code: &'static str,
    /// The roles that can.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    who: Vec<String>,
}

impl Action {
    pub fn id(&self) -> &'static str {
        self.id
    }

    /// Whether the caller lacks the role, while callers with another role may do it.
    pub fn is_for_others(&self) -> bool {
        self.reason.as_ref().is_some_and(|reason| reason.kind == "role")
    }
}

struct Act {
    path: &'static str,
    id: &'static str,
    needs: Needs,
}

static ACTS: LazyLock<Vec<Act>> = LazyLock::new(|| {
    let changing = routes::table().into_iter().filter(|row| !row.method.is_safe());
    changing.map(|row| Act { path: row.path, id: row.act, needs: row.needs }).collect()
});

/// The actions of `actor` on the object at `path`, a path of the route table whose parameters have these values. `blocked` lists
/// the actions that the object's state forbids to every caller, by id, with a reason code.
pub fn actions(
    actor: &Actor,
    path: &str,
    values: &[&str],
    blocked: &[(&'static str, &'static str)],
) -> Vec<Action> {
    let params = Params::named(names(path).zip(values.iter().copied()));
    of_params(actor, path, &params, blocked)
}

/// As [`actions`], with parsed parameters.
pub fn of_params(
    actor: &Actor,
    path: &str,
    params: &Params,
    blocked: &[(&'static str, &'static str)],
) -> Vec<Action> {
    let count = names(path).count();
    let of_object = ACTS.iter().filter(|act| {
        let rest = act.path.strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) && names(act.path).count() == count
    });
    let asked = of_object.map(|act| {
        let refused = act.needs.ask(actor, params).err().map(|problem| Reason {
            kind: "role",
            code: problem.code(),
            who: who(act.needs),
        });
        let state = blocked.iter().find(|(id, _)| *id == act.id);
        let reason = refused.or(state.map(|(_, code)| Reason { kind: "state", code, who: Vec::new() }));
        Action { id: act.id, allowed: reason.is_none(), reason }
    });
    asked.collect()
}

fn who(needs: Needs) -> Vec<String> {
    let (what, in_workspace) = match needs {
        Needs::Workspace(what) | Needs::Release(what) | Needs::Repo(what) => (what, true),
        Needs::Platform(what) | Needs::Own(what) | Needs::Nearby(what) => (what, false),
        Needs::Nothing | Needs::Guest | Needs::Anybody | Needs::Themselves => return Vec::new(),
    };
    roles(what, in_workspace)
}

fn roles(what: Capability, in_workspace: bool) -> Vec<String> {
    let platform =
        PlatformRole::ALL.iter().filter(|role| role.may(what)).map(|role| format!("platform:{role}"));
    let workspace = WorkspaceRole::ALL.iter().filter(|role| in_workspace && role.may(what));
    platform.chain(workspace.map(|role| format!("workspace:{role}"))).collect()
}
