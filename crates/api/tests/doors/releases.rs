//! Life cycle of a release through the API, on a cluster with simulated pods.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Request};
use domain::roles::WorkspaceRole;
use helm_chart::{File, Loader, archive};
use helm_template::profile::Profile;
use serde_json::{Value, json};
use testkit::wait_for;

use crate::test_server::{ROOT, TestCredential, TestResponse, TestServer, TestUser, request};

/// A secret value that must not appear in any output.
pub const CANARY: &str = "canary-of-a-release-4711";

const CHART_FILES: &[(&str, &str)] = &[
    (
        "Chart.yaml",
        "apiVersion: v2\nname: web\nversion: 1.0.0\nappVersion: \"7\"\ndescription: A web server\n",
    ),
    ("values.yaml", "replicas: 1\ngreeting: hello\npassword: \"\"\n"),
    (
        "values.schema.json",
        r#"{"type": "object", "properties": {"password": {"type": "string", "writeOnly": true}, "replicas": {"type": "integer"}}}"#,
    ),
    (
        "templates/web.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\nspec:\n  replicas: {{ .Values.replicas }}\n  \
         selector: {matchLabels: {app: {{ .Release.Name }}}}\n  template:\n    metadata:\n      labels: {app: {{ .Release.Name }}}\n      \
         annotations: {sim.longshore.dev/log.web: {{ printf \"%s, the password is %s\" .Values.greeting .Values.password | quote }}}\n    \
         spec:\n      containers:\n      - {name: web, image: web, env: [{name: P, value: {{ .Values.password | quote }}}]}\n",
    ),
    (
        "templates/secret.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ .Release.Name }}\nstringData:\n  password: {{ .Values.password | quote }}\n",
    ),
    (
        "templates/greeting.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  greeting: {{ .Values.greeting | quote }}\n",
    ),
    ("templates/NOTES.txt", "The password is {{ .Values.password }}.\n"),
];

pub fn chart_archive() -> Vec<u8> {
    chart_archive_from(CHART_FILES)
}

pub fn chart_archive_from(files: &[(&str, &str)]) -> Vec<u8> {
    let file =
        |(name, text): &(&str, &str)| File { name: (*name).into(), data: text.as_bytes().to_vec().into() };
    let chart = Loader::new(Profile::Helm4).load_files(files.iter().map(file).collect()).unwrap();
    archive::write(&chart, Profile::Helm4, 0).unwrap()
}

/// A server with the workspace `acme`, its members, and a user outside it.
pub struct AcmeFixture {
    pub house: TestServer,
    pub admin: TestUser,
    pub developer: TestUser,
    pub viewer: TestUser,
    pub stranger: TestUser,
}

impl AcmeFixture {
    pub async fn new() -> Self {
        let house = TestServer::with_simulated_node().await;
        let admin = house.create_user(1, &[]).await;
        let (developer, viewer) = (house.create_user(2, &[]).await, house.create_user(3, &[]).await);
        let stranger = house.create_user(4, &[]).await;
        let members = [(&developer, WorkspaceRole::Developer), (&viewer, WorkspaceRole::Viewer)];
        house.create_workspace("acme", &admin, &members).await;
        Self { house, admin, developer, viewer, stranger }
    }

    pub async fn upload(&self, key: &TestCredential, bytes: Vec<u8>) -> TestResponse {
        let mut asked = request(Method::POST, &format!("{ROOT}/packages"), key, None);
        asked.headers_mut().insert(CONTENT_TYPE, "application/gzip".parse().unwrap());
        let (parts, _) = asked.into_parts();
        self.house.send(Request::from_parts(parts, Body::from(bytes))).await
    }

    /// Creates the release `web` of the chart above.
    pub async fn install(&self, values: Value) -> TestResponse {
        self.install_chart(chart_archive(), values).await
    }

    /// Creates the release `web` of another chart.
    pub async fn install_chart(&self, chart: Vec<u8>, values: Value) -> TestResponse {
        let package = self.upload(&self.developer.credential(), chart).await;
        assert_eq!(package.code(), 200, "{}", package.text);
        let body = json!({
            "namespace": "acme", "name": "web", "values": values,
            "chart": {"package": package.json()["package"]},
        });
        self.house.post("releases", &self.developer.credential(), body).await
    }

