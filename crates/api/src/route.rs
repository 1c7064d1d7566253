//! A row of the route table, and how a handler becomes one.
//!
//! What a handler takes and gives is read from its own type, so that the description of the API cannot say anything else.

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

/// Everything that is known of a route.
#[must_use]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    /// A word for the audit trail.
    pub act: &'static str,
    pub needs: Needs,
    pub summary: &'static str,
    /// What may stand in the query; `None` where nobody looks.
    pub query: Option<&'static [&'static str]>,
    /// Whether `If-Match` can name the version that is to be changed.
    pub versioned: bool,
    /// Whether `Idempotency-Key` can name the attempt.
    pub once: bool,
    /// What the audit trail calls it where the query says this.
    pub saying: Option<(&'static str, &'static str)>,
    /// How it is spoken to.
    pub dialect: Dialect,
    /// How long its answer may take to begin.
    pub within: Duration,
    /// Whether its answers may have megabytes; few of them are made at once.
    pub large: bool,
    pub takes: Option<Taken>,
    pub gives: Gift,
    pub handler: MethodRouter<Api>,
}

impl Route {
    /// Takes these in the query too.
    pub fn with(self, query: &'static [&'static str]) -> Self {
        Self { query: Some(query), ..self }
    }

    /// Sent again with the same key, it is done once.
    pub fn once(self) -> Self {
        Self { once: true, ..self }
    }

    /// Is another act where the query says `word`.
    pub fn saying(self, word: &'static str, act: &'static str) -> Self {
        Self { saying: Some((word, act)), ..self }
    }

    /// Is one of the OpenYurt console's, and takes these in the query.
    pub fn of_console(self, query: &'static [&'static str]) -> Self {
        Self { dialect: Dialect::OpenYurt, query: Some(query), ..self }
    }

    /// Waits for something that takes its time.
    pub fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    /// Answers with what may have megabytes.
    pub fn large(self) -> Self {
        Self { large: true, ..self }
    }

    /// Changes something that has versions.
    pub fn versioned(self) -> Self {
        Self { versioned: true, ..self }
    }
}

/// What a route answers with when all is well.
pub struct Gift {
    pub status: StatusCode,
    pub media: &'static str,
    pub schema: Option<SchemaOf>,
    /// What else it may be written as.
    pub otherwise: Option<(&'static str, SchemaOf)>,
}

/// The columns of the table that come before the handler.
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
    /// Makes something.
    create: POST CREATED;
    /// Does something that is told of.
    act: POST OK;
    /// Does something that there is nothing to tell of.
    order: POST NO_CONTENT;
    put: PUT OK;
    patch: PATCH OK;
    delete: DELETE NO_CONTENT;
    /// Removes, in a while, what can be looked at until then.
    retire: DELETE OK;
}

/// A route whose handler writes its answer itself.
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
