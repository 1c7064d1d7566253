//! `GET /login`, as the console's API document defines it, and `POST /login`, which keeps secrets out of the URL. Both return the account,
//! its kubeconfig and the script by which a machine joins, and open a session.

use domain::names::check_subdomain;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenancy::node_join::{JoinOptions, OpenYurtLogin};

use super::form_body::{Form, IgnoredField};
use crate::body::BoundedString;
use crate::credentials::session_cookie_header;
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::{AuditObject, JsonResponse};

/// Accepted query parameters of a login.
pub const QUERY: &[&str] =
    &["email", "phone", "mobilephone", "mobilePhone", "name", "token", "pool", "kubeConfig", "kubeconfig"];

/// Who somebody is, by one of three names, and what only they know.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginRequest {
    email: Option<BoundedString<320>>,
    #[serde(alias = "mobilephone", alias = "mobilePhone")]
    phone: Option<BoundedString<32>>,
    /// The name of the account, its id, or a login name.
    name: Option<BoundedString<320>>,
    /// The login token.
    token: Option<BoundedString<1024>>,
    /// In its place.
    password: Option<BoundedString<1024>>,
    /// The pool that machines are to join by the script.
    pool: Option<BoundedString<63>>,
    /// Old clients send one with everything. It is not looked at.
    #[expect(dead_code, reason = "it is taken so that it can be overlooked")]
    #[serde(rename = "kubeConfig", alias = "kubeconfig", default)]
    kube_config: IgnoredField,
}

/// An account, as the document draws it: these keys and no others.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ConsoleLogin")]
pub struct LoginView {
    spec: LoginSpec,
    status: LoginStatus,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ConsoleLoginSpec")]
pub struct LoginSpec {
    /// Good for a day; empty where the account has expired.
    kube_config: String,
    /// What a machine runs to become a node of the account; empty where the account has expired.
    node_add_script: String,
    /// In days; 0: without end.
    valid_period: i64,
    max_node_num: i64,
    namespace: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ConsoleLoginStatus")]
pub struct LoginStatus {
    node_num: i64,
    /// Empty until everything is prepared.
    effective_time: String,
    expired: bool,
}

/// `GET /login`
pub async fn by_query(call: ApiRequest) -> Result<JsonResponse<LoginView>, Problem> {
    if !call.api.settings.token_parameter {
        return Err(Problem::invalid("tokens are not taken as parameters here: send them with POST"));
    }
    let phones = ["phone", "mobilephone", "mobilePhone"].map(|name| call.query_param(name));
    let login = exactly_one(phones.into_iter().chain([call.query_param("email"), call.query_param("name")]))?;
    let secret = call.raw_query_param("token").ok_or_else(missing_secret)?;
    log_in(&call, login, secret, call.query_param("pool")).await
}

/// `POST /login`
pub async fn by_form(call: ApiRequest<Form<LoginRequest>>) -> Result<JsonResponse<LoginView>, Problem> {
    let Form(LoginRequest { email, phone, name, token, password, pool, .. }) = &call.body;
    let login = exactly_one([email.as_deref(), phone.as_deref(), name.as_deref()])?;
    let secret = match (token, password) {
        (Some(secret), None) | (None, Some(secret)) => &**secret,
        (None, None) => return Err(missing_secret()),
        (Some(_), Some(_)) => return Err(Problem::invalid("a token or a password, not both")),
    };
    log_in(&call, login, secret, pool.as_deref()).await
}

fn exactly_one<'a>(names: impl IntoIterator<Item = Option<&'a str>>) -> Result<&'a str, Problem> {
    let mut names = names.into_iter().flatten();
    match (names.next(), names.next()) {
        (Some(name), None) => Ok(name),
        _ => Err(Problem::invalid("a login takes one of `email`, `phone` and `name`")),
    }
}

fn missing_secret() -> Problem {
    Problem::invalid("a login takes a `token`")
}

async fn log_in<B>(
    call: &ApiRequest<B>,
    login: &str,
    secret: &str,
    pool: Option<&str>,
) -> Result<JsonResponse<LoginView>, Problem> {
    // Only existing accounts are named in the audit trail: other text could be a secret in the wrong field.
    let account =
        call.api.tenancy.directory().find_by_login(login).map(|account| AuditObject(account.id.to_string()));
    if let Some(pool) = pool.filter(|pool| !pool.is_empty()) {
        check_subdomain(pool).map_err(|error| Problem::invalid(format!("`pool`: {error}")))?;
    }
    let join = JoinOptions { pool: pool.map(str::to_owned) };
    let result = call.api.tenancy.openyurt_login(login, secret, call.client_ip(), join).await;
    let console_login = result.map_err(|error| Problem::from(error).with_audit_object(account.clone()))?;
    let OpenYurtLogin { session, .. } = &console_login;
    // Login CSRF: a page of another site must not open a session without the user's knowledge.
    let cookie = session.as_ref().filter(|_| !call.is_cross_site).map(|session| {
        let seconds = session.expires.duration_since(call.api.clock.now()).as_secs();
        session_cookie_header(&session.cookie, seconds, call.api.settings.is_secure())
    });
    let view = JsonResponse::new(LoginView::new(console_login)).no_store();
    let view = match account {
        Some(AuditObject(id)) => view.audit_object(&id),
        None => view,
    };
    Ok(match cookie {
        Some(cookie) => view.set_cookie(&cookie),
        None => view,
    })
}

impl LoginView {
    fn new(login: OpenYurtLogin) -> Self {
        let time = |time: Option<Timestamp>| time.map(|time| time.to_string()).unwrap_or_default();
        Self {
            spec: LoginSpec {
                kube_config: login.kube_config,
                node_add_script: login.node_add_script,
                valid_period: login.validity_days,
                max_node_num: login.max_node_num,
                namespace: login.namespace,
            },
            status: LoginStatus {
                node_num: login.node_num,
                effective_time: time(login.effective_time),
                expired: login.expired,
            },
        }
    }
}
