//! Hostile names: in every path parameter of every route, and in every name field of the platform's custom resources.
//! [`crate::body_names`] covers bodies and queries.
//!
//! All must be rejected immediately. A hostile name that reached an API path of the cluster unchanged would open a
//! watch, which hangs, or read another object.

use std::fmt::Write;
use std::time::Duration;

use api::routes;
use axum::http::{Method, Uri};
use domain::names::hostile_names;
use domain::roles::PlatformRole;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube_types::definitions;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::test_server::{TestCredential, TestResponse, TestServer, request};

/// Much shorter than a watch, and longer than a rejection on a busy machine.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Percent-encodes every byte except letters and digits.
pub fn encoded(name: &str) -> String {
    name.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").unwrap();
        }
        text
    })
}

/// The placeholders of a route.
fn path_segments(path: &str) -> Vec<&str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect()
}

pub fn fill_path(path: &str, user: &str) -> String {
    path.replace("{cluster}/{namespace}", "host/acme")
        .replace("{release}", "web")
        .replace("{operation}", "req-web.1")
        .replace("{repo}", "acme.charts")
        .replace("{chart}", "web")
        .replace("{workspace}", "acme")
        .replace("{user}", user)
        .replace("{token}", "aaaaaaaaaa")
        .replace("{namespace}", "acme-test")
        .replace("{invitation}", "0f0f")
        .replace("{pool}", "hangzhou")
        .replace("{node}", "edge-1")
}

pub async fn call_encoded(
    house: &TestServer,
    method: &Method,
    path: &str,
    key: &TestCredential,
    body: Option<Value>,
) -> TestResponse {
    let asked = house.send(request(method.clone(), path, key, body));
    timeout(RESPONSE_TIMEOUT, asked).await.unwrap_or_else(|_| panic!("{method} {path:.200} hangs"))
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_in_paths_are_refused_by_every_route() {
    let house = TestServer::new().await;
    let admin = house.create_user(1, &[PlatformRole::Admin]).await;
    house.create_workspace("acme", &admin, &[]).await;
    let (key, me) = (admin.credential(), admin.id.to_string());
    let mut asked = 0;
    for row in routes::table() {
        for part in path_segments(row.path) {
            for name in hostile_names() {
                let placeholder = format!("{{{part}}}");
                let mut paths = vec![fill_path(&row.path.replace(&placeholder, &encoded(&name)), &me)];
                // Without encoding, if such a path can be sent. A slash, a query or a fragment would make it a
                // different path.
                if !name.contains(['/', '?', '#']) {
                    paths.push(fill_path(&row.path.replace(&placeholder, &name), &me));
                }
                for path in paths.iter().filter(|path| path.parse::<Uri>().is_ok()) {
                    let body = (row.method != Method::GET && row.method != Method::DELETE).then(|| json!({}));
                    let answer = call_encoded(&house, &row.method, path, &key, body).await;
                    assert!(
                        matches!(answer.code(), 400 | 403 | 404 | 413 | 414 | 415 | 422),
                        "{} {path:.200}: {} {}",
                        row.method,
                        answer.code(),
                        answer.text
                    );
                    assert!(answer.text.len() < 2000, "{}", answer.text);
                    asked += 1;
                }
            }
        }
    }
    assert!(asked > 1000, "{asked}");
    // The workspace still exists.
    assert_eq!(house.get("workspaces/acme", &key).await.code(), 200);
}

/// Fields that look like names and never become part of a path: display names and patterns.
const NOT_NAMES: [&str; 2] = ["HelmRepo /spec/name", "HelmPackage /spec/chart/name"];

/// An object of each of the platform's kinds with every name field.
fn sample_objects() -> Vec<Value> {
    let digest = format!("sha256:{}", "0".repeat(64));
    let chart = json!({"name": "web", "version": "1.0.0", "package": "pkg-0"});
    vec![
        json!({"kind": "HelmRelease", "spec": {
            "name": "web", "chartName": "web", "applicationId": "a", "applicationVersionId": "b",
            "source": {"repo": "acme.charts"}, "valuesRef": {"name": "a", "key": "b"},
            "valuesFrom": [{"kind": "Secret", "name": "a", "valuesKey": "b"}], "dependsOn": [{"name": "db"}],
            "roles": [{"kind": "Deployment", "name": "web", "container": "web"}], "serviceAccountName": "deployer",
            "requestRef": {"name": "req", "uid": "0"},
        }}),
        json!({"kind": "HelmRelease", "spec": {"name": "web", "source": {"package": "pkg-0"}}}),
        json!({"kind": "HelmRequest", "spec": {
            "releaseName": "web", "workspace": "acme", "cluster": "host", "namespace": "acme", "version": 1,
            "source": {"repo": "acme.charts"}, "chart": chart, "valuesRef": {"name": "a", "key": "b"},
            "roles": [{"kind": "Deployment", "name": "web", "container": "web"}], "runAs": {"user": "u1", "uid": "0"},
            "asAdministrator": {"user": "u1", "uid": "0", "version": 1},
        }}),
        json!({"kind": "HelmRequest", "spec": {
            "releaseName": "web", "workspace": "acme", "cluster": "host", "namespace": "acme", "version": 1,
            "source": {"package": "pkg-0"}, "chart": chart, "runAs": {"user": "u1", "uid": "0"},
        }}),
        json!({"kind": "HelmRepo", "spec": {
            "name": "charts", "workspace": "acme", "url": "https://charts.example.com", "credentialRef": {"name": "a"},
        }}),
        json!({"kind": "HelmPackage", "spec": {
            "digest": digest, "size": 1, "chunks": 1, "origin": "upload",
            "chart": {"name": "web", "version": "1.0.0", "kind": "application"},
        }}),
        json!({"kind": "Workspace", "spec": {
            "owner": "u1", "members": [{"user": "u1", "role": "admin"}], "namespaces": [{"name": "acme"}], "clusters": ["host"],
        }}),
    ]
}

/// Whether a field holds an object's name, by the name of the field.
fn is_name(field: &str) -> bool {
    let names =
        ["name", "namespace", "workspace", "cluster", "repo", "package", "container", "owner", "user", "key"];
    names.contains(&field) || ["Name", "Key", "Id"].iter().any(|end| field.ends_with(end))
}

/// JSON pointers of all string fields in `value` that hold a name.
fn name_fields(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (field, value) in map {
                let at = format!("{at}/{field}");
                if value.is_string() && is_name(field) {
                    found.push(at.clone());
                }
                name_fields(value, &at, found);
            }
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| name_fields(item, &format!("{at}/{index}"), found));
        }
        _ => {}
    }
}

