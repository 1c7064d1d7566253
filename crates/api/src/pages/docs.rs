//! `GET /docs`: the OpenAPI document for people, with a table for each schema and an example for each body.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::LazyLock;

use axum::response::IntoResponse;
use serde_json::Value;

use super::example::{self, Examples, is_required, type_names};
use super::{escape, html_page, html_response};
use crate::openapi::build_document;
use crate::routes;

/// Sections of the page: title, introduction, and the tags of their operations.
#[rustfmt::skip]
const AREAS: &[(&str, &str, &[&str])] = &[
    ("Sign-in",          "Sessions with a password, API tokens and kubeconfigs.",         &["session", "tokens", "kubeconfig"]),
    ("Accounts",         "Users, their credentials and the nodes that they joined.",      &["users", "nodes"]),
    ("Workspaces",       "Namespaces that users share, with roles and quotas.",           &["workspaces", "namespaces", "quota", "members", "invitations", "roles"]),
    ("Releases",         "Installed charts, and the operations on them.",                 &["releases", "operations"]),
    ("Charts",           "Chart repositories and uploaded packages.",                     &["repos", "packages"]),
    ("OpenYurt console", "Nodes, node pools and workloads, as the OpenYurt console reads them.", &["console"]),
    ("Server",           "Health, metrics and documentation.",                            &["root", "docs", "openapi", "health", "metrics"]),
];

/// The page.
pub async fn get() -> impl IntoResponse {
    static PAGE: LazyLock<String> = LazyLock::new(|| render(&build_document(&routes::table())));
    html_response(Cow::Borrowed(PAGE.as_str()))
}

/// Renders an OpenAPI document.
fn render(document: &Value) -> String {
    let mut body = String::from(
        "<h1>Longshore API</h1>\n\
         <p class=\"dim\">Also as <a href=\"/openapi.json\">openapi.json</a>. In the examples, <code>$SERVER</code> is the address of this \
         server and <code>$TOKEN</code> an API token.</p>\n<nav><ul>\n",
    );
    for (title, introduction, _) in AREAS {
        line(
            &mut body,
            format_args!(
                "<li><a href=\"#{}\">{}</a>: {}</li>",
                anchor(title),
                escape(title),
                escape(introduction)
            ),
        );
    }
    body.push_str("<li><a href=\"#schemas\">Schemas</a></li>\n</ul></nav>\n");
    for (title, introduction, tags) in AREAS {
        line(
            &mut body,
            format_args!(
                "<h2 id=\"{}\">{}</h2>\n<p>{}</p>",
                anchor(title),
                escape(title),
                escape(introduction)
            ),
        );
        for tag in *tags {
            for (path, method, operation) in operations(document).filter(|(.., it)| it["tags"][0] == **tag) {
                body.push_str(&render_operation(document, path, method, operation));
            }
        }
    }
    body.push_str("<h2 id=\"schemas\">Schemas</h2>\n");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        line(&mut body, format_args!("<h3 id=\"schema-{0}\">{0}</h3>", escape(name)));
        body.push_str(&render_schema(schema));
    }
    html_page("Longshore API", &body)
}

/// Path, method and operation of everything in the document.
fn operations(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        methods.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    })
}

fn render_operation(document: &Value, path: &str, method: &str, operation: &Value) -> String {
    let text = |value: &Value| escape(value.as_str().unwrap_or_default());
    let method = method.to_uppercase();
    let mut html = String::new();
    line(
        &mut html,
        format_args!(
            "<details id=\"{}\"><summary><b>{}</b> <code>{}</code> {}</summary>\n<p>{}</p>",
            text(&operation["operationId"]),
            escape(&method),
            escape(path),
            text(&operation["summary"]),
            text(&operation["description"]),
        ),
    );
    let mut rows = String::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let (name, place) = (text(&parameter["name"]), text(&parameter["in"]));
        let (kind, meaning) = (type_html(&parameter["schema"]), text(&parameter["description"]));
        line(
            &mut rows,
            format_args!(
                "<tr><td><code>{name}</code></td><td>{place}</td><td>{kind}</td><td>{meaning}</td></tr>"
            ),
        );
    }
    if !rows.is_empty() {
        line(
            &mut html,
            format_args!(
                "<table><thead><tr><th>Parameter</th><th>In</th><th>Type</th><th>Description</th></tr></thead><tbody>\n{rows}</tbody></table>"
            ),
        );
    }
    line(
        &mut html,
        format_args!("<h4>Example</h4>\n<pre>{}</pre>", escape(&curl(document, path, &method, operation))),
    );
    for (media, content) in operation["requestBody"]["content"].as_object().into_iter().flatten() {
        html.push_str(&render_body(document, "Request", media, &content["schema"]));
    }
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let title = if status == "default" { "Error".to_owned() } else { format!("Response {status}") };
        let content = response["content"].as_object().filter(|content| !content.is_empty());
        if content.is_none() {
            line(&mut html, format_args!("<h4>{}</h4>\n<p>No content.</p>", escape(&title)));
        }
        for (media, content) in content.into_iter().flatten() {
            // Errors have the same schema everywhere, which its table shows.
            let schema = &content["schema"];
            if status == "default" {
                line(&mut html, format_args!("<h4>{}</h4>\n<p>{}</p>", escape(&title), type_html(schema)));
            } else {
                html.push_str(&render_body(document, &title, media, schema));
            }
        }
    }
    html.push_str("</details>\n");
    html
}

