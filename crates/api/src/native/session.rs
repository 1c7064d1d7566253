//! Sessions: sign in, sign out, and the caller's own identity.

use std::sync::LazyLock;

use axum::http::header::HeaderValue;
use domain::actor::{Via, Who};
use domain::roles::Capability;
use domain::{Actor, Place};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::accounts::AccountView;
use crate::answer::{Answer, AuditObject, Done};
use crate::call::Call;
use crate::credentials::{cookie, no_cookie};
use crate::problem::Problem;
use crate::sent::{Sent, Text};

#[derive(Debug, Serialize, JsonSchema)]
pub struct Methods {
    /// Ways to sign in.
    methods: Vec<&'static str>,
    /// Whether anybody may make themselves an account.
    registration: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// An e-mail address, phone number, id, or login name.
    login: Text<320>,
    /// The password, or the login token.
    secret: Text<1024>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
pub struct SessionView {
    /// The account; absent for a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<AccountView>,
    /// The ServiceAccount; absent for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account: Option<String>,
    /// `session`, `token` or `kubernetes`.
    via: &'static str,
    /// What the token is good for; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    scopes: Option<Vec<String>>,
    workspaces: Vec<MembershipView>,
    /// What may be done on the whole platform.
    capabilities: Vec<&'static str>,
    /// When the session ends; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    /// For the header X-CSRF-Token; absent without a session.
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
    /// Another after each start.
    boot: &'static str,
    /// Nodes and workloads are pretended.
    embedded: bool,
}

/// Id of this process, by which a page detects a restart of the server.
static BOOT: LazyLock<String> = LazyLock::new(|| Uuid::new_v4().to_string());

fn capabilities(actor: &Actor, place: Place<'_>) -> Vec<&'static str> {
    Capability::ALL.iter().filter(|what| actor.may(**what, place).is_ok()).map(|what| what.as_str()).collect()
}

fn view<B>(call: &Call<B>, actor: &Actor, csrf: Option<String>) -> SessionView {
    let directory = call.api.tenancy.directory();
    let account = actor.id().and_then(|id| directory.account(id));
    let service_account = match &actor.who {
        Who::Person { .. } => None,
        Who::ServiceAccount { .. } => Some(actor.label()),
    };
    let (via, scopes) = match &actor.via {
        Via::Session { .. } => ("session", None),
        Via::Token { scopes, .. } => ("token", Some(scopes.words())),
        Via::Kubernetes => ("kubernetes", None),
    };
    let membership =
        |(name, role): (&domain::ids::WorkspaceName, &domain::roles::WorkspaceRole)| MembershipView {
            name: name.to_string(),
            role: role.as_str(),
            capabilities: capabilities(actor, Place::Workspace(name)),
        };
    SessionView {
        user: account.map(|account| AccountView::of(call, actor, &account)),
        service_account,
        via,
        scopes,
        workspaces: actor.memberships.iter().map(membership).collect(),
        capabilities: capabilities(actor, Place::Platform),
        expires: call.api.tenancy.session_expires(actor).map(|time| time.to_string()),
        csrf,
        server: ServerView {
            version: call.api.settings.version,
            boot: &BOOT,
            embedded: call.api.settings.embedded,
        },
        stale: call.stale(),
    }
}

/// `GET auth/methods`
pub async fn methods(call: Call) -> Result<Answer<Methods>, Problem> {
    let registration = call.api.tenancy.settings().registration_open;
    Ok(Answer::new(Methods { methods: vec!["password", "token"], registration }))
}

/// `POST session`: sets the session cookie for browsers, and returns the CSRF token of the session.
pub async fn sign_in(call: Call<Sent<SignIn>>) -> Result<Answer<SessionView>, Problem> {
    let Sent(SignIn { login, secret }) = &call.body;
    // Only existing accounts are named in the audit trail: other text could be a password in the wrong field.
    let account =
        call.api.tenancy.directory().by_login(login).map(|account| AuditObject(account.id.to_string()));
    let signed = call.api.tenancy.sign_in(login, secret, call.from()).await;
    let signed = signed.map_err(|error| Problem::from(error).about(account))?;
    let seconds = signed.expires.duration_since(call.api.clock.now()).as_secs();
    let cookie = cookie(&signed.cookie, seconds, call.api.settings.secure());
    let view = view(&call, &signed.actor, Some(signed.csrf));
    Ok(Answer::new(view).cookie(&cookie).secret().about(&signed.actor.label()))
}

/// `GET session`
pub async fn show(call: Call) -> Result<Answer<SessionView>, Problem> {
    let actor = call.actor()?;
    let csrf = call.session_cookie.as_deref().and_then(|cookie| call.api.tenancy.csrf_of(cookie));
    let csrf = csrf.filter(|_| matches!(actor.via, Via::Session { .. }));
    Ok(Answer::new(view(&call, actor, csrf)).secret())
}

/// `DELETE session`
pub async fn sign_out(call: Call) -> Result<Done, Problem> {
    call.api.tenancy.sign_out(call.actor()?).await?;
    let cookie = no_cookie(call.api.settings.secure());
    Ok(Done::cookie(HeaderValue::from_str(&cookie).expect("our own letters are a header's")))
}
