//! HTTP API of the platform, served on one port.
//!
//! A handler parses a request, calls one function of a domain crate and converts the result. It makes no decisions.
//!
//! Modules:
//! - [`routes`]: the route table; [`route`], [`needs`]: the type of a row and its authorisation requirement
//! - [`layers`]: middleware for every request; `origin`: `Host` and cross-site checks
//! - [`door`]: the guard before each handler, with [`peer`], [`credentials`], [`params`], [`trail`], [`until_revoked`], [`until_stopped`]
//! - [`budget`]: memory limits per caller
//! - [`call`], [`query`], [`sent`]: request types; [`answer`], [`actions`], [`problem`], [`dialect`]: response types
//! - [`native`]: native routes; [`openyurt`]: routes of the OpenYurt console
//! - [`people`]: adapter from the tenancy directory to the traits of `releases`
//! - [`health`], [`metrics`]: probes and Prometheus metrics; [`openapi`]: the OpenAPI document
//!
//! Invariants: the router is built from the table only, and every row is behind its guard.

pub mod actions;
pub mod answer;
pub mod budget;
pub mod call;
pub mod credentials;
pub mod dialect;
pub mod door;
pub mod health;
pub mod layers;
pub mod metrics;
pub mod native;
pub mod needs;
pub mod openapi;
pub mod openyurt;
mod origin;
pub mod params;
pub mod peer;
pub mod people;
pub mod problem;
pub mod query;
pub mod route;
pub mod routes;
pub mod sent;
pub mod trail;
pub mod until_revoked;
pub mod until_stopped;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use domain::Actor;
use domain::clock::Clock;
use events::audit::Sink;
use fleet::Fleet;
use governor::Governor;
use releases::Releases;
use tenancy::Tenancy;

use door::Door;
pub use health::Readiness;
pub use metrics::Metrics;
pub use peer::of_peer;
use route::Route;

/// State shared by all handlers.
#[derive(Clone)]
pub struct Api {
    pub readiness: Readiness,
    pub metrics: Metrics,
    pub tenancy: Tenancy,
    pub releases: Releases,
    pub fleet: Fleet,
    pub audit: Arc<dyn Sink>,
    pub clock: Arc<dyn Clock>,
    pub settings: Settings,
    /// Memory limits per caller; see [`budget`].
    pub governor: Governor,
}

/// HTTP settings from the configuration.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Settings {
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

impl Settings {
    /// Whether browsers reach this server by TLS only, so that cookies may be marked `Secure`.
    pub fn secure(&self) -> bool {
        self.tls || self.trusted_proxy
    }
}

impl Api {
    /// The caller with its current roles and memberships, after a change made by this request.
    pub fn as_now(&self, actor: &Actor) -> Actor {
        let now = actor.id().and_then(|id| self.tenancy.directory().actor(id, actor.via.clone()));
        now.unwrap_or_else(|| actor.clone())
    }
}

/// All routes, each behind its guard, wrapped in the common layers.
pub fn router(api: &Api) -> Router {
    router_of(api, routes::table())
}

/// A router with these rows only.
pub fn router_of(api: &Api, table: Vec<Route>) -> Router {
    let mut router = Router::new();
    for row in table {
        let Route {
            path, act, needs, query, versioned, once, saying, dialect, within, large, handler, ..
        } = row;
        let door = Arc::new(Door {
            api: api.clone(),
            act,
            needs,
            query,
            versioned,
            once,
            saying,
            dialect,
            within,
            large,
        });
        router = router.route(path, handler.layer(from_fn_with_state(door, door::pass)));
    }
    let router = router
        .fallback(layers::nothing_here)
        .method_not_allowed_fallback(layers::not_that_way)
        .with_state(api.clone());
    layers::around(router, api)
}
