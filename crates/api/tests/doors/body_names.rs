//! Hostile names in every string of every body, by the schemas of the OpenAPI document, and in every query parameter.
//!
//! A string that is neither tried nor in [`FREE_TEXT_FIELDS`] fails the test, so that each new field is classified.

use std::collections::BTreeSet;

use api::openapi::build_document;
use api::routes;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Request};
use domain::names::hostile_names;
use domain::roles::PlatformRole;
use serde_json::{Map, Value, json};

use crate::names::{call_encoded, encoded, fill_path};
use crate::releases::chart_archive;
use crate::test_server::{ROOT, TestCredential, TestResponse, TestServer, TestUser, request};

/// Free strings, by the ends of their JSON pointers: display names, secrets, addresses, patterns and quantities, and
/// parts of objects that the cluster validates. None of them becomes part of a path.
const FREE_TEXT_FIELDS: &[&str] = &[
    "/description",
    "/displayName",
    "/organization",
    "/email",
    "/phone",
    "/password",
    "/secret",
    "/login",
    "/old",
    "/new",
    "/code",
    "/url",
    "/username",
    "/token",
    "/ca",
    "/certificate",
    "/credentials/key",
    "/patch",
    "/timeAdded",
    "/timeout",
    "/group",
    "/version",
    "/annotationSelector",
    "/labelSelector",
    "/target/kind",
    "/target/name",
    "/target/namespace",
    "/paths/0",
    "/limits/{key}",
    "/limits/*",
    "/requests/{key}",
    "/requests/*",
    "tokens.create /name",
    "console.login.post /name",
    "/annotations/{key}",
    "/annotations/*",
    "/labels/{key}",
    "/labels/*",
    "/taints/0/key",
    "/taints/0/value",
    "/quota/*",
    "/share/*",
    "/shares/*/*",
    // Compared with the objects of the chart.
    "releases.plan /roles/0/container",
    "releases.plan /roles/0/kind",
    "releases.plan /roles/0/name",
];

fn is_free(act: &str, leaf: &str) -> bool {
    let text = format!("{act} {leaf}");
    FREE_TEXT_FIELDS.iter().any(|end| text.ends_with(end))
}

/// Strings of a schema as JSON pointers: `0` is the first element of a list, `{key}` a key of a map, and `*` its
/// value.
fn string_pointers(document: &Value, schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    if let Some(target) = schema["$ref"].as_str() {
        return string_pointers(
            document,
            document.pointer(target.trim_start_matches('#')).unwrap(),
            at,
            found,
        );
    }
    for word in ["anyOf", "oneOf", "allOf"] {
        schema[word]
            .as_array()
            .into_iter()
            .flatten()
            .for_each(|part| string_pointers(document, part, at, found));
    }
    let is_text = |kind: &Value| {
        kind == "string" || kind.as_array().is_some_and(|kinds| kinds.contains(&"string".into()))
    };
    if is_text(&schema["type"]) {
        found.insert(at.to_owned());
    }
    for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
        string_pointers(document, schema, &format!("{at}/{field}"), found);
    }
    if schema["items"].is_object() {
        string_pointers(document, &schema["items"], &format!("{at}/0"), found);
    }
    if schema["additionalProperties"].is_object() {
        found.insert(format!("{at}/{{key}}"));
        string_pointers(document, &schema["additionalProperties"], &format!("{at}/*"), found);
    }
}

/// The body with `name` at this pointer, or `None` if the body has no such field.
fn with_name(body: &Value, leaf: &str, name: &str) -> Option<Value> {
    let mut changed = body.clone();
    let mut place = &mut changed;
    for step in leaf.split('/').skip(1) {
        place = match step {
            "{key}" => {
                let map: &mut Map<String, Value> = place.as_object_mut()?;
                let key = map.keys().next()?.clone();
                let value = map.remove(&key)?;
                map.insert(name.to_owned(), value);
                return Some(changed);
            }
            "*" => place.as_object_mut()?.values_mut().next()?,
            "0" => place.as_array_mut()?.first_mut()?,
            field => place.as_object_mut()?.get_mut(field)?,
        };
    }
    *place = name.into();
    Some(changed)
}

