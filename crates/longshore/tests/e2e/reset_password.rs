//! `longshore admin reset-password --data`: resets the password with access to the data folder, whether the server is
//! running, stopped or killed.

use std::path::Path;

use http::Method;
use serde_json::json;
use tempfile::tempdir;

use crate::platform::{call, until};
use crate::program::{Server, longshore, output};
use crate::target::only_on_embedded;

/// Resets the password of `admin` and returns the new one.
fn reset_admin_password(data: &Path) -> String {
    let said = output(longshore(["admin", "reset-password", "admin", "--data"]).arg(data));
    let password = said.trim_end().strip_prefix("admin password ");
    password.unwrap_or_else(|| panic!("an odd line: {said}")).to_owned()
}

/// Signs in. Retries, because a running server observes the new password with a short delay.
async fn sign_in(server: &Server, password: &str) {
    let (platform, body) = (server.platform(), json!({"login": "admin", "secret": password}));
    until("the password is good", async || {
        let answer = call(&platform, None, Method::POST, "session", Some(&body)).await;
        (answer.code == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn reset_password_works_on_running_stopped_and_killed_server() {
    if !only_on_embedded() {
        return;
    }
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");

    let nothing = longshore(["admin", "reset-password", "admin", "--data"]).arg(&data).output().unwrap();
    assert!(!nothing.status.success());
    let why = String::from_utf8(nothing.stderr).unwrap();
    assert!(why.contains("no cluster in") && why.contains("start `longshore serve` once"), "{why}");
    assert!(!data.exists(), "asking makes no cluster");

    let server = Server::start(&data);
    let while_it_runs = reset_admin_password(&data);
    sign_in(&server, &while_it_runs).await;

    // A killed server leaves its endpoints file behind, and nothing listens there.
    server.kill();
    assert!(data.join("run/endpoints.json").exists());
    let after_it_was_killed = reset_admin_password(&data);
    let server = Server::start(&data);
    sign_in(&server, &after_it_was_killed).await;

    let (status, _) = server.stop();
    assert!(status.success());
    let while_none_runs = reset_admin_password(&data);
    sign_in(&Server::start(&data), &while_none_runs).await;
}
