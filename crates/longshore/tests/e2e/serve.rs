//! The server process: its output, its ports, shutdown and restart.

use std::fs;
use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::program::{Server, longshore, output};
use crate::request::{get, send};
use crate::target::{only_on_embedded, server_lock};

#[tokio::test]
async fn platform_port_serves_requests() {
    let (folder, _turn) = (tempdir().unwrap(), server_lock());
    let server = Server::start_on_target(folder.path());
    let platform = server.platform();
    for (path, media, part) in [
        ("/healthz", "text/plain; charset=utf-8", "ok"),
        ("/readyz", "text/plain; charset=utf-8", "ok"),
        (
            "/metrics",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            "longshore_http_requests_total",
        ),
        ("/openapi.json", "application/json", "\"/healthz\""),
        ("/docs", "text/html; charset=utf-8", "<h1>Longshore API</h1>"),
    ] {
        let answer = get(&platform, path).await;
        assert_eq!((answer.code, answer.header("content-type")), (200, media), "{path}");
        assert!(answer.text.contains(part), "{path}: {}", answer.text);
        assert!(!answer.header("x-request-id").is_empty(), "{path}");
    }
    assert_eq!(get(&platform, "/openapi.json").await.json()["openapi"], "3.1.0");

    let nowhere = get(&platform, "/nowhere").await;
    assert_eq!((nowhere.code, nowhere.header("content-type")), (404, "application/problem+json"));
    let named = Request::get("/healthz").header("x-request-id", "mine-1").body(Vec::new()).unwrap();
    assert_eq!(send(&platform, named).await.header("x-request-id"), "mine-1");
}

#[tokio::test]
async fn kubernetes_port_authenticates_administrator_only() {
    if !only_on_embedded() {
        return;
    }
    let folder = tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let admin = server.client().await;
    assert_eq!(admin.apiserver_version().await.unwrap().git_version.split('+').next(), Some("v1.36.3"));

    let mut config = kube::Config::new(server.kube().parse().unwrap());
    config.accept_invalid_certs = true;
    let anonymous = kube::Client::try_from(config.clone()).unwrap();
    assert_eq!(get(&anonymous, "/version").await.code, 200);
    assert_eq!(get(&anonymous, "/api/v1/secrets").await.code, 401);
    let mistaken =
        Request::get("/version").header("authorization", "Bearer nonsense").body(Vec::new()).unwrap();
    assert_eq!(send(&anonymous, mistaken).await.code, 401);

    // Without the data folder's CA certificate the client rejects the server.
    config.accept_invalid_certs = false;
    let wary = kube::Client::try_from(config).unwrap();
    assert!(wary.apiserver_version().await.is_err());
}

#[tokio::test]
async fn restart_preserves_data() {
    if !only_on_embedded() {
        return;
    }
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data);
    let kubeconfig = server.kubeconfig();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client().await);
    let map = json!({"metadata": {"name": "kept"}, "data": {"a": "b"}});
    let made = maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    let (status, took) = server.stop();
    assert!(status.success(), "{status}");
    assert!(took < Duration::from_secs(10), "{took:?}");

    let server = Server::start(&data);
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client().await);
    assert_eq!(maps.get("kept").await.unwrap(), made);
    // The CA and the administrator's credentials are unchanged; only the free port differs.
    let without_address =
        |text: &str| text.lines().filter(|line| !line.contains("server:")).collect::<Vec<_>>().join("\n");
    assert_eq!(without_address(&server.kubeconfig()), without_address(&kubeconfig));
}

#[tokio::test]
async fn open_watch_does_not_delay_shutdown() {
    if !only_on_embedded() {
        return;
    }
    let folder = tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let client = server.client().await;
    let watch = tokio::spawn(async move { get(&client, "/api/v1/namespaces?watch=1").await.code });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (status, took) = tokio::task::spawn_blocking(|| server.stop()).await.unwrap();
    assert!(status.success() && took < Duration::from_secs(10), "{status} after {took:?}");
    assert_eq!(watch.await.unwrap(), 200);
}

#[test]
fn second_server_on_same_folder_is_rejected() {
    if !only_on_embedded() {
        return;
    }
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data);
    let second = longshore(["serve", "--listen", "127.0.0.1:0", "--kube-listen", "127.0.0.1:0", "--data"])
        .arg(&data)
        .output()
        .unwrap();
    let complaint = String::from_utf8(second.stderr).unwrap();
    assert!(!second.status.success());
    assert!(complaint.contains(data.to_str().unwrap()), "{complaint}");
    assert!(complaint.contains("in use"), "{complaint}");
    assert!(second.stdout.is_empty());
    drop(server);
}

#[test]
fn invalid_configuration_is_rejected_by_name() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("longshore.toml");
    fs::write(&file, "[server]\nlissten = \"127.0.0.1:0\"\n").unwrap();
    let refused = longshore(["serve", "--config"]).arg(&file).output().unwrap();
    assert!(!refused.status.success());
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert!(complaint.contains("unknown key `server.lissten`"), "{complaint}");

    let open = longshore(["serve", "--listen", "0.0.0.0:0", "--data"]).arg(folder.path()).output().unwrap();
    assert!(!open.status.success());
    assert!(String::from_utf8(open.stderr).unwrap().contains("plain HTTP is for this machine only"));
}

#[test]
fn commands_without_server_work() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    assert!(output(&mut longshore(["version"])).starts_with("longshore "));
    assert!(output(&mut longshore(["completion", "bash"])).contains("_longshore"));
    let printed = output(longshore(["config", "--listen", "127.0.0.1:1", "--data"]).arg(&data));
    assert!(printed.contains("listen = \"127.0.0.1:1\""), "{printed}");
    assert!(!data.exists(), "printing the configuration makes no folder");

    let early = longshore(["kubeconfig", "--data"]).arg(&data).output().unwrap();
    assert!(!early.status.success());
    assert!(String::from_utf8(early.stderr).unwrap().contains("start `longshore serve` once"));
}

#[test]
fn endpoints_file_exists_while_server_runs() {
    if !only_on_embedded() {
        return;
    }
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data);
    let file = data.join("run/endpoints.json");
    let endpoints: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(endpoints, json!({"url": server.url, "kube": server.kube()}));
    assert!(server.kubeconfig().contains(server.kube()));
    server.stop();
    assert!(!file.exists());
}

#[test]
fn all_settings_are_documented() {
    let page = include_str!("../../../../docs/configuration.md");
    for (key, default, what) in server::config::KEYS {
        let (section, name) = key.split_once('.').unwrap();
        let key = format!("`[{section}] {name}`");
        let row = page.lines().find(|line| line.starts_with('|') && line.contains(&key));
        let row = row.unwrap_or_else(|| panic!("{key} ({what}) is not in docs/configuration.md"));
        assert!(row.contains(default), "{key} defaults to {default}: {row}");
    }
}
