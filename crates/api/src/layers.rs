//! What every request passes: an id, a limit, a time limit, a log line, and a net under panics.

use std::any::Any;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use serde_json::json;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::TimeoutLayer;
use uuid::Uuid;

use crate::Api;

/// Doors that take more say so themselves.
const BODY_LIMIT: usize = 3 * 1024 * 1024;
const TIMEOUT: Duration = Duration::from_mins(1);

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Wraps the routes, innermost first.
pub fn around(routes: Router, api: &Api) -> Router {
    routes
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, TIMEOUT))
        .layer(CatchPanicLayer::custom(after_panic))
        .layer(from_fn_with_state(api.clone(), count_and_log))
        .layer(from_fn(identify))
}

/// Gives every request an id, taken from the client where it sends a sensible one, and sends it back.
async fn identify(mut request: Request, next: Next) -> Response<Body> {
    let sensible = |id: &&HeaderValue| {
        id.len() <= 64 && id.as_bytes().iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
    };
    let id = match request.headers().get(&REQUEST_ID).filter(sensible) {
        Some(id) => id.clone(),
        None => HeaderValue::from_str(&Uuid::new_v4().to_string()).expect("a UUID is a header value"),
    };
    request.headers_mut().insert(REQUEST_ID.clone(), id.clone());
    let mut response = next.run(request).await;
    response.headers_mut().insert(REQUEST_ID.clone(), id);
    response
}

async fn count_and_log(state: axum::extract::State<Api>, request: Request, next: Next) -> Response<Body> {
    let started = Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let id = request.headers().get(&REQUEST_ID).cloned();
    let response = next.run(request).await;
    let (code, took) = (response.status(), started.elapsed());
    state.metrics.observe(&method, code, took);
    let id = id.as_ref().and_then(|id| id.to_str().ok()).unwrap_or_default();
    // Probes would drown everything else.
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

/// A panic is a defect of one request and stops nothing else. Its text stays in the log.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands the panic over")]
fn after_panic(panic: Box<dyn Any + Send + 'static>) -> Response<Body> {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("unknown"), "a request panicked");
    problem(StatusCode::INTERNAL_SERVER_ERROR, "an internal error; the log has more under this request's id")
}

/// Whatever no route answers.
pub async fn nothing_here(request: Request) -> Response<Body> {
    problem(StatusCode::NOT_FOUND, &format!("there is nothing at {}", request.uri().path()))
}

/// RFC 9457.
pub fn problem(code: StatusCode, detail: &str) -> Response<Body> {
    let title = code.canonical_reason().unwrap_or("Error");
    let body = json!({"type": "about:blank", "title": title, "status": code.as_u16(), "detail": detail});
    (code, [(CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;
    use crate::{Metrics, Readiness};

    fn api() -> Api {
        Api { readiness: Readiness::default(), metrics: Metrics::new("test", |_| {}) }
    }

    async fn status_of(routes: Router, path: &str) -> (StatusCode, bool) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = routes.oneshot(request).await.unwrap();
        (response.status(), response.headers().contains_key(&REQUEST_ID))
    }

    #[tokio::test]
    async fn a_panic_answers_500_and_the_next_request_is_served() {
        async fn broken() -> &'static str {
            panic!("broken on purpose")
        }
        let routes = around(
            Router::new().route("/broken", get(broken)).route("/fine", get(|| async { "fine" })),
            &api(),
        );
        assert_eq!(status_of(routes.clone(), "/broken").await, (StatusCode::INTERNAL_SERVER_ERROR, true));
        assert_eq!(status_of(routes, "/fine").await, (StatusCode::OK, true));
    }

    #[tokio::test]
    async fn readiness_is_503_until_every_part_is_up() {
        let api = api();
        api.readiness.require("store", || Err("not yet".to_owned()));
        let routes = crate::router(&api);
        assert_eq!(status_of(routes.clone(), "/readyz").await.0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status_of(routes.clone(), "/healthz").await.0, StatusCode::OK);
        api.readiness.require("store", || Ok(()));
        assert_eq!(status_of(routes.clone(), "/readyz").await.0, StatusCode::OK);
        assert_eq!(status_of(routes, "/nowhere").await.0, StatusCode::NOT_FOUND);
    }
}
