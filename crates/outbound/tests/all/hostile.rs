//! Hostile servers: hanging, trickling, wrong lengths, endless bodies, decompression bombs.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use domain::ErrorKind;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::Response;
use http_body_util::Full;
use outbound::{Access, Address, EgressPolicy, FetchError, FetchRequest, Validators};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

use crate::fake_network::{FakeNetwork, PUBLIC, ok};

/// Network whose server reads the request head and then runs `act` on the connection.
fn raw_server<F>(act: impl Fn(DuplexStream) -> F + Send + Sync + Clone + 'static) -> FakeNetwork
where
    F: Future<Output = ()> + Send + 'static,
{
    let network = FakeNetwork::with_connections(move |_, mut line| {
        let act = act.clone();
        tokio::spawn(async move {
            let mut request = [0; 4096];
            let _ = line.read(&mut request).await;
            act(line).await;
        });
    });
    network.with_host("bad.example", &[&[PUBLIC]])
}

/// Server that sends `words` and closes the connection.
fn server_sending(words: &'static [u8]) -> FakeNetwork {
    raw_server(move |mut line| async move {
        let _ = line.write_all(words).await;
    })
}

/// Server that sends `head` and then `piece` forever, with a pause after each.
fn slow_server(head: &'static [u8], piece: &'static [u8], seconds: u64) -> FakeNetwork {
    raw_server(move |mut line| async move {
        let mut words = head;
        while line.write_all(words).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            words = piece;
        }
    })
}

const ADDRESS: &str = "http://bad.example/index.yaml?key=canary";

