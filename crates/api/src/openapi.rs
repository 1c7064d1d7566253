//! The API's own description: `/openapi.json`, and `/docs` for people.

use std::fmt::Write;

use axum::Json;
use axum::response::Html;
use serde_json::{Value, json};

/// One row a route: method, path, what it does, the media type of its answer.
#[rustfmt::skip]
const ROUTES: &[(&str, &str, &str, &str)] = &[
    ("get", "/healthz",      "The process answers",                                  "text/plain"),
    ("get", "/readyz",       "Every part is up; 503 names those that are not",       "text/plain"),
    ("get", "/metrics",      "What the process counts, for Prometheus",              "application/openmetrics-text"),
    ("get", "/openapi.json", "This document",                                        "application/json"),
    ("get", "/docs",         "This document, for people",                            "text/html"),
];

/// `GET /openapi.json`
pub async fn document() -> Json<Value> {
    Json(describe())
}

fn describe() -> Value {
    let mut paths = json!({});
    for (method, path, summary, media) in ROUTES {
        let mut content = json!({});
        content[*media] = json!({});
        paths[*path][*method] =
            json!({"summary": summary, "responses": {"200": {"description": summary, "content": content}}});
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Longshore", "version": env!("CARGO_PKG_VERSION"), "license": {"name": "Apache-2.0"}},
        "paths": paths,
    })
}

/// `GET /docs`
pub async fn page() -> Html<String> {
    let mut rows = String::new();
    for (method, path, summary, _) in ROUTES {
        let method = method.to_uppercase();
        writeln!(rows, "<tr><td>{method}</td><td><a href=\"{path}\">{path}</a></td><td>{summary}</td></tr>")
            .expect("writing to a String cannot fail");
    }
    Html(format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Longshore API</title>\n\
         <h1>Longshore API</h1>\n<p>The whole description: <a href=\"/openapi.json\">openapi.json</a></p>\n\
         <table>\n<thead><tr><th>Method</th><th>Path</th><th>What it does</th></tr></thead>\n<tbody>\n{rows}</tbody></table></html>\n"
    ))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::{Request, StatusCode};
    use tower::ServiceExt;

    use super::*;
    use crate::{Api, Metrics, Readiness};

    #[tokio::test]
    async fn every_described_route_answers() {
        let api = Api { readiness: Readiness::default(), metrics: Metrics::new("test", |_| {}) };
        for (method, path, ..) in ROUTES {
            let request = Request::builder()
                .method(method.to_uppercase().as_str())
                .uri(*path)
                .body(Body::empty())
                .unwrap();
            let response = crate::router(&api).oneshot(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK, "{path}");
        }
    }
}
