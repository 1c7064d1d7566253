//! Charts from repositories: version ranges, and repositories that hang, lie, redirect or never end.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chart_store::Digest;
use kube_types::conditions::find_condition;
use kube_types::release::conditions::{READY, STALLED};
use outbound::{Dialer, EgressPolicy, FetchClient, Timeouts};
use parking_lot::Mutex;
use serde_json::json;
use testkit::wait_for;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{record_statuses, release_spec};
use crate::testing::{SHOP, TestHarness, chart_archive, web_chart};

/// The response to a path.
#[derive(Clone)]
enum FakeResponse {
    Text(Bytes),
    Redirect(&'static str),
    /// Responds with 404.
    Missing,
    /// Requires credentials.
    Unauthorized,
    /// Never responds.
    Hang,
    /// A body shorter than announced.
    Truncated,
    /// An endless body.
    Endless,
}

type FakeResponses = Arc<Mutex<Vec<(String, FakeResponse)>>>;

async fn start_fake_server(answers: &FakeResponses) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let answers = answers.clone();
    tokio::spawn(async move {
        while let Ok((line, _)) = listener.accept().await {
            tokio::spawn(respond(line, answers.clone()));
        }
    });
    address
}

/// Answers one request; I/O errors are ignored.
async fn respond(mut line: TcpStream, answers: FakeResponses) {
    let mut head = vec![0; 16 << 10];
    let Ok(read) = line.read(&mut head).await else { return };
    let head = String::from_utf8_lossy(&head[..read]).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let found = answers.lock().iter().find(|(known, _)| known == path).map(|(_, answer)| answer.clone());
    let said = |status: &str, more: &str| format!("HTTP/1.1 {status}\r\nconnection: close\r\n{more}\r\n\r\n");
    let _ = match found.unwrap_or(FakeResponse::Missing) {
        FakeResponse::Text(text) => {
            let length = format!("content-length: {}", text.len());
            line.write_all(&[said("200 OK", &length).as_bytes(), &text[..]].concat()).await
        }
        FakeResponse::Redirect(place) => {
            line.write_all(said("302 Found", &format!("location: {place}\r\ncontent-length: 0")).as_bytes())
                .await
        }
        FakeResponse::Missing => line.write_all(said("404 Not Found", "content-length: 0").as_bytes()).await,
        FakeResponse::Unauthorized => {
            line.write_all(said("401 Unauthorized", "content-length: 0").as_bytes()).await
        }
        FakeResponse::Hang => std::future::pending().await,
        FakeResponse::Truncated => {
            line.write_all((said("200 OK", "content-length: 1000") + "apiVersion: v1").as_bytes()).await
        }
        FakeResponse::Endless => {
            let mut sent = line.write_all(said("200 OK", "transfer-encoding: chunked").as_bytes()).await;
            let piece = [b"10000\r\n".as_slice(), &vec![b'a'; 0x10000], b"\r\n"].concat();
            while sent.is_ok() {
                sent = line.write_all(&piece).await;
            }
            sent
        }
    };
}

/// A client with short timeouts that may reach loopback but no other private address.
fn short_timeout_client() -> FetchClient {
    let dialer = Dialer::new(EgressPolicy::with_allowed(["127.0.0.0/8".parse().unwrap()]));
    let (first_word, whole) = (Duration::from_secs(2), Duration::from_secs(20));
    FetchClient::with_timeouts(dialer, Timeouts { response: first_word, idle: first_word, total: whole })
}

/// An index of these entries: name, version, file, and the bytes for the digest.
fn index_response(entries: &[(&str, &str, &str, &[u8])]) -> FakeResponse {
    let mut text = "apiVersion: v1\nentries:\n".to_owned();
    let mut last = "";
    for (name, version, file, bytes) in entries {
        if *name != last {
            writeln!(text, "  {name}:").unwrap();
        }
        last = name;
        let digest = Digest::sha256(bytes).hex();
        writeln!(text, "  - {{name: {name}, version: {version}, digest: {digest}, urls: [\"{file}\"]}}")
            .unwrap();
    }
    FakeResponse::Text(text.into())
}

