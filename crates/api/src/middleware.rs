//! Middleware for every request, before routing: request id, access log, security headers, panic handler.

use std::any::Any;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use domain::ErrorKind;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument;
use uuid::Uuid;

use crate::Api;
use crate::origin;
use crate::problem::{Problem, abbreviate};

/// Default body limit. Routes with larger bodies set their own.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Default headers of responses that do not set them.
#[rustfmt::skip]
static DEFAULT_HEADERS: [(HeaderName, &str); 6] = [
    (X_CONTENT_TYPE_OPTIONS,  "nosniff"),
    (REFERRER_POLICY,         "no-referrer"),
    (X_FRAME_OPTIONS,         "DENY"),
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Wraps the routes in the layers, innermost first.
pub fn apply_layers(routes: Router, api: &Api) -> Router {
    routes
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(CatchPanicLayer::custom(panic_response))
        .layer(from_fn_with_state(api.clone(), origin::check_origin))
        .layer(from_fn(set_default_headers))
        .layer(from_fn_with_state(api.clone(), record_metrics_and_log))
        .layer(from_fn(set_request_id))
}

/// Sets the request id, taken from the client's header if valid, and returns it in the response.
async fn set_request_id(mut request: Request, next: Next) -> Response<Body> {
    let sensible = |id: &&HeaderValue| {
        id.len() <= 64 && id.as_bytes().iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
    };
    let id = match request.headers().get(&X_REQUEST_ID).filter(sensible) {
        Some(id) => id.clone(),
        None => HeaderValue::from_str(&Uuid::new_v4().to_string()).expect("a UUID is a header value"),
    };
    request.headers_mut().insert(X_REQUEST_ID.clone(), id.clone());
    let mut response = next.run(request).await;
    response.headers_mut().insert(X_REQUEST_ID.clone(), id);
    response
}

/// The id of a request that has passed [`apply_layers`].
pub fn request_id(headers: &HeaderMap) -> &str {
    headers.get(&X_REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default()
}

async fn record_metrics_and_log(State(api): State<Api>, request: Request, next: Next) -> Response<Body> {
    let started = Instant::now();
    let (method, path) = (request.method().clone(), loggable_path(request.uri().path()));
    let id = request_id(request.headers()).to_owned();
    let span = tracing::info_span!("request", request.id = id);
    let response = next.run(request).instrument(span).await;
    let (code, took) = (response.status(), started.elapsed());
    api.metrics.observe(&method, code, took);
    // Successful probes are not logged: they would outnumber all other entries.
    if matches!(path.as_str(), "/healthz" | "/readyz" | "/metrics")
        && code.is_success()
        && method == Method::GET
    {
        tracing::trace!(http.method = %method, http.path = path, http.status = code.as_u16(), request.id = id, ?took);
    } else {
        tracing::info!(http.method = %method, http.path = path, http.status = code.as_u16(), request.id = id, ?took);
    }
    response
}

/// A path for the log: without the query, and without tokens in path segments.
fn loggable_path(path: &str) -> String {
    let segment = |text: &str| if text.contains("lsh_") { "…".to_owned() } else { abbreviate(text) };
    truncate_chars(&path.split('/').map(segment).collect::<Vec<_>>().join("/"), 512)
}

fn truncate_chars(text: &str, limit: usize) -> String {
    text.chars().take(limit).collect()
}

async fn set_default_headers(request: Request, next: Next) -> Response<Body> {
    let mut response = next.run(request).await;
    for (name, value) in &DEFAULT_HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Converts a panic to a 500 response. Other requests are unaffected. The panic message goes to the log only.
#[expect(clippy::needless_pass_by_value, reason = "required by the layer")]
fn panic_response(panic: Box<dyn Any + Send + 'static>) -> Response<Body> {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("unknown"), "a request panicked");
    let detail = "internal error; see the server log for this request id";
    Problem::new(ErrorKind::Internal, "internal", detail).into_response()
}

/// 404 for paths without a route.
pub async fn not_found(request: Request) -> Problem {
    let path = truncate_chars(request.uri().path(), 128);
    Problem::new(ErrorKind::NotFound, "no-route", format!("path {path} not found"))
}

/// 405 for a path that exists under other methods.
pub async fn method_not_allowed(request: Request) -> Problem {
    let detail = format!("method {} not allowed", request.method());
    Problem::with_status(StatusCode::METHOD_NOT_ALLOWED, "method", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loggable_path_hides_tokens_and_limits_length() {
        assert_eq!(loggable_path("/api/tokens/lsh_abc_secret/x"), "/api/tokens/…/x");
        assert!(loggable_path(&format!("/{}", "x".repeat(10_000))).len() < 300);
        assert!(loggable_path(&"/x".repeat(10_000)).len() <= 512);
    }
}
