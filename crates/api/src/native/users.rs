//! Accounts: create, read, update, delete.

use axum::http::StatusCode;
use domain::fields::Password;
use domain::roles::Capability;
use domain::{AccessScope, Actor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenancy::register::Registration;
use tenancy::users::UserPatch;

use super::accounts::AccountView;
use crate::body::{BoundedString, JsonBody};
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::{JsonResponse, ListResponse, NoContent};
use crate::routes::ROOT;

/// Fields of a registration.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateUserRequest {
    email: BoundedString<320>,
    phone: BoundedString<32>,
    organization: BoundedString<128>,
    /// Password. An account without one signs in with the token in the response.
    password: Option<BoundedString<256>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RegisteredUser")]
pub struct RegisteredUserView {
    id: String,
    name: String,
    /// First namespace of the personal workspace.
    namespace: String,
    /// Login token. It is not shown again.
    token: String,
    /// Whether the account is ready; otherwise it is still being prepared.
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct UpdateUserRequest {
    /// Disables the account. This and the next three fields can be set by administrators only.
    disabled: Option<bool>,
    /// Validity in days; 0: unlimited.
    valid_period: Option<i64>,
    max_node_num: Option<i64>,
    #[schemars(length(max = 3))]
    platform_roles: Option<Vec<BoundedString<32>>>,
    organization: Option<BoundedString<128>>,
    email: Option<BoundedString<320>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePasswordRequest {
    /// Current password or login token; not required when an administrator changes the password of another account.
    old: Option<BoundedString<1024>>,
    new: BoundedString<256>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RevokedCredentials")]
pub struct RevokedCredentialsView {
    /// New login token of a caller without a password. It is not shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// `POST users`: open to anonymous callers while registration is open, and always to administrators.
pub async fn create(
    call: ApiRequest<JsonBody<CreateUserRequest>>,
) -> Result<JsonResponse<RegisteredUserView>, Problem> {
    let JsonBody(CreateUserRequest { email, phone, organization, password }) = &call.body;
    let registration =
        Registration::parse(email, phone, organization, password.as_deref()).map_err(tenancy::Error::from)?;
    let tenancy = &call.api.tenancy;
    let manages = |actor: &&Actor| actor.authorize(Capability::ManageUsers, AccessScope::Platform).is_ok();
    let made = match call.optional_actor().filter(manages) {
        Some(actor) => tenancy.create_user(actor, registration).await?,
        None => tenancy.register(registration, call.client_ip()).await?,
    };
    let status = if made.is_ready { StatusCode::CREATED } else { StatusCode::ACCEPTED };
    let id = made.id.to_string();
    let view = RegisteredUserView {
        id: id.clone(),
        name: made.name,
        namespace: made.namespace.to_string(),
        token: made.token.expose().to_owned(),
        ready: made.is_ready,
        expires: made.expires.map(|time| time.to_string()),
    };
    Ok(JsonResponse::new(view)
        .with_status(status)
        .location(&format!("{ROOT}/users/{id}"))
        .no_store()
        .audit_object(&id))
}

/// `GET users`
pub async fn list(call: ApiRequest) -> Result<JsonResponse<ListResponse<AccountView>>, Problem> {
    let actor = call.actor()?;
    let accounts = call.api.tenancy.users(actor)?;
    Ok(call.list(accounts.iter().map(|account| AccountView::new(&call, actor, account)).collect()))
}

/// `GET users/{user}`
pub async fn get(call: ApiRequest) -> Result<JsonResponse<AccountView>, Problem> {
    let actor = call.actor()?;
    let account = call.api.tenancy.user(actor, &call.user()?)?;
    Ok(account_response(AccountView::new(&call, actor, &account)))
}

/// `PATCH users/{user}`
pub async fn update(
    call: ApiRequest<JsonBody<UpdateUserRequest>>,
) -> Result<JsonResponse<AccountView>, Problem> {
    let JsonBody(UpdateUserRequest {
        disabled,
        valid_period,
        max_node_num,
        platform_roles,
        organization,
        email,
    }) = &call.body;
    let roles = platform_roles.as_ref().map(|roles| roles.iter().map(|role| role.parse()).collect());
    let patch = UserPatch {
        disabled: *disabled,
        valid_days: *valid_period,
        max_nodes: *max_node_num,
        platform_roles: roles.transpose().map_err(tenancy::Error::from)?,
        organization: organization.as_ref().map(|text| text.to_string()),
        email: email.as_ref().map(|text| text.to_string()),
    };
    let (actor, id) = (call.actor()?, call.user()?);
    let account = call.api.tenancy.patch_user(actor, &id, patch, call.if_match.as_deref()).await?;
    Ok(account_response(AccountView::new(&call, actor, &account)))
}

/// `DELETE users/{user}`
pub async fn delete(call: ApiRequest) -> Result<NoContent, Problem> {
    call.api.tenancy.delete_user(call.actor()?, &call.user()?, call.if_match.as_deref()).await?;
    Ok(NoContent::default())
}

/// `POST users/{user}/password`
pub async fn change_password(
    call: ApiRequest<JsonBody<ChangePasswordRequest>>,
) -> Result<NoContent, Problem> {
    let JsonBody(ChangePasswordRequest { old, new }) = &call.body;
    let new = Password::parse_new(new).map_err(tenancy::Error::from)?;
    let (actor, id) = (call.actor()?, call.user()?);
    call.api.tenancy.change_password(actor, &id, old.as_deref(), &new, call.client_ip()).await?;
    Ok(NoContent::default())
}

/// `POST users/{user}/revoke`
pub async fn revoke_credentials(call: ApiRequest) -> Result<JsonResponse<RevokedCredentialsView>, Problem> {
    let fresh = call.api.tenancy.revoke_all(call.actor()?, &call.user()?).await?;
    Ok(JsonResponse::new(RevokedCredentialsView { token: fresh.map(|token| token.expose().to_owned()) })
        .no_store())
}

fn account_response(view: AccountView) -> JsonResponse<AccountView> {
    let version = view.v.clone();
    JsonResponse::new(view).etag(&version)
}
