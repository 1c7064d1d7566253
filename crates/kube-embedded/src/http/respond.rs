//! Encodes results of verbs as HTTP responses.

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::{Value, json};

use super::list::{self, EncodingPool, ListItems, ListTemplate};
use super::negotiate::{Format, View};
use super::revalidate::Revalidation;
use super::yaml;
use crate::error::{ApiError, Result};
use crate::metrics::OpenWatchGuard;
use crate::print;
use crate::verbs::{
    ObjectPage, ResourceRequest, ResourceResponse, ServedObject, WatchStream, go_package, served_object,
    served_value,
};

pub type Body = UnsyncBoxBody<Bytes, TruncatedBody>;

/// Error of an incomplete body: it resets the connection or stream, so that no client mistakes a truncated response for a complete one.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the answer could not be completed")]
pub struct TruncatedBody;

/// A body from complete bytes.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
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

/// Returns a JSON response.
pub fn json(code: u16, value: &Value) -> Response<Body> {
    let bytes = serde_json::to_vec(value).expect("a JSON value serialises");
    response(code, "application/json", full(bytes))
}

/// Returns a response in the negotiated format.
pub fn document(code: u16, value: &Value, format: Format) -> Response<Body> {
    match format {
        Format::Json => json(code, value),
        Format::Yaml => response(code, "application/yaml", full(yaml::print(value))),
    }
}

pub fn error_response(error: &ApiError, format: Format) -> Response<Body> {
    let mut response = document(error.code, &error.status(), format);
    let seconds =
        error.details.as_ref().and_then(|details| details.get("retryAfterSeconds")).and_then(Value::as_u64);
    if let Some(seconds) = seconds.filter(|&seconds| seconds > 0) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Total bytes of warnings per response, and characters per warning when they exceed it; as in kube-apiserver.
const MAX_WARNING_BYTES: usize = 4 << 10;
const MAX_SHORT_WARNING_LEN: usize = 256;
/// Maximum number of warnings per response.
const MAX_WARNINGS: usize = 50;

/// Adds `299 - "text"` headers, one per warning; control characters are removed.
///
/// As in kube-apiserver: if the warnings together exceed [`MAX_WARNING_BYTES`], each is truncated to [`MAX_SHORT_WARNING_LEN`] characters,
/// and warnings that still do not fit are dropped. There are at most [`MAX_WARNINGS`], for clients with a limit of 100 headers.
pub fn add_warnings(response: &mut Response<Body>, warnings: &[String]) {
    let is_long = warnings.iter().map(String::len).sum::<usize>() > MAX_WARNING_BYTES;
    let most = if is_long { MAX_SHORT_WARNING_LEN } else { usize::MAX };
    let mut left = MAX_WARNING_BYTES;
    for warning in warnings.iter().take(MAX_WARNINGS) {
        let clean: String = warning.chars().filter(|c| !c.is_control()).take(most).collect();
        let Some(rest) = left.checked_sub(clean.len()) else { return };
        left = rest;
        let escaped = clean.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{escaped}\"").as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

/// A long-running request: counted while it is open, and ended when its credentials or permissions are revoked.
pub(super) struct OpenStream {
    pub stream: governor::streams::StreamSlot,
    pub reserved: governor::bytes::ByteReservation,
    /// `None` for requests of the platform itself.
    pub revalidation: Option<Revalidation>,
}

impl OpenStream {
    /// Returns a body that sends the frames until the stream is revoked.
    fn body(self, frames: impl Stream<Item = Bytes> + Send + 'static) -> Body {
        let Self { stream: counted, reserved, revalidation } = self;
        let frames = frames.map(move |frame| {
            let _ = (&counted, &reserved); // owned as long as the stream
            Ok(Frame::data(frame))
        });
        match revalidation {
            Some(revalidation) => {
                StreamBody::new(frames.take_until(Box::pin(revalidation.wait_until_revoked()))).boxed_unsync()
            }
            None => StreamBody::new(frames).boxed_unsync(),
        }
    }
}

/// Encodes the result of a verb. `open` is set for a request that may respond with a stream.
pub(super) fn encode_answer(
    call: &ResourceRequest,
    answer: ResourceResponse,
    open: Option<OpenStream>,
) -> Result<Response<Body>> {
    let representation = call.representation;
    match answer {
        ResourceResponse::Stored(code, object) => match (representation.view, representation.format) {
            (View::Object, Format::Json) => Ok(match served_object(&call.resource, &object) {
                ServedObject::Bytes(bytes) => response(code, "application/json", full(bytes)),
                ServedObject::Value(value) => json(code, &value),
            }),
            _ => object_response(call, code, served_value(&call.resource, &object)),
        },
        ResourceResponse::Document(code, value) => object_response(call, code, value),
        ResourceResponse::Scale(value) => {
            let value = match representation.view {
                View::Table(version) => {
                    let form = print::TableOptions { include: call.include()?, version, headers: true };
                    print::scale_table(&call.resource, &value, form, call.cluster.clock().now())
                }
                View::Metadata(version) => print::partial_object_metadata(&value, version),
                _ => value,
            };
            Ok(document(200, &value, representation.format))
        }
        ResourceResponse::OtherKind(code, value) => Ok(document(code, &value, representation.format)),
        ResourceResponse::List(page) => list_response(call, page),
        ResourceResponse::Watch(stream) => {
            let lines = watch_lines(*stream, call.cluster.metrics().open_watch());
            Ok(response(200, representation.content_type(), stream_body(lines, open)))
        }
        ResourceResponse::Text(body) => Ok(response(200, "text/plain", full(body))),
        ResourceResponse::Stream(parts) => Ok(response(200, "text/plain", stream_body(parts, open))),
        ResourceResponse::NoContent => {
            let mut response = response(204, "", full(Bytes::new()));
            response.headers_mut().remove(CONTENT_TYPE);
            Ok(response)
        }
    }
}

fn object_response(call: &ResourceRequest, code: u16, value: Value) -> Result<Response<Body>> {
    let representation = call.representation;
    let value = match representation.view {
        View::Object | View::Discovery(_) => value,
        View::Table(version) => {
            let form = print::TableOptions { include: call.include()?, version, headers: true };
            print::single_object_table(&call.resource, &value, form, call.cluster.clock().now())
        }
        View::Metadata(version) => print::partial_object_metadata(&value, version),
        View::MetadataList(_) => {
            return Err(not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
                go_type(call, "")
            )));
        }
    };
    Ok(document(code, &value, representation.format))
}

