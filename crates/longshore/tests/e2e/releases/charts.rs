//! Charts for tests, and helpers to install them through the platform API.

use helm_chart::{Chart, File, Loader, archive};
use helm_template::profile::Profile;
use http::{Method, Request};
use serde_json::{Value, json};

use crate::platform::{PlatformUser, call, until};
use crate::program::Server;
use crate::request::send;

/// A chart without workloads: a release of it is active once it is deployed.
pub const GREETING: &[(&str, &str)] = &[
    ("Chart.yaml", "apiVersion: v2\nname: greeting\nversion: 1.0.0\n"),
    ("values.yaml", "greeting: hello\nextra: \"\"\n"),
    (
        "templates/greeting.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  greeting: {{ .Values.greeting | quote }}\n",
    ),
    ("templates/extra.yaml", "{{ tpl .Values.extra . }}\n"),
];

/// Builds a chart from these files.
pub fn build_chart(files: &[(&str, &str)]) -> Chart {
    let file =
        |(name, text): &(&str, &str)| File { name: (*name).into(), data: text.as_bytes().to_vec().into() };
    Loader::new(Profile::Helm4).load_files(files.iter().map(file).collect()).unwrap()
}

/// Builds a chart archive from these files.
pub fn build_archive(files: &[(&str, &str)]) -> Vec<u8> {
    archive::write(&build_chart(files), Profile::Helm4, 0).unwrap()
}

/// Uploads a chart to a workspace. Returns the name of the package.
pub async fn upload_chart(
    server: &Server,
    person: &PlatformUser,
    workspace: &str,
    files: &[(&str, &str)],
) -> String {
    let request = Request::post(format!("/api/longshore/v1/packages?ws={workspace}"))
        .header("authorization", format!("Bearer {}", person.token))
        .header("content-type", "application/gzip")
        .body(build_archive(files))
        .unwrap();
    let answer = send(&server.platform(), request).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    answer.json()["package"].as_str().unwrap().to_owned()
}

/// Request body that creates a release.
pub fn release_body(namespace: &str, name: &str, package: &str, values: &Value) -> Value {
    json!({"namespace": namespace, "name": name, "chart": {"package": package}, "values": values})
}

/// API path of a release.
pub fn release_path(namespace: &str, name: &str) -> String {
    format!("releases/host/{namespace}/{name}")
}

/// Waits until a release is in a state.
pub async fn wait_for_state(server: &Server, token: &str, path: &str, state: &str) -> Value {
    let platform = server.platform();
    until("the release is in that state", async || {
        let answer = call(&platform, Some(token), Method::GET, path, None).await;
        (answer.code == 200).then(|| answer.json()).filter(|release| release["state"] == state)
    })
    .await
}
