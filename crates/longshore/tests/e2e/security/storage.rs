//! Faults of the disk and the process: a log that cannot be written, a missing store file, little memory, a stop.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures::AsyncReadExt;
use http::{Method, Request};
use serde_json::json;
use tempfile::tempdir;

use crate::platform::PlatformUser;
use crate::program::{Server, longshore};
use crate::releases::charts::{release_body, release_path, upload_chart};
use crate::request::{get, send_body};
use crate::target::{Cluster, only_on_embedded};

const JSON: &str = "application/json";
const CONFIG_MAPS_PATH: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string()
}

fn serve_command() -> Command {
    longshore(["serve", "--kube-listen", "127.0.0.1:0"])
}

#[tokio::test]
async fn failing_standard_error_does_not_stop_the_store() {
    if !only_on_embedded() {
        return;
    }
    let full_disk = || Stdio::from(fs::File::options().write(true).open("/dev/full").unwrap());
    let closed_pipe = || Stdio::from(std::io::pipe().unwrap().1);
    for log in [full_disk(), closed_pipe()] {
        let folder = tempdir().unwrap();
        let server = Server::serve_logging_to(folder.path(), serve_command(), log);
        let (kube, platform) = (server.client_without_retries().await, server.platform_without_retries());
        for n in 0..20 {
            let made =
                send_body(&kube, Method::POST, CONFIG_MAPS_PATH, JSON, config_map(&format!("a{n}"))).await;
            assert_eq!(made.code, 201, "{}", made.text);
            // Rejected requests are audited and logged.
            let refused = send_body(&kube, Method::POST, CONFIG_MAPS_PATH, JSON, config_map("-")).await;
            assert_eq!(refused.code, 422, "{}", refused.text);
        }
        let ready = get(&platform, "/readyz").await;
        assert_eq!(ready.code, 200, "{}", ready.text);
        let metrics = get(&platform, "/metrics").await.text;
        let lost = metrics.lines().find_map(|line| line.strip_prefix("longshore_audit_lines_lost_total "));
        assert!(lost.unwrap().parse::<u64>().unwrap() >= 20, "{metrics}");
        assert!(server.stop().0.success());
    }
}

#[tokio::test]
async fn missing_store_file_refuses_to_start_an_empty_cluster() {
    if !only_on_embedded() {
        return;
    }
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    assert!(Server::start(&data).stop().0.success());
    // Then also without the other files of the store, when only the cluster's keys are left.
    for doomed in [vec!["store.redb"], vec!["store.mark", "store.reserve"]] {
        for name in doomed {
            fs::remove_file(data.join(name)).unwrap();
        }
        let served = serve_command();
        let mut bounded = Command::new("timeout");
        bounded.arg("20").arg(served.get_program()).args(served.get_args());
        let started = bounded.args(["--listen", "127.0.0.1:0", "--data"]).arg(&data).output().unwrap();
        let said = String::from_utf8_lossy(&started.stderr);
        assert!(!started.status.success(), "{said}");
        assert!(said.contains("store.redb` is missing") && said.contains("empty data folder"), "{said}");
        assert!(started.stdout.is_empty(), "a password of a new administrator");
        assert!(!data.join("store.redb").exists());
    }
}

