//! `GET /login`, as the console's API document defines it, and `POST /login`, which keeps secrets out of the URL. Both return the account,
//! its kubeconfig and the script by which a machine joins, and open a session.

use domain::names::check_subdomain;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenancy::edge::{EdgeLogin, JoinWish};

use super::form::{Form, Overlooked};
use crate::answer::{Answer, AuditObject};
use crate::call::Call;
use crate::credentials::cookie;
use crate::problem::Problem;
use crate::sent::Text;

/// Accepted query parameters of a login.
pub const QUERY: &[&str] =
    &["email", "phone", "mobilephone", "mobilePhone", "name", "token", "pool", "kubeConfig", "kubeconfig"];

/// Who somebody is, by one of three names, and what only they know.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    email: Option<Text<320>>,
    #[serde(alias = "mobilephone", alias = "mobilePhone")]
    phone: Option<Text<32>>,
    /// The name of the account, its id, or a login name.
    name: Option<Text<320>>,
    /// The login token.
    token: Option<Text<1024>>,
    /// In its place.
    password: Option<Text<1024>>,
    /// The pool that machines are to join by the script.
    pool: Option<Text<63>>,
    /// Old clients send one with everything. It is not looked at.
    #[expect(dead_code, reason = "it is taken so that it can be overlooked")]
    #[serde(rename = "kubeConfig", alias = "kubeconfig", default)]
    kube_config: Overlooked,
}

/// An account, as the document draws it: these keys and no others.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ConsoleLogin")]
pub struct LoginView {
    spec: Spec,
    status: Status,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ConsoleLoginSpec")]
pub struct Spec {
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
pub struct Status {
    node_num: i64,
    /// Empty until everything is prepared.
    effective_time: String,
    expired: bool,
}

/// `GET /login`
pub async fn by_query(call: Call) -> Result<Answer<LoginView>, Problem> {
    if !call.api.settings.token_parameter {
        return Err(Problem::invalid("tokens are not taken as parameters here: send them with POST"));
    }
    let phones = ["phone", "mobilephone", "mobilePhone"].map(|name| call.said(name));
    let login = only(phones.into_iter().chain([call.said("email"), call.said("name")]))?;
    let secret = call.given("token").ok_or_else(no_secret)?;
    answer(&call, login, secret, call.said("pool")).await
}

/// `POST /login`
pub async fn by_form(call: Call<Form<Credentials>>) -> Result<Answer<LoginView>, Problem> {
    let Form(Credentials { email, phone, name, token, password, pool, .. }) = &call.body;
    let login = only([email.as_deref(), phone.as_deref(), name.as_deref()])?;
    let secret = match (token, password) {
        (Some(secret), None) | (None, Some(secret)) => &**secret,
        (None, None) => return Err(no_secret()),
        (Some(_), Some(_)) => return Err(Problem::invalid("a token or a password, not both")),
    };
    answer(&call, login, secret, pool.as_deref()).await
}

fn only<'a>(names: impl IntoIterator<Item = Option<&'a str>>) -> Result<&'a str, Problem> {
    let mut names = names.into_iter().flatten();
    match (names.next(), names.next()) {
        (Some(name), None) => Ok(name),
        _ => Err(Problem::invalid("a login takes one of `email`, `phone` and `name`")),
    }
}

fn no_secret() -> Problem {
    Problem::invalid("a login takes a `token`")
}

async fn answer<B>(
    call: &Call<B>,
    login: &str,
    secret: &str,
    pool: Option<&str>,
) -> Result<Answer<LoginView>, Problem> {
    // Only existing accounts are named in the audit trail: other text could be a secret in the wrong field.
    let account =
        call.api.tenancy.directory().by_login(login).map(|account| AuditObject(account.id.to_string()));
    if let Some(pool) = pool.filter(|pool| !pool.is_empty()) {
        check_subdomain(pool).map_err(|error| Problem::invalid(format!("`pool`: {error}")))?;
    }
    let join = JoinWish { pool: pool.map(str::to_owned) };
    let told = call.api.tenancy.edge_login(login, secret, call.from(), join).await;
    let told = told.map_err(|error| Problem::from(error).about(account.clone()))?;
    let EdgeLogin { session, .. } = &told;
    // Login CSRF: a page of another site must not open a session without the user's knowledge.
    let cookie = session.as_ref().filter(|_| !call.from_another_site).map(|session| {
        let seconds = session.expires.duration_since(call.api.clock.now()).as_secs();
        cookie(&session.cookie, seconds, call.api.settings.secure())
    });
    let view = Answer::new(LoginView::of(told)).secret();
    let view = match account {
        Some(AuditObject(id)) => view.about(&id),
        None => view,
    };
    Ok(match cookie {
        Some(cookie) => view.cookie(&cookie),
        None => view,
    })
}

impl LoginView {
    fn of(told: EdgeLogin) -> Self {
        let time = |time: Option<Timestamp>| time.map(|time| time.to_string()).unwrap_or_default();
        Self {
            spec: Spec {
                kube_config: told.kube_config,
                node_add_script: told.node_add_script,
                valid_period: told.valid_period,
                max_node_num: told.max_node_num,
                namespace: told.namespace,
            },
            status: Status {
                node_num: told.node_num,
                effective_time: time(told.effective_time),
                expired: told.expired,
            },
        }
    }
}