#[tokio::test]
async fn repository_is_created_only_if_it_serves_an_index() {
    let answers = FakeResponses::default();
    let home = start_fake_server(&answers).await;
    let stage = TestHarness::with_chart_client(short_timeout_client()).await;
    let mut admin = crate::testing::developer();
    admin.memberships.values_mut().for_each(|role| *role = domain::roles::WorkspaceRole::Admin);
    answers.lock().extend([
        ("/good/index.yaml".to_owned(), index_response(&[("web", "1.0.0", "web-1.0.0.tgz", b"x")])),
        ("/page/index.yaml".to_owned(), FakeResponse::Text(Bytes::from_static(b"<html>welcome</html>"))),
        ("/locked/index.yaml".to_owned(), FakeResponse::Unauthorized),
        ("/silent/index.yaml".to_owned(), FakeResponse::Hang),
    ]);
    let new = |url: &str| crate::repos::CreateRepoRequest {
        name: "mine".to_owned(),
        workspace: SHOP.to_owned(),
        url: url.to_owned(),
        check: true,
        ..crate::repos::CreateRepoRequest::default()
    };
    let rows = [
        (format!("{home}/none"), "404"),
        (format!("{home}/page"), "index"),
        (format!("{home}/locked"), "401"),
        (format!("{home}/silent"), "no response"),
        ("http://10.0.0.1/charts".to_owned(), "10.0.0.1"),
        ("ftp://charts.example.com".to_owned(), "ftp"),
    ];
    for (url, words) in rows {
        let why = stage.releases.create_repo(&admin, new(&url)).await.unwrap_err();
        assert_eq!(why.kind(), domain::ErrorKind::Invalid, "{url}: {why}");
        let why = why.to_string();
        assert!(why.starts_with(&format!("looks like \"{url}\"")) && why.contains(words), "{why}");
        assert!(stage.releases.list_repos(&admin, None).await.unwrap().is_empty(), "{url}");
    }
    stage.releases.create_repo(&admin, new(&format!("{home}/good"))).await.unwrap();
    let elsewhere = |check| crate::repos::RepoUpdate {
        url: Some(format!("{home}/none")),
        check,
        ..crate::repos::RepoUpdate::default()
    };
    let key = format!("{SHOP}.mine");
    stage.releases.update_repo(&admin, &key, elsewhere(true), None).await.unwrap_err();
    assert!(stage.releases.get_repo(&admin, &key).await.unwrap().url.ends_with("/good"));
    stage.releases.update_repo(&admin, &key, elsewhere(false), None).await.unwrap();
    assert!(stage.releases.get_repo(&admin, &key).await.unwrap().url.ends_with("/none"));
}

async fn create_repo(stage: &TestHarness, name: &str, url: &str, workspace: &str) {
    let repo = json!({"apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRepo", "metadata": {"name": name}, "spec": {"url": url, "workspace": workspace}});
    stage.world.apply([repo]).await;
}

fn repo_release_spec(name: &str, repo: &str, chart: &str, version: &str) -> serde_json::Value {
    json!({"name": name, "source": {"repo": repo}, "chartName": chart, "chartVersion": version})
}

#[tokio::test]
async fn version_range_resolves_to_the_newest_match() {
    let stage = TestHarness::with_chart_client(short_timeout_client()).await;
    let answers = FakeResponses::default();
    let charts: Vec<Bytes> =
        ["1.0.0", "1.1.0", "1.2.0", "2.0.0"].map(|version| chart_archive("web", version, &[])).into();
    let listed = |count: usize| {
        let all = [("1.0.0", "a"), ("2.0.0", "d"), ("1.1.0", "b"), ("1.2.0", "c")];
        let bytes = [0, 3, 1, 2];
        let entries: Vec<_> =
            (0..count).map(|at| ("web", all[at].0, all[at].1, &charts[bytes[at]][..])).collect();
        index_response(&entries)
    };
    for (file, at) in [("/a", 0), ("/b", 1), ("/c", 2), ("/d", 3)] {
        answers.lock().push((file.to_owned(), FakeResponse::Text(charts[at].clone())));
    }
    answers.lock().push(("/index.yaml".to_owned(), listed(3)));
    let url = start_fake_server(&answers).await;
    create_repo(&stage, "here", &url, SHOP).await;
    let cases = [
        ("newest", "", "2.0.0"),
        ("range", "^1", "1.1.0"),
        ("exact", "1.0.0", "1.0.0"),
        ("below", "<2", "1.1.0"),
    ];
    for (name, version, found) in cases {
        stage.create_release(name, repo_release_spec(name, "here", "web", version)).await.unwrap();
        let status = stage.wait_for_state(name, "active").await.status.unwrap();
        let chart = status.chart.unwrap();
        assert_eq!(chart.version, found, "{name}");
        assert!(chart.digest.starts_with("sha256:") && chart.package.starts_with("pkg-"), "{chart:?}");
    }
}

