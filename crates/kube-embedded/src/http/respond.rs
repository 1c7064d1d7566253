//! Answers as HTTP responses.

use std::convert::Infallible;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::{Value, json};

use super::negotiate::{Format, View};
use super::revalidate::Revalidation;
use super::yaml;
use crate::error::{ApiError, Result};
use crate::metrics::Watching;
use crate::print;
use crate::verbs::{Answer, Call, Page, Shown, WatchStream, go_package, show, shown};

pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A whole body.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

pub fn response(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

pub fn text(code: u16, body: impl Into<Bytes>) -> Response<Body> {
    response(code, "text/plain; charset=utf-8", full(body))
}

/// A JSON document.
pub fn json(code: u16, value: &Value) -> Response<Body> {
    let bytes = serde_json::to_vec(value).expect("a JSON value serialises");
    response(code, "application/json", full(bytes))
}

/// A document in the format that was asked for.
pub fn document(code: u16, value: &Value, format: Format) -> Response<Body> {
    match format {
        Format::Json => json(code, value),
        Format::Yaml => response(code, "application/yaml", full(yaml::print(value))),
    }
}

pub fn refusal(error: &ApiError, format: Format) -> Response<Body> {
    let mut response = document(error.code, &error.status(), format);
    let seconds =
        error.details.as_ref().and_then(|details| details.get("retryAfterSeconds")).and_then(Value::as_u64);
    if let Some(seconds) = seconds.filter(|&seconds| seconds > 0) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// `299 - "text"`, one header a warning; what cannot stand in a header is left out of it.
pub fn add_warnings(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings {
        let clean: String = warning.chars().filter(|c| !c.is_control()).collect();
        let escaped = clean.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{escaped}\"").as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

/// A long-running request: counted while it lives, and ended when its credentials or rights are.
pub(super) struct OpenStream {
    pub counted: governor::streams::Stream,
    pub reserved: governor::bytes::Reserved,
    /// `None` for the platform itself.
    pub revalidation: Option<Revalidation>,
}

impl OpenStream {
    /// The frames of the stream for as long as it may go on.
    fn body(self, frames: impl Stream<Item = Bytes> + Send + 'static) -> Body {
        let Self { counted, reserved, revalidation } = self;
        let frames = frames.map(move |frame| {
            let _ = (&counted, &reserved); // held as long as the stream
            Ok(Frame::data(frame))
        });
        match revalidation {
            Some(revalidation) => {
                StreamBody::new(frames.take_until(Box::pin(revalidation.revoked()))).boxed_unsync()
            }
            None => StreamBody::new(frames).boxed_unsync(),
        }
    }
}

/// Dresses what a verb answered. `open` is there for a request that may answer with a stream.
pub(super) fn answer(call: &Call, answer: Answer, open: Option<OpenStream>) -> Result<Response<Body>> {
    let representation = call.representation;
    match answer {
        Answer::Stored(code, object) => match (representation.view, representation.format) {
            (View::Whole, Format::Json) => Ok(match show(&call.resource, &object) {
                Shown::Bytes(bytes) => response(code, "application/json", full(bytes)),
                Shown::Value(value) => json(code, &value),
            }),
            _ => one(call, code, shown(&call.resource, &object)),
        },
        Answer::Document(code, value) => one(call, code, value),
        Answer::Scale(value) => {
            let value = match representation.view {
                View::Table(version) => {
                    let form = print::Form { include: call.include()?, version, headers: true };
                    print::table_of_scale(&call.resource, &value, form, call.cluster.clock().now())
                }
                View::Metadata(version) => print::partial(&value, version),
                _ => value,
            };
            Ok(document(200, &value, representation.format))
        }
        Answer::Other(code, value) => Ok(document(code, &value, representation.format)),
        Answer::List(page) => list(call, &page),
        Answer::Watch(stream) => {
            let lines = lines(*stream, call.cluster.metrics().watching());
            Ok(response(200, representation.content_type(), stream_body(lines, open)))
        }
        Answer::Text(body) => Ok(response(200, "text/plain", full(body))),
        Answer::Stream(parts) => Ok(response(200, "text/plain", stream_body(parts, open))),
        Answer::Nothing => {
            let mut response = response(204, "", full(Bytes::new()));
            response.headers_mut().remove(CONTENT_TYPE);
            Ok(response)
        }
    }
}

fn one(call: &Call, code: u16, value: Value) -> Result<Response<Body>> {
    let representation = call.representation;
    let value = match representation.view {
        View::Whole | View::Discovery(_) => value,
        View::Table(version) => {
            let form = print::Form { include: call.include()?, version, headers: true };
            print::table_of(&call.resource, &value, form, call.cluster.clock().now())
        }
        View::Metadata(version) => print::partial(&value, version),
        View::MetadataList(_) => {
            return Err(not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
                go_type(call, "")
            )));
        }
    };
    Ok(document(code, &value, representation.format))
}

fn list(call: &Call, page: &Page) -> Result<Response<Body>> {
    let representation = call.representation;
    let metadata = list_metadata(call, page);
    let value = match (representation.view, representation.format) {
        (View::Whole | View::Discovery(_), Format::Json) => {
            return Ok(response(200, "application/json", raw_list(call, page, &metadata)));
        }
        (View::Metadata(_), _) => {
            return Err(not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{})",
                go_type(call, "List")
            )));
        }
        (View::Whole | View::Discovery(_), Format::Yaml) => {
            let mut items = values(call, page);
            if !call.resource.is_custom() {
                items.iter_mut().for_each(strip_type);
            }
            json!({"kind": &*call.resource.list_kind, "apiVersion": call.resource.api_version(), "metadata": metadata, "items": items})
        }
        (View::Table(version), _) => {
            let now = call.cluster.clock().now();
            let form = print::Form { include: call.include()?, version, headers: true };
            print::table(&call.resource, &values(call, page), &metadata, form, now)
        }
        (View::MetadataList(version), _) => {
            let items: Vec<_> =
                values(call, page).iter().map(|value| print::partial(value, version)).collect();
            json!({"kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata, "items": items})
        }
    };
    Ok(document(200, &value, representation.format))
}

