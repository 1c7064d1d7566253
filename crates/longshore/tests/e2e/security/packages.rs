//! Packages and chart repositories: readers, quotas, and memory while fetching and unpacking.

use std::io::{Read, Write};
use std::net::TcpListener;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::join_all;
use http::{Method, Request};
use kube_types::HelmRelease;
use serde_json::json;
use sized_archives::{large, repeated};

use crate::platform::{PlatformUser, call, until};
use crate::program::Server;
use crate::releases::charts::{GREETING, build_archive, release_body, upload_chart};
use crate::request::{HttpResponse, get, send, send_body};
use crate::target::{Cluster, only_on_embedded};

/// Chart archives of a given size.
pub mod sized_archives {
    use helm_chart::{File, Loader, archive};
    use helm_template::profile::Profile;

    fn with_file(name: &str, data: Vec<u8>) -> Vec<u8> {
        let head = format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n");
        let files = vec![
            File { name: "Chart.yaml".into(), data: head.into_bytes().into() },
            File { name: "large.bin".into(), data: data.into() },
        ];
        let chart = Loader::new(Profile::Helm4).load_files(files).unwrap();
        archive::write(&chart, Profile::Helm4, 0).unwrap()
    }

    /// An archive of about this size: its content is not compressible.
    pub fn large(name: &str, size: u32) -> Vec<u8> {
        let mut state = 7_u64;
        let noise = (0..size).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        });
        with_file(name, noise.collect())
    }

    /// A much smaller archive that unpacks to this size.
    pub fn repeated(name: &str, size: u32) -> Vec<u8> {
        with_file(name, (0..size).map(|n| (n.wrapping_mul(2_654_435_761) >> 28) as u8).collect())
    }
}

async fn upload(server: &Server, person: &PlatformUser, archive: Vec<u8>) -> HttpResponse {
    let request = Request::post(format!("/api/longshore/v1/packages?ws={}", person.id))
        .header("authorization", format!("Bearer {}", person.token))
        .header("content-type", "application/gzip")
        .body(archive)
        .unwrap();
    send(&server.platform_without_retries(), request).await
}

/// Error messages for tenants must not contain internals of the platform's communication with the cluster.
fn assert_no_dump(answer: &HttpResponse) {
    for word in ["ApiError", "Status {", "serviceaccount", "HyperError", "ServiceError"] {
        assert!(!answer.text.contains(word), "{}", answer.text);
    }
}

#[tokio::test]
async fn tenant_reads_foreign_packages_and_fills_the_store() {
    let (cluster, server) = Cluster::with_platform().await;
    let victim = PlatformUser::register(&server, &cluster).await;
    let attacker = PlatformUser::register(&server, &cluster).await;
    let package = upload_chart(&server, &victim, &victim.id, GREETING).await;

    // By name: in a request, in a plan, and in a HelmRelease.
    let body = release_body(&attacker.id, "stolen", &package, &json!({}));
    let refused = attacker.call(Method::POST, "releases", Some(&body)).await;
    assert_eq!(refused.code, 404, "{}", refused.text);
    assert_eq!(refused.json()["detail"], format!("package `{package}` not found"));
    let plan = json!({"chart": {"package": package}});
    let path = format!("releases/host/{}/stolen/plan", attacker.id);
    let refused = attacker.call(Method::POST, &path, Some(&plan)).await;
    assert_eq!(refused.code, 404, "{}", refused.text);
    let kubeconfig = kube::config::Kubeconfig::read_from(attacker.kubeconfig(&cluster).await).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let own = kube::Client::try_from(config).unwrap();
    let releases = format!("/apis/longshore.dev/v1alpha1/namespaces/{}/helmreleases", attacker.id);
    let release = json!({
        "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": "stolen"},
        "spec": {"name": "stolen", "source": {"package": package}},
    });
    let made = send_body(&own, Method::POST, &releases, "application/json", release.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let status = until("the release has failed", async || {
        let release: HelmRelease =
            serde_json::from_str(&get(&own, &format!("{releases}/stolen")).await.text).unwrap();
        release.status.filter(|status| !status.message.is_empty())
    })
    .await;
    assert_eq!(status.message, format!("package `{package}` not found"));
    assert!(status.chart.is_none());

    // The quota of one workspace is exhausted, the quota of another is not.
    let mut uploads = Vec::new();
    for n in 0..5 {
        uploads.push(upload(&server, &attacker, large(&format!("filler-{n}"), 8_000_000 + n)).await);
    }
    let codes: Vec<u16> = uploads.iter().map(|answer| answer.code).collect();
    assert_eq!(codes, [200, 200, 200, 200, 429]);
    let refused = uploads.pop().unwrap();
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    for word in [&*attacker.id, "[store] quota", "33554432 bytes", "are used"] {
        assert!(detail.contains(word), "{detail}");
    }
    assert_eq!(refused.json()["kind"], "Exhausted");
    assert_ne!(refused.header("retry-after"), "");
    assert_no_dump(&refused);
    let answer = upload(&server, &victim, large("own", 8_000_000)).await;
    assert_eq!(answer.code, 200, "{}", answer.text);

    // A tenant who uploads the same bytes becomes a reader.
    assert_eq!(upload_chart(&server, &attacker, &attacker.id, GREETING).await, package);
    let path = format!("releases/host/{}/own/plan", attacker.id);
    let allowed = attacker.call(Method::POST, &path, Some(&plan)).await;
    assert_eq!(allowed.code, 200, "{}", allowed.text);
    for name in ["%3Fwatch=true", "a%2Fb", "..%2F..%2Fsecrets"] {
        let answer = attacker.call(Method::GET, &format!("repos/{name}"), None).await;
        assert!(matches!(answer.code, 400 | 404), "{name}: {} {}", answer.code, answer.text);
        assert_no_dump(&answer);
    }
}

