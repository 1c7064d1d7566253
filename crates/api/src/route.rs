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
use crate::answer::Gives;
use crate::call::Call;
use crate::dialect::Dialect;
use crate::door;
use crate::needs::Needs;
use crate::problem::Problem;
use crate::sent::{SchemaOf, Taken, Takes};

/// One route: method, path, requirement, parameters, request and response types, handler.
#[must_use]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    /// Action id in the audit trail.
    pub act: &'static str,
    pub needs: Needs,
    pub summary: &'static str,
    /// Accepted query parameters; `None` if the query is not checked.
    pub query: Option<&'static [&'static str]>,
    /// Whether the route accepts `If-Match`.
    pub versioned: bool,
    /// Whether the route accepts `Idempotency-Key`.
    pub once: bool,
    /// Query parameter that changes the action id, and that id.
    pub saying: Option<(&'static str, &'static str)>,
    /// API flavour.
    pub dialect: Dialect,
    /// Timeout until the response begins.
    pub within: Duration,
    /// Whether responses may have megabytes. Concurrency of these routes is limited.
    pub large: bool,
    pub takes: Option<Taken>,
    pub gives: Gift,
    pub handler: MethodRouter<Api>,
}

impl Route {
    /// Accepts these query parameters.
    pub fn with(self, query: &'static [&'static str]) -> Self {
        Self { query: Some(query), ..self }
    }

    /// Accepts `Idempotency-Key`: a retry with the same key takes effect once.
    pub fn once(self) -> Self {
        Self { once: true, ..self }
    }

    /// Uses the action id `act` if the query parameter `word` is set.
    pub fn saying(self, word: &'static str, act: &'static str) -> Self {
        Self { saying: Some((word, act)), ..self }
    }

    /// Makes it a route of the OpenYurt console that accepts these query parameters.
    pub fn of_console(self, query: &'static [&'static str]) -> Self {
        Self { dialect: Dialect::OpenYurt, query: Some(query), ..self }
    }

    /// Sets the timeout.
    pub fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    /// Marks responses as large.
    pub fn large(self) -> Self {
        Self { large: true, ..self }
    }

    /// Accepts `If-Match`.
    pub fn versioned(self) -> Self {
        Self { versioned: true, ..self }
    }
}

/// Success response of a route.
pub struct Gift {
    pub status: StatusCode,
    pub media: &'static str,
    pub schema: Option<SchemaOf>,
    /// Alternative media type and its schema.
    pub otherwise: Option<(&'static str, SchemaOf)>,
}

/// The columns of the table before the handler: path, action id, requirement, summary.
type Row = (&'static str, &'static str, Needs, &'static str);

fn native<B, T, H, F>(method: Method, filter: MethodFilter, status: StatusCode, row: Row, handler: H) -> Route
where
    B: Takes,
    T: Gives,
    H: Fn(Call<B>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<T, Problem>> + Send + 'static,
{
    let (path, act, needs, summary) = row;
    let handle = move |State(api): State<Api>, request: Request| async move {
        let answer = async { handler(Call::read(api, request).await?).await };
        match answer.await {
            Ok(given) => given.answer(status),
            Err(problem) => problem.into_response(),
        }
    };
    Route {
        method,
        path,
        act,
        needs,
        summary,
        query: Some(&[]),
        versioned: false,
        once: false,
        saying: None,
        dialect: Dialect::Native,
        within: door::TIMEOUT,
        large: false,
        takes: B::taken(),
        gives: Gift { status, media: T::MEDIA, schema: T::schema(), otherwise: T::otherwise() },
        handler: on(filter, handle),
    }
}

macro_rules! verbs {
    ($($(#[$doc:meta])* $name:ident: $method:ident $status:ident;)*) => {
        $($(#[$doc])*
        pub fn $name<B, T, H, F>(path: &'static str, act: &'static str, needs: Needs, summary: &'static str, handler: H) -> Route
        where
            B: Takes,
            T: Gives,
            H: Fn(Call<B>) -> F + Clone + Send + Sync + 'static,
            F: Future<Output = Result<T, Problem>> + Send + 'static,
        {
            native(Method::$method, MethodFilter::$method, StatusCode::$status, (path, act, needs, summary), handler)
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
pub fn raw<T: 'static, H: Handler<T, Api>>(
    path: &'static str,
    act: &'static str,
    needs: Needs,
    summary: &'static str,
    media: &'static str,
    handler: H,
) -> Route {
    Route {
        method: Method::GET,
        path,
        act,
        needs,
        summary,
        query: None,
        versioned: false,
        once: false,
        saying: None,
        dialect: Dialect::Native,
        within: door::TIMEOUT,
        large: false,
        takes: None,
        gives: Gift { status: StatusCode::OK, media, schema: None, otherwise: None },
        handler: on(MethodFilter::GET, handler),
    }
}
