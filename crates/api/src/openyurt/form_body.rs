//! Request bodies of the OpenYurt console: JSON or HTML form, parsed strictly.

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::body::{
    PARSED_BYTES_PER_INPUT_BYTE, RequestBody, RequestBodySpec, has_content_type, parse_json, read_body,
};
use crate::budget::RequestBudget;
use crate::flavour::TOKEN_PARAM;
use crate::problem::{Problem, abbreviate};

/// Body limit, above the size of any valid body; old clients may send their whole kubeconfig.
const BODY_LIMIT: usize = 128 * 1024;

const JSON_TYPES: &[&str] = &["application/json"];
const FORM_TYPES: &[&str] = &["application/x-www-form-urlencoded"];

/// A JSON body, or a form with the same field names.
#[derive(Debug)]
pub struct Form<T>(pub T);

impl<T: DeserializeOwned + JsonSchema + Send + 'static> RequestBody for Form<T> {
    fn spec() -> Option<RequestBodySpec> {
        Some(RequestBodySpec { media_type: "application/json", schema: SchemaGenerator::subschema_for::<T> })
    }

    async fn read(request: Request) -> Result<Self, Problem> {
        let headers = request.headers().clone();
        let body = read_body(request, BODY_LIMIT, PARSED_BYTES_PER_INPUT_BYTE).await?;
        parse_json(&to_json(&headers, body)?).map(Self)
    }
}

/// A field that old clients send and that is ignored.
#[derive(Clone, Copy, Debug, Default)]
pub struct IgnoredField;

impl<'de> Deserialize<'de> for IgnoredField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl JsonSchema for IgnoredField {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Overlooked".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"description": "Ignored; accepted for old clients"})
    }
}

/// Converts a JSON or form body to JSON.
fn to_json(headers: &HeaderMap, body: Bytes) -> Result<Bytes, Problem> {
    if has_content_type(headers, JSON_TYPES) {
        return Ok(body);
    }
    if !has_content_type(headers, FORM_TYPES) {
        let detail = "the body must be JSON or a form, with the matching Content-Type";
        return Err(Problem::with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", detail));
    }
    let mut fields = Map::new();
    for (name, value) in form_urlencoded::parse(&body) {
        if fields.contains_key(&*name) {
            return Err(Problem::invalid(format!("duplicate form field `{}`", abbreviate(&name))));
        }
        fields.insert(name.into_owned(), Value::String(value.into_owned()));
    }
    Ok(Value::Object(fields).to_string().into())
}

/// The token in the body, and the body for the handler. A malformed body has no token.
pub async fn extract_token(
    headers: &HeaderMap,
    body: Body,
    account: RequestBudget,
) -> Result<(Body, Option<String>), Problem> {
    let mut request = Request::new(body);
    request.extensions_mut().insert(account);
    request.headers_mut().extend(headers.get(CONTENT_TYPE).map(|kind| (CONTENT_TYPE, kind.clone())));
    let bytes = read_body(request, BODY_LIMIT, PARSED_BYTES_PER_INPUT_BYTE).await?;
    let read = to_json(headers, bytes.clone()).ok();
    let fields = read.and_then(|json| serde_json::from_slice::<Map<String, Value>>(&json).ok());
    let token = fields.and_then(|fields| fields.get(TOKEN_PARAM)?.as_str().map(str::to_owned));
    Ok((Body::from(bytes), token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::BoundedString;
    use axum::response::IntoResponse;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct PhoneForm {
        #[serde(alias = "mobilephone", alias = "mobilePhone")]
        phone: BoundedString<20>,
        #[expect(dead_code, reason = "nobody looks at it")]
        #[serde(rename = "kubeConfig")]
        kube_config: Option<IgnoredField>,
    }

    async fn read(kind: &str, body: &'static str) -> Result<String, u16> {
        let request = Request::post("/").header(CONTENT_TYPE, kind).body(Body::from(body)).unwrap();
        let read = Form::<PhoneForm>::read(request).await;
        read.map(|Form(both)| both.phone.to_string())
            .map_err(|problem| problem.into_response().status().as_u16())
    }

    #[tokio::test]
    async fn form_body_is_equivalent_to_json_body() {
        let form = "application/x-www-form-urlencoded";
        let json = "application/json; charset=utf-8";
        let rows = [
            (json, r#"{"phone": "1 2"}"#, Ok("1 2")),
            (json, r#"{"mobilePhone": "12", "kubeConfig": {"server": ["x"]}}"#, Ok("12")),
            (form, "phone=%2B1+2", Ok("+1 2")),
            (form, "mobilephone=12&kubeConfig=apiVersion%3A+v1", Ok("12")),
            (form, "phone=1&phone=2", Err(400)),
            (form, "phone=1&mobilephone=2", Err(400)),
            (json, r#"{"phone": "1", "mobilephone": "2"}"#, Err(400)),
            (form, "phone=1&role=admin", Err(400)),
            (form, "", Err(400)),
            (json, "", Err(400)),
            ("text/plain", r#"{"phone": "1"}"#, Err(415)),
        ];
        for (kind, body, expected) in rows {
            assert_eq!(read(kind, body).await, expected.map(str::to_owned), "{kind} {body}");
        }
    }

    #[tokio::test]
    async fn extract_token_reads_json_and_form_and_keeps_the_body() {
        for (kind, body, expected) in [
            ("application/json", r#"{"name": "a", "token": "t"}"#, Some("t")),
            ("application/json", r#"{"token": 7}"#, None),
            ("application/json", r"[", None),
            ("application/x-www-form-urlencoded", "name=a&token=t%20u", Some("t u")),
            ("text/plain", "token=t", None),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, kind.parse().unwrap())]);
            let account = RequestBudget::for_caller(&crate::budget::governor(), None, None);
            let (again, found) = extract_token(&headers, Body::from(body), account).await.unwrap();
            assert_eq!(found.as_deref(), expected, "{body}");
            assert_eq!(axum::body::to_bytes(again, 999).await.unwrap(), body.as_bytes());
        }
    }
}
