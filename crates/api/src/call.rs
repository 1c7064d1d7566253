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
use domain::{Actor, Place};
use releases::acts::Asked;
use releases::duration;

use crate::Api;
use crate::answer::{Answer, List};
use crate::credentials::session_cookie;
use crate::params::Params;
use crate::problem::{Problem, shortened};
use crate::sent::Takes;

/// Header by which a client identifies a retried request.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Header by which a browser tells the site of the requesting page.
const FETCH_SITE: &str = "sec-fetch-site";

/// Findings of the route guard, passed to the handler as a request extension.
#[derive(Clone)]
pub struct Entry {
    pub actor: Option<Actor>,
    pub from: Option<IpAddr>,
    pub params: Params,
}

/// An authorised request. `B` is its body.
pub struct Call<B = ()> {
    pub api: Api,
    pub params: Params,
    /// The version in `If-Match`.
    pub expected: Option<String>,
    /// The value of `Idempotency-Key`.
    pub key: Option<String>,
    /// The session cookie, whether or not the request was authenticated by it.
    pub session_cookie: Option<String>,
    /// The browser reports a page of another site (`Sec-Fetch-Site: cross-site`).
    pub from_another_site: bool,
    pub body: B,
    actor: Option<Actor>,
    from: Option<IpAddr>,
    query: BTreeMap<String, String>,
}

impl<B: Takes> Call<B> {
    pub async fn read(api: Api, request: Request) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let entry = parts.extensions.remove::<Entry>().unwrap_or_else(|| Entry {
            actor: None,
            from: None,
            params: Params::default(),
        });
        let query = query_of(&parts)?;
        let expected = expected(&parts)?;
        let key = key(&parts)?;
        let session_cookie = session_cookie(&parts.headers).map(str::to_owned);
        let from_another_site =
            parts.headers.get(FETCH_SITE).is_some_and(|site| site.as_bytes() == b"cross-site");
        let body = B::read(Request::from_parts(parts, body)).await?;
        let Entry { actor, from, params } = entry;
        Ok(Self { api, params, expected, key, session_cookie, from_another_site, body, actor, from, query })
    }
}

impl<B> Call<B> {
    /// The caller, on routes that require authentication.
    pub fn actor(&self) -> Result<&Actor, Problem> {
        self.actor.as_ref().ok_or_else(Problem::unauthenticated)
    }

    /// The caller if authenticated, on routes with optional authentication.
    pub fn guest(&self) -> Option<&Actor> {
        self.actor.as_ref()
    }

    /// The client's IP address. Requests without one share the limits of `0.0.0.0`.
    pub fn from(&self) -> IpAddr {
        self.from.unwrap_or(IpAddr::from([0, 0, 0, 0]))
    }

    /// The account in `{user}`: `me`, an id, or, for callers that may read every account, its name or login name.
    pub fn user(&self) -> Result<UserId, Problem> {
        let (actor, text) = (self.actor()?, self.params.get("user"));
        if let Some(own) = actor.id().filter(|_| self.params.is_self(actor)) {
            return Ok(own.clone());
        }
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        // To other callers the response would reveal whether an account exists.
        let sees_all = actor.may(Capability::ReadUsers, Place::Platform).is_ok();
        let account =
            self.api.tenancy.directory().by_login(text).filter(|account| {
                sees_all && (account.name == text || account.login.as_deref() == Some(text))
            });
        account.map(|account| account.id.clone()).ok_or_else(|| Problem::not_found("user", text))
    }

    /// A list with the current time and the age of the cache.
    pub fn list<T>(&self, items: Vec<T>) -> Answer<List<T>> {
        List::new(items, self.api.clock.now(), self.stale())
    }

    /// Seconds since the watch last reached the cluster; `None` while it is connected.
    pub fn stale(&self) -> Option<u64> {
        self.api.tenancy.directory().stale_for().map(|stale| stale.as_secs())
    }

    /// The value of a query parameter; `None` if it is absent or empty.
    pub fn said(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// The value of a query parameter, even if empty.
    pub fn given(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    /// A duration in the query, such as `10m`. Zero and values above `most` are refused.
    pub fn length(&self, name: &str, most: Duration) -> Result<Option<Duration>, Problem> {
        let read = |text: &str| {
            let length = duration::parse(text).filter(|length| *length <= most && !length.is_zero());
            length.ok_or_else(|| {
                let most = most.as_secs() / 60;
                Problem::invalid(format!(
                    "`{name}` in the query is a length of time such as `90s`, of at most {most} minutes"
                ))
            })
        };
        self.said(name).map(read).transpose()
    }

    /// A number in the query.
    pub fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let read = |text: &str| {
            text.parse().map_err(|_| Problem::invalid(format!("`{name}` in the query is a number")))
        };
        self.said(name).map(read).transpose()
    }

    /// Preconditions from the request's headers.
    pub fn asked(&self) -> Asked<'_> {
        Asked { seen: self.expected.as_deref(), key: self.key.as_deref(), as_administrator: false }
    }

    /// A boolean query parameter: `?now` and `?now=true` are true.
    pub fn asks(&self, name: &str) -> Result<bool, Problem> {
        match self.query.get(name).map(String::as_str) {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(_) => Err(Problem::invalid(format!("`{name}` in the query is true or false"))),
        }
    }
}

/// The query as a map. The last value of a repeated parameter wins.
pub fn query_of(parts: &Parts) -> Result<BTreeMap<String, String>, Problem> {
    let read = axum::extract::Query::<BTreeMap<String, String>>::try_from_uri(&parts.uri);
    read.map(|query| query.0).map_err(|_| Problem::invalid("the query cannot be read"))
}

/// Refuses query parameters that are not in `known`.
pub fn only_known(parts: &Parts, known: &[&str]) -> Result<(), Problem> {
    match query_of(parts)?.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(Problem::invalid(format!("the query takes no `{}` here", shortened(name)))),
        None => Ok(()),
    }
}

/// `If-Match`: one version in quotes. `*` matches any version.
fn expected(parts: &Parts) -> Result<Option<String>, Problem> {
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
        _ => Err(Problem::invalid("`If-Match` takes one version in quotes, as `ETag` has it")),
    }
}

/// `Idempotency-Key`: non-empty text of up to 255 bytes.
fn key(parts: &Parts) -> Result<Option<String>, Problem> {
    let Some(value) = parts.headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    match value.to_str() {
        Ok(text) if !text.trim().is_empty() && text.len() <= 255 => Ok(Some(text.trim().to_owned())),
        _ => Err(Problem::invalid("`Idempotency-Key` takes a text of up to 255 characters")),
    }
}

/// The path parameters, as the route guard reads them.
pub async fn params(parts: &mut Parts) -> Result<Params, Problem> {
    let raw = RawPathParams::from_request_parts(parts, &()).await;
    raw.map(|raw| Params::of(&raw)).map_err(|_| Problem::invalid("the path is not well-formed UTF-8"))
}
