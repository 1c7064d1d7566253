//! `GET /openapi.json`: the OpenAPI document of the API, built from the route table.

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::flavour::{ApiFlavour, OpenYurtError};
use crate::problem::ProblemView;
use crate::query;
use crate::requirement::Requirement;
use crate::route::Route;
use crate::routes;

/// `GET /openapi.json`
pub async fn document() -> impl IntoResponse {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| build_document(&routes::table()).to_string().into());
    ([(CONTENT_TYPE, "application/json")], TEXT.clone())
}

/// Describes these routes in OpenAPI 3.1.
pub fn build_document(table: &[Route]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut sent = settings.clone().for_deserialize().into_generator();
    let mut given = settings.for_serialize().into_generator();
    let refusals = ErrorSchemas {
        native: schema_reference::<ProblemView>(&mut given),
        openyurt: schema_reference::<OpenYurtError>(&mut given),
    };
    let mut paths = Map::new();
    for route in table {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation(route, &mut sent, &mut given, &refusals);
    }
    let mut schemas = sent.take_definitions(true);
    schemas.append(&mut given.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Longshore", "version": env!("CARGO_PKG_VERSION"), "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "API token, or Kubernetes token for the audience `longshore`"},
                "authToken": {"type": "apiKey", "in": "header", "name": "X-Auth-Token", "description": "As `token`, for clients of the OpenYurt console"},
                "tokenParameter": {"type": "apiKey", "in": "query", "name": "token", "description": "As `token`, for old clients of the OpenYurt console; can be switched off"},
                "session": {"type": "apiKey", "in": "cookie", "name": "longshore_session", "description": "Session cookie; mutating requests also require the header X-CSRF-Token"},
            },
        },
    })
}

/// Error response schemas per API flavour.
struct ErrorSchemas {
    native: Value,
    openyurt: Value,
}

impl ErrorSchemas {
    fn for_flavour(&self, dialect: ApiFlavour) -> Value {
        match dialect {
            ApiFlavour::Native => json!({"application/problem+json": {"schema": self.native}}),
            ApiFlavour::OpenYurt => json!({"application/json": {"schema": self.openyurt}}),
        }
    }
}

fn schema_reference<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

fn operation(
    route: &Route,
    sent: &mut SchemaGenerator,
    given: &mut SchemaGenerator,
    refusals: &ErrorSchemas,
) -> Value {
    let mut content = json!({});
    if !route.response.media_type.is_empty() {
        content[route.response.media_type] = match route.response.schema {
            Some(schema) => json!({"schema": schema(given)}),
            None => json!({}),
        };
    }
    if let Some((media, schema)) = route.response.alternative {
        content[media] = json!({"schema": schema(given)});
    }
    let mut operation = json!({
        "operationId": route.action,
        "summary": route.summary,
        "description": describe_requirement(route.requirement),
        "tags": [route.action.split('.').next()],
        "responses": {
            route.response.status.as_str(): {"description": route.summary, "content": content},
            "default": {
                "description": "Error response",
                "content": refusals.for_flavour(route.flavour),
            },
        },
    });
    let in_path = path_param_names(route.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    let in_query = route.query.unwrap_or_default().iter().map(|name| query::describe_param(name));
    let key = json!({"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 255}, "description": "Key that makes retries idempotent: requests with the same key take effect once"});
    let once = route.accepts_idempotency_key.then_some(key);
    let version = json!({"name": "If-Match", "in": "header", "schema": {"type": "string"}, "description": "Expected version of the object, as returned in `ETag`; the request fails if it has changed"});
    let in_header = route.accepts_if_match.then_some(version);
    let parameters: Vec<Value> = in_path.chain(in_query).chain(in_header).chain(once).collect();
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(taken) = &route.request_body {
        operation["requestBody"] =
            json!({"required": true, "content": {taken.media_type: {"schema": (taken.schema)(sent)}}});
    }
    if !route.requirement.allows_anonymous(false) {
        operation["security"] = match route.flavour {
            ApiFlavour::Native => json!([{"token": []}, {"session": []}]),
            ApiFlavour::OpenYurt => {
                json!([{"token": []}, {"session": []}, {"authToken": []}, {"tokenParameter": []}])
            }
        };
    }
    operation
}

/// The names of the path parameters.
pub fn path_param_names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// Describes an authorisation requirement in words.
fn describe_requirement(needs: Requirement) -> String {
    match needs {
        Requirement::Public => "No authentication required.".to_owned(),
        Requirement::OptionalUser => "Authentication is optional and permits more.".to_owned(),
        Requirement::LocalOr(what) => {
            format!("Requires a client on the server's machine, or the platform capability {what}.")
        }
        Requirement::Authenticated => "Requires authentication.".to_owned(),
        Requirement::UnrestrictedUser => "Requires a user session or an unscoped API token.".to_owned(),
        Requirement::SelfOr(what) => format!("Requires the user concerned, or the capability {what}."),
        Requirement::Platform(what) => format!("Requires the platform capability {what}."),
        Requirement::Workspace(what) => format!("Requires the capability {what} in the workspace."),
        Requirement::Repo(what) => {
            format!(
                "Requires the capability {what} in the owning workspace; for public repositories, on the platform."
            )
        }
        Requirement::Release(what) => {
            format!("Requires the capability {what} in the workspace that owns the namespace.")
        }
    }
}
