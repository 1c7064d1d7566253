//! Route guard before every handler: authentication, authorisation, memory limits and the audit record.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, HeaderName, HeaderValue, IF_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Response};
use axum::middleware::Next;
use axum::response::IntoResponse;
use domain::{Actor, Kind};
use events::audit::{Outcome, Record};
use tenancy::Error;

use crate::Api;
use crate::budget::Account;
use crate::call::{Entry, IDEMPOTENCY_KEY, only_known, params, query_of};
use crate::credentials::Credentials;
use crate::dialect::Dialect;
use crate::layers::request_id;
use crate::native::releases::AS_ADMINISTRATOR;
use crate::needs::Needs;
use crate::openyurt::form;
use crate::params::Params;
use crate::peer::{self, Peer};
use crate::problem::Problem;
use crate::trail::Trail;
use crate::until_revoked;

/// Default timeout until the response begins. Registration waits up to a minute for the objects that it creates.
pub const TIMEOUT: Duration = Duration::from_secs(75);

/// Response header on reads from the cache while the cluster is unreachable: seconds since the watch last reached it.
const STALE: HeaderName = HeaderName::from_static("x-longshore-stale");

/// The guard of one route: its row of the table and the shared state.
pub struct Door {
    pub api: Api,
    pub act: &'static str,
    pub needs: Needs,
    pub query: Option<&'static [&'static str]>,
    pub versioned: bool,
    pub once: bool,
    pub saying: Option<(&'static str, &'static str)>,
    pub dialect: Dialect,
    pub within: Duration,
    pub large: bool,
}