async fn expect_failure(network: &FakeNetwork) -> (FetchError, Duration) {
    let began = Instant::now();
    let failure = network.get(ADDRESS).await.unwrap_err();
    assert!(!format!("{failure} {failure:?}").contains("canary"), "{failure:?}");
    (failure, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn silent_server_times_out_after_30_seconds() {
    let (said, took) = expect_failure(&slow_server(b"", b"", 5)).await;
    assert_eq!((said.kind(), took.as_secs()), (ErrorKind::Timeout, 30));
    assert_eq!(said.to_string(), "no response from http://bad.example within 30 s");
}

#[tokio::test(start_paused = true)]
async fn slow_head_times_out_after_30_seconds() {
    let network = slow_server(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n", 5);
    let (said, took) = expect_failure(&network).await;
    assert_eq!((said.kind(), took.as_secs()), (ErrorKind::Timeout, 30));
}

#[tokio::test(start_paused = true)]
async fn slow_body_times_out_after_30_seconds() {
    let network = slow_server(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", b".", 5);
    let (said, took) = expect_failure(&network).await;
    assert_eq!(
        said.to_string(),
        "http://bad.example/index.yaml sends too slowly: fewer than 1024 bytes in 30 s"
    );
    assert_eq!((said.kind(), took.as_secs()), (ErrorKind::Timeout, 30));
}

#[tokio::test(start_paused = true)]
async fn endless_body_times_out_after_5_minutes() {
    let network = slow_server(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", &[b'.'; 2000], 20);
    let (said, took) = expect_failure(&network).await;
    assert!(matches!(said, FetchError::TotalTimeout { .. }), "{said}");
    assert_eq!(took.as_secs(), 300);
}

#[tokio::test]
async fn oversized_content_length_is_rejected_unread() {
    let network = slow_server(b"HTTP/1.1 200 OK\r\ncontent-length: 500000000\r\n\r\n", b".", 3600);
    let (said, _) = expect_failure(&network).await;
    assert_eq!(said.to_string(), "http://bad.example/index.yaml is larger than 1048576 bytes");
    assert_eq!(said.kind(), ErrorKind::TooLarge);
}

#[tokio::test]
async fn endless_chunked_body_stops_at_the_limit() {
    let network = raw_server(async |mut line| {
        let _ = line.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        let mut piece = b"10000\r\n".to_vec();
        piece.resize(piece.len() + 0x10000, b'a');
        piece.extend(b"\r\n");
        while line.write_all(&piece).await.is_ok() {}
    });
    let (said, _) = expect_failure(&network).await;
    assert_eq!(said.kind(), ErrorKind::TooLarge);
}

#[tokio::test]
async fn truncated_body_is_an_error() {
    let network = server_sending(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nshort");
    let (said, _) = expect_failure(&network).await;
    assert!(matches!(said, FetchError::Interrupted { .. }), "{said}");
    assert_eq!(said.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn non_http_response_is_an_error() {
    for words in [&b"SSH-2.0-OpenSSH_9.9\r\n"[..], b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", b""] {
        let (said, _) = expect_failure(&server_sending(words)).await;
        assert!(matches!(said, FetchError::Interrupted { .. }), "{said}");
    }
}

#[tokio::test]
async fn endless_head_is_rejected() {
    let network = raw_server(async |mut line| {
        let _ = line.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while line
            .write_all(b"x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n")
            .await
            .is_ok()
        {}
    });
    assert!(matches!(expect_failure(&network).await.0, FetchError::Interrupted { .. }));
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(data).unwrap();
    packed.finish().unwrap()
}

fn gzip_server(body: Vec<u8>) -> FakeNetwork {
    let body = Bytes::from(body);
    let network = FakeNetwork::new(move |_| {
        Response::builder().header("content-encoding", "gzip").body(Full::new(body.clone())).unwrap()
    });
    network.with_host("bad.example", &[&[PUBLIC]])
}

#[tokio::test]
async fn gzip_body_is_decompressed_up_to_the_limit() {
    let text = b"apiVersion: v1\n".repeat(1000);
    assert_eq!(gzip_server(gzip(&text)).get(ADDRESS).await.unwrap().body, text);
    let (said, _) = expect_failure(&gzip_server(gzip(&vec![0; 64 << 20]))).await;
    assert_eq!(said.kind(), ErrorKind::TooLarge, "{said}");
    let half = gzip(&text);
    for damaged in [half[..half.len() / 2].to_vec(), b"no gzip".to_vec(), [half.clone(), half].concat()] {
        let (said, _) = expect_failure(&gzip_server(damaged)).await;
        assert!(matches!(said, FetchError::Damaged { .. }), "{said}");
    }
}

/// Compressed bytes count toward the limit even if they decompress to nothing.
#[tokio::test]
async fn gzip_body_of_empty_blocks_stops_at_the_limit() {
    let network = raw_server(async |mut line| {
        let head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n";
        let _ = line.write_all(head).await;
        let _ = line.write_all(b"a\r\n\x1f\x8b\x08\0\0\0\0\0\0\x03\r\n").await;
        let nothing = b"\0\0\0\xff\xff".repeat(0x1000);
        let piece = [b"5000\r\n", &*nothing, b"\r\n"].concat();
        while line.write_all(&piece).await.is_ok() {}
    });
    let (said, _) = expect_failure(&network).await;
    assert_eq!(said.kind(), ErrorKind::TooLarge, "{said}");
}

#[tokio::test]
async fn gzip_body_is_kept_when_gzip_was_not_requested() {
    let body = gzip(b"an archive");
    let network = gzip_server(body.clone());
    let address: Address = ADDRESS.parse().unwrap();
    let access = Access::anonymous();
    let answer = network
        .client(EgressPolicy::default())
        .get(&FetchRequest::new(&address, &access, 1 << 20))
        .await
        .unwrap();
    assert_eq!(answer.body, body);
}

#[tokio::test]
async fn unchanged_resource_returns_not_modified() {
    let network = FakeNetwork::new(|request| {
        let had = request.headers().get("if-none-match").map(|value| value.to_str().unwrap().to_owned());
        let status = if had.as_deref() == Some("\"one\"") { 304 } else { 200 };
        let answer = Response::builder().status(status).header("etag", "\"one\"");
        answer.body(Full::new(if status == 304 { Bytes::new() } else { "text".into() })).unwrap()
    });
    let network = network.with_host("bad.example", &[&[PUBLIC]]);
    let first = network.get(ADDRESS).await.unwrap();
    assert_eq!(first.validators(), Validators { etag: Some("\"one\"".to_owned()), last_modified: None });
    let (address, access) = (ADDRESS.parse().unwrap(), Access::anonymous());
    let had = first.validators();
    let ask = FetchRequest { validators: Some(&had), ..FetchRequest::new(&address, &access, 100) };
    let second = network.client(EgressPolicy::default()).get(&ask).await.unwrap();
    assert!(second.is_not_modified() && second.body.is_empty());
}

#[tokio::test]
async fn error_status_maps_to_error_kind() {
    for (status, kind) in [
        (401, ErrorKind::Forbidden),
        (403, ErrorKind::Forbidden),
        (404, ErrorKind::NotFound),
        (429, ErrorKind::Exhausted),
        (500, ErrorKind::Unavailable),
        (503, ErrorKind::Unavailable),
        (204, ErrorKind::Invalid),
        (206, ErrorKind::Invalid),
    ] {
        let network = FakeNetwork::new(move |_| {
            let mut answer = ok(if status == 204 { "" } else { "canary" });
            *answer.status_mut() = http::StatusCode::from_u16(status).unwrap();
            answer
        });
        let said =
            network.with_host("bad.example", &[&[PUBLIC]]).get(ADDRESS).await.unwrap().ok().unwrap_err();
        assert_eq!(
            (said.kind(), said.to_string()),
            (kind, format!("http://bad.example/index.yaml returned status {status}"))
        );
    }
}