#[tokio::test]
async fn malicious_repository_is_reported_in_one_reconcile() {
    let stage = TestHarness::with_chart_client(short_timeout_client()).await;
    let bad = |answer: FakeResponse| Arc::new(Mutex::new(vec![("/index.yaml".to_owned(), answer)]));
    let lying = bad(index_response(&[
        ("web", "1.0.0", "web.tgz", b"what was promised"),
        ("away", "1.0.0", "http://169.254.169.254/latest", b""),
    ]));
    lying.lock().push(("/web.tgz".to_owned(), FakeResponse::Text(web_chart())));
    let moved = bad(index_response(&[("web", "1.0.0", "web.tgz", b"")]));
    moved.lock().push(("/web.tgz".to_owned(), FakeResponse::Redirect("http://10.0.0.1/web.tgz")));
    #[rustfmt::skip]
    let cases = [
        ("silent",   bad(FakeResponse::Hang),                                    "web",  "",   "2 s",                       true),
        ("short",    bad(FakeResponse::Truncated),                                      "web",  "",   "",                          true),
        ("endless",  bad(FakeResponse::Endless),                                    "web",  "",   "bytes",                     false),
        ("elsewhere",bad(FakeResponse::Redirect("http://10.0.0.1/index.yaml")),           "web",  "",   "egress policy denies",         false),
        ("metadata", bad(FakeResponse::Redirect("http://169.254.169.254/latest")),        "web",  "",   "egress policy denies",        false),
        ("gone",     bad(FakeResponse::Missing),                                    "web",  "",   "404",                       false),
        ("html",     bad(FakeResponse::Text("<html>".into())),                      "web",  "",   "cannot use",            false),
        ("lies",     lying.clone(),                                           "web",  "",   "has digest sha256:",    true),
        ("private",  lying,                                                   "away", "",   "egress policy denies",        false),
        ("moved",    moved.clone(),                                           "web",  "",   "egress policy denies",         false),
        ("unknown",  moved.clone(),                                           "none", "",   "has no chart `none`",       false),
        ("other",    moved.clone(),                                           "web",  "^9", "that matches `^9`",          false),
        ("nonsense", moved,                                                   "web",  "~~", "is not a version or version range", false),
    ];
    for (name, answers, chart, version, message, again) in cases {
        let url = start_fake_server(&answers).await;
        create_repo(&stage, name, &url, SHOP).await;
        stage.create_release(name, repo_release_spec(name, name, chart, version)).await.unwrap();
        let status = stage.wait_for_state(name, "failed").await.status.unwrap();
        assert!(status.message.contains(message), "{name}: {}", status.message);
        let ready = find_condition(&status.conditions, READY).unwrap();
        assert_eq!((ready.reason.as_str(), &ready.message), ("ChartNotFound", &status.message), "{name}");
        let stalled = find_condition(&status.conditions, STALLED).unwrap().status == "True";
        assert_eq!(
            (stalled, status.next_retry_time.is_some()),
            (!again, again),
            "{name}: {}",
            status.message
        );
        assert!(record_statuses(&stage, name).await.is_empty(), "{name}");
    }
}

#[tokio::test]
async fn repository_of_another_workspace_is_not_found() {
    let stage = TestHarness::with_chart_client(short_timeout_client()).await;
    let chart = chart_archive("web", "1.0.0", &[]);
    let answers: FakeResponses = Arc::new(Mutex::new(vec![
        ("/index.yaml".to_owned(), index_response(&[("web", "1.0.0", "web.tgz", &chart)])),
        ("/web.tgz".to_owned(), FakeResponse::Text(chart)),
    ]));
    let url = start_fake_server(&answers).await;
    create_repo(&stage, "theirs", &url, "theirs").await;
    create_repo(&stage, "everybodys", &url, "").await;
    stage.create_release("theirs", repo_release_spec("theirs", "theirs", "web", "")).await.unwrap();
    let status = stage.wait_for_state("theirs", "failed").await.status.unwrap();
    assert_eq!(status.message, "repository `theirs` not found");
    stage.create_release("ours", repo_release_spec("ours", "everybodys", "web", "")).await.unwrap();
    stage.wait_for_state("ours", "active").await;
}

#[tokio::test]
async fn release_recovers_when_its_repository_recovers() {
    let stage = TestHarness::with_chart_client(short_timeout_client()).await;
    let answers: FakeResponses =
        Arc::new(Mutex::new(vec![("/index.yaml".to_owned(), FakeResponse::Truncated)]));
    let url = start_fake_server(&answers).await;
    create_repo(&stage, "here", &url, SHOP).await;
    stage.create_release("web", repo_release_spec("web", "here", "web", "")).await.unwrap();
    stage.wait_for_state("web", "failed").await;
    let chart = chart_archive("web", "1.0.0", &[]);
    *answers.lock() = vec![
        ("/index.yaml".to_owned(), index_response(&[("web", "1.0.0", "web.tgz", &chart)])),
        ("/web.tgz".to_owned(), FakeResponse::Text(chart)),
    ];
    stage.wait_for_state("web", "active").await;
}

#[tokio::test]
async fn hanging_repository_does_not_block_other_releases() {
    let dialer = Dialer::new(EgressPolicy::with_allowed(["127.0.0.0/8".parse().unwrap()]));
    let stage = TestHarness::with_chart_client(FetchClient::new(dialer)).await;
    let answers: FakeResponses = Arc::new(Mutex::new(vec![("/index.yaml".to_owned(), FakeResponse::Hang)]));
    let url = start_fake_server(&answers).await;
    create_repo(&stage, "here", &url, SHOP).await;
    for number in 0..40 {
        let name = format!("waits-{number}");
        stage.create_release(&name, repo_release_spec(&name, "here", "web", "")).await.unwrap();
    }
    let package = stage.store_chart(web_chart()).await;
    let began = tokio::time::Instant::now();
    stage.create_release("web", release_spec("web", &package)).await.unwrap();
    wait_for("it is active", async || {
        let status = stage.namespaced_api::<kube_types::HelmRelease>().get("web").await.unwrap().status?;
        (status.state == "active").then_some(())
    })
    .await;
    // A release that waited for one of the others would take half a minute.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}
