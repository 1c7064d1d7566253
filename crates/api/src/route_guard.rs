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
use domain::{Actor, ErrorKind};
use events::audit::{AuditOutcome, AuditRecord};
use tenancy::Error;

use crate::Api;
use crate::audit::AuditGuard;
use crate::budget::RequestBudget;
use crate::credentials::HeaderCredentials;
use crate::flavour::ApiFlavour;
use crate::middleware::request_id;
use crate::native::releases::AS_ADMINISTRATOR_PARAM;
use crate::openyurt::form_body;
use crate::params::PathParams;
use crate::peer::{self, PeerAddr};
use crate::problem::Problem;
use crate::request::{IDEMPOTENCY_KEY, RequestContext, parse_query, path_params, reject_unknown_params};
use crate::requirement::Requirement;
use crate::revocable_body;

/// Default timeout until the response begins. Registration waits up to a minute for the objects that it creates.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(75);

/// Response header on reads from the cache while the cluster is unreachable: seconds since the watch last reached it.
const STALE_HEADER: HeaderName = HeaderName::from_static("x-longshore-stale");

/// The guard of one route: its row of the table and the shared state.
pub struct RouteGuard {
    pub api: Api,
    pub action: &'static str,
    pub requirement: Requirement,
    pub query: Option<&'static [&'static str]>,
    pub accepts_if_match: bool,
    pub accepts_idempotency_key: bool,
    pub action_override: Option<(&'static str, &'static str)>,
    pub flavour: ApiFlavour,
    pub timeout: Duration,
    pub is_large: bool,
}

/// Authenticates and authorises a request, runs its handler within the timeout, and completes the audit record.
pub async fn run(State(guard): State<Arc<RouteGuard>>, request: Request, next: Next) -> Response<Body> {
    let (mut parts, mut body) = request.into_parts();
    let mut token = guard.flavour.query_token(&parts);
    let path_params = path_params(&mut parts).await;
    let peer = parts.extensions.get::<PeerAddr>().copied();
    let from = peer::client_ip(&parts.headers, peer, guard.api.settings.trusted_proxy);
    let record = AuditRecord {
        time: guard.api.clock.now(),
        who: None,
        via: None,
        act: guard.audit_action(&parts),
        option: has_param(&parts, AS_ADMINISTRATOR_PARAM).then_some(AS_ADMINISTRATOR_PARAM),
        object: path_params.as_ref().ok().and_then(PathParams::audit_object),
        from,
        result: AuditOutcome::Abandoned,
        status: None,
        request_id: request_id(&parts.headers).to_owned(),
    };
    let mut audit = AuditGuard::start(guard.api.audit.clone(), &parts.method, record);
    let handled = async {
        let params = guard.with_owner(path_params?);
        reject_impersonation_headers(&parts.headers)?;
        let is_local = peer::is_local(&parts.headers, peer);
        if token.is_none() && guard.may_have_body_token(&parts) {
            let account = RequestBudget::for_caller(&guard.api.governor, None, from);
            (body, token) = form_body::extract_token(&parts.headers, body, account).await?;
        }
        let actor =
            guard.authenticate_if_required(&parts.method, &parts.headers, token.as_deref(), is_local).await?;
        if let Some(actor) = &actor {
            audit.set_actor(actor);
            guard.requirement.check(actor, &params)?;
        }
        params.validate()?;
        guard.reject_unsupported(&parts)?;
        parts.extensions.insert(RequestContext { actor: actor.clone(), client_ip: from, params });
        let response = if guard.is_health() {
            next.run(Request::from_parts(parts, body)).await
        } else {
            let account = RequestBudget::for_caller(&guard.api.governor, actor.as_ref(), from);
            let admitted = account.admit(guard.is_large).await?;
            let method = parts.method.clone();
            parts.extensions.insert(account.clone());
            let response = next.run(Request::from_parts(parts, body)).await;
            account.release_body();
            account.charge(response, admitted, &method)?
        };
        Ok::<_, Problem>(match actor {
            Some(actor) => guard.protect_response(response, &actor),
            None => response,
        })
    };
    let handled = tokio::time::timeout(guard.timeout, handled).await.unwrap_or_else(|_| {
        let detail = "timeout; the request may still have taken effect";
        Err(Problem::new(ErrorKind::Timeout, "timeout", detail))
    });
    let mut response = guard.flavour.rewrite_error(handled.unwrap_or_else(IntoResponse::into_response));
    if token.is_some() {
        ApiFlavour::mark_deprecated(response.headers_mut());
    }
    audit.finish(&response);
    response
}

