//! Request bodies, parsed strictly: unknown fields and values over their length limit are refused by name.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use axum::body::Bytes;
use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use domain::Kind;
use futures::StreamExt;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::budget::Account;
use crate::problem::{Problem, shortened};

/// Default body limit, above the size of any valid body.
const BODY_LIMIT: usize = 64 * 1024;

/// Function that generates the schema of a type.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Media type and schema of a body, for the OpenAPI document.
pub struct Taken {
    pub media: &'static str,
    pub schema: SchemaOf,
}

/// A request body that a handler can take.
pub trait Takes: Sized + Send + 'static {
    /// `None` for routes without a body.
    fn taken() -> Option<Taken>;
    fn read(request: Request) -> impl Future<Output = Result<Self, Problem>> + Send;
}

impl Takes for () {
    fn taken() -> Option<Taken> {
        None
    }

    async fn read(_: Request) -> Result<Self, Problem> {
        Ok(())
    }
}

/// A JSON body of at most `LIMIT` bytes.
#[derive(Debug)]
pub struct Sent<T, const LIMIT: usize = BODY_LIMIT>(pub T);

impl<T: DeserializeOwned + JsonSchema + Send + 'static, const LIMIT: usize> Takes for Sent<T, LIMIT> {
    fn taken() -> Option<Taken> {
        Some(Taken { media: "application/json", schema: SchemaGenerator::subschema_for::<T> })
    }

    async fn read(request: Request) -> Result<Self, Problem> {
        // CSRF protection: an HTML form of another site can send `text/plain`, but not these types.
        if !is_said(request.headers(), &["application/json", "application/merge-patch+json"]) {
            let detail = "the body has to be JSON, and Content-Type has to say so";
            return Err(Problem::of_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", detail));
        }
        parse(&whole(request, LIMIT, PARSED).await?).map(Self)
    }
}

/// An optional JSON body. Without one it is the default of `T`.
#[derive(Debug)]
pub struct OptionalBody<T>(pub T);

impl<T: DeserializeOwned + Default + JsonSchema + Send + 'static> Takes for OptionalBody<T> {
    fn taken() -> Option<Taken> {
        Sent::<T>::taken()
    }

    async fn read(request: Request) -> Result<Self, Problem> {
        if !request.headers().contains_key(CONTENT_TYPE) && request.body().is_end_stream() {
            return Ok(Self(T::default()));
        }
        Sent::<T>::read(request).await.map(|Sent(body)| Self(body))
    }
}

/// A chart archive.
#[derive(Debug)]
pub struct Archive(pub Bytes);

/// Maximum size of a chart archive.
const ARCHIVE_LIMIT: usize = 10 << 20;

impl Takes for Archive {
    fn taken() -> Option<Taken> {
        let schema = |_: &mut SchemaGenerator| json_schema!({"type": "string", "format": "binary"});
        Some(Taken { media: "application/gzip", schema })
    }

    async fn read(request: Request) -> Result<Self, Problem> {
        let archives =
            ["application/gzip", "application/x-gzip", "application/octet-stream", "application/x-tar"];
        if !is_said(request.headers(), &archives) {
            let detail = "the body has to be an archive, and Content-Type has to say `application/gzip`";
            return Err(Problem::of_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", detail));
        }
        Ok(Self(whole(request, ARCHIVE_LIMIT, 1).await?))
    }
}

/// Whether `Content-Type` is one of `kinds`.
pub fn is_said(headers: &HeaderMap, kinds: &[&str]) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| {
        let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        kinds.iter().any(|known| kind.eq_ignore_ascii_case(known))
    })
}

/// Estimated memory of a parsed body, in bytes per byte of its text.
pub const PARSED: u64 = 16;
/// Timeout for receiving a body.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

/// Reads the whole body. The request's [`Account`] is charged `weight` bytes for each byte until the handler ends. A body whose
/// `Content-Length` exceeds the limit is refused unread.
pub async fn whole(request: Request, limit: usize, weight: u64) -> Result<Bytes, Problem> {
    let too_large =
        || Problem::new(Kind::TooLarge, "too-large", format!("the body has more than {limit} bytes"));
    let said = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if said.is_some_and(|length: u64| length > limit as u64) {
        return Err(too_large());
    }
    let account = request.extensions().get::<Account>().cloned();
    let mut reserved = account.as_ref().map(|account| account.reserve(0)).transpose()?;
    let mut frames = request.into_body().into_data_stream();
    let mut body = Vec::new();
    let read = async {
        while let Some(frame) = frames.next().await {
            let frame = frame.map_err(|_| Problem::invalid("the body could not be read"))?;
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
        Problem::of_status(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not arrive in time")
    })??;
    if let (Some(account), Some(reserved)) = (account, reserved) {
        account.keep(reserved);
    }
    Ok(body.into())
}

/// A part of a body that has the type of a custom resource. That type ignores unknown fields; this wrapper refuses them.
#[derive(Clone, Debug, Default)]
pub struct Strict<T>(pub T);

impl<'de, T: DeserializeOwned + Serialize> Deserialize<'de> for Strict<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let sent = Value::deserialize(deserializer)?;
        let read: T = serde_json::from_value(sent.clone()).map_err(|_| D::Error::custom(UNEXPECTED))?;
        let known = serde_json::to_value(&read).map_err(|_| D::Error::custom(UNEXPECTED))?;
        match unknown(&sent, &known) {
            Some(name) => Err(D::Error::custom(format_args!("unknown field `{}`", shortened(&name)))),
            None => Ok(Self(read)),
        }
    }
}

