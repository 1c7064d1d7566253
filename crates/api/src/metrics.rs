//! Prometheus metrics of the process.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::Api;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    code: u16,
}

/// Metrics of the HTTP server, and the registry to which other components add theirs.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    requests: Family<RequestLabels, Counter>,
    duration: Histogram,
}

impl Metrics {
    /// Creates the registry. `add` registers the metrics of other components.
    pub fn new(version: &'static str, register: impl FnOnce(&mut Registry)) -> Self {
        let mut registry = Registry::with_prefix("longshore");
        registry.register("build", "Version of the server", Info::new(vec![("version", version)]));
        let requests = Family::<RequestLabels, Counter>::default();
        registry.register("http_requests", "HTTP responses by method and status", requests.clone());
        let duration = Histogram::new(exponential_buckets(0.000_5, 4.0, 9));
        registry.register("http_request_duration_seconds", "Time from request to response", duration.clone());
        register(&mut registry);
        Self { registry: Arc::new(registry), requests, duration }
    }

    pub fn observe(&self, method: &Method, code: StatusCode, elapsed: Duration) {
        let labels = RequestLabels { method: method.as_str().to_owned(), code: code.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.duration.observe(elapsed.as_secs_f64());
    }
}

/// `GET /metrics`
pub async fn scrape(State(api): State<Api>) -> impl IntoResponse {
    let mut text = String::new();
    match encode(&mut text, &api.metrics.registry) {
        Ok(()) => {
            let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            (StatusCode::OK, [(CONTENT_TYPE, content_type)], text)
        }
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            [(CONTENT_TYPE, "text/plain")],
            format!("cannot encode: {error}"),
        ),
    }
}
