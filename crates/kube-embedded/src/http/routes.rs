//! Non-resource endpoints: discovery, OpenAPI, health, version.

use std::fmt::Write;
use std::sync::Arc;

use aws_lc_rs::digest;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, LOCATION, VARY,
};
use http::request::Parts;
use http::{Method, Response};
use serde_json::{Value, json};

use super::negotiate::{self, OfferedTypes, View};
use super::query::Query;
use super::respond::{self, Body, full, response, text};
use super::target::{self, ResourcePath};
use crate::access::tokens;
use crate::cluster::Cluster;
use crate::error::{ApiError, Result};
use crate::schema::resources::Resource;
use crate::{discovery, openapi};

/// Looks up the resource of a path; `None` for an unknown group, whose paths are not part of the API.
pub fn find_resource(cluster: &Cluster, path: &ResourcePath) -> Result<Option<Arc<Resource>>> {
    let registry = cluster.registry();
    if let Some(found) = registry.get(&path.group, &path.version, &path.resource) {
        return Ok(Some(found.clone()));
    }
    if registry.is_builtin_group(&path.group) {
        return Err(ApiError::no_such_resource());
    }
    Ok(None)
}

/// The 404 response for paths outside the API.
pub fn not_found() -> Response<Body> {
    text(404, "404 page not found\n")
}

/// Whether only GET is allowed: paths of group versions, `/api`, `/version` and the `OpenID` documents. Others accept every method.
fn is_get_only(path: &str) -> bool {
    matches!(path, "/api" | "/version" | "/.well-known/openid-configuration" | "/openid/v1/jwks")
        || target::parse_resource_path(path).is_some()
}

pub fn handle(cluster: &Cluster, parts: &Parts, query: &Query) -> Result<Response<Body>> {
    let path = parts.uri.path().trim_end_matches('/');
    if parts.method != Method::GET && is_get_only(path) {
        return Err(ApiError::method_not_allowed());
    }
    let accept = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    match path {
        "" | "/index.html" => Ok(respond::json(200, &json!({"paths": paths(cluster)}))),
        "/healthz" | "/livez" | "/readyz" => Ok(health(cluster, &path[1..], query)),
        "/healthz/ping" | "/livez/ping" | "/readyz/ping" => Ok(text(200, "ok")),
        "/version" => {
            negotiate::negotiate(accept, OfferedTypes::Json, negotiate::no_views)?;
            Ok(respond::json(200, &version()))
        }
        "/metrics" => metrics(cluster),
        "/api" => discovery_root(cluster, parts, accept, true),
        "/apis" => discovery_root(cluster, parts, accept, false),
        "/openapi/v3" => {
            let registry = cluster.registry();
            Ok(with_etag(parts, "application/json", &openapi::index(registry.resources(), &custom_schema)))
        }
        "/openapi/v2" => Ok(openapi_v2(accept)),
        "/.well-known/openid-configuration" => {
            Ok(respond::json(200, &tokens::discovery("https://kubernetes.default.svc")))
        }
        "/openid/v1/jwks" => Ok(response(
            200,
            "application/jwk-set+json",
            full(cluster.pki().signing_key().key_set().to_string()),
        )),
        _ => match path.strip_prefix("/openapi/v3/") {
            Some(group_version) => Ok(openapi_v3(cluster, parts, query, group_version)),
            None if path.starts_with("/version/") => Err(ApiError::no_such_resource()),
            None => group(cluster, path, accept),
        },
    }
}

fn paths(cluster: &Cluster) -> Vec<String> {
    let mut paths: Vec<String> =
        ["/api", "/apis", "/healthz", "/livez", "/readyz", "/version", "/openapi/v2", "/openapi/v3"]
            .map(str::to_owned)
            .to_vec();
    for resource in cluster.registry().resources() {
        let prefix = if resource.group.is_empty() { "/api/" } else { "/apis/" };
        paths.push(format!("{prefix}{}", resource.api_version()));
    }
    paths.sort();
    paths.dedup();
    paths
}

/// Returns `/version`; the suffix `+longshore` marks a cluster that runs no containers.
pub fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": "v1.36.3+longshore", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "go1.26", "compiler": "rustc",
        "platform": concat!("linux/", "amd64"),
    })
}

fn health(cluster: &Cluster, name: &str, query: &Query) -> Response<Body> {
    let writable = cluster.store().is_writable();
    let failing = cluster.health().failing();
    let starved = cluster.starved_levels();
    let live = name == "livez";
    let checks = [
        ("ping", true),
        ("store", writable || live),
        ("background-tasks", failing.is_empty() || live),
        ("capacity", starved.is_empty() || live),
    ];
    let well = checks.iter().all(|(_, ok)| *ok);
    if well && query.get("verbose").is_none() {
        return text(200, "ok");
    }
    let mut body = String::new();
    for (check, ok) in checks {
        let (mark, word) = if ok { ('+', "ok") } else { ('-', "failed") };
        let _ = writeln!(body, "[{mark}]{check} {word}"); // writing to a String cannot fail
    }
    for (task, _) in failing {
        let _ = writeln!(body, "[-]background-tasks/{task} restarting");
    }
    for what in starved {
        let _ = writeln!(body, "[-]capacity/{what} starved");
    }
    let _ = writeln!(body, "{name} check {}", if well { "passed" } else { "failed" });
    text(if well { 200 } else { 503 }, body)
}

