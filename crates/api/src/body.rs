//! Request bodies, parsed strictly: unknown fields and values over their length limit are refused by name.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use axum::body::Bytes;
use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use domain::ErrorKind;
use futures::StreamExt;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::budget::RequestBudget;
use crate::problem::{Problem, abbreviate};

/// Default body limit, above the size of any valid body.
const BODY_LIMIT: usize = 64 * 1024;

/// Function that generates the schema of a type.
pub type SchemaFn = fn(&mut SchemaGenerator) -> Schema;

/// Media type and schema of a body, for the OpenAPI document.
pub struct RequestBodySpec {
    pub media_type: &'static str,
    pub schema: SchemaFn,
}

/// A request body that a handler can take.
pub trait RequestBody: Sized + Send + 'static {
    /// `None` for routes without a body.
    fn spec() -> Option<RequestBodySpec>;
    fn read(request: Request) -> impl Future<Output = Result<Self, Problem>> + Send;
}

impl RequestBody for () {
    fn spec() -> Option<RequestBodySpec> {
        None
    }

    async fn read(_: Request) -> Result<Self, Problem> {
        Ok(())
    }
}

/// A JSON body of at most `LIMIT` bytes.
#[derive(Debug)]
pub struct JsonBody<T, const LIMIT: usize = BODY_LIMIT>(pub T);

impl<T: DeserializeOwned + JsonSchema + Send + 'static, const LIMIT: usize> RequestBody
    for JsonBody<T, LIMIT>
{
    fn spec() -> Option<RequestBodySpec> {
        Some(RequestBodySpec { media_type: "application/json", schema: SchemaGenerator::subschema_for::<T> })
    }

    async fn read(request: Request) -> Result<Self, Problem> {
        // CSRF protection: an HTML form of another site can send `text/plain`, but not these types.
        if !has_content_type(request.headers(), &["application/json", "application/merge-patch+json"]) {
            let detail = "the body must be JSON with Content-Type `application/json`";
            return Err(Problem::with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", detail));
        }
        parse_json(&read_body(request, LIMIT, PARSED_BYTES_PER_INPUT_BYTE).await?).map(Self)
    }
}

/// An optional JSON body. Without one it is the default of `T`.
#[derive(Debug)]
pub struct OptionalBody<T>(pub T);

impl<T: DeserializeOwned + Default + JsonSchema + Send + 'static> RequestBody for OptionalBody<T> {
    fn spec() -> Option<RequestBodySpec> {
        JsonBody::<T>::spec()
    }

    async fn read(request: Request) -> Result<Self, Problem> {
        if !request.headers().contains_key(CONTENT_TYPE) && request.body().is_end_stream() {
            return Ok(Self(T::default()));
        }
        JsonBody::<T>::read(request).await.map(|JsonBody(body)| Self(body))
    }
}

/// A chart archive.
#[derive(Debug)]
pub struct ArchiveBody(pub Bytes);

/// Maximum size of a chart archive.
const ARCHIVE_LIMIT: usize = 10 << 20;

impl RequestBody for ArchiveBody {
    fn spec() -> Option<RequestBodySpec> {
        let schema = |_: &mut SchemaGenerator| json_schema!({"type": "string", "format": "binary"});
        Some(RequestBodySpec { media_type: "application/gzip", schema })
    }

    async fn read(request: Request) -> Result<Self, Problem> {
        let archives =
            ["application/gzip", "application/x-gzip", "application/octet-stream", "application/x-tar"];
        if !has_content_type(request.headers(), &archives) {
            let detail = "the body must be an archive with Content-Type `application/gzip`";
            return Err(Problem::with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", detail));
        }
        Ok(Self(read_body(request, ARCHIVE_LIMIT, 1).await?))
    }
}

/// Whether `Content-Type` is one of `kinds`.
pub fn has_content_type(headers: &HeaderMap, kinds: &[&str]) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| {
        let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        kinds.iter().any(|known| kind.eq_ignore_ascii_case(known))
    })
}

/// Estimated memory of a parsed body, in bytes per byte of its text.
pub const PARSED_BYTES_PER_INPUT_BYTE: u64 = 16;
/// Timeout for receiving a body.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

/// Reads the whole body. The request's [`RequestBudget`] is charged `weight` bytes for each byte until the handler ends. A body whose
/// `Content-Length` exceeds the limit is refused unread.
pub async fn read_body(request: Request, limit: usize, weight: u64) -> Result<Bytes, Problem> {
    let too_large =
        || Problem::new(ErrorKind::TooLarge, "too-large", format!("the body exceeds {limit} bytes"));
    let content_length =
        request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if content_length.is_some_and(|length: u64| length > limit as u64) {
        return Err(too_large());
    }
    let account = request.extensions().get::<RequestBudget>().cloned();
    let mut reserved = account.as_ref().map(|account| account.reserve(0)).transpose()?;
    let mut frames = request.into_body().into_data_stream();
    let mut body = Vec::new();
    let read = async {
        while let Some(frame) = frames.next().await {
            let frame = frame.map_err(|_| Problem::invalid("cannot read the body"))?;
            if frame.len() > limit.saturating_sub(body.len()) {
                return Err(too_large());
            }
            if let Some(reserved) = &mut reserved {
                reserved.grow((frame.len() as u64).saturating_mul(weight))?;
            }
            body.extend_from_slice(&frame);
        }
        Ok(())
    };
    tokio::time::timeout(BODY_TIMEOUT, read).await.map_err(|_| {
        Problem::with_status(StatusCode::REQUEST_TIMEOUT, "timeout", "timeout while reading the body")
    })??;
    if let (Some(account), Some(reserved)) = (account, reserved) {
        account.add_body_reservation(reserved);
    }
    Ok(body.into())
}

