//! Accounts: create, read, update, delete.

use axum::http::StatusCode;
use domain::fields::Password;
use domain::roles::Capability;
use domain::{Actor, Place};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenancy::register::Registration;
use tenancy::users::UserPatch;

use super::accounts::AccountView;
use crate::answer::{Answer, Done, List};
use crate::call::Call;
use crate::problem::Problem;
use crate::routes::ROOT;
use crate::sent::{Sent, Text};

/// All that somebody may say of themselves when they register.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUser {
    email: Text<320>,
    phone: Text<32>,
    organization: Text<128>,
    /// Without one, the token that the answer tells is the way in.
    password: Option<Text<256>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RegisteredUser")]
pub struct RegisteredView {
    id: String,
    name: String,
    /// The first namespace of the personal workspace.
    namespace: String,
    /// The login token. It cannot be told again.
    token: String,
    /// Whether all is prepared; if not, it is still being done.
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ChangedUser {
    /// By administrators only, as the next three.
    disabled: Option<bool>,
    /// In days; 0: without end.
    valid_period: Option<i64>,
    max_node_num: Option<i64>,
    #[schemars(length(max = 3))]
    platform_roles: Option<Vec<Text<32>>>,
    organization: Option<Text<128>>,
    email: Option<Text<320>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPassword {
    /// What one signs in with so far; not needed by an administrator for somebody else.
    old: Option<Text<1024>>,
    new: Text<256>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RevokedCredentials")]
pub struct RevokedView {
    /// The new login token of a caller who has no password. It is not shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// `POST users`: open to anonymous callers while registration is open, and always to administrators.
pub async fn create(call: Call<Sent<NewUser>>) -> Result<Answer<RegisteredView>, Problem> {
    let Sent(NewUser { email, phone, organization, password }) = &call.body;
    let registration =
        Registration::parse(email, phone, organization, password.as_deref()).map_err(tenancy::Error::from)?;
    let tenancy = &call.api.tenancy;
    let manages = |actor: &&Actor| actor.may(Capability::ManageUsers, Place::Platform).is_ok();
    let made = match call.guest().filter(manages) {
        Some(actor) => tenancy.create_user(actor, registration).await?,
        None => tenancy.register(registration, call.from()).await?,
    };
    let status = if made.ready { StatusCode::CREATED } else { StatusCode::ACCEPTED };
    let id = made.id.to_string();
    let view = RegisteredView {
        id: id.clone(),
        name: made.name,
        namespace: made.namespace.to_string(),
        token: made.token.expose().to_owned(),
        ready: made.ready,
        expires: made.expires.map(|time| time.to_string()),
    };
    Ok(Answer::new(view).status(status).at(&format!("{ROOT}/users/{id}")).secret().about(&id))
}

/// `GET users`
pub async fn list(call: Call) -> Result<Answer<List<AccountView>>, Problem> {
    let actor = call.actor()?;
    let accounts = call.api.tenancy.users(actor)?;
    Ok(call.list(accounts.iter().map(|account| AccountView::of(&call, actor, account)).collect()))
}

/// `GET users/{user}`
pub async fn show(call: Call) -> Result<Answer<AccountView>, Problem> {
    let actor = call.actor()?;
    let account = call.api.tenancy.user(actor, &call.user()?)?;
    Ok(answer(AccountView::of(&call, actor, &account)))
}

/// `PATCH users/{user}`
pub async fn change(call: Call<Sent<ChangedUser>>) -> Result<Answer<AccountView>, Problem> {
    let Sent(ChangedUser { disabled, valid_period, max_node_num, platform_roles, organization, email }) =
        &call.body;
    let roles = platform_roles.as_ref().map(|roles| roles.iter().map(|role| role.parse()).collect());
    let patch = UserPatch {
        disabled: *disabled,
        valid_days: *valid_period,
        max_nodes: *max_node_num,
        platform: roles.transpose().map_err(tenancy::Error::from)?,
        organization: organization.as_ref().map(|text| text.to_string()),
        email: email.as_ref().map(|text| text.to_string()),
    };
    let (actor, id) = (call.actor()?, call.user()?);
    let account = call.api.tenancy.patch_user(actor, &id, patch, call.expected.as_deref()).await?;
    Ok(answer(AccountView::of(&call, actor, &account)))
}

/// `DELETE users/{user}`
pub async fn delete(call: Call) -> Result<Done, Problem> {
    call.api.tenancy.delete_user(call.actor()?, &call.user()?, call.expected.as_deref()).await?;
    Ok(Done::default())
}

/// `POST users/{user}/password`
pub async fn password(call: Call<Sent<NewPassword>>) -> Result<Done, Problem> {
    let Sent(NewPassword { old, new }) = &call.body;
    let new = Password::chosen(new).map_err(tenancy::Error::from)?;
    let (actor, id) = (call.actor()?, call.user()?);
    call.api.tenancy.change_password(actor, &id, old.as_deref(), &new, call.from()).await?;
    Ok(Done::default())
}

/// `POST users/{user}/revoke`
pub async fn revoke(call: Call) -> Result<Answer<RevokedView>, Problem> {
    let fresh = call.api.tenancy.revoke_all(call.actor()?, &call.user()?).await?;
    Ok(Answer::new(RevokedView { token: fresh.map(|token| token.expose().to_owned()) }).secret())
}

fn answer(view: AccountView) -> Answer<AccountView> {
    let version = view.v.clone();
    Answer::new(view).version(&version)
}
