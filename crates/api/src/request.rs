//! A request as handlers see it: caller, client address, parameters and body.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::header::IF_MATCH;
use axum::http::request::Parts;
use domain::ids::UserId;
use domain::roles::Capability;
use domain::{AccessScope, Actor};
use releases::duration;
use releases::service::RequestPreconditions;

use crate::Api;
use crate::body::RequestBody;
use crate::credentials::session_cookie;
use crate::params::PathParams;
use crate::problem::{Problem, abbreviate};
use crate::response::{JsonResponse, ListResponse};

/// Header by which a client identifies a retried request.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Header in which a browser states whether the requesting page is of the same site.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Findings of the route guard, passed to the handler as a request extension.
#[derive(Clone)]
pub struct RequestContext {
    pub actor: Option<Actor>,
    pub client_ip: Option<IpAddr>,
    pub params: PathParams,
}

/// An authorised request. `B` is its body.
pub struct ApiRequest<B = ()> {
    pub api: Api,
    pub params: PathParams,
    /// The version in `If-Match`.
    pub if_match: Option<String>,
    /// The value of `Idempotency-Key`.
    pub idempotency_key: Option<String>,
    /// The session cookie, whether or not the request was authenticated by it.
    pub session_cookie: Option<String>,
    /// The browser reports a page of another site (`Sec-Fetch-Site: cross-site`).
    pub is_cross_site: bool,
    pub body: B,
    actor: Option<Actor>,
    client_ip: Option<IpAddr>,
    query: BTreeMap<String, String>,
}

impl<B: RequestBody> ApiRequest<B> {
    pub async fn read(api: Api, request: Request) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let entry = parts.extensions.remove::<RequestContext>().unwrap_or_else(|| RequestContext {
            actor: None,
            client_ip: None,
            params: PathParams::default(),
        });
        let query = parse_query(&parts)?;
        let expected = if_match(&parts)?;
        let key = idempotency_key(&parts)?;
        let session_cookie = session_cookie(&parts.headers).map(str::to_owned);
        let from_another_site =
            parts.headers.get(SEC_FETCH_SITE).is_some_and(|site| site.as_bytes() == b"cross-site");
        let body = B::read(Request::from_parts(parts, body)).await?;
        let RequestContext { actor, client_ip: from, params } = entry;
        Ok(Self {
            api,
            params,
            if_match: expected,
            idempotency_key: key,
            session_cookie,
            is_cross_site: from_another_site,
            body,
            actor,
            client_ip: from,
            query,
        })
    }
}

impl<B> ApiRequest<B> {
    /// The caller, on routes that require authentication.
    pub fn actor(&self) -> Result<&Actor, Problem> {
        self.actor.as_ref().ok_or_else(Problem::unauthenticated)
    }

    /// The caller if authenticated, on routes with optional authentication.
    pub fn optional_actor(&self) -> Option<&Actor> {
        self.actor.as_ref()
    }

    /// The client's IP address. Requests without one share the limits of `0.0.0.0`.
    pub fn client_ip(&self) -> IpAddr {
        self.client_ip.unwrap_or(IpAddr::from([0, 0, 0, 0]))
    }

    /// The account in `{user}`: `me`, an id, or, for callers that may read every account, its name or login name.
    pub fn user(&self) -> Result<UserId, Problem> {
        let (actor, text) = (self.actor()?, self.params.get("user"));
        if let Some(own) = actor.user_id().filter(|_| self.params.is_self(actor)) {
            return Ok(own.clone());
        }
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        // To other callers the response would reveal whether an account exists.
        let sees_all = actor.authorize(Capability::ReadUsers, AccessScope::Platform).is_ok();
        let account =
            self.api.tenancy.directory().find_by_login(text).filter(|account| {
                sees_all && (account.name == text || account.login.as_deref() == Some(text))
            });
        account.map(|account| account.id.clone()).ok_or_else(|| Problem::not_found("user", text))
    }

