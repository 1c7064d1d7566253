//! Sessions: sign in, sign out, and the caller's own identity.

use std::sync::LazyLock;

use axum::http::header::HeaderValue;
use domain::actor::{AuthMethod, Principal};
use domain::roles::Capability;
use domain::{AccessScope, Actor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::accounts::AccountView;
use crate::body::{BoundedString, JsonBody};
use crate::credentials::{clear_cookie_header, session_cookie_header};
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::{AuditObject, JsonResponse, NoContent};

#[derive(Debug, Serialize, JsonSchema)]
pub struct SignInMethods {
    /// Supported sign-in methods.
    methods: Vec<&'static str>,
    /// Whether registration is open.
    registration: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignInRequest {
    /// E-mail address, phone number, id or login name.
    login: BoundedString<320>,
    /// Password or login token.
    secret: BoundedString<1024>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
pub struct SessionView {
    /// Account; absent for a ServiceAccount.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<AccountView>,
    /// ServiceAccount; absent for a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account: Option<String>,
    /// Authentication method: `session`, `token` or `kubernetes`.
    via: &'static str,
    /// Scopes of the API token; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    scopes: Option<Vec<String>>,
    workspaces: Vec<MembershipView>,
    /// Platform capabilities.
    capabilities: Vec<&'static str>,
    /// Time at which the session expires; absent without a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    /// Value for the header X-CSRF-Token; absent without a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    csrf: Option<String>,
    server: ServerView,
    #[serde(skip_serializing_if = "Option::is_none")]
    stale: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Membership")]
pub struct MembershipView {
    name: String,
    role: &'static str,
    capabilities: Vec<&'static str>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Server")]
pub struct ServerView {
    version: &'static str,
    /// Id of the server process; changes with each start.
    boot: &'static str,
    /// Whether the platform runs on the embedded cluster, which simulates nodes and workloads.
    embedded: bool,
}

/// Id of this process, by which a page detects a restart of the server.
static BOOT_ID: LazyLock<String> = LazyLock::new(|| Uuid::new_v4().to_string());

fn capabilities(actor: &Actor, place: AccessScope<'_>) -> Vec<&'static str> {
    Capability::ALL
        .iter()
        .filter(|what| actor.authorize(**what, place).is_ok())
        .map(|what| what.as_str())
        .collect()
}

fn session_view<B>(call: &ApiRequest<B>, actor: &Actor, csrf: Option<String>) -> SessionView {
    let directory = call.api.tenancy.directory();
    let account = actor.user_id().and_then(|id| directory.account(id));
    let service_account = match &actor.principal {
        Principal::User { .. } => None,
        Principal::ServiceAccount { .. } => Some(actor.audit_name()),
    };
    let (via, scopes) = match &actor.auth_method {
        AuthMethod::Session { .. } => ("session", None),
        AuthMethod::Token { scopes, .. } => ("token", Some(scopes.to_strings())),
        AuthMethod::Kubernetes => ("kubernetes", None),
    };
    let membership =
        |(name, role): (&domain::ids::WorkspaceName, &domain::roles::WorkspaceRole)| MembershipView {
            name: name.to_string(),
            role: role.as_str(),
            capabilities: capabilities(actor, AccessScope::Workspace(name)),
        };
    SessionView {
        user: account.map(|account| AccountView::new(call, actor, &account)),
        service_account,
        via,
        scopes,
        workspaces: actor.memberships.iter().map(membership).collect(),
        capabilities: capabilities(actor, AccessScope::Platform),
        expires: call.api.tenancy.session_expiry(actor).map(|time| time.to_string()),
        csrf,
        server: ServerView {
            version: call.api.settings.version,
            boot: &BOOT_ID,
            embedded: call.api.settings.embedded,
        },
        stale: call.stale_seconds(),
    }
}

/// `GET auth/methods`
pub async fn list_methods(call: ApiRequest) -> Result<JsonResponse<SignInMethods>, Problem> {
    let registration = call.api.tenancy.settings().is_registration_open;
    Ok(JsonResponse::new(SignInMethods { methods: vec!["password", "token"], registration }))
}

/// `POST session`: sets the session cookie for browsers, and returns the CSRF token of the session.
pub async fn sign_in(
    call: ApiRequest<JsonBody<SignInRequest>>,
) -> Result<JsonResponse<SessionView>, Problem> {
    let JsonBody(SignInRequest { login, secret }) = &call.body;
    // Only existing accounts are named in the audit trail: other text could be a password in the wrong field.
    let account =
        call.api.tenancy.directory().find_by_login(login).map(|account| AuditObject(account.id.to_string()));
    let signed = call.api.tenancy.sign_in(login, secret, call.client_ip()).await;
    let signed = signed.map_err(|error| Problem::from(error).with_audit_object(account))?;
    let seconds = signed.expires.duration_since(call.api.clock.now()).as_secs();
    let cookie = session_cookie_header(&signed.cookie, seconds, call.api.settings.is_secure());
    let view = session_view(&call, &signed.actor, Some(signed.csrf));
    Ok(JsonResponse::new(view).set_cookie(&cookie).no_store().audit_object(&signed.actor.audit_name()))
}

/// `GET session`
pub async fn get(call: ApiRequest) -> Result<JsonResponse<SessionView>, Problem> {
    let actor = call.actor()?;
    let csrf =
        call.session_cookie.as_deref().and_then(|cookie| call.api.tenancy.csrf_token_of_cookie(cookie));
    let csrf = csrf.filter(|_| matches!(actor.auth_method, AuthMethod::Session { .. }));
    Ok(JsonResponse::new(session_view(&call, actor, csrf)).no_store())
}

/// `DELETE session`
pub async fn sign_out(call: ApiRequest) -> Result<NoContent, Problem> {
    call.api.tenancy.sign_out(call.actor()?).await?;
    let cookie = clear_cookie_header(call.api.settings.is_secure());
    Ok(NoContent::with_cookie(HeaderValue::from_str(&cookie).expect("our own letters are a header's")))
}