/// JSON pointers of all fields in a schema that hold a name. Lists are entered at their first element.
fn schema_names(schema: &Value, at: &str, found: &mut Vec<String>) {
    if let Some(properties) = schema["properties"].as_object() {
        for (field, schema) in properties {
            let at = format!("{at}/{field}");
            if schema["type"] == "string" && schema["enum"].is_null() && is_name(field) {
                found.push(at.clone());
            }
            schema_names(schema, &at, found);
        }
    }
    if schema["items"].is_object() {
        schema_names(&schema["items"], &format!("{at}/0"), found);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn crd_schemas_reject_hostile_names() {
    let house = TestServer::new().await;
    house.stop_controllers();
    let mut covered = Vec::new();
    for template in sample_objects() {
        let kind = template["kind"].as_str().unwrap().to_owned();
        let all = definitions::all();
        let crd = &all.iter().find(|definition| definition.crd.spec.names.kind == kind).unwrap().crd;
        let resource = ApiResource {
            group: crd.spec.group.clone(),
            version: crd.spec.versions[0].name.clone(),
            api_version: format!("{}/{}", crd.spec.group, crd.spec.versions[0].name),
            kind: kind.clone(),
            plural: crd.spec.names.plural.clone(),
        };
        let client = house.world.admin_client();
        let api: Api<DynamicObject> = if crd.spec.scope == "Namespaced" {
            Api::namespaced_with(client, "default", &resource)
        } else {
            Api::all_with(client, &resource)
        };
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let mut object = template.clone();
        object["apiVersion"] = json!(resource.api_version);
        object["metadata"] = json!({"name": "web"});
        api.create(&dry, &serde_json::from_value(object.clone()).unwrap()).await.unwrap();
        let mut fields = Vec::new();
        name_fields(&object, "", &mut fields);
        covered.extend(fields.iter().map(|field| format!("{kind} {field}")));
        for field in fields.iter().filter(|field| !NOT_NAMES.contains(&&*format!("{kind} {field}"))) {
            for name in hostile_names() {
                let mut object = object.clone();
                *object.pointer_mut(field).unwrap() = json!(name);
                let object = serde_json::from_value(object).unwrap();
                let written = api.create(&dry, &object);
                let written = timeout(RESPONSE_TIMEOUT, written)
                    .await
                    .unwrap_or_else(|_| panic!("{kind} {field} hangs"));
                let refused = matches!(&written, Err(kube::Error::Api(status)) if matches!(status.code, 400 | 404 | 422));
                // A chart name is looked up in an index, where any printable name is harmless.
                let harmless = field == "/spec/chartName"
                    && name.chars().all(|letter| !"/?#% ".contains(letter) && !letter.is_control());
                assert!(refused || (harmless && name.len() < 250), "{kind} {field} {name:.100}: {written:?}");
            }
        }
    }
    // The templates have every name field of the schemas.
    for definition in definitions::all().into_iter().filter(|definition| !definition.is_foreign) {
        let schema = serde_json::to_value(&definition.crd.spec.versions[0].schema).unwrap();
        let spec = &schema["openAPIV3Schema"]["properties"]["spec"];
        let mut fields = Vec::new();
        schema_names(spec, "/spec", &mut fields);
        for field in
            fields.iter().filter(|field| !field.contains("/target/") && !field.contains("displayName"))
        {
            let field = format!("{} {field}", definition.crd.spec.names.kind);
            assert!(covered.contains(&field), "{field} is not tested");
        }
    }
}
