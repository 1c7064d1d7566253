//! Roles and their capabilities, from the table in `domain`.

use domain::roles::{Capability, PlatformRole, WorkspaceRole};
use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Roles")]
pub struct RolesView {
    /// Of the whole platform.
    platform: Vec<RoleView>,
    /// In one workspace.
    workspace: Vec<RoleView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Role")]
pub struct RoleView {
    name: &'static str,
    capabilities: Vec<&'static str>,
}

fn role(name: &'static str, may: impl Fn(Capability) -> bool) -> RoleView {
    let capabilities = Capability::ALL.iter().filter(|what| may(**what)).map(|what| what.as_str()).collect();
    RoleView { name, capabilities }
}

/// `GET roles`
pub async fn list(_: Call) -> Result<Answer<RolesView>, Problem> {
    Ok(Answer::new(RolesView {
        platform: PlatformRole::ALL.iter().map(|own| role(own.as_str(), |what| own.may(what))).collect(),
        workspace: WorkspaceRole::ALL.iter().map(|own| role(own.as_str(), |what| own.may(what))).collect(),
    }))
}
