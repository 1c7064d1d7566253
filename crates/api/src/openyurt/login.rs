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

/// Account, identified by e-mail address, phone number or name, and its credential.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginRequest {
    email: Option<BoundedString<320>>,
    #[serde(alias = "mobilephone", alias = "mobilePhone")]
    phone: Option<BoundedString<32>>,
    /// Name, id or login name of the account.
    name: Option<BoundedString<320>>,
    /// Login token.
    token: Option<BoundedString<1024>>,
    /// Password, instead of the token.
    password: Option<BoundedString<1024>>,
    /// Node pool that machines join with the script.
    pool: Option<BoundedString<63>>,
    /// Ignored; old clients send it with every request.
    #[expect(dead_code, reason = "accepted and ignored")]
    #[serde(rename = "kubeConfig", alias = "kubeconfig", default)]
    kube_config: IgnoredField,
}

/// Account in the format of the OpenYurt console, with exactly these keys.
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
    /// Kubeconfig, valid for a day; empty if the account has expired.
    kube_config: String,
    /// Script that joins a machine as a node of the account; empty if the account has expired.
    node_add_script: String,
    /// Validity in days; 0: unlimited.
    valid_period: i64,
    max_node_num: i64,
    namespace: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ConsoleLoginStatus")]
pub struct LoginStatus {
    node_num: i64,
    /// Empty until the account is ready.
    effective_time: String,
    expired: bool,
}

/// `GET /login`
pub async fn by_query(call: ApiRequest) -> Result<JsonResponse<LoginView>, Problem> {
    if !call.api.settings.token_parameter {
        return Err(Problem::invalid("tokens in query parameters are disabled: send them with POST"));
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
        (Some(_), Some(_)) => return Err(Problem::invalid("`token` and `password` are mutually exclusive")),
    };
    log_in(&call, login, secret, pool.as_deref()).await
}

fn exactly_one<'a>(names: impl IntoIterator<Item = Option<&'a str>>) -> Result<&'a str, Problem> {
    let mut names = names.into_iter().flatten();
    match (names.next(), names.next()) {
        (Some(name), None) => Ok(name),
        _ => Err(Problem::invalid("exactly one of `email`, `phone` and `name` is required")),
    }
}

fn missing_secret() -> Problem {
    Problem::invalid("`token` is required")
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