    /// A list with the current time and the age of the cache.
    pub fn list<T>(&self, items: Vec<T>) -> JsonResponse<ListResponse<T>> {
        ListResponse::new(items, self.api.clock.now(), self.stale_seconds())
    }

    /// Seconds since the watch last reached the cluster; `None` while it is connected.
    pub fn stale_seconds(&self) -> Option<u64> {
        self.api.tenancy.directory().stale_for().map(|stale| stale.as_secs())
    }

    /// The value of a query parameter; `None` if it is absent or empty.
    pub fn query_param(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// The value of a query parameter, even if empty.
    pub fn raw_query_param(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    /// A duration in the query, such as `10m`. Zero and values above `most` are refused.
    pub fn duration_param(&self, name: &str, most: Duration) -> Result<Option<Duration>, Problem> {
        let read = |text: &str| {
            let length = duration::parse(text).filter(|length| *length <= most && !length.is_zero());
            length.ok_or_else(|| {
                let most = most.as_secs() / 60;
                Problem::invalid(format!(
                    "query parameter `{name}` must be a duration such as `90s`, of at most {most} minutes"
                ))
            })
        };
        self.query_param(name).map(read).transpose()
    }

    /// A number in the query.
    pub fn number_param<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let read = |text: &str| {
            text.parse().map_err(|_| Problem::invalid(format!("query parameter `{name}` must be a number")))
        };
        self.query_param(name).map(read).transpose()
    }

    /// Preconditions from the request's headers.
    pub fn preconditions(&self) -> RequestPreconditions<'_> {
        RequestPreconditions {
            if_match: self.if_match.as_deref(),
            idempotency_key: self.idempotency_key.as_deref(),
            as_administrator: false,
        }
    }

    /// A boolean query parameter: `?now` and `?now=true` are true.
    pub fn bool_param(&self, name: &str) -> Result<bool, Problem> {
        match self.query.get(name).map(String::as_str) {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(_) => Err(Problem::invalid(format!("query parameter `{name}` must be true or false"))),
        }
    }
}

/// The query as a map. The last value of a repeated parameter wins.
pub fn parse_query(parts: &Parts) -> Result<BTreeMap<String, String>, Problem> {
    let read = axum::extract::Query::<BTreeMap<String, String>>::try_from_uri(&parts.uri);
    read.map(|query| query.0).map_err(|_| Problem::invalid("malformed query string"))
}

/// Refuses query parameters that are not in `known`.
pub fn reject_unknown_params(parts: &Parts, known: &[&str]) -> Result<(), Problem> {
    match parse_query(parts)?.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(Problem::invalid(format!("unknown query parameter `{}`", abbreviate(name)))),
        None => Ok(()),
    }
}

/// `If-Match`: one version in quotes. `*` matches any version.
fn if_match(parts: &Parts) -> Result<Option<String>, Problem> {
    let Some(value) = parts.headers.get(IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let version = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match version {
        Some(version) if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            Ok(Some(version.to_owned()))
        }
        _ => Err(Problem::invalid("`If-Match` must be one version in quotes, as returned in `ETag`")),
    }
}

/// `Idempotency-Key`: non-empty text of up to 255 bytes.
fn idempotency_key(parts: &Parts) -> Result<Option<String>, Problem> {
    let Some(value) = parts.headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    match value.to_str() {
        Ok(text) if !text.trim().is_empty() && text.len() <= 255 => Ok(Some(text.trim().to_owned())),
        _ => Err(Problem::invalid("`Idempotency-Key` must have at most 255 characters")),
    }
}

/// The path parameters, as the route guard reads them.
pub async fn path_params(parts: &mut Parts) -> Result<PathParams, Problem> {
    let raw = RawPathParams::from_request_parts(parts, &()).await;
    raw.map(|raw| PathParams::from_raw(&raw)).map_err(|_| Problem::invalid("the path is not valid UTF-8"))
}