/// Authenticates and authorises a request, runs its handler within the timeout, and completes the audit record.
pub async fn pass(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response<Body> {
    let (mut parts, mut body) = request.into_parts();
    let mut token = door.dialect.token_in_query(&parts);
    let named = params(&mut parts).await;
    let peer = parts.extensions.get::<Peer>().copied();
    let from = peer::client(&parts.headers, peer, door.api.settings.trusted_proxy);
    let record = Record {
        time: door.api.clock.now(),
        who: None,
        via: None,
        act: door.act(&parts),
        option: said(&parts, AS_ADMINISTRATOR).then_some(AS_ADMINISTRATOR),
        object: named.as_ref().ok().and_then(Params::object),
        from,
        result: Outcome::Abandoned,
        status: None,
        request_id: request_id(&parts.headers).to_owned(),
    };
    let mut trail = Trail::begin(door.api.audit.clone(), &parts.method, record);
    let answer = async {
        let params = door.placed(named?);
        smuggles_nothing(&parts.headers)?;
        let near = peer::is_local(&parts.headers, peer);
        if token.is_none() && door.looks_into_body(&parts) {
            let account = Account::of(&door.api.governor, None, from);
            (body, token) = form::token(&parts.headers, body, account).await?;
        }
        let actor = door.recognise(&parts.method, &parts.headers, token.as_deref(), near).await?;
        if let Some(actor) = &actor {
            trail.recognised(actor);
            door.needs.ask(actor, &params)?;
        }
        params.check()?;
        door.understands(&parts)?;
        parts.extensions.insert(Entry { actor: actor.clone(), from, params });
        let response = if door.is_health() {
            next.run(Request::from_parts(parts, body)).await
        } else {
            let account = Account::of(&door.api.governor, actor.as_ref(), from);
            let admitted = account.admit(door.large).await?;
            let method = parts.method.clone();
            parts.extensions.insert(account.clone());
            let response = next.run(Request::from_parts(parts, body)).await;
            account.release();
            account.charge(response, admitted, &method)?
        };
        Ok::<_, Problem>(match actor {
            Some(actor) => door.keep(response, &actor),
            None => response,
        })
    };
    let answer = tokio::time::timeout(door.within, answer).await.unwrap_or_else(|_| {
        let detail = "it took too long; what was asked for may still have been done";
        Err(Problem::new(Kind::Timeout, "timeout", detail))
    });
    let mut response = door.dialect.phrase(answer.unwrap_or_else(IntoResponse::into_response));
    if token.is_some() {
        Dialect::deprecate(response.headers_mut());
    }
    trail.end(&response);
    response
}

impl Door {
    /// Health checks bypass the memory limits: a server whose callers exceed their limits is healthy.
    fn is_health(&self) -> bool {
        self.act.starts_with("health.")
    }

    /// The action id for the audit trail.
    fn act(&self, parts: &Parts) -> &'static str {
        self.saying.filter(|(word, _)| said(parts, word)).map_or(self.act, |(_, act)| act)
    }

    /// Resolves the owning workspace for paths that name only a namespace or a repository.
    fn placed(&self, params: Params) -> Params {
        let owner = match (params.has("workspace"), params.has("namespace")) {
            (true, _) => None,
            (false, true) => self.api.tenancy.directory().workspace_of(params.get("namespace")),
            (false, false) => releases::repos::workspace_of(params.get("repo")),
        };
        params.owned_by(owner)
    }

    /// Authenticates the caller; `None` if the route does not require it.
    async fn recognise(
        &self,
        method: &Method,
        headers: &HeaderMap,
        parameter: Option<&str>,
        near: bool,
    ) -> Result<Option<Actor>, Problem> {
        let open = self.needs.open(near);
        let credentials = match (self.dialect.credentials(headers), parameter) {
            (Credentials::None, Some(_)) if !open && !self.api.settings.token_parameter => {
                return Err(Problem::no_parameter());
            }
            (Credentials::None, Some(token)) => Credentials::Bearer(token),
            (shown, _) => shown,
        };
        match (self.needs, credentials) {
            // Browsers send cookies unasked: an expired session must not prevent signing in.
            (Needs::Nothing, _) | (Needs::Guest, Credentials::None) => Ok(None),
            (Needs::Guest, Credentials::Session { .. }) => {
                Ok(self.authenticate(credentials, method).await.ok())
            }
            (Needs::Nearby(_), _) if open => Ok(None),
            (_, Credentials::None) => Err(Problem::unauthenticated()),
            _ => Ok(Some(self.authenticate(credentials, method).await?)),
        }
    }

    /// Whether the token may be in the body.
    fn looks_into_body(&self, parts: &Parts) -> bool {
        self.dialect == Dialect::OpenYurt
            && !parts.method.is_safe()
            && !self.needs.open(false)
            && self.dialect.credentials(&parts.headers) == Credentials::None
    }

    async fn authenticate(&self, credentials: Credentials<'_>, method: &Method) -> Result<Actor, Error> {
        self.api.tenancy.authenticate(&credentials.presented(!method.is_safe())).await
    }

    /// Refuses query parameters, `If-Match` and `Idempotency-Key` that the route ignores: the client would believe them honoured.
    fn understands(&self, parts: &Parts) -> Result<(), Problem> {
        if !self.versioned && !parts.method.is_safe() && parts.headers.contains_key(IF_MATCH) {
            return Err(Problem::invalid(
                "`If-Match` is not taken here: what is changed has no version of its own",
            ));
        }
        if !self.once && parts.headers.contains_key(IDEMPOTENCY_KEY) {
            return Err(Problem::invalid("`Idempotency-Key` is not taken here"));
        }
        self.query.map_or(Ok(()), |known| only_known(parts, known))
    }

    /// Marks a response to an authenticated caller as private, and ends its body when the credential is revoked.
    fn keep(&self, mut response: Response<Body>, actor: &Actor) -> Response<Body> {
        let headers = response.headers_mut();
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("private, no-cache"));
        if let Some(stale) = self.api.tenancy.directory().stale_for() {
            headers.insert(STALE, stale.as_secs().into());
        }
        until_revoked::guard(response, self.api.tenancy.directory().until_revoked(actor))
    }
}

/// Whether a boolean query parameter is set.
fn said(parts: &Parts, word: &str) -> bool {
    query_of(parts).is_ok_and(|query| query.get(word).is_some_and(|value| value != "false"))
}

/// Refuses `Impersonate-*` headers from clients: only this server sets them.
fn smuggles_nothing(headers: &HeaderMap) -> Result<(), Problem> {
    let smuggled = headers.keys().any(|name| name.as_str().starts_with("impersonate-"));
    if smuggled {
        let detail = "`Impersonate-*` headers are not taken here";
        return Err(Problem::new(Kind::Invalid, "impersonation", detail));
    }
    Ok(())
}
