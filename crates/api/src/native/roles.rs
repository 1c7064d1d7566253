//! Roles and their capabilities, from the table in `domain`.

use domain::roles::{Capability, PlatformRole, WorkspaceRole};
use schemars::JsonSchema;
use serde::Serialize;

use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::JsonResponse;

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Roles")]
pub struct RolesView {
    /// Platform roles.
    platform: Vec<RoleView>,
    /// Workspace roles.
    workspace: Vec<RoleView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Role")]
pub struct RoleView {
    name: &'static str,
    capabilities: Vec<&'static str>,
}

fn role_view(name: &'static str, may: impl Fn(Capability) -> bool) -> RoleView {
    let capabilities = Capability::ALL.iter().filter(|what| may(**what)).map(|what| what.as_str()).collect();
    RoleView { name, capabilities }
}

/// `GET roles`
pub async fn list(_: ApiRequest) -> Result<JsonResponse<RolesView>, Problem> {
    Ok(JsonResponse::new(RolesView {
        platform: PlatformRole::ALL
            .iter()
            .map(|own| role_view(own.as_str(), |what| own.allows(what)))
            .collect(),
        workspace: WorkspaceRole::ALL
            .iter()
            .map(|own| role_view(own.as_str(), |what| own.allows(what)))
            .collect(),
    }))
}
