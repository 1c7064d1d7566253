//! Honest and hostile repositories.

use std::sync::{Arc, Mutex};

use chart_store::{ChartError, ChartRepository};
use domain::ErrorKind;
use http::Response;
use outbound::Access;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::fake_server::{FakeServer, LOGIN, fetcher, login_access, response};
use crate::fixtures::{chart_archive, repo_index};

fn repository(served: &FakeServer) -> ChartRepository {
    ChartRepository {
        name: "here".to_owned(),
        address: format!("{}/charts", served.address).parse().unwrap(),
        access: Access::anonymous(),
        pass_credentials: false,
    }
}

/// Two versions and a prerelease of `web`.
async fn honest_repo() -> FakeServer {
    let (one, two, three) =
        (chart_archive("web", "1.0.0"), chart_archive("web", "1.2.0"), chart_archive("web", "2.0.0-rc.1"));
    let text = repo_index(&[
        ("web", "1.0.0", "web-1.0.0.tgz", &one),
        ("web", "1.2.0", "/elsewhere/web-1.2.0.tgz", &two),
        ("web", "2.0.0-rc.1", "web-2.tgz", &three),
    ]);
    FakeServer::new(move |request| match request.uri().path() {
        "/charts/index.yaml" if request.headers().get("if-none-match").is_some_and(|tag| tag == "\"1\"") => {
            response(304, "")
        }
        "/charts/index.yaml" => {
            Response::builder().header("etag", "\"1\"").body(text.clone().into()).unwrap()
        }
        "/charts/web-1.0.0.tgz" => response(200, one.clone()),
        "/elsewhere/web-1.2.0.tgz" => response(200, two.clone()),
        "/charts/web-2.tgz" => response(200, three.clone()),
        _ => response(404, ""),
    })
    .await
}

#[tokio::test]
async fn repository_resolves_version_and_range() {
    let served = honest_repo().await;
    let fetcher = fetcher();
    for (version, expected) in [
        ("", "1.2.0"),
        ("1.0.0", "1.0.0"),
        ("^1.0.0", "1.2.0"),
        ("~1.0", "1.0.0"),
        ("<1.1 || >3", "1.0.0"),
        (">0.0.0-0", "2.0.0-rc.1"),
        ("2.0.0-rc.1", "2.0.0-rc.1"),
    ] {
        let found = fetcher.from_repository(&repository(&served), "web", version).await.unwrap();
        assert_eq!((found.name(), found.version()), ("web", expected), "{version}");
    }
    let asked = served.requests();
    assert_eq!(asked.iter().filter(|line| line.contains("index.yaml")).count(), 1, "{asked:?}");
    assert_eq!(asked.len(), 4, "each archive once: {asked:?}");
    for (chart, version, kind, words) in [
        ("none", "", ErrorKind::NotFound, "repository `here` has no chart `none`"),
        ("web", ">=3", ErrorKind::NotFound, "repository `here` has no version of `web` that matches `>=3`"),
        (
            "web",
            "not a range",
            ErrorKind::Invalid,
            "`not a range` is not a version or version range: improper constraint: \"not a range\"",
        ),
    ] {
        let said = fetcher.from_repository(&repository(&served), chart, version).await.unwrap_err();
        assert_eq!((said.kind(), &*said.to_string()), (kind, words));
    }
    assert_eq!(served.requests(), [""; 0]);
}

#[tokio::test]
async fn unchanged_index_is_revalidated() {
    let served = honest_repo().await;
    let fetcher = fetcher();
    let first = fetcher.index(&repository(&served)).await.unwrap();
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    tokio::time::resume();
    let second = fetcher.index(&repository(&served)).await.unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(served.requests().len(), 2);
}

#[tokio::test]
async fn concurrent_index_requests_are_coalesced() {
    let served = honest_repo().await;
    let fetcher = fetcher();
    let repository = repository(&served);
    let all = (0..100).map(|_| fetcher.index(&repository));
    assert!(futures::future::join_all(all).await.iter().all(Result::is_ok));
    assert_eq!(served.requests().len(), 1);
}

/// A cached index is not served to callers with other credentials.
#[tokio::test]
async fn index_cache_is_separate_per_credentials() {
    let text = repo_index(&[("web", "1.0.0", "web.tgz", b"")]);
    let served = FakeServer::new(move |request| match request.headers().get("authorization") {
        Some(login) if login == LOGIN => response(200, text.clone()),
        _ => response(401, ""),
    })
    .await;
    let fetcher = fetcher();
    let stranger = repository(&served);
    let known = ChartRepository { access: login_access(), ..stranger.clone() };
    assert!(fetcher.index(&known).await.is_ok());
    let said = fetcher.index(&stranger).await.unwrap_err();
    assert_eq!(said.kind(), ErrorKind::Forbidden);
    assert!(fetcher.index(&known).await.is_ok());
    assert_eq!(
        served.requests(),
        [format!("GET /charts/index.yaml {LOGIN}"), "GET /charts/index.yaml -".to_owned()]
    );
}

