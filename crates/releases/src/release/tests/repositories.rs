//! Charts from repositories: version ranges, and repositories that hang, lie, redirect or never end.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chart_store::Digest;
use kube_types::progress::condition;
use kube_types::release::conditions::{READY, STALLED};
use outbound::{Client, Dialer, Patience, Policy};
use parking_lot::Mutex;
use serde_json::json;
use testkit::until;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{records, spec};
use crate::stage::{SHOP, Stage, archive, web};

/// The response to a path.
#[derive(Clone)]
enum Answer {
    Text(Bytes),
    To(&'static str),
    /// Responds with 404.
    Missing,
    /// Requires credentials.
    Locked,
    /// Never responds.
    Silence,
    /// A body shorter than announced.
    Short,
    /// An endless body.
    Endless,
}

type Answers = Arc<Mutex<Vec<(String, Answer)>>>;

async fn served(answers: &Answers) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let answers = answers.clone();
    tokio::spawn(async move {
        while let Ok((line, _)) = listener.accept().await {
            tokio::spawn(answer(line, answers.clone()));
        }
    });
    address
}

/// Answers one request; I/O errors are ignored.
async fn answer(mut line: TcpStream, answers: Answers) {
    let mut head = vec![0; 16 << 10];
    let Ok(read) = line.read(&mut head).await else { return };
    let head = String::from_utf8_lossy(&head[..read]).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let found = answers.lock().iter().find(|(known, _)| known == path).map(|(_, answer)| answer.clone());
    let said = |status: &str, more: &str| format!("HTTP/1.1 {status}\r\nconnection: close\r\n{more}\r\n\r\n");
    let _ = match found.unwrap_or(Answer::Missing) {
        Answer::Text(text) => {
            let length = format!("content-length: {}", text.len());
            line.write_all(&[said("200 OK", &length).as_bytes(), &text[..]].concat()).await
        }
        Answer::To(place) => {
            line.write_all(said("302 Found", &format!("location: {place}\r\ncontent-length: 0")).as_bytes())
                .await
        }
        Answer::Missing => line.write_all(said("404 Not Found", "content-length: 0").as_bytes()).await,
        Answer::Locked => line.write_all(said("401 Unauthorized", "content-length: 0").as_bytes()).await,
        Answer::Silence => std::future::pending().await,
        Answer::Short => {
            line.write_all((said("200 OK", "content-length: 1000") + "apiVersion: v1").as_bytes()).await
        }
        Answer::Endless => {
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
fn client() -> Client {
    let dialer = Dialer::new(Policy::allowing(["127.0.0.0/8".parse().unwrap()]));
    let (first_word, whole) = (Duration::from_secs(2), Duration::from_secs(20));
    Client::with_patience(dialer, Patience { first_word, pause: first_word, whole })
}

/// An index of these entries: name, version, file, and the bytes for the digest.
fn index(entries: &[(&str, &str, &str, &[u8])]) -> Answer {
    let mut text = "apiVersion: v1\nentries:\n".to_owned();
    let mut last = "";
    for (name, version, file, bytes) in entries {
        if *name != last {
            writeln!(text, "  {name}:").unwrap();
        }
        last = name;
        let digest = Digest::of(bytes).hex();
        writeln!(text, "  - {{name: {name}, version: {version}, digest: {digest}, urls: [\"{file}\"]}}")
            .unwrap();
    }
    Answer::Text(text.into())
}

#[tokio::test]
async fn a_repository_is_kept_only_if_it_answers_with_an_index() {
    let answers = Answers::default();
    let home = served(&answers).await;
    let stage = Stage::reaching(client()).await;
    let mut admin = crate::stage::developer();
    admin.memberships.values_mut().for_each(|role| *role = domain::roles::WorkspaceRole::Admin);
    answers.lock().extend([
        ("/good/index.yaml".to_owned(), index(&[("web", "1.0.0", "web-1.0.0.tgz", b"x")])),
        ("/page/index.yaml".to_owned(), Answer::Text(Bytes::from_static(b"<html>welcome</html>"))),
        ("/locked/index.yaml".to_owned(), Answer::Locked),
        ("/silent/index.yaml".to_owned(), Answer::Silence),
    ]);
    let new = |url: &str| crate::repos::NewRepo {
        name: "mine".to_owned(),
        workspace: SHOP.to_owned(),
        url: url.to_owned(),
        check: true,
        ..crate::repos::NewRepo::default()
    };
    let rows = [
        (format!("{home}/none"), "404"),
        (format!("{home}/page"), "index"),
        (format!("{home}/locked"), "401"),
        (format!("{home}/silent"), "answer"),
        ("http://10.0.0.1/charts".to_owned(), "10.0.0.1"),
        ("ftp://charts.example.com".to_owned(), "ftp"),
    ];
    for (url, words) in rows {
        let why = stage.releases.create_repo(&admin, new(&url)).await.unwrap_err();
        assert_eq!(why.kind(), domain::Kind::Invalid, "{url}: {why}");
        let why = why.to_string();
        assert!(why.starts_with(&format!("looks like \"{url}\"")) && why.contains(words), "{why}");
        assert!(stage.releases.repos(&admin, None).await.unwrap().is_empty(), "{url}");
    }
    stage.releases.create_repo(&admin, new(&format!("{home}/good"))).await.unwrap();
    let elsewhere = |check| crate::repos::RepoChanges {
        url: Some(format!("{home}/none")),
        check,
        ..crate::repos::RepoChanges::default()
    };
    let key = format!("{SHOP}.mine");
    stage.releases.change_repo(&admin, &key, elsewhere(true), None).await.unwrap_err();
    assert!(stage.releases.repo(&admin, &key).await.unwrap().url.ends_with("/good"));
    stage.releases.change_repo(&admin, &key, elsewhere(false), None).await.unwrap();
    assert!(stage.releases.repo(&admin, &key).await.unwrap().url.ends_with("/none"));
}

async fn tell_of(stage: &Stage, name: &str, url: &str, workspace: &str) {
    let repo = json!({"apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRepo", "metadata": {"name": name}, "spec": {"url": url, "workspace": workspace}});
    stage.world.apply([repo]).await;
}

fn of_repo(name: &str, repo: &str, chart: &str, version: &str) -> serde_json::Value {
    json!({"name": name, "source": {"repo": repo}, "chartName": chart, "chartVersion": version})
}

#[tokio::test]
async fn a_range_finds_the_newest_and_follows_it_within_the_interval() {
    let stage = Stage::reaching(client()).await;
    let answers = Answers::default();
    let charts: Vec<Bytes> =
        ["1.0.0", "1.1.0", "1.2.0", "2.0.0"].map(|version| archive("web", version, &[])).into();
    let listed = |count: usize| {
        let all = [("1.0.0", "a"), ("2.0.0", "d"), ("1.1.0", "b"), ("1.2.0", "c")];
        let bytes = [0, 3, 1, 2];
        let entries: Vec<_> =
            (0..count).map(|at| ("web", all[at].0, all[at].1, &charts[bytes[at]][..])).collect();
        index(&entries)
    };
    for (file, at) in [("/a", 0), ("/b", 1), ("/c", 2), ("/d", 3)] {
        answers.lock().push((file.to_owned(), Answer::Text(charts[at].clone())));
    }
    answers.lock().push(("/index.yaml".to_owned(), listed(3)));
    let url = served(&answers).await;
    tell_of(&stage, "here", &url, SHOP).await;
    let cases = [
        ("newest", "", "2.0.0"),
        ("range", "^1", "1.1.0"),
        ("exact", "1.0.0", "1.0.0"),
        ("below", "<2", "1.1.0"),
    ];
    for (name, version, found) in cases {
        stage.write(name, of_repo(name, "here", "web", version)).await.unwrap();
        let status = stage.until_state(name, "active").await.status.unwrap();
        let chart = status.chart.unwrap();
        assert_eq!(chart.version, found, "{name}");
        assert!(chart.digest.starts_with("sha256:") && chart.package.starts_with("pkg-"), "{chart:?}");
    }
}

#[tokio::test]
async fn a_repository_that_means_no_good_is_told_of_within_one_pass() {
    let stage = Stage::reaching(client()).await;
    let bad = |answer: Answer| Arc::new(Mutex::new(vec![("/index.yaml".to_owned(), answer)]));
    let lying = bad(index(&[
        ("web", "1.0.0", "web.tgz", b"what was promised"),
        ("away", "1.0.0", "http://169.254.169.254/latest", b""),
    ]));
    lying.lock().push(("/web.tgz".to_owned(), Answer::Text(web())));
    let moved = bad(index(&[("web", "1.0.0", "web.tgz", b"")]));
    moved.lock().push(("/web.tgz".to_owned(), Answer::To("http://10.0.0.1/web.tgz")));
    #[rustfmt::skip]
    let cases = [
        ("silent",   bad(Answer::Silence),                                    "web",  "",   "2 s",                       true),
        ("short",    bad(Answer::Short),                                      "web",  "",   "",                          true),
        ("endless",  bad(Answer::Endless),                                    "web",  "",   "bytes",                     false),
        ("elsewhere",bad(Answer::To("http://10.0.0.1/index.yaml")),           "web",  "",   "may not be reached",         false),
        ("metadata", bad(Answer::To("http://169.254.169.254/latest")),        "web",  "",   "may not be reached",        false),
        ("gone",     bad(Answer::Missing),                                    "web",  "",   "404",                       false),
        ("html",     bad(Answer::Text("<html>".into())),                      "web",  "",   "cannot be used",            false),
        ("lies",     lying.clone(),                                           "web",  "",   "has the digest sha256:",    true),
        ("private",  lying,                                                   "away", "",   "may not be reached",        false),
        ("moved",    moved.clone(),                                           "web",  "",   "may not be reached",         false),
        ("unknown",  moved.clone(),                                           "none", "",   "has no chart `none`",       false),
        ("other",    moved.clone(),                                           "web",  "^9", "that `^9` allows",          false),
        ("nonsense", moved,                                                   "web",  "~~", "neither a version nor a range", false),
    ];
    for (name, answers, chart, version, message, again) in cases {
        let url = served(&answers).await;
        tell_of(&stage, name, &url, SHOP).await;
        stage.write(name, of_repo(name, name, chart, version)).await.unwrap();
        let status = stage.until_state(name, "failed").await.status.unwrap();
        assert!(status.message.contains(message), "{name}: {}", status.message);
        let ready = condition(&status.conditions, READY).unwrap();
        assert_eq!((ready.reason.as_str(), &ready.message), ("ChartNotFound", &status.message), "{name}");
        let stalled = condition(&status.conditions, STALLED).unwrap().status == "True";
        assert_eq!(
            (stalled, status.next_retry_time.is_some()),
            (!again, again),
            "{name}: {}",
            status.message
        );
        assert!(records(&stage, name).await.is_empty(), "{name}");
    }
}

#[tokio::test]
async fn a_repository_of_another_workspace_is_not_there() {
    let stage = Stage::reaching(client()).await;
    let chart = archive("web", "1.0.0", &[]);
    let answers: Answers = Arc::new(Mutex::new(vec![
        ("/index.yaml".to_owned(), index(&[("web", "1.0.0", "web.tgz", &chart)])),
        ("/web.tgz".to_owned(), Answer::Text(chart)),
    ]));
    let url = served(&answers).await;
    tell_of(&stage, "theirs", &url, "theirs").await;
    tell_of(&stage, "everybodys", &url, "").await;
    stage.write("theirs", of_repo("theirs", "theirs", "web", "")).await.unwrap();
    let status = stage.until_state("theirs", "failed").await.status.unwrap();
    assert_eq!(status.message, "there is no repository `theirs`");
    stage.write("ours", of_repo("ours", "everybodys", "web", "")).await.unwrap();
    stage.until_state("ours", "active").await;
}

#[tokio::test]
async fn a_repository_that_comes_back_is_found_by_itself() {
    let stage = Stage::reaching(client()).await;
    let answers: Answers = Arc::new(Mutex::new(vec![("/index.yaml".to_owned(), Answer::Short)]));
    let url = served(&answers).await;
    tell_of(&stage, "here", &url, SHOP).await;
    stage.write("web", of_repo("web", "here", "web", "")).await.unwrap();
    stage.until_state("web", "failed").await;
    let chart = archive("web", "1.0.0", &[]);
    *answers.lock() = vec![
        ("/index.yaml".to_owned(), index(&[("web", "1.0.0", "web.tgz", &chart)])),
        ("/web.tgz".to_owned(), Answer::Text(chart)),
    ];
    stage.until_state("web", "active").await;
}

#[tokio::test]
async fn many_who_wait_for_one_hold_up_nobody_else() {
    let dialer = Dialer::new(Policy::allowing(["127.0.0.0/8".parse().unwrap()]));
    let stage = Stage::reaching(Client::new(dialer)).await;
    let answers: Answers = Arc::new(Mutex::new(vec![("/index.yaml".to_owned(), Answer::Silence)]));
    let url = served(&answers).await;
    tell_of(&stage, "here", &url, SHOP).await;
    for number in 0..40 {
        let name = format!("waits-{number}");
        stage.write(&name, of_repo(&name, "here", "web", "")).await.unwrap();
    }
    let package = stage.keep(web()).await;
    let began = tokio::time::Instant::now();
    stage.write("web", spec("web", &package)).await.unwrap();
    until("it is active", async || {
        let status = stage.of::<kube_types::HelmRelease>().get("web").await.unwrap().status?;
        (status.state == "active").then_some(())
    })
    .await;
    // A release that waited for one of the others would take half a minute.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}
