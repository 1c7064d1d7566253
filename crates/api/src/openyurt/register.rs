//! `POST /register`: creates an account.

use axum::http::StatusCode;
use domain::roles::Capability;
use domain::{Actor, Place};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenancy::register::Registration;

use super::form::{Form, Overlooked};
use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::sent::Text;

/// All that somebody may say of themselves.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Visitor {
    email: Text<320>,
    #[serde(alias = "mobilephone", alias = "mobilePhone")]
    phone: Text<32>,
    organization: Text<128>,
    /// Old clients send one with everything. It is not looked at.
    #[expect(dead_code, reason = "it is taken so that it can be overlooked")]
    #[serde(rename = "kubeConfig", alias = "kubeconfig", default)]
    kube_config: Overlooked,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ConsoleRegistration")]
pub struct Welcome {
    /// The login token. It cannot be told again.
    token: String,
    /// The account.
    name: String,
    namespace: String,
    /// When the account ends; empty where that is not known yet, or never.
    expire_time: String,
    /// `pending` while namespace and access are still being prepared; absent when they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
}

/// Open to anonymous callers while registration is open, and always to administrators.
pub async fn register(call: Call<Form<Visitor>>) -> Result<Answer<Welcome>, Problem> {
    let Form(Visitor { email, phone, organization, .. }) = &call.body;
    let registration = Registration::parse(email, phone, organization, None).map_err(tenancy::Error::from)?;
    let tenancy = &call.api.tenancy;
    let manages = |actor: &&Actor| actor.may(Capability::ManageUsers, Place::Platform).is_ok();
    let made = match call.guest().filter(manages) {
        Some(actor) => tenancy.create_user(actor, registration).await?,
        None => tenancy.register(registration, call.from()).await?,
    };
    let (status, pending) =
        if made.ready { (StatusCode::OK, None) } else { (StatusCode::ACCEPTED, Some("pending")) };
    let welcome = Welcome {
        token: made.token.expose().to_owned(),
        name: made.name,
        namespace: made.namespace.to_string(),
        expire_time: made.expires.map(|time| time.to_string()).unwrap_or_default(),
        status: pending,
    };
    Ok(Answer::new(welcome).status(status).secret().about(&made.id))
}