impl RouteGuard {
    /// Health checks bypass the memory limits: a server whose callers exceed their limits is healthy.
    fn is_health(&self) -> bool {
        self.action.starts_with("health.")
    }

    /// The action id for the audit trail.
    fn audit_action(&self, parts: &Parts) -> &'static str {
        self.action_override.filter(|(word, _)| has_param(parts, word)).map_or(self.action, |(_, act)| act)
    }

    /// Resolves the owning workspace for paths that name only a namespace or a repository.
    fn with_owner(&self, params: PathParams) -> PathParams {
        let owner = match (params.has("workspace"), params.has("namespace")) {
            (true, _) => None,
            (false, true) => self.api.tenancy.directory().workspace_of(params.get("namespace")),
            (false, false) => releases::repos::workspace_of(params.get("repo")),
        };
        params.owned_by(owner)
    }

    /// Authenticates the caller; `None` if the route does not require it.
    async fn authenticate_if_required(
        &self,
        method: &Method,
        headers: &HeaderMap,
        parameter: Option<&str>,
        near: bool,
    ) -> Result<Option<Actor>, Problem> {
        let open = self.requirement.allows_anonymous(near);
        let credentials = match (self.flavour.credentials(headers), parameter) {
            (HeaderCredentials::None, Some(_)) if !open && !self.api.settings.token_parameter => {
                return Err(Problem::token_param_disabled());
            }
            (HeaderCredentials::None, Some(token)) => HeaderCredentials::Bearer(token),
            (shown, _) => shown,
        };
        match (self.requirement, credentials) {
            // Browsers send cookies unasked: an expired session must not prevent signing in.
            (Requirement::Public, _) | (Requirement::OptionalUser, HeaderCredentials::None) => Ok(None),
            (Requirement::OptionalUser, HeaderCredentials::Session { .. }) => {
                Ok(self.authenticate(credentials, method).await.ok())
            }
            (Requirement::LocalOr(_), _) if open => Ok(None),
            (_, HeaderCredentials::None) => Err(Problem::unauthenticated()),
            _ => Ok(Some(self.authenticate(credentials, method).await?)),
        }
    }

    /// Whether the token may be in the body.
    fn may_have_body_token(&self, parts: &Parts) -> bool {
        self.flavour == ApiFlavour::OpenYurt
            && !parts.method.is_safe()
            && !self.requirement.allows_anonymous(false)
            && self.flavour.credentials(&parts.headers) == HeaderCredentials::None
    }

    async fn authenticate(
        &self,
        credentials: HeaderCredentials<'_>,
        method: &Method,
    ) -> Result<Actor, Error> {
        self.api.tenancy.authenticate(&credentials.to_request_credentials(!method.is_safe())).await
    }

    /// Refuses query parameters, `If-Match` and `Idempotency-Key` that the route ignores: the client would believe them honoured.
    fn reject_unsupported(&self, parts: &Parts) -> Result<(), Problem> {
        if !self.accepts_if_match && !parts.method.is_safe() && parts.headers.contains_key(IF_MATCH) {
            return Err(Problem::invalid(
                "`If-Match` is not supported for this request: the object has no version",
            ));
        }
        if !self.accepts_idempotency_key && parts.headers.contains_key(IDEMPOTENCY_KEY) {
            return Err(Problem::invalid("`Idempotency-Key` is not supported for this request"));
        }
        self.query.map_or(Ok(()), |known| reject_unknown_params(parts, known))
    }

    /// Marks a response to an authenticated caller as private, and ends its body when the credential is revoked.
    fn protect_response(&self, mut response: Response<Body>, actor: &Actor) -> Response<Body> {
        let headers = response.headers_mut();
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("private, no-cache"));
        if let Some(stale) = self.api.tenancy.directory().stale_for() {
            headers.insert(STALE_HEADER, stale.as_secs().into());
        }
        revocable_body::close_on_revocation(response, self.api.tenancy.directory().wait_until_revoked(actor))
    }
}

/// Whether a boolean query parameter is set.
fn has_param(parts: &Parts, word: &str) -> bool {
    parse_query(parts).is_ok_and(|query| query.get(word).is_some_and(|value| value != "false"))
}

/// Refuses `Impersonate-*` headers from clients: only this server sets them.
fn reject_impersonation_headers(headers: &HeaderMap) -> Result<(), Problem> {
    let smuggled = headers.keys().any(|name| name.as_str().starts_with("impersonate-"));
    if smuggled {
        let detail = "`Impersonate-*` headers are refused";
        return Err(Problem::new(ErrorKind::Invalid, "impersonation", detail));
    }
    Ok(())
}