impl<T: JsonSchema> JsonSchema for Strict<T> {
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

const UNEXPECTED: &str = "not what is expected there";

/// The first field in `sent` that was ignored. Fields with an empty value are skipped, as they are not serialised again.
fn unknown(sent: &Value, known: &Value) -> Option<String> {
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
                Some(known) => unknown(value, known),
                None => (!is_nothing(value)).then(|| name.clone()),
            })
        }
        (Value::Array(sent), Value::Array(known)) => {
            sent.iter().zip(known).find_map(|(sent, known)| unknown(sent, known))
        }
        _ => None,
    }
}

/// Parses JSON. The error names the field and never repeats a value, which may be secret.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
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
            serde_json::error::Category::Data => UNEXPECTED.to_owned(),
            _ => format!("not JSON at line {}, column {}", cause.line(), cause.column()),
        };
        let place = if path == "." { "the body".to_owned() } else { format!("`{}`", shortened(&path)) };
        Problem::invalid(format!("{place}: {what}"))
    })?;
    reader.end().map_err(|_| Problem::invalid("the body: there is something after the JSON"))?;
    Ok(read)
}

const TOO_LONG: &str = "more than ";

/// Text of at most `MAX` characters. `Debug` is redacted: it may be secret.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text<const MAX: usize>(String);

impl<const MAX: usize> std::ops::Deref for Text<MAX> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> fmt::Debug for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Text(…)")
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Text<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.chars().nth(MAX).is_some() {
            return Err(D::Error::custom(format_args!("{TOO_LONG}{MAX} characters")));
        }
        Ok(Self(text))
    }
}

impl<const MAX: usize> JsonSchema for Text<MAX> {
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
    struct Form {
        #[expect(dead_code, reason = "only whether it is taken matters here")]
        secret: Text<8>,
    }

    async fn detail(kind: &str, body: &'static str) -> (u16, String) {
        let request = Request::post("/").header(CONTENT_TYPE, kind).body(Body::from(body)).unwrap();
        match Sent::<Form>::read(request).await {
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
        fn no_body_breaks_us_or_is_repeated(body in prop::collection::vec(any::<u8>(), 0..300), secret in "[a-z]{9,40}") {
            drop(parse::<Form>(&body));
            let wrong = format!(r#"{{"secret": ["{secret}"]}}"#);
            let problem = format!("{:?}", parse::<Form>(wrong.as_bytes()).unwrap_err());
            prop_assert!(!problem.contains(&secret), "{problem}");
        }
    }

    #[tokio::test]
    async fn a_complaint_names_the_field_and_never_the_value() {
        let json = "application/json; charset=utf-8";
        let rows = [
            (json, r#"{"secret": "hunter2"}"#, 200, ""),
            (json, r#"{"secret": "hunter2222"}"#, 400, "`secret`: more than 8 characters"),
            (json, r#"{"secret": 12345678}"#, 400, "`secret`: not what is expected there"),
            (
                json,
                r#"{"secret": "x", "role": "admin"}"#,
                400,
                "`role`: unknown field `role`, expected `secret`",
            ),
            (json, r#"{"secret": "x", "secret": "y"}"#, 400, "the body: duplicate field `secret`"),
            (json, r"{}", 400, "the body: missing field `secret`"),
            (json, r#"{"secret": "x"} {"#, 400, "the body: there is something after the JSON"),
            (json, r#"{"secret": "hunt"#, 400, "`secret`: not JSON at line 1, column 16"),
            (
                "text/plain",
                r#"{"secret": "x"}"#,
                415,
                "the body has to be JSON, and Content-Type has to say so",
            ),
        ];
        for (kind, body, status, expected) in rows {
            assert_eq!(detail(kind, body).await, (status, expected.to_owned()), "{body}");
        }
    }
}
