//! Rows of the route table, and conversion of handlers to rows.
//!
//! Request and response types are taken from the handler's signature, so that the OpenAPI document cannot differ from the code.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::Api;
use crate::body::{RequestBody, RequestBodySpec, SchemaFn};
use crate::flavour::ApiFlavour;
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::requirement::Requirement;
use crate::response::ApiResponse;
use crate::route_guard;

/// One route: method, path, requirement, parameters, request and response types, handler.
#[must_use]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    /// Action id in the audit trail.
    pub action: &'static str,
    pub requirement: Requirement,
    pub summary: &'static str,
    /// Accepted query parameters; `None` if the query is not checked.
    pub query: Option<&'static [&'static str]>,
    /// Whether the route accepts `If-Match`.
    pub accepts_if_match: bool,
    /// Whether the route accepts `Idempotency-Key`.
    pub accepts_idempotency_key: bool,
    /// Query parameter that changes the action id, and that id.
    pub action_override: Option<(&'static str, &'static str)>,
    /// API flavour.
    pub flavour: ApiFlavour,
    /// Timeout until the response begins.
    pub timeout: Duration,
    /// Whether responses may have megabytes. Concurrency of these routes is limited.
    pub is_large: bool,
    pub request_body: Option<RequestBodySpec>,
    pub response: ResponseSpec,
    pub handler: MethodRouter<Api>,
}

impl Route {
    /// Accepts these query parameters.
    pub fn with_query(self, query: &'static [&'static str]) -> Self {
        Self { query: Some(query), ..self }
    }

    /// Accepts `Idempotency-Key`: a retry with the same key takes effect once.
    pub fn idempotent(self) -> Self {
        Self { accepts_idempotency_key: true, ..self }
    }

    /// Uses the action id `act` if the query parameter `word` is set.
    pub fn action_when(self, word: &'static str, act: &'static str) -> Self {
        Self { action_override: Some((word, act)), ..self }
    }

    /// Makes it a route of the OpenYurt console that accepts these query parameters.
    pub fn openyurt(self, query: &'static [&'static str]) -> Self {
        Self { flavour: ApiFlavour::OpenYurt, query: Some(query), ..self }
    }

    /// Sets the timeout.
    pub fn with_timeout(self, within: Duration) -> Self {
        Self { timeout: within, ..self }
    }

    /// Marks responses as large.
    pub fn large(self) -> Self {
        Self { is_large: true, ..self }
    }

    /// Accepts `If-Match`.
    pub fn versioned(self) -> Self {
        Self { accepts_if_match: true, ..self }
    }
}

/// Success response of a route.
pub struct ResponseSpec {
    pub status: StatusCode,
    pub media_type: &'static str,
    pub schema: Option<SchemaFn>,
    /// Alternative media type and its schema.
    pub alternative: Option<(&'static str, SchemaFn)>,
}

/// The columns of the table before the handler: path, action id, requirement, summary.
type RouteRow = (&'static str, &'static str, Requirement, &'static str);

fn native_route<B, T, H, F>(
    method: Method,
    filter: MethodFilter,
    status: StatusCode,
    row: RouteRow,
    handler: H,
) -> Route
where
    B: RequestBody,
    T: ApiResponse,
    H: Fn(ApiRequest<B>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<T, Problem>> + Send + 'static,
{
    let (path, act, needs, summary) = row;
    let handle = move |State(api): State<Api>, request: Request| async move {
        let answer = async { handler(ApiRequest::read(api, request).await?).await };
        match answer.await {
            Ok(given) => given.into_http_response(status),
            Err(problem) => problem.into_response(),
        }
    };
    Route {
        method,
        path,
        action: act,
        requirement: needs,
        summary,
        query: Some(&[]),
        accepts_if_match: false,
        accepts_idempotency_key: false,
        action_override: None,
        flavour: ApiFlavour::Native,
        timeout: route_guard::DEFAULT_TIMEOUT,
        is_large: false,
        request_body: B::spec(),
        response: ResponseSpec {
            status,
            media_type: T::MEDIA_TYPE,
            schema: T::schema(),
            alternative: T::alternative(),
        },
        handler: on(filter, handle),
    }
}

macro_rules! verbs {
    ($($(#[$doc:meta])* $name:ident: $method:ident $status:ident;)*) => {
        $($(#[$doc])*
        pub fn $name<B, T, H, F>(path: &'static str, act: &'static str, needs: Requirement, summary: &'static str, handler: H) -> Route
        where
            B: RequestBody,
            T: ApiResponse,
            H: Fn(ApiRequest<B>) -> F + Clone + Send + Sync + 'static,
            F: Future<Output = Result<T, Problem>> + Send + 'static,
        {
            native_route(Method::$method, MethodFilter::$method, StatusCode::$status, (path, act, needs, summary), handler)
        })*
    };
}

verbs! {
    get: GET OK;
    /// Creates an object and returns it.
    create: POST CREATED;
    /// Performs an action and returns its result.
    act: POST OK;
    /// Performs an action without a result.
    order: POST NO_CONTENT;
    put: PUT OK;
    patch: PATCH OK;
    delete: DELETE NO_CONTENT;
    /// Starts a deletion and returns the object, which stays readable until the deletion completes.
    retire: DELETE OK;
}

/// A route whose handler builds the HTTP response itself.
pub fn raw_route<T: 'static, H: Handler<T, Api>>(
    path: &'static str,
    act: &'static str,
    needs: Requirement,
    summary: &'static str,
    media: &'static str,
    handler: H,
) -> Route {
    Route {
        method: Method::GET,
        path,
        action: act,
        requirement: needs,
        summary,
        query: None,
        accepts_if_match: false,
        accepts_idempotency_key: false,
        action_override: None,
        flavour: ApiFlavour::Native,
        timeout: route_guard::DEFAULT_TIMEOUT,
        is_large: false,
        request_body: None,
        response: ResponseSpec { status: StatusCode::OK, media_type: media, schema: None, alternative: None },
        handler: on(MethodFilter::GET, handler),
    }
}