fn metrics(cluster: &Cluster) -> Result<Response<Body>> {
    let mut registry = prometheus_client::registry::Registry::default();
    cluster.metrics().register(&mut registry);
    let mut shown = String::new();
    let failed = |error| ApiError::internal(format!("cannot show the metrics: {error}"));
    prometheus_client::encoding::text::encode(&mut shown, &registry).map_err(failed)?;
    Ok(response(200, "application/openmetrics-text; version=1.0.0; charset=utf-8", full(shown)))
}

/// Returns a document with an `ETag`; 304 if the client has it already.
fn with_etag(parts: &Parts, content_type: &'static str, document: &Value) -> Response<Body> {
    let body = serde_json::to_vec(document).expect("a JSON value serialises");
    let tag = format!("\"{}\"", hash(&body));
    let known = parts.headers.get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == tag.as_bytes());
    let mut answer =
        if known { response(304, content_type, full("")) } else { response(200, content_type, full(body)) };
    let headers = answer.headers_mut();
    headers.insert(ETAG, HeaderValue::from_str(&tag).expect("a quoted hash is a header value"));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    answer
}

/// Returns the first 64 hexadecimal digits of SHA-512.
pub fn hash(bytes: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA512, bytes);
    let mut hash = String::new();
    for byte in &digest.as_ref()[..32] {
        let _ = write!(hash, "{byte:02X}"); // writing to a String cannot fail
    }
    hash
}

fn discovery_root(
    cluster: &Cluster,
    parts: &Parts,
    accept: Option<&str>,
    core: bool,
) -> Result<Response<Body>> {
    let representation = negotiate::negotiate(
        accept,
        if core { OfferedTypes::Object } else { OfferedTypes::Lenient },
        negotiate::discovery_views,
    )?;
    let registry = cluster.registry();
    if let View::Discovery(_) = representation.view {
        let kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let served = registry.resources();
        let document =
            if core { discovery::aggregated_core(served) } else { discovery::aggregated_groups(served) };
        return Ok(with_etag(parts, kind, &document));
    }
    let document = if core {
        discovery::core_versions("127.0.0.1:6443")
    } else {
        discovery::group_list(registry.resources())
    };
    Ok(respond::document(200, &document, representation.format))
}

/// Handles `/api/v1`, `/apis/apps`, `/apis/apps/v1`.
fn group(cluster: &Cluster, path: &str, accept: Option<&str>) -> Result<Response<Body>> {
    let registry = cluster.registry();
    let shown = |document: &Value, offer: OfferedTypes| {
        let format = negotiate::negotiate(accept, offer, negotiate::no_views)?.format;
        Ok(respond::document(200, document, format))
    };
    if let Some(found) = target::parse_resource_path(path) {
        let alone = found.name.is_empty() && found.namespace.is_empty();
        let document = discovery::resource_list(registry.resources(), &found.group, &found.version);
        if let Some(document) = document.filter(|_| alone) {
            return shown(&document, OfferedTypes::Object);
        }
        if registry.is_builtin_group(&found.group) {
            return Err(ApiError::no_such_resource());
        }
    } else if let Some(name) = path.strip_prefix("/apis/").filter(|name| !name.contains('/'))
        && let Some(document) = discovery::group(registry.resources(), name)
    {
        return shown(&document, OfferedTypes::Lenient);
    }
    Ok(not_found())
}

/// Returns the OpenAPI schema of a custom resource from its CRD.
pub fn custom_schema(resource: &Resource) -> Value {
    resource.custom.as_ref().map(|custom| custom.openapi().clone()).unwrap_or_default()
}

fn openapi_v2(accept: Option<&str>) -> Response<Body> {
    if accept.is_some_and(|accept| accept.contains("protobuf")) {
        let kind = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
        return response(200, kind, full(openapi::V2_PROTOBUF));
    }
    respond::json(200, &openapi::v2())
}

fn openapi_v3(cluster: &Cluster, parts: &Parts, query: &Query, group_version: &str) -> Response<Body> {
    let Some((document, hash)) = cluster.openapi(group_version) else {
        let mut nothing = text(404, "");
        nothing.headers_mut().remove(CONTENT_TYPE);
        return nothing;
    };
    if let Some(asked) = query.get("hash") {
        if asked != hash {
            let mut moved = response(301, "text/html; charset=utf-8", full(""));
            let to = format!("/openapi/v3/{group_version}?hash={hash}");
            if let Ok(to) = HeaderValue::from_str(&to) {
                moved.headers_mut().insert(LOCATION, to);
            }
            return moved;
        }
        let mut answer = response(200, "application/json", full(document));
        let headers = answer.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        headers.insert(EXPIRES, HeaderValue::from_static("Thu, 31 Dec 2037 23:55:55 GMT"));
        headers.insert(
            ETAG,
            HeaderValue::from_str(&format!("\"{hash}\"")).expect("a quoted hash is a header value"),
        );
        return answer;
    }
    let tag = format!("\"{hash}\"");
    let known = parts.headers.get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == tag.as_bytes());
    let mut answer = if known {
        response(304, "application/json", full(""))
    } else {
        response(200, "application/json", full(document))
    };
    answer.headers_mut().insert(ETAG, HeaderValue::from_str(&tag).expect("a quoted hash is a header value"));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
