//! Response types of handlers: an object, a list, an event stream, or no content.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION, SET_COOKIE};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use domain::Kind;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use crate::problem::Problem;
use crate::sent::SchemaOf;

/// A response that a handler can return.
pub trait Gives: Send + 'static {
    /// Media type; empty for a response without a body.
    const MEDIA: &'static str;

    /// Schema of the body; `None` for a response without a body.
    fn schema() -> Option<SchemaOf>;
    /// Alternative media type and its schema.
    fn otherwise() -> Option<(&'static str, SchemaOf)> {
        None
    }
    /// Converts to an HTTP response. `status` is the success status from the route table.
    fn answer(self, status: StatusCode) -> Response<Body>;
}

/// A JSON response.
#[must_use]
pub struct Answer<T> {
    body: T,
    status: Option<StatusCode>,
    headers: Vec<(HeaderName, HeaderValue)>,
    object: Option<AuditObject>,
}

/// Object of the request for the audit trail, where the path does not name it.
#[derive(Clone, Debug)]
pub struct AuditObject(pub String);

impl<T> Answer<T> {
    pub fn new(body: T) -> Self {
        Self { body, status: None, headers: Vec::new(), object: None }
    }

    /// Overrides the route's status.
    pub fn status(self, status: StatusCode) -> Self {
        Self { status: Some(status), ..self }
    }

    fn header(mut self, name: HeaderName, text: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(text) {
            self.headers.push((name, value));
        } else {
            tracing::error!(header = %name, "a header could not be written");
        }
        self
    }

    /// Sets `ETag`, the version that `If-Match` takes.
    pub fn version(self, version: &str) -> Self {
        self.header(ETAG, &format!("\"{version}\""))
    }

    /// Sets `Location`, the path of the created object.
    pub fn at(self, path: &str) -> Self {
        self.header(LOCATION, path)
    }

    pub fn cookie(self, cookie: &str) -> Self {
        self.header(SET_COOKIE, cookie)
    }

    /// Marks the response as secret: no cache may store it.
    pub fn secret(self) -> Self {
        self.header(CACHE_CONTROL, "no-store")
    }

    pub fn about(self, object: &impl ToString) -> Self {
        Self { object: Some(AuditObject(object.to_string())), ..self }
    }
}

impl<T: Serialize + JsonSchema + Send + 'static> Gives for Answer<T> {
    const MEDIA: &'static str = "application/json";

    fn schema() -> Option<SchemaOf> {
        Some(SchemaGenerator::subschema_for::<T>)
    }

    fn answer(self, status: StatusCode) -> Response<Body> {
        let body = match serde_json::to_vec(&self.body) {
            Ok(body) => body,
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "an answer cannot be written as JSON"
                );
                return Problem::new(Kind::Internal, "internal", "the answer could not be written")
                    .into_response();
            }
        };
        let json = [(CONTENT_TYPE, "application/json")];
        let mut response = (self.status.unwrap_or(status), json, body).into_response();
        response.headers_mut().extend(self.headers);
        if let Some(object) = self.object {
            response.extensions_mut().insert(object);
        }
        response
    }
}

/// A response without a body.
#[derive(Default)]
pub struct Done {
    cookie: Option<HeaderValue>,
}

impl Done {
    pub fn cookie(cookie: HeaderValue) -> Self {
        Self { cookie: Some(cookie) }
    }
}

impl Gives for Done {
    const MEDIA: &'static str = "";

    fn schema() -> Option<SchemaOf> {
        None
    }

    fn answer(self, status: StatusCode) -> Response<Body> {
        let mut response = status.into_response();
        if let Some(cookie) = self.cookie {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }
}

/// A stream of server-sent events, each with a `T` as data.
pub struct Events<T> {
    name: &'static str,
    stream: BoxStream<'static, T>,
}

impl<T> Events<T> {
    pub fn new(name: &'static str, stream: impl Stream<Item = T> + Send + 'static) -> Self {
        Self { name, stream: stream.boxed() }
    }
}

/// Interval of keep-alive events, by which clients detect a broken connection.
const PING: Duration = Duration::from_secs(10);

impl<T: Serialize + JsonSchema + Send + 'static> Gives for Events<T> {
    const MEDIA: &'static str = "text/event-stream";

    fn schema() -> Option<SchemaOf> {
        Some(SchemaGenerator::subschema_for::<T>)
    }

    fn answer(self, status: StatusCode) -> Response<Body> {
        let Self { name, stream } = self;
        let events = stream.map(move |item| Event::default().event(name).json_data(item));
        let ping = KeepAlive::new().interval(PING).event(Event::default().event("ping").data("{}"));
        (status, Sse::new(events).keep_alive(ping)).into_response()
    }
}

/// A JSON response, or a stream of events if the client asks to follow.
pub enum Maybe<N, T> {
    Now(Answer<N>),
    Followed(Events<T>),
}

impl<N, T> Gives for Maybe<N, T>
where
    N: Serialize + JsonSchema + Send + 'static,
    T: Serialize + JsonSchema + Send + 'static,
{
    const MEDIA: &'static str = Answer::<N>::MEDIA;

    fn schema() -> Option<SchemaOf> {
        Answer::<N>::schema()
    }

    fn otherwise() -> Option<(&'static str, SchemaOf)> {
        Some((Events::<T>::MEDIA, Events::<T>::schema()?))
    }

    fn answer(self, status: StatusCode) -> Response<Body> {
        match self {
            Self::Now(now) => now.answer(status),
            Self::Followed(events) => events.answer(status),
        }
    }
}

/// Several of a kind.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}List")]
pub struct List<T> {
    pub items: Vec<T>,
    /// When this was true.
    pub at: String,
    /// For how many seconds the cluster has not been heard of; absent while it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<u64>,
}

impl<T> List<T> {
    pub fn new(items: Vec<T>, at: jiff::Timestamp, stale: Option<u64>) -> Answer<Self> {
        Answer::new(Self { items, at: at.to_string(), stale })
    }
}