fn render_body(document: &Value, title: &str, media: &str, schema: &Value) -> String {
    let mut html = format!("<h4>{}</h4>\n<p>{}", escape(title), escape(media));
    if schema.is_object() {
        write!(html, ": {}", type_html(schema)).expect("writing to a String cannot fail");
    }
    html.push_str("</p>\n");
    let is_json = media.ends_with("json") || media == "text/event-stream";
    if is_json && schema.is_object() {
        let examples = Examples { schemas: &document["components"]["schemas"], required_only: false };
        line(&mut html, format_args!("<pre>{}</pre>", escape(&format!("{:#}", examples.of(schema)))));
    }
    html
}

/// The command that sends a request, with the required fields of its body.
fn curl(document: &Value, path: &str, method: &str, operation: &Value) -> String {
    let place = |part: &str| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
        Some(name) => example::text(name).to_owned(),
        None => part.to_owned(),
    };
    let path: Vec<String> = path.split('/').map(place).collect();
    let mut command = format!("curl -X {method} \"$SERVER{}\"", path.join("/"));
    if operation["security"].is_array() {
        command.push_str(" \\\n  -H \"Authorization: Bearer $TOKEN\"");
    }
    for (media, content) in operation["requestBody"]["content"].as_object().into_iter().flatten().take(1) {
        let examples = Examples { schemas: &document["components"]["schemas"], required_only: true };
        let data = if media.ends_with("json") {
            // A quote ends the quoted word of the shell, is quoted, and begins it again.
            format!("-d '{}'", examples.of(&content["schema"]).to_string().replace('\'', "'\\''"))
        } else {
            "--data-binary @FILE".to_owned()
        };
        write!(command, " \\\n  -H 'Content-Type: {media}' \\\n  {data}")
            .expect("writing to a String cannot fail");
    }
    command
}

/// The description of a schema, and a table of its fields or values.
fn render_schema(schema: &Value) -> String {
    let mut html = String::new();
    if let Some(description) = schema["description"].as_str() {
        line(&mut html, format_args!("<p>{}</p>", escape(description)));
    }
    let Some(fields) = schema["properties"].as_object() else {
        line(&mut html, format_args!("<p>{}</p>", type_html(schema)));
        return html;
    };
    html.push_str("<table><thead><tr><th>Field</th><th>Type</th><th>Description</th></tr></thead><tbody>\n");
    for (name, field) in fields {
        let required = if is_required(schema, name) { " <span class=\"dim\">required</span>" } else { "" };
        let meaning = escape(field["description"].as_str().unwrap_or_default());
        let (name, kind) = (escape(name), type_html(field));
        line(
            &mut html,
            format_args!("<tr><td><code>{name}</code>{required}</td><td>{kind}</td><td>{meaning}</td></tr>"),
        );
    }
    html.push_str("</tbody></table>\n");
    html
}