fn values(call: &Call, page: &Page) -> Vec<Value> {
    page.objects.iter().map(|object| shown(&call.resource, object)).collect()
}

fn strip_type(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
}

/// Lists of custom resources, as such, always say where they go on, if only that they do not.
fn list_metadata(call: &Call, page: &Page) -> Value {
    let mut metadata = json!({"resourceVersion": page.version.to_string()});
    let as_such = call.resource.is_custom() && call.representation.view == View::Whole;
    if !page.continue_token.is_empty() || as_such {
        metadata["continue"] = page.continue_token.as_str().into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}

/// A list whose items are the stored bytes. Items of built-in lists have no type. One buffer is dearer to fill
/// than a chain of slices, and much cheaper to send.
fn raw_list(call: &Call, page: &Page, metadata: &Value) -> Body {
    let resource = &call.resource;
    let head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
        Value::from(&*resource.list_kind),
        Value::from(resource.api_version())
    );
    let length: usize = page.objects.iter().map(|object| object.bytes.len() + 1).sum();
    let mut body = Vec::with_capacity(head.len() + length + 3);
    body.extend_from_slice(head.as_bytes());
    for (at, object) in page.objects.iter().enumerate() {
        if at > 0 {
            body.push(b',');
        }
        match show(resource, object) {
            Shown::Bytes(bytes) if resource.is_custom() => body.extend_from_slice(&bytes),
            Shown::Bytes(_) => object.untyped().iter().for_each(|part| body.extend_from_slice(part)),
            Shown::Value(mut value) => {
                if !resource.is_custom() {
                    strip_type(&mut value);
                }
                serde_json::to_writer(&mut body, &value).expect("a JSON value serialises into memory");
            }
        }
    }
    body.extend_from_slice(b"]}\n");
    full(body)
}

fn lines(watch: WatchStream, counted: Watching) -> impl Stream<Item = Bytes> + Send + 'static {
    stream::unfold((watch, counted), |(mut watch, counted)| async move {
        let line = watch.next().await?;
        Some((line, (watch, counted)))
    })
}

fn stream_body(frames: impl Stream<Item = Bytes> + Send + 'static, open: Option<OpenStream>) -> Body {
    match open {
        Some(open) => open.body(frames),
        None => StreamBody::new(frames.map(|frame| Ok(Frame::data(frame)))).boxed_unsync(),
    }
}

/// The Go type that Kubernetes names in two of its messages.
fn go_type(call: &Call, suffix: &str) -> String {
    let resource = &call.resource;
    if resource.is_custom() {
        return format!("unstructured.Unstructured{suffix}");
    }
    format!("{}.{}{suffix}", go_package(resource), resource.kind)
}

fn not_acceptable(message: String) -> ApiError {
    ApiError::new(406, "NotAcceptable", message)
}