#[tokio::test]
async fn credentials_are_sent_to_other_origins_only_with_pass_credentials() {
    let web = chart_archive("web", "1.0.0");
    let bytes = web.clone();
    let other = FakeServer::new(move |_| response(200, bytes.clone())).await;
    let text = repo_index(&[
        ("web", "1.0.0", &format!("{}/web.tgz", other.address), &web),
        ("own", "1.0.0", "own.tgz", b""),
    ]);
    let served = FakeServer::new(move |request| match request.uri().path() {
        "/charts/index.yaml" => response(200, text.clone()),
        _ => response(404, ""),
    })
    .await;
    for (pass_credentials, login) in [(false, "-"), (true, LOGIN)] {
        let repository = ChartRepository { access: login_access(), pass_credentials, ..repository(&served) };
        fetcher().from_repository(&repository, "web", "").await.unwrap();
        assert_eq!(other.requests(), [format!("GET /web.tgz {login}")]);
        assert_eq!(served.requests(), [format!("GET /charts/index.yaml {LOGIN}")]);
        let said = fetcher().from_repository(&repository, "own", "").await.unwrap_err();
        assert_eq!(said.kind(), ErrorKind::NotFound);
        assert_eq!(served.requests()[1], format!("GET /charts/own.tgz {LOGIN}"));
    }
}

#[tokio::test]
async fn invalid_repository_responses_are_rejected() {
    let (web, other) = (chart_archive("web", "1.0.0"), chart_archive("other", "1.0.0"));
    let text = repo_index(&[
        ("web", "1.0.0", "web.tgz", b"what was promised"),
        ("named", "1.0.0", "other.tgz", &other),
        ("broken", "1.0.0", "broken.tgz", b"no archive"),
        ("nowhere", "1.0.0", "\"\"", b""),
        ("private", "1.0.0", "http://169.254.169.254/latest", b""),
        ("file", "1.0.0", "file:///etc/passwd", b""),
    ]);
    let text = text + "  odd:\n  - {name: odd, version: 1.0.0, digest: short, urls: [odd.tgz]}\n";
    let served = FakeServer::new(move |request| match request.uri().path() {
        "/charts/index.yaml" => response(200, text.clone()),
        "/charts/web.tgz" => response(200, web.clone()),
        "/charts/other.tgz" => response(200, other.clone()),
        "/charts/broken.tgz" => response(200, "no archive"),
        _ => response(404, ""),
    })
    .await;
    let fetcher = fetcher();
    for (chart, kind, words) in [
        ("web", ErrorKind::Unavailable, "has digest sha256:"),
        ("named", ErrorKind::Invalid, "contains chart `other`, expected `named`"),
        ("broken", ErrorKind::Invalid, "the archive is not a chart: gzip: invalid header"),
        ("nowhere", ErrorKind::Invalid, "has no URL for `nowhere` 1.0.0"),
        ("private", ErrorKind::Forbidden, "resolves to an address that the egress policy denies"),
        ("file", ErrorKind::Invalid, "unsupported URL scheme `file`"),
        ("odd", ErrorKind::Invalid, "has an invalid digest `short`"),
    ] {
        let said = fetcher.from_repository(&repository(&served), chart, "").await.unwrap_err();
        assert!(said.kind() == kind && said.to_string().contains(words), "{chart}: {said}");
        // A rejected chart is not cached as a valid one.
        assert!(fetcher.from_repository(&repository(&served), chart, "").await.is_err(), "{chart}");
    }
}

#[tokio::test]
async fn invalid_index_is_rejected_and_requested_again() {
    let text = Arc::new(Mutex::new("<html>".to_owned()));
    let said = text.clone();
    let served = FakeServer::new(move |_| response(200, said.lock().unwrap().clone())).await;
    let fetcher = fetcher();
    for bad in ["<html>", "", "entries: {}", "apiVersion: v1\nentries: 7\n"] {
        *text.lock().unwrap() = bad.to_owned();
        let said = fetcher.index(&repository(&served)).await.unwrap_err();
        assert!(
            matches!(said, ChartError::Index { .. }) && said.kind() == ErrorKind::Invalid,
            "{bad}: {said}"
        );
        let again = fetcher.index(&repository(&served)).await.unwrap_err();
        assert_eq!(again.to_string(), said.to_string());
        assert_eq!(served.requests().len(), 1, "a failure is believed for a while");
        tokio::time::pause();
        tokio::time::advance(std::time::Duration::from_secs(6)).await;
        tokio::time::resume();
    }
    *text.lock().unwrap() = repo_index(&[("web", "1.0.0", "web.tgz", b"")]);
    assert!(fetcher.index(&repository(&served)).await.is_ok());
}

/// With and without a stated content length.
#[tokio::test]
async fn an_index_of_half_a_gigabyte_is_left_at_its_limit() {
    for (head, most) in [("content-length: 524288000", 1 << 20), ("transfer-encoding: chunked", 64 << 20)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let sent = tokio::spawn(async move {
            let (mut line, _) = listener.accept().await.unwrap();
            let _ = line.read(&mut [0; 4096]).await;
            let _ = line.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n").as_bytes()).await;
            let piece = [b"10000\r\n".as_slice(), &vec![b'a'; 0x10000], b"\r\n"].concat();
            let mut sent = 0;
            while sent < 524_288_000 && line.write_all(&piece).await.is_ok() {
                sent += piece.len();
            }
            sent
        });
        let repository = ChartRepository {
            name: "here".to_owned(),
            address: address.parse().unwrap(),
            access: Access::anonymous(),
            pass_credentials: false,
        };
        let fetcher = fetcher();
        let said = fetcher.index(&repository).await.unwrap_err();
        assert_eq!(said.kind(), ErrorKind::TooLarge, "{said}");
        // Bytes in the system's own buffers were sent but not read.
        assert!(sent.await.unwrap() < most + (8 << 20), "{head}");
    }
}