/// A gzip-compressed index of many megabytes. A dense one takes many times its size once parsed.
pub fn gzip_index(dense: bool) -> Vec<u8> {
    let text = if dense {
        let numbers = "0,".repeat((2 << 20) - 1024);
        format!(
            "{{\"apiVersion\":\"v1\",\"entries\":{{\"web\":[{{\"name\":\"web\",\"version\":\"1.0.0\",\"x\":[{numbers}0]}}]}}}}"
        )
    } else {
        let entry = format!(
            "  - apiVersion: v2\n    description: {}\n    name: web\n    urls:\n    - web.tgz\n    version: 1.0.0\n",
            "x".repeat(4_000)
        );
        format!(
            "apiVersion: v1\nentries:\n  web:\n{}generated: \"2026-01-01T00:00:00Z\"\n",
            entry.repeat(10_000)
        )
    };
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Serves these indexes on loopback until the test ends; the second one below `/dense`.
pub fn serve_indexes(plain: Vec<u8>, dense: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let (plain, dense) = (plain.clone(), dense.clone());
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                    head.push(byte[0]);
                }
                let body = if head.starts_with(b"GET /dense") { dense } else { plain };
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                // Errors are ignored: the server may have closed the connection.
                let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.write_all(&body));
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_exhausts_memory_by_indexes_and_uploads() {
    if !only_on_embedded() {
        return;
    }
    let cluster = Cluster::start();
    let allow = [("LONGSHORE_OUTBOUND_ALLOW", "127.0.0.1")];
    let server = Server::start_with(&cluster.folder.path().join("platform"), &allow);
    let attacker = PlatformUser::register(&server, &cluster).await;
    let good = PlatformUser::register(&server, &cluster).await;
    let address = serve_indexes(gzip_index(false), gzip_index(true));
    let archive = repeated("bomb", 40 << 20);
    assert!(archive.len() < 10 << 20, "{}", archive.len());
    server.memory();

    let repos = (0..40).map(|n| {
        let path = if n % 2 == 0 { "" } else { "/dense" };
        let body =
            json!({"name": format!("r{n}"), "workspace": attacker.id, "url": format!("{address}{path}")});
        let (client, token) = (server.platform_without_retries(), &attacker.token);
        async move { call(&client, Some(token), Method::POST, "repos", Some(&body)).await }
    });
    let uploads = (0..40).map(|_| upload(&server, &attacker, archive.clone()));
    // The good tenant uploads during the attack.
    let during = upload(&server, &good, build_archive(GREETING));
    let (repos, uploads, during) = futures::join!(join_all(repos), join_all(uploads), during);
    let (_, peak) = server.memory();
    assert_eq!(during.code, 200, "{}", during.text);
    let mut refused = 0;
    for answer in repos.iter().chain(&uploads) {
        assert_no_dump(answer);
        match answer.code {
            200 | 201 => {}
            429 => {
                refused += 1;
                assert_ne!(answer.header("retry-after"), "", "{}", answer.text);
            }
            _ => panic!("{} {}", answer.code, answer.text),
        }
    }
    println!("{refused} of 80 were refused, the peak is {} MiB", peak >> 20);
    assert!(peak < 1_024 << 20, "{} MiB", peak >> 20);
    assert_eq!(get(&server.platform(), "/readyz").await.code, 200);
}
