//! The doors of the platform, on one port.
//!
//! A handler unwraps a request, calls one function of a domain crate and dresses the answer; it decides nothing. Modules in
//! reading order: every route in one table ([`routes`]) and what a row of it is ([`route`], [`needs`]); what every request
//! passes ([`layers`]), the door before each handler ([`door`]: [`peer`], [`credentials`], [`params`], [`trail`],
//! [`until_revoked`], [`until_stopped`]); the memory that a caller may hold ([`budget`]); what a handler takes and gives ([`call`], [`query`], [`sent`], [`answer`], [`actions`], [`problem`], [`dialect`]); our own
//! routes ([`native`]) and those of the OpenYurt console ([`openyurt`]); who there is, told by one domain crate to another ([`people`]); how the process is doing ([`health`], [`metrics`]), what the API looks like ([`openapi`]).
//!
//! Always true: the router is made from the table and from nothing else, and every row stands behind its door.

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

/// What the handlers share.
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
    /// What callers may hold; see [`budget`].
    pub governor: Governor,
}

/// What the configuration says of the doors.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Settings {
    /// A proxy in front of us speaks TLS, and its word on where a request came from counts.
    pub trusted_proxy: bool,
    /// We speak TLS ourselves.
    pub tls: bool,
    /// The cluster is the one in this process, whose nodes are pretended.
    pub embedded: bool,
    /// Old clients of the OpenYurt console may send their token as a parameter.
    pub token_parameter: bool,
    /// Names by which clients reach the server, besides `localhost` and IP addresses.
    pub hosts: Vec<String>,
    pub version: &'static str,
}

impl Settings {
    /// Whether browsers reach us by TLS only, and so may keep the cookie for that.
    pub fn secure(&self) -> bool {
        self.tls || self.trusted_proxy
    }
}

impl Api {
    /// The one who asked, as they are known after what was just done.
    pub fn as_now(&self, actor: &Actor) -> Actor {
        let now = actor.id().and_then(|id| self.tenancy.directory().actor(id, actor.via.clone()));
        now.unwrap_or_else(|| actor.clone())
    }
}

/// Every route, behind its door and the layers that every request passes.
pub fn router(api: &Api) -> Router {
    router_of(api, routes::table())
}

/// The router of these rows. There is no other way into it than a row.
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
