//! What somebody sent, taken strictly: a field that we do not know, or one that is too long, is refused by its name.

use std::borrow::Cow;
use std::fmt;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use domain::Kind;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};

use crate::problem::{Problem, shortened};

/// More than any of these bodies needs.
const BODY_LIMIT: usize = 64 * 1024;

/// Of a type, its schema.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What a handler can take from a request's body.
pub trait Takes: Sized + Send + 'static {
    /// `None` where there is no body.
    fn schema() -> Option<SchemaOf>;
    fn read(request: Request) -> impl Future<Output = Result<Self, Problem>> + Send;
}

impl Takes for () {
    fn schema() -> Option<SchemaOf> {
        None
    }

    async fn read(_: Request) -> Result<Self, Problem> {
        Ok(())
    }
}

/// A body of JSON.
#[derive(Debug)]
pub struct Sent<T>(pub T);

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Takes for Sent<T> {
    fn schema() -> Option<SchemaOf> {
        Some(SchemaGenerator::subschema_for::<T>)
    }

    async fn read(request: Request) -> Result<Self, Problem> {
        // A form of another site can send text, and cannot send this.
        let json = request.headers().get(CONTENT_TYPE).is_some_and(|kind| {
            let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case("application/json")
                || kind.eq_ignore_ascii_case("application/merge-patch+json")
        });
        if !json {
            let detail = "the body has to be JSON, and Content-Type has to say so";
            return Err(Problem::of_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", detail));
        }
        let body = to_bytes(request.into_body(), BODY_LIMIT).await.map_err(|_| {
            Problem::new(Kind::TooLarge, "too-large", format!("the body has more than {BODY_LIMIT} bytes"))
        })?;
        parse(&body).map(Self)
    }
}

/// Reads JSON; the complaint names the field, and never repeats a value, which could be a secret.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
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
            serde_json::error::Category::Data => "not what is expected there".to_owned(),
            _ => format!("not JSON at line {}, column {}", cause.line(), cause.column()),
        };
        let place = if path == "." { "the body".to_owned() } else { format!("`{}`", shortened(&path)) };
        Problem::invalid(format!("{place}: {what}"))
    })?;
    reader.end().map_err(|_| Problem::invalid("the body: there is something after the JSON"))?;
    Ok(read)
}

const TOO_LONG: &str = "more than ";

/// A text of at most `MAX` characters. It shows itself to nobody who debugs: it may be a secret.
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
    use axum::body::Body;
    use axum::response::IntoResponse;

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
