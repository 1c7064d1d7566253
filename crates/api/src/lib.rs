//! HTTP API of the platform, served on one port.
//!
//! A handler parses a request, calls one function of a domain crate and converts the result. It makes no decisions.
//!
//! Modules:
//! - [`routes`]: the route table; [`route`], [`requirement`]: the type of a row and its authorisation requirement
//! - [`middleware`]: middleware for every request; `origin`: `Host` and cross-site checks
//! - [`route_guard`]: the guard before each handler, with [`peer`], [`credentials`], [`params`], [`audit`], [`revocable_body`],
//!   [`graceful_shutdown`]
//! - [`budget`]: memory limits per caller
//! - [`request`], [`query`], [`body`]: request types; [`response`], [`allowed_actions`], [`problem`], [`flavour`]: response types
//! - [`native`]: native routes; [`openyurt`]: routes of the OpenYurt console
//! - [`tenant_directory`]: adapter from the tenancy directory to the traits of `releases`
//! - [`health`], [`metrics`]: probes and Prometheus metrics; [`openapi`]: the OpenAPI document; `pages`: pages for browsers
//!
//! Invariants: the router is built from the table only, and every row is behind its guard.

pub mod allowed_actions;
pub mod audit;
pub mod body;
pub mod budget;
pub mod credentials;
pub mod flavour;
pub mod graceful_shutdown;
pub mod health;
pub mod metrics;
pub mod middleware;
pub mod native;
pub mod openapi;
pub mod openyurt;
mod origin;
mod pages;
pub mod params;
pub mod peer;
pub mod problem;
pub mod query;
pub mod request;
pub mod requirement;
pub mod response;
pub mod revocable_body;
pub mod route;
pub mod route_guard;
pub mod routes;
pub mod tenant_directory;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use domain::Actor;
use domain::clock::Clock;
use events::audit::AuditRecordSink;
use fleet::Fleet;
use governor::Governor;
use releases::Releases;
use tenancy::Tenancy;

pub use health::ReadinessChecks;
pub use metrics::Metrics;
pub use peer::with_peer;
use route::Route;
use route_guard::RouteGuard;

/// State shared by all handlers.
#[derive(Clone)]
pub struct Api {
    pub readiness: ReadinessChecks,
    pub metrics: Metrics,
    pub tenancy: Tenancy,
    pub releases: Releases,
    pub fleet: Fleet,
    pub audit: Arc<dyn AuditRecordSink>,
    pub clock: Arc<dyn Clock>,
    pub settings: HttpSettings,
    /// Memory limits per caller; see [`budget`].
    pub governor: Governor,
}

/// HTTP settings from the configuration.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct HttpSettings {
    /// A proxy in front of this server terminates TLS. Its forwarding headers are trusted.
    pub trusted_proxy: bool,
    /// This server terminates TLS itself.
    pub tls: bool,
    /// The cluster is embedded in this process and its nodes are simulated.
    pub embedded: bool,
    /// Old clients of the OpenYurt console may send their token as a query parameter.
    pub token_parameter: bool,
    /// Names by which clients reach the server, besides `localhost` and IP addresses.
    pub hosts: Vec<String>,
    pub version: &'static str,
}

impl HttpSettings {
    /// Whether browsers reach this server by TLS only, so that cookies may be marked `Secure`.
    pub fn is_secure(&self) -> bool {
        self.tls || self.trusted_proxy
    }
}

impl Api {
    /// The caller with its current roles and memberships, after a change made by this request.
    pub fn refresh_actor(&self, actor: &Actor) -> Actor {
        let now =
            actor.user_id().and_then(|id| self.tenancy.directory().actor(id, actor.auth_method.clone()));
        now.unwrap_or_else(|| actor.clone())
    }
}

/// All routes, each behind its guard, wrapped in the common layers.
pub fn router(api: &Api) -> Router {
    router_with_routes(api, routes::table())
}

/// A router with these rows only.
pub fn router_with_routes(api: &Api, table: Vec<Route>) -> Router {
    let mut router = Router::new();
    for row in table {
        let Route {
            path,
            action: act,
            requirement: needs,
            query,
            accepts_if_match: versioned,
            accepts_idempotency_key: once,
            action_override: saying,
            flavour: dialect,
            timeout: within,
            is_large: large,
            handler,
            ..
        } = row;
        let guard = Arc::new(RouteGuard {
            api: api.clone(),
            action: act,
            requirement: needs,
            query,
            accepts_if_match: versioned,
            accepts_idempotency_key: once,
            action_override: saying,
            flavour: dialect,
            timeout: within,
            is_large: large,
        });
        router = router.route(path, handler.layer(from_fn_with_state(guard, route_guard::run)));
    }
    let router = router
        .fallback(middleware::not_found)
        .method_not_allowed_fallback(middleware::method_not_allowed)
        .with_state(api.clone());
    middleware::apply_layers(router, api)
}
