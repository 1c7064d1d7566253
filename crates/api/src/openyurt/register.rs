//! `POST /register`: creates an account.

use axum::http::StatusCode;
use domain::roles::Capability;
use domain::{AccessScope, Actor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenancy::register::Registration;

use super::form_body::{Form, IgnoredField};
use crate::body::BoundedString;
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::JsonResponse;

/// Fields of a registration.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterRequest {
    email: BoundedString<320>,
    #[serde(alias = "mobilephone", alias = "mobilePhone")]
    phone: BoundedString<32>,
    organization: BoundedString<128>,
    /// Ignored; old clients send it with every request.
    #[expect(dead_code, reason = "accepted and ignored")]
    #[serde(rename = "kubeConfig", alias = "kubeconfig", default)]
    kube_config: IgnoredField,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ConsoleRegistration")]
pub struct RegisterResponse {
    /// Login token. It is not shown again.
    token: String,
    /// Name of the account.
    name: String,
    namespace: String,
    /// Time at which the account expires; empty if it is not known yet or the account does not expire.
    expire_time: String,
    /// `pending` while namespace and access are still being prepared; absent when they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
}

/// Open to anonymous callers while registration is open, and always to administrators.
pub async fn register(
    call: ApiRequest<Form<RegisterRequest>>,
) -> Result<JsonResponse<RegisterResponse>, Problem> {
    let Form(RegisterRequest { email, phone, organization, .. }) = &call.body;
    let registration = Registration::parse(email, phone, organization, None).map_err(tenancy::Error::from)?;
    let tenancy = &call.api.tenancy;
    let manages = |actor: &&Actor| actor.authorize(Capability::ManageUsers, AccessScope::Platform).is_ok();
    let made = match call.optional_actor().filter(manages) {
        Some(actor) => tenancy.create_user(actor, registration).await?,
        None => tenancy.register(registration, call.client_ip()).await?,
    };
    let (status, pending) =
        if made.is_ready { (StatusCode::OK, None) } else { (StatusCode::ACCEPTED, Some("pending")) };
    let welcome = RegisterResponse {
        token: made.token.expose().to_owned(),
        name: made.name,
        namespace: made.namespace.to_string(),
        expire_time: made.expires.map(|time| time.to_string()).unwrap_or_default(),
        status: pending,
    };
    Ok(JsonResponse::new(welcome).with_status(status).no_store().audit_object(&made.id))
}