    /// Waits until `web` is in this state with this version deployed.
    pub async fn wait_for_state(&self, state: &str, version: i64) -> Value {
        let mut last = Value::Null;
        let waited = wait_for("the state", async || {
            last = self.house.get("releases/host/acme/web", &self.developer.credential()).await.json();
            (last["state"] == state && last["deployedVersion"] == version).then(|| last.clone())
        });
        let found = tokio::time::timeout(Duration::from_mins(1), waited).await;
        found.unwrap_or_else(|_| panic!("waited for {state}: {last}"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn release_lifecycle_from_upload_to_deletion() {
    let acme = AcmeFixture::new().await;
    let (house, key) = (&acme.house, acme.developer.credential());
    let made = acme.install(json!({"password": CANARY})).await;
    assert_eq!(made.code(), 201, "{}", made.text);
    assert_eq!(made.headers["location"], format!("{ROOT}/releases/host/acme/web"));
    assert_eq!(made.json()["state"], "pending");
    let operation = made.json()["operation"].as_str().unwrap().to_owned();
    let progress = house.get(&format!("operations/{operation}/progress"), &key).await.text;
    let told = progress.trim_end().lines().last().unwrap().strip_prefix("data: ").unwrap();
    let told: Value = serde_json::from_str(told).unwrap();
    assert_eq!(
        (&told["act"], &told["state"], &told["target"]),
        (&json!("install"), &json!("done"), &json!("host/acme/web")),
        "{told}"
    );
    assert_eq!(house.get(&format!("operations/{operation}"), &key).await.json(), told);
    assert_eq!(house.get(&format!("operations/{operation}"), &acme.stranger.credential()).await.code(), 404);
    assert_eq!(house.get("operations/req-none.1", &key).await.code(), 404);
    let active = acme.wait_for_state("active", 1).await;
    assert_eq!(active["revision"], 1);
    assert_eq!(active["status"], "good");

    let list = house.get("releases?facets=status,chart&sort=-updated", &key).await.json();
    assert_eq!(list["total"], 1, "{list}");
    assert_eq!(list["items"][0]["key"], "host/acme/web");
    assert_eq!(list["items"][0]["chart"]["name"], "web");
    assert_eq!(list["facets"], json!({"chart": {"web": 1}, "status": {"good": 1}}));

    // A request with the `If-Match` of another version changes nothing.
    let change = json!({"values": {"password": CANARY, "greeting": "good morning", "replicas": 2}});
    let path = format!("{ROOT}/releases/host/acme/web");
    let with_version = |version: &str| {
        let mut asked = request(Method::PATCH, &path, &key, Some(change.clone()));
        asked.headers_mut().insert("if-match", format!("\"{version}\"").parse().unwrap());
        asked
    };
    assert_eq!(house.send(with_version("other")).await.code(), 412);
    let changed = house.send(with_version(active["v"].as_str().unwrap())).await;
    assert_eq!(changed.code(), 200, "{}", changed.text);
    acme.wait_for_state("active", 2).await;

    let diff = house.get("releases/host/acme/web/diff", &key).await;
    assert!(diff.json()["text"].as_str().unwrap().contains("+  greeting: good morning"), "{}", diff.text);
    let diff = house.get("releases/host/acme/web/diff?of=values&from=1&to=2", &key).await.json();
    assert!(diff["text"].as_str().unwrap().contains("+greeting: good morning"), "{diff}");
    let resources = house.get("releases/host/acme/web/resources", &key).await.json();
    assert_eq!((&resources["total"], &resources["ready"]), (&json!(3), &json!(3)), "{resources}");

    let back = house.post("releases/host/acme/web/rollback", &key, json!({"revision": 1})).await;
    assert_eq!(back.code(), 200, "{}", back.text);
    acme.wait_for_state("active", 3).await;
    let history = house.get("releases/host/acme/web/history", &key).await.json();
    let revisions: Vec<_> = history["items"].as_array().unwrap().iter().map(|one| &one["revision"]).collect();
    assert_eq!(revisions, [3, 2, 1]);
    let values = house.get("releases/host/acme/web/values", &key).await.json();
    assert_eq!(values["values"]["greeting"], Value::Null, "{values}");

    let paused = house.post("releases/host/acme/web/pause", &key, json!({})).await;
    assert_eq!(paused.code(), 200, "{}", paused.text);
    acme.wait_for_state("paused", 4).await;
    assert_eq!(house.post("releases/host/acme/web/recover", &key, json!({})).await.code(), 200);
    acme.wait_for_state("active", 5).await;
    let restarted = house.post("releases/host/acme/web/restart?rolling", &key, json!({})).await;
    assert_eq!(restarted.json(), json!({"workloads": ["Deployment web"]}));

    let gone = house.call(Method::DELETE, "releases/host/acme/web", &key, None).await;
    assert_eq!(gone.code(), 202, "{}", gone.text);
    assert_eq!(gone.json()["state"], "deleting");
    wait_for("it is gone", async || {
        let shown = house.get("releases/host/acme/web", &key).await;
        (shown.code() == 404).then_some(())
    })
    .await;
    wait_for("the list knows", async || {
        (house.get("releases", &key).await.json()["total"] == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn release_responses_mask_secret_values() {
    let acme = AcmeFixture::new().await;
    let made = acme.install(json!({"password": CANARY})).await;
    assert_eq!(made.code(), 201, "{}", made.text);
    acme.wait_for_state("active", 1).await;
    let change = json!({"values": {"password": format!("{CANARY}-new")}});
    let changed = acme
        .house
        .call(Method::PATCH, "releases/host/acme/web", &acme.developer.credential(), Some(change))
        .await;
    assert_eq!(changed.code(), 200, "{}", changed.text);
    acme.wait_for_state("active", 2).await;
    let forms =
        [CANARY, "Y2FuYXJ5LW9mLWEtcmVsZWFzZ", "NhbmFyeS1vZi1hLXJlbGVhc2", "jYW5hcnktb2YtYS1yZWxlYXNl"];
    let below = [
        "",
        "/history",
        "/values",
        "/values?all",
        "/values?revision=1",
        "/manifest",
        "/manifest?revision=1",
        "/notes",
        "/diff",
        "/diff?of=values",
        "/resources",
    ];
    let mut told = format!("{:?}", acme.house.audit.take());
    for path in below {
        for key in [acme.developer.credential(), acme.viewer.credential()] {
            let answer = acme.house.get(&format!("releases/host/acme/web{path}"), &key).await;
            assert_eq!(answer.code(), 200, "{path}: {}", answer.text);
            told.push_str(&answer.text);
        }
    }
    told.push_str(&acme.house.get("releases", &acme.viewer.credential()).await.text);
    for form in forms {
        assert!(!told.contains(form), "{form}");
    }
    let diff =
        acme.house.get("releases/host/acme/web/diff?of=values", &acme.developer.credential()).await.json();
    assert_eq!(diff["differences"][0]["changes"][0]["path"], "/password", "that it changed is told: {diff}");
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_releases_are_404_and_invalid_requests_name_the_error() {
    let acme = AcmeFixture::new().await;
    let (house, key) = (&acme.house, acme.developer.credential());
    let made = acme.install(json!({})).await;
    assert_eq!(made.code(), 201, "{}", made.text);
    for below in ["", "/history", "/values", "/manifest", "/notes", "/diff", "/resources"] {
        let path = format!("releases/host/acme/web{below}");
        assert_eq!(house.get(&path, &acme.stranger.credential()).await.code(), 404, "{path}");
    }
    assert_eq!(house.get("releases?ns=acme", &acme.stranger.credential()).await.code(), 403);
    assert_eq!(house.get("releases?ns=nowhere", &acme.stranger.credential()).await.code(), 403);
    assert_eq!(house.get("releases?ws=acme", &acme.stranger.credential()).await.code(), 403);
    assert_eq!(house.get("releases", &acme.stranger.credential()).await.json()["total"], 0);
    assert_eq!(house.get("releases/edge/acme/web", &key).await.code(), 404);
    let viewer = house.post("releases/host/acme/web/pause", &acme.viewer.credential(), json!({})).await;
    assert_eq!(viewer.code(), 403);

    let body = |change: Value| {
        let mut body = json!({"namespace": "acme", "name": "db", "chart": {"package": "pkg-none"}});
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        body
    };
    for (change, status, detail) in [
        (json!({}), 404, "pkg-none"),
        (json!({"namespace": "acme-nowhere"}), 403, "namespace `acme-nowhere` not found or not accessible"),
        (json!({"cluster": "edge"}), 404, "edge"),
        (json!({"name": "Db"}), 400, ""),
        (json!({"values": [1]}), 400, "`values`"),
        (json!({"values": "a: b: c"}), 400, "the values must be a YAML map"),
        (json!({"chart": {"repo": "r"}}), 400, "`chart` must have"),
        (json!({"options": {"wiat": true}}), 400, "unknown field `wiat`"),
        (json!({"colour": "red"}), 400, "unknown field `colour`"),
        (json!({"name": "web", "chart": {"oci": "oci://127.0.0.1/x"}}), 409, "release `web` already exists"),
    ] {
        let answer = house.post("releases", &key, body(change.clone())).await;
        let found = answer.json();
        assert_eq!(answer.code(), status, "{change}: {found}");
        assert!(found["detail"].as_str().unwrap().contains(detail), "{change}: {found}");
    }
    for (query, detail) in [
        ("sort=size", "unknown value `size` of `sort`"),
        ("cursor=abc", "`cursor` does not belong to this list"),
        ("limit=0", "`limit` must be 1 to 500"),
        ("at=x", "query parameter `at` must be a number"),
        ("colour=red", "unknown query parameter `colour`"),
    ] {
        let answer = house.get(&format!("releases?{query}"), &key).await;
        assert_eq!(answer.code(), 400, "{query}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(detail), "{}", answer.text);
    }
    let broken = acme.upload(&key, b"no archive".to_vec()).await;
    assert_eq!(broken.code(), 400, "{}", broken.text);
    assert_eq!(acme.upload(&key, vec![0; (10 << 20) + 1]).await.code(), 413);
    let report = acme.upload(&key, chart_archive()).await.json();
    assert_eq!(
        (&report["chart"]["name"], &report["hasSchema"], &report["templates"]),
        (&json!("web"), &json!(true), &json!(4))
    );
    let by_a_viewer = acme.upload(&acme.viewer.credential(), chart_archive()).await;
    assert_eq!(by_a_viewer.code(), 200, "their own workspace lets them: {}", by_a_viewer.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency_key_applies_a_request_once() {
    let acme = AcmeFixture::new().await;
    let (house, key) = (&acme.house, acme.developer.credential());
    let package = acme.upload(&key, chart_archive()).await.json()["package"].clone();
    let body = json!({"namespace": "acme", "name": "web", "chart": {"package": package}});
    let send = async |path: &str, attempt: &str, body: &Value| {
        let mut asked = request(Method::POST, &format!("{ROOT}/{path}"), &key, Some(body.clone()));
        asked.headers_mut().insert("idempotency-key", attempt.parse().unwrap());
        house.send(asked).await
    };
    assert_eq!(send("releases", "one", &body).await.code(), 201);
    assert_eq!(send("releases", "one", &body).await.code(), 201);
    assert_eq!(send("releases", "two", &body).await.code(), 409);
    acme.wait_for_state("active", 1).await;
    let first = send("releases/host/acme/web/rollback", "back", &json!({"revision": 1})).await.json();
    let again = send("releases/host/acme/web/rollback", "back", &json!({"revision": 1})).await.json();
    assert_eq!((&first["version"], &again["version"]), (&json!(2), &json!(2)));
    let other = send("releases/host/acme/web/rollback", "again", &json!({"revision": 1})).await.json();
    assert_eq!(other["version"], 3);
    let refused = send("tokens", "one", &json!({"name": "t", "scopes": ["all"]})).await;
    assert_eq!(refused.code(), 400, "{}", refused.text);
}