fn list_response(call: &ResourceRequest, page: ObjectPage) -> Result<Response<Body>> {
    let representation = call.representation;
    let metadata = list_metadata(call, &page);
    let resource = call.resource.clone();
    let skeleton = match representation.view {
        View::Metadata(_) => {
            return Err(not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{})",
                go_type(call, "List")
            )));
        }
        View::Object | View::Discovery(_) => ListTemplate {
            document: json!({"kind": &*resource.list_kind, "apiVersion": resource.api_version(), "metadata": metadata, "items": []}),
            key: "items",
            items: ListItems::AsStored,
        },
        View::Table(version) => {
            let now = call.cluster.clock().now();
            let form = print::TableOptions { include: call.include()?, version, headers: true };
            let document = print::table(&resource, [], &metadata, form, now);
            if page.objects.is_empty() {
                return Ok(self::document(200, &document, representation.format));
            }
            let mut document = document;
            document["rows"] = json!([]);
            let of = resource.clone();
            let make = move |value: &Value| print::table_row(&of, value, form, now);
            ListTemplate { document, key: "rows", items: ListItems::Transformed(Box::new(make)) }
        }
        View::MetadataList(version) => ListTemplate {
            document: json!({"kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata, "items": []}),
            key: "items",
            items: ListItems::Transformed(Box::new(move |value| {
                print::partial_object_metadata(value, version)
            })),
        },
    };
    let flow = call.flow.unwrap_or_else(|| call.cluster.pool().flow(()));
    let workshop = EncodingPool { pool: call.cluster.pool().clone(), flow };
    Ok(list::respond(resource, page.objects, skeleton, representation.format, workshop))
}

/// Lists of custom resources always have `continue`, even if it is empty.
fn list_metadata(call: &ResourceRequest, page: &ObjectPage) -> Value {
    let mut metadata = json!({"resourceVersion": page.version.to_string()});
    let as_such = call.resource.is_custom() && call.representation.view == View::Object;
    if !page.continue_token.is_empty() || as_such {
        metadata["continue"] = page.continue_token.as_str().into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}

fn watch_lines(watch: WatchStream, counted: OpenWatchGuard) -> impl Stream<Item = Bytes> + Send + 'static {
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
fn go_type(call: &ResourceRequest, suffix: &str) -> String {
    let resource = &call.resource;
    if resource.is_custom() {
        return format!("unstructured.Unstructured{suffix}");
    }
    format!("{}.{}{suffix}", go_package(resource), resource.kind)
}

fn not_acceptable(message: String) -> ApiError {
    ApiError::new(406, "NotAcceptable", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_cut_and_counted_as_kube_apiserver_does() {
        let sent = |warnings: &[String]| -> Vec<usize> {
            let mut response = text(200, "");
            add_warnings(&mut response, warnings);
            response.headers().get_all(WARNING).iter().map(HeaderValue::len).collect()
        };
        assert_eq!(sent(&["a".to_owned(), "b".repeat(3_000)]).len(), 2);
        let long = sent(&vec!["x".repeat(5_000); 40]);
        assert!(long.len() == 16 && long.iter().all(|length| *length < 300), "{long:?}");
        assert_eq!(sent(&(0..10_000).map(|n| n.to_string()).collect::<Vec<_>>()).len(), MAX_WARNINGS);
    }
}
