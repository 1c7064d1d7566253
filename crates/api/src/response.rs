//! Response types of handlers: an object, a list, an event stream, or no content.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION, SET_COOKIE};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use domain::ErrorKind;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use crate::body::SchemaFn;
use crate::problem::Problem;

/// A response that a handler can return.
pub trait ApiResponse: Send + 'static {
    /// Media type; empty for a response without a body.
    const MEDIA_TYPE: &'static str;

    /// Schema of the body; `None` for a response without a body.
    fn schema() -> Option<SchemaFn>;
    /// Alternative media type and its schema.
    fn alternative() -> Option<(&'static str, SchemaFn)> {
        None
    }
    /// Converts to an HTTP response. `status` is the success status from the route table.
    fn into_http_response(self, status: StatusCode) -> Response<Body>;
}

/// A JSON response.
#[must_use]
pub struct JsonResponse<T> {
    body: T,
    status: Option<StatusCode>,
    headers: Vec<(HeaderName, HeaderValue)>,
    audit_object: Option<AuditObject>,
}

/// Object of the request for the audit trail, where the path does not name it.
#[derive(Clone, Debug)]
pub struct AuditObject(pub String);

impl<T> JsonResponse<T> {
    pub fn new(body: T) -> Self {
        Self { body, status: None, headers: Vec::new(), audit_object: None }
    }

    /// Overrides the route's status.
    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status: Some(status), ..self }
    }

    fn header(mut self, name: HeaderName, text: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(text) {
            self.headers.push((name, value));
        } else {
            tracing::error!(header = %name, "cannot encode response header");
        }
        self
    }

    /// Sets `ETag`, the version that `If-Match` takes.
    pub fn etag(self, version: &str) -> Self {
        self.header(ETAG, &format!("\"{version}\""))
    }

    /// Sets `Location`, the path of the created object.
    pub fn location(self, path: &str) -> Self {
        self.header(LOCATION, path)
    }

    pub fn set_cookie(self, cookie: &str) -> Self {
        self.header(SET_COOKIE, cookie)
    }

    /// Marks the response as secret: no cache may store it.
    pub fn no_store(self) -> Self {
        self.header(CACHE_CONTROL, "no-store")
    }

    pub fn audit_object(self, object: &impl ToString) -> Self {
        Self { audit_object: Some(AuditObject(object.to_string())), ..self }
    }
}

impl<T: Serialize + JsonSchema + Send + 'static> ApiResponse for JsonResponse<T> {
    const MEDIA_TYPE: &'static str = "application/json";

    fn schema() -> Option<SchemaFn> {
        Some(SchemaGenerator::subschema_for::<T>)
    }

    fn into_http_response(self, status: StatusCode) -> Response<Body> {
        let body = match serde_json::to_vec(&self.body) {
            Ok(body) => body,
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "cannot encode response as JSON");
                return Problem::new(ErrorKind::Internal, "internal", "cannot encode the response")
                    .into_response();
            }
        };
        let json = [(CONTENT_TYPE, "application/json")];
        let mut response = (self.status.unwrap_or(status), json, body).into_response();
        response.headers_mut().extend(self.headers);
        if let Some(object) = self.audit_object {
            response.extensions_mut().insert(object);
        }
        response
    }
}

/// A response without a body.
#[derive(Default)]
pub struct NoContent {
    cookie: Option<HeaderValue>,
}

impl NoContent {
    pub fn with_cookie(cookie: HeaderValue) -> Self {
        Self { cookie: Some(cookie) }
    }
}

impl ApiResponse for NoContent {
    const MEDIA_TYPE: &'static str = "";

    fn schema() -> Option<SchemaFn> {
        None
    }

    fn into_http_response(self, status: StatusCode) -> Response<Body> {
        let mut response = status.into_response();
        if let Some(cookie) = self.cookie {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }
}

/// A stream of server-sent events, each with a `T` as data.
pub struct EventStream<T> {
    name: &'static str,
    stream: BoxStream<'static, T>,
}

impl<T> EventStream<T> {
    pub fn new(name: &'static str, stream: impl Stream<Item = T> + Send + 'static) -> Self {
        Self { name, stream: stream.boxed() }
    }
}

/// Interval of keep-alive events, by which clients detect a broken connection.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

impl<T: Serialize + JsonSchema + Send + 'static> ApiResponse for EventStream<T> {
    const MEDIA_TYPE: &'static str = "text/event-stream";

    fn schema() -> Option<SchemaFn> {
        Some(SchemaGenerator::subschema_for::<T>)
    }

    fn into_http_response(self, status: StatusCode) -> Response<Body> {
        let Self { name, stream } = self;
        let events = stream.map(move |item| Event::default().event(name).json_data(item));
        let ping =
            KeepAlive::new().interval(KEEP_ALIVE_INTERVAL).event(Event::default().event("ping").data("{}"));
        (status, Sse::new(events).keep_alive(ping)).into_response()
    }
}

/// A JSON response, or a stream of events if the client asks to follow.
pub enum JsonOrEvents<N, T> {
    Json(JsonResponse<N>),
    Events(EventStream<T>),
}

impl<N, T> ApiResponse for JsonOrEvents<N, T>
where
    N: Serialize + JsonSchema + Send + 'static,
    T: Serialize + JsonSchema + Send + 'static,
{
    const MEDIA_TYPE: &'static str = JsonResponse::<N>::MEDIA_TYPE;

    fn schema() -> Option<SchemaFn> {
        JsonResponse::<N>::schema()
    }

    fn alternative() -> Option<(&'static str, SchemaFn)> {
        Some((EventStream::<T>::MEDIA_TYPE, EventStream::<T>::schema()?))
    }

    fn into_http_response(self, status: StatusCode) -> Response<Body> {
        match self {
            Self::Json(now) => now.into_http_response(status),
            Self::Events(events) => events.into_http_response(status),
        }
    }
}

/// Several of a kind.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}List")]
pub struct ListResponse<T> {
    pub items: Vec<T>,
    /// When this was true.
    pub at: String,
    /// Age of the data in seconds while the cluster cannot be reached; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<u64>,
}

impl<T> ListResponse<T> {
    pub fn new(items: Vec<T>, at: jiff::Timestamp, stale: Option<u64>) -> JsonResponse<Self> {
        JsonResponse::new(Self { items, at: at.to_string(), stale })
    }
}
