//! The doors of the platform, on one port.
//!
//! A handler unwraps a request, calls one function of a domain crate and dresses the answer; it decides
//! nothing. Modules in reading order: what every request passes ([`layers`]), how the process is doing
//! ([`health`], [`metrics`]), what the API looks like ([`openapi`]).

pub mod answer;
pub mod credentials;
pub mod health;
pub mod layers;
pub mod metrics;
pub mod needs;
pub mod openapi;
pub mod params;
pub mod peer;
pub mod problem;
pub mod sent;
pub mod trail;
pub mod until_revoked;

use axum::Router;
use axum::routing::get;

pub use health::Readiness;
pub use metrics::Metrics;
pub use peer::of_peer;

/// What the handlers share.
#[derive(Clone)]
pub struct Api {
    pub readiness: Readiness,
    pub metrics: Metrics,
}

/// Every route, behind the layers that every request passes.
pub fn router(api: &Api) -> Router {
    let routes = Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::show))
        .route("/openapi.json", get(openapi::document))
        .route("/docs", get(openapi::page))
        .fallback(layers::nothing_here)
        .with_state(api.clone());
    layers::around(routes, api)
}