#[tokio::test]
async fn writes_stop_within_five_seconds_when_the_store_file_is_unlinked_or_truncated() {
    if !only_on_embedded() {
        return;
    }
    let truncate = |file: &Path| fs::File::options().write(true).open(file).unwrap().set_len(8192).unwrap();
    let unlink = |file: &Path| fs::remove_file(file).unwrap();
    for damage in [&truncate as &dyn Fn(&Path), &unlink] {
        let folder = tempdir().unwrap();
        let server = Server::start(folder.path());
        let (kube, platform) = (server.client_without_retries().await, server.platform_without_retries());
        assert_eq!(
            send_body(&kube, Method::POST, CONFIG_MAPS_PATH, JSON, config_map("before")).await.code,
            201
        );
        damage(&folder.path().join("store.redb"));
        let began = Instant::now();
        let said = loop {
            let ready = get(&platform, "/readyz").await;
            if ready.code == 503 && ready.text.contains("store.redb") {
                break ready.text;
            }
            assert!(began.elapsed() < Duration::from_secs(5), "not noticed: {}", ready.text);
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert!(said.contains("while it is open"), "{said}");
        let refused = send_body(&kube, Method::POST, CONFIG_MAPS_PATH, JSON, config_map("after")).await;
        assert_eq!(refused.code, 503, "{}", refused.text);
        assert_eq!(get(&kube, &format!("{CONFIG_MAPS_PATH}/before")).await.code, 200, "reads go on");
        assert_eq!(get(&platform, "/healthz").await.code, 200);
    }
}

/// Replaces the sync functions of the C library: they fail while a file exists.
const FAILING_FSYNC_SOURCE: &str = r#"
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static int fails(void) { return access(getenv("LONGSHORE_TEST_FAILED_DISK"), F_OK) == 0; }
int fsync(int fd) { if (fails()) { errno = EIO; return -1; } return (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { if (fails()) { errno = EIO; return -1; } return (int)syscall(SYS_fdatasync, fd); }
"#;

#[tokio::test]
async fn failed_fsync_ends_the_process_and_acknowledged_writes_survive() {
    if !only_on_embedded() {
        return;
    }
    let folder = tempdir().unwrap();
    let (source, library) = (folder.path().join("sync.c"), folder.path().join("sync.so"));
    fs::write(&source, FAILING_FSYNC_SOURCE).unwrap();
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(compiled.unwrap().success());
    let (data, failed) = (folder.path().join("data"), folder.path().join("failed"));
    let environment =
        [("LD_PRELOAD", library.to_str().unwrap()), ("LONGSHORE_TEST_FAILED_DISK", failed.to_str().unwrap())];
    let server = Server::start_with(&data, &environment);
    let kube = server.client_without_retries().await;
    assert_eq!(send_body(&kube, Method::POST, CONFIG_MAPS_PATH, JSON, config_map("before")).await.code, 201);
    fs::write(&failed, "").unwrap();
    // The outcome of this write is unknown: the connection may end before its response.
    let request = Request::post(CONFIG_MAPS_PATH)
        .header("content-type", JSON)
        .body(config_map("after").into_bytes().into())
        .unwrap();
    if let Ok(answer) = kube.send(request).await {
        assert!(answer.status().is_server_error(), "{}", answer.status());
    }
    let (status, message) = server.wait_for_exit();
    assert!(!status.success(), "{status}");
    // The store's file or the mark beside it, whichever was to be synced first.
    assert!(message.contains("the store has failed") && message.contains("Input/output error"), "{message}");

    let server = Server::start(&data);
    let kube = server.client().await;
    assert_eq!(get(&kube, &format!("{CONFIG_MAPS_PATH}/before")).await.code, 200);
    assert!(server.stop().0.success());
}

#[tokio::test]
async fn server_starts_and_compiles_rules_within_one_gigabyte_of_address_space() {
    if !only_on_embedded() {
        return;
    }
    let folder = tempdir().unwrap();
    let command = serve_command();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -v 1048576 && exec \"$@\"", "sh"]).arg(command.get_program());
    shell.args(command.get_args());
    let log = fs::File::create(folder.path().join("log")).unwrap();
    let server = Server::serve_logging_to(&folder.path().join("data"), shell, log.into());
    let kube = server.client().await;
    let rule = vec!["self.a != 'x'"; 60].join(" && ");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "tugs.x.dev"},
        "spec": {"group": "x.dev", "scope": "Cluster", "names": {"plural": "tugs", "kind": "Tug"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object",
                    "properties": {"a": {"type": "string", "maxLength": 10}},
                    "x-kubernetes-validations": [{"rule": rule}]}}}}}]},
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = send_body(&kube, Method::POST, path, JSON, definition.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let tug = |a: &str| {
        json!({"apiVersion": "x.dev/v1", "kind": "Tug", "metadata": {"name": "t"}, "spec": {"a": a}})
            .to_string()
    };
    assert_eq!(send_body(&kube, Method::POST, "/apis/x.dev/v1/tugs", JSON, tug("x")).await.code, 422);
    let made = send_body(&kube, Method::POST, "/apis/x.dev/v1/tugs", JSON, tug("y")).await;
    assert_eq!(made.code, 201, "{}", made.text);
}

/// A chart whose hook never ends.
const ENDLESS_HOOK_CHART: &[(&str, &str)] = &[
    ("Chart.yaml", "apiVersion: v2\nname: stuck\nversion: 1.0.0\n"),
    (
        "templates/job.yaml",
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: stuck\n  annotations:\n    helm.sh/hook: pre-install\n\
         spec:\n  template:\n    spec:\n      restartPolicy: Never\n      schedulerName: nobody\n\
         \x20     containers: [{name: a, image: a}]\n",
    ),
];

#[tokio::test]
async fn stop_ends_the_requests_of_clients_that_follow_an_install() {
    let (cluster, server) = Cluster::with_platform().await;
    let person = PlatformUser::register(&server, &cluster).await;
    let package = upload_chart(&server, &person, &person.id, ENDLESS_HOOK_CHART).await;
    let body = release_body(&person.id, "stuck", &package, &json!({}));
    let made = person.call(Method::POST, "releases", Some(&body)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let path = release_path(&person.id, "stuck");
    let release = person.wait_until(&path, |release| release["operation"].is_string()).await;
    let id = release["operation"].as_str().unwrap_or_default();
    let follow = Request::get(format!("/api/longshore/v1/operations/{id}/progress"))
        .header("authorization", format!("Bearer {}", person.token))
        .body(Vec::new())
        .unwrap();
    let mut events = Box::pin(server.platform().request_stream(follow).await.unwrap());
    let mut first = [0; 64];
    assert!(events.read(&mut first).await.unwrap() > 0);
    let stopping = tokio::task::spawn_blocking(move || server.stop());
    let mut rest = Vec::new();
    let _ = events.read_to_end(&mut rest).await; // a closed connection is no failure
    let (status, took) = stopping.await.unwrap();
    assert!(status.success() && took < Duration::from_secs(4), "{status} after {took:?}");
}