/// The type of a schema in words, with a link to a named one.
fn type_html(schema: &Value) -> String {
    if let Some(target) = schema["$ref"].as_str() {
        let name = escape(target.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    let literals = schema.get("const").into_iter().chain(schema["enum"].as_array().into_iter().flatten());
    let literals: Vec<String> =
        literals.map(|value| format!("<code>{}</code>", escape(&value.to_string()))).collect();
    if !literals.is_empty() {
        return literals.join(" or ");
    }
    let alternatives = ["anyOf", "oneOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten();
    let alternatives: Vec<String> = alternatives.map(type_html).collect();
    if !alternatives.is_empty() {
        return alternatives.join(" or ");
    }
    let names: Vec<String> = type_names(schema)
        .map(|name| match name {
            "array" => format!("array of {}", type_html(&schema["items"])),
            "object" if schema["additionalProperties"].is_object() => {
                format!("map of {}", type_html(&schema["additionalProperties"]))
            }
            name => escape(name),
        })
        .collect();
    let mut html = if names.is_empty() { "any".to_owned() } else { names.join(" or ") };
    for (key, words) in [
        ("maxLength", "at most {} characters"),
        ("maxItems", "at most {} items"),
        ("minimum", "from {}"),
        ("maximum", "up to {}"),
    ] {
        if let Some(bound) = schema.get(key).filter(|bound| bound.as_i64() != Some(0)) {
            write!(html, ", {}", words.replace("{}", &escape(&bound.to_string())))
                .expect("writing to a String cannot fail");
        }
    }
    html
}

fn anchor(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}

fn line(html: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(html, "{text}").expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn every_operation_and_schema_is_on_the_page_once_and_every_link_has_a_target() {
        let document = build_document(&routes::table());
        let page = render(&document);
        let ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "an id is used twice");
        for (path, method, operation) in operations(&document) {
            assert!(ids.contains(&operation["operationId"].as_str().unwrap()), "{method} {path} has no area");
        }
        for name in document["components"]["schemas"].as_object().unwrap().keys() {
            assert!(ids.contains(&format!("schema-{name}").as_str()), "{name}");
        }
        for (name, example) in example::SCHEMAS {
            let fields = &document["components"]["schemas"][name]["properties"];
            let example: Value = serde_json::from_str(example).unwrap();
            assert!(example.as_object().unwrap().keys().all(|field| fields[field].is_object()), "{name}");
        }
        for target in page.split(" href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(ids.contains(&target), "#{target} points nowhere");
        }
    }

    #[test]
    fn page_loads_nothing_and_runs_nothing() {
        let page = render(&build_document(&routes::table()));
        for word in [
            "<script",
            "<link",
            "<img",
            "<iframe",
            "javascript:",
            " src=",
            " style=",
            " onclick=",
            "http://",
            "url(",
        ] {
            assert!(!page.contains(word), "{word}");
        }
        assert_eq!(page.matches("<style>").count(), 1);
        assert!(page.len() < 1 << 20, "{} bytes", page.len());
    }

    #[test]
    fn text_of_the_document_is_escaped() {
        let hostile = "<script>alert('1')</script>\" onclick=\"x";
        let field = json!({"type": "string", "description": hostile, "default": hostile});
        let document = json!({
            "paths": {format!("/{hostile}"): {"get": {
                "operationId": hostile, "summary": hostile, "description": hostile, "tags": ["users"], "security": [],
                "parameters": [{"name": hostile, "in": hostile, "description": hostile, "schema": {"type": hostile, "maxLength": hostile}}],
                "requestBody": {"content": {"application/json": {"schema": {"$ref": format!("#/{hostile}")}}, hostile: {}}},
                "responses": {"200": {"content": {"application/json": {"schema": {"enum": [hostile]}}, hostile: {}}}, hostile: {}},
            }}},
            "components": {"schemas": {hostile: {"description": hostile, "properties": {hostile: field}, "required": [hostile]}}},
        });
        let page = render(&document);
        assert!(!page.contains("<script") && !page.contains("\" onclick"), "{page}");
        assert!(page.contains("&lt;script&gt;"));
    }

    #[test]
    fn example_command_has_the_required_fields_and_credentials() {
        let document = build_document(&routes::table());
        let path = "/api/longshore/v1/workspaces/{workspace}/namespaces";
        let command = curl(&document, path, "POST", &document["paths"][path]["post"]);
        assert_eq!(
            command,
            "curl -X POST \"$SERVER/api/longshore/v1/workspaces/acme/namespaces\" \\\n  -H \"Authorization: Bearer $TOKEN\" \\\n  \
             -H 'Content-Type: application/json' \\\n  -d '{\"name\":\"web\"}'"
        );
    }
}