/// A part of a body that has the type of a custom resource. That type ignores unknown fields; this wrapper refuses them.
#[derive(Clone, Debug, Default)]
pub struct DenyUnknown<T>(pub T);

impl<'de, T: DeserializeOwned + Serialize> Deserialize<'de> for DenyUnknown<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let sent = Value::deserialize(deserializer)?;
        let read: T = serde_json::from_value(sent.clone()).map_err(|_| D::Error::custom(UNEXPECTED_VALUE))?;
        let known = serde_json::to_value(&read).map_err(|_| D::Error::custom(UNEXPECTED_VALUE))?;
        match find_unknown_field(&sent, &known) {
            Some(name) => Err(D::Error::custom(format_args!("unknown field `{}`", abbreviate(&name)))),
            None => Ok(Self(read)),
        }
    }
}

impl<T: JsonSchema> JsonSchema for DenyUnknown<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

const UNEXPECTED_VALUE: &str = "unexpected value";

/// The first field in `sent` that was ignored. Fields with an empty value are skipped, as they are not serialised again.
fn find_unknown_field(sent: &Value, known: &Value) -> Option<String> {
    let is_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    };
    match (sent, known) {
        (Value::Object(sent), Value::Object(known)) => {
            sent.iter().find_map(|(name, value)| match known.get(name) {
                Some(known) => find_unknown_field(value, known),
                None => (!is_nothing(value)).then(|| name.clone()),
            })
        }
        (Value::Array(sent), Value::Array(known)) => {
            sent.iter().zip(known).find_map(|(sent, known)| find_unknown_field(sent, known))
        }
        _ => None,
    }
}

/// Parses JSON. The error names the field and never repeats a value, which may be secret.
pub fn parse_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let (path, cause) = (error.path().to_string(), error.inner());
        let text = cause.to_string();
        let ours = ["unknown field", "missing field", "duplicate field", TOO_LONG];
        let what = match cause.classify() {
            serde_json::error::Category::Data if ours.iter().any(|known| text.starts_with(known)) => {
                let end = text.rfind(" at line ").unwrap_or(text.len());
                text[..end].to_owned()
            }
            serde_json::error::Category::Data => UNEXPECTED_VALUE.to_owned(),
            _ => format!("not JSON at line {}, column {}", cause.line(), cause.column()),
        };
        let place = if path == "." { "the body".to_owned() } else { format!("`{}`", abbreviate(&path)) };
        Problem::invalid(format!("{place}: {what}"))
    })?;
    reader.end().map_err(|_| Problem::invalid("the body: unexpected data after the JSON value"))?;
    Ok(read)
}

const TOO_LONG: &str = "more than ";

/// Text of at most `MAX` characters. `Debug` is redacted: it may be secret.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BoundedString<const MAX: usize>(String);

impl<const MAX: usize> std::ops::Deref for BoundedString<MAX> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> fmt::Debug for BoundedString<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Text(…)")
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for BoundedString<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.chars().nth(MAX).is_some() {
            return Err(D::Error::custom(format_args!("{TOO_LONG}{MAX} characters")));
        }
        Ok(Self(text))
    }
}

impl<const MAX: usize> JsonSchema for BoundedString<MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Text{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": MAX})
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::response::IntoResponse;
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct TestForm {
        #[expect(dead_code, reason = "only whether it is taken matters here")]
        secret: BoundedString<8>,
    }

    async fn error_detail(kind: &str, body: &'static str) -> (u16, String) {
        let request = Request::post("/").header(CONTENT_TYPE, kind).body(Body::from(body)).unwrap();
        match JsonBody::<TestForm>::read(request).await {
            Ok(_) => (200, String::new()),
            Err(problem) => {
                let response = problem.into_response();
                let status = response.status().as_u16();
                let body = to_bytes(response.into_body(), 4096).await.unwrap();
                let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
                (status, body["detail"].as_str().unwrap().to_owned())
            }
        }
    }

    proptest! {
        #[test]
        fn parse_json_never_panics_or_echoes_values(body in prop::collection::vec(any::<u8>(), 0..300), secret in "[a-z]{9,40}") {
            drop(parse_json::<TestForm>(&body));
            let wrong = format!(r#"{{"secret": ["{secret}"]}}"#);
            let problem = format!("{:?}", parse_json::<TestForm>(wrong.as_bytes()).unwrap_err());
            prop_assert!(!problem.contains(&secret), "{problem}");
        }
    }

    #[tokio::test]
    async fn parse_error_names_the_field_and_not_the_value() {
        let json = "application/json; charset=utf-8";
        let rows = [
            (json, r#"{"secret": "hunter2"}"#, 200, ""),
            (json, r#"{"secret": "hunter2222"}"#, 400, "`secret`: more than 8 characters"),
            (json, r#"{"secret": 12345678}"#, 400, "`secret`: unexpected value"),
            (
                json,
                r#"{"secret": "x", "role": "admin"}"#,
                400,
                "`role`: unknown field `role`, expected `secret`",
            ),
            (json, r#"{"secret": "x", "secret": "y"}"#, 400, "the body: duplicate field `secret`"),
            (json, r"{}", 400, "the body: missing field `secret`"),
            (json, r#"{"secret": "x"} {"#, 400, "the body: unexpected data after the JSON value"),
            (json, r#"{"secret": "hunt"#, 400, "`secret`: not JSON at line 1, column 16"),
            (
                "text/plain",
                r#"{"secret": "x"}"#,
                415,
                "the body must be JSON with Content-Type `application/json`",
            ),
        ];
        for (kind, body, status, expected) in rows {
            assert_eq!(error_detail(kind, body).await, (status, expected.to_owned()), "{body}");
        }
    }
}