/// A user with all rights, and a workspace `acme` with a release `web`, a repository and a pool.
struct NamesFixture {
    house: TestServer,
    admin: TestUser,
    package: Value,
}

impl NamesFixture {
    async fn new() -> Self {
        let house = TestServer::with_simulated_node().await;
        let admin = house.create_user(1, &[PlatformRole::Admin]).await;
        house.create_workspace("acme", &admin, &[]).await;
        let mut upload =
            request(Method::POST, &format!("{ROOT}/packages?ws=acme"), &admin.credential(), None);
        upload.headers_mut().insert(CONTENT_TYPE, "application/gzip".parse().unwrap());
        let (parts, _) = upload.into_parts();
        let kept = house.send(Request::from_parts(parts, Body::from(chart_archive()))).await;
        assert_eq!(kept.code(), 200, "{}", kept.text);
        let package = kept.json()["package"].clone();
        Self { house, admin, package }
    }

    /// Actions with valid bodies, in this order. Together they have every string that is not free.
    fn request_bodies(&self) -> Vec<(&'static str, Value)> {
        let package = json!({"package": self.package});
        let roles = json!([{"kind": "Deployment", "name": "web", "container": "web"}]);
        let repo = json!({"repo": "acme.charts", "name": "web"});
        let oci = json!({"oci": "oci://127.0.0.1:9/charts/web"});
        let pool = json!({"labels": {"a": "b"}, "annotations": {"a": "b"}, "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]});
        let mut new_pool = pool.clone();
        (new_pool["name"], new_pool["type"], new_pool["tenant"]) =
            ("hangzhou".into(), "Edge".into(), self.admin.id.to_string().into());
        let release = json!({"cluster": "host", "namespace": "acme", "name": "web", "chart": package, "roles": roles,
            "options": {"timeout": "1m"}, "remediation": {"strategy": "rollback"}, "driftDetection": {"mode": "warn"}});
        let elsewhere = |chart: &Value| json!({"namespace": "acme", "name": "other", "chart": chart});
        let change = json!({"chart": package, "roles": roles, "options": {"timeout": "1m"}});
        vec![
            ("releases.create", release),
            ("releases.create", elsewhere(&repo)),
            ("releases.create", elsewhere(&oci)),
            ("releases.plan", change.clone()),
            ("releases.plan", json!({"chart": repo})),
            ("releases.plan", json!({"chart": oci})),
            ("releases.update", change),
            ("releases.update", json!({"chart": repo})),
            ("releases.update", json!({"chart": oci})),
            (
                "repos.create",
                json!({"name": "charts", "workspace": "acme", "url": "https://charts.example.com"}),
            ),
            ("tokens.create", json!({"name": "t", "scopes": ["workspace:acme"]})),
            ("users.update", json!({"platformRoles": ["admin"]})),
            ("workspaces.create", json!({"name": "other"})),
            ("namespaces.create", json!({"name": "test", "share": {"pods": "1"}})),
            ("invitations.create", json!({"to": "p9@example.com", "role": "viewer"})),
            ("members.update", json!({"role": "admin"})),
            ("quota.update", json!({"quota": {"pods": "20"}, "shares": {"acme-test": {"pods": "2"}}})),
            ("console.pools.create", new_pool),
            ("console.pools.update", pool),
            (
                "console.login.post",
                json!({"email": "p1@example.com", "token": self.admin.token, "pool": "hangzhou"}),
            ),
        ]
    }
}

fn is_refused(answer: &TestResponse) -> bool {
    matches!(answer.code(), 400 | 403 | 404 | 413 | 422) && answer.text.len() < 2_000
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_in_bodies_are_refused() {
    let scene = NamesFixture::new().await;
    let (key, me) = (scene.admin.credential(), scene.admin.id.to_string());
    let table = routes::table();
    let document = build_document(&table);
    let mut tried = BTreeSet::new();
    for (act, body) in scene.request_bodies() {
        let row = table.iter().find(|row| row.action == act).unwrap_or_else(|| panic!("no act {act}"));
        let mut path = fill_path(row.path, &me);
        if act == "repos.create" {
            path.push_str("?check=false");
        }
        let schema = &document["paths"][row.path][row.method.as_str().to_lowercase()]["requestBody"]["content"]
            ["application/json"]["schema"];
        let mut leaves = BTreeSet::new();
        string_pointers(&document, schema, "", &mut leaves);
        // Without a hostile name the body is accepted, except for charts that do not exist.
        let answer = call_encoded(&scene.house, &row.method, &path, &key, Some(body.clone())).await;
        let is_elsewhere = !body["chart"].is_null() && body["chart"]["package"].is_null();
        assert!(answer.status.is_success() || is_elsewhere, "{act}: {} {}", answer.code(), answer.text);
        let mut body = body;
        if body["name"].is_string() {
            // The name is already in use.
            body["name"] = "another".into();
        }
        for leaf in leaves.iter().filter(|leaf| !is_free(act, leaf)) {
            for name in hostile_names() {
                let scoped = if leaf.starts_with("/scopes") { format!("workspace:{name}") } else { name };
                let Some(body) = with_name(&body, leaf, &scoped) else { break };
                tried.insert(format!("{act} {leaf}"));
                let answer = call_encoded(&scene.house, &row.method, &path, &key, Some(body)).await;
                assert!(
                    is_refused(&answer),
                    "{act} {leaf} {scoped:.100}: {} {:.2000}",
                    answer.code(),
                    answer.text
                );
            }
        }
    }
    for row in &table {
        let schema = &document["paths"][row.path][row.method.as_str().to_lowercase()]["requestBody"]["content"]
            ["application/json"]["schema"];
        let mut leaves = BTreeSet::new();
        string_pointers(&document, schema, "", &mut leaves);
        for leaf in leaves.iter().filter(|leaf| !is_free(row.action, leaf)) {
            let leaf = format!("{} {leaf}", row.action);
            assert!(tried.contains(&leaf), "{leaf} is neither tried nor free");
        }
    }
}

/// Query parameters that name something.
const NAME_PARAMS: &[&str] = &["ws", "c", "ns", "namespace", "name", "pod", "container", "kind", "pool"];

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_in_queries_are_refused_or_find_nothing() {
    let scene = NamesFixture::new().await;
    let (key, me) = (scene.admin.credential(), scene.admin.id.to_string());
    let release = json!({"namespace": "acme", "name": "web", "chart": {"package": scene.package}});
    assert_eq!(scene.house.post("releases", &key, release).await.code(), 201);
    let (mut asked, nobody) = (0, TestCredential::Anonymous);
    for row in routes::table() {
        let words = row.query.unwrap_or_default().iter().filter(|word| NAME_PARAMS.contains(*word));
        for word in words {
            // A login takes one of three identifiers, and a secret.
            let (key, more) = match (row.action, *word) {
                ("console.login", "name") => (&nobody, "&token=none".to_owned()),
                ("console.login", _) => {
                    (&nobody, format!("&email=p1@example.com&token={}", scene.admin.token))
                }
                _ => (&key, String::new()),
            };
            let path = fill_path(row.path, &me);
            for name in hostile_names() {
                let path = format!("{path}?{word}={}{more}", encoded(&name));
                let answer = call_encoded(&scene.house, &row.method, &path, key, None).await;
                let finds_nothing = answer.code() == 200 && finds_nothing(&answer);
                assert!(
                    matches!(answer.code(), 400 | 401 | 403 | 404 | 414 | 415 | 422) || finds_nothing,
                    "{} {path:.200}: {} {:.2000}",
                    row.action,
                    answer.code(),
                    answer.text
                );
                asked += 1;
            }
        }
    }
    assert!(asked > 300, "{asked}");
}

/// True for a list without items, an overview without namespaced objects, and logs without lines.
fn finds_nothing(answer: &TestResponse) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(&answer.text) else { return answer.text.is_empty() };
    if let Some(counts) = value["clusterStatus"].as_array() {
        return counts.iter().all(|count| count["kind"] == "nodes" || count["totalNum"] == 0);
    }
    let items = if value.is_array() { &value } else { &value["items"] };
    items.as_array().is_some_and(Vec::is_empty)
}
