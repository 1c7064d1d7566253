//! Hostile servers: hanging, trickling, wrong lengths, endless bodies, decompression bombs.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use domain::Kind;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::Response;
use http_body_util::Full;
use outbound::{Access, Address, Ask, Failure, Policy, Validators};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

use crate::network::{Network, PUBLIC, ok};

/// Network whose server reads the request head and then runs `act` on the connection.
fn raw<F>(act: impl Fn(DuplexStream) -> F + Send + Sync + Clone + 'static) -> Network
where
    F: Future<Output = ()> + Send + 'static,
{
    let network = Network::of_lines(move |_, mut line| {
        let act = act.clone();
        tokio::spawn(async move {
            let mut request = [0; 4096];
            let _ = line.read(&mut request).await;
            act(line).await;
        });
    });
    network.name("bad.example", &[&[PUBLIC]])
}

/// Server that sends `words` and closes the connection.
fn saying(words: &'static [u8]) -> Network {
    raw(move |mut line| async move {
        let _ = line.write_all(words).await;
    })
}

/// Server that sends `head` and then `piece` forever, with a pause after each.
fn trickling(head: &'static [u8], piece: &'static [u8], seconds: u64) -> Network {
    raw(move |mut line| async move {
        let mut words = head;
        while line.write_all(words).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            words = piece;
        }
    })
}

const ADDRESS: &str = "http://bad.example/index.yaml?key=canary";

async fn refused(network: &Network) -> (Failure, Duration) {
    let began = Instant::now();
    let failure = network.get(ADDRESS).await.unwrap_err();
    assert!(!format!("{failure} {failure:?}").contains("canary"), "{failure:?}");
    (failure, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_is_left_after_half_a_minute() {
    let (said, took) = refused(&trickling(b"", b"", 5)).await;
    assert_eq!((said.kind(), took.as_secs()), (Kind::Timeout, 30));
    assert_eq!(said.to_string(), "http://bad.example has not begun to answer within 30 s");
}

#[tokio::test(start_paused = true)]
async fn who_trickles_a_head_is_left_after_half_a_minute() {
    let network = trickling(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n", 5);
    let (said, took) = refused(&network).await;
    assert_eq!((said.kind(), took.as_secs()), (Kind::Timeout, 30));
}

#[tokio::test(start_paused = true)]
async fn who_trickles_a_body_is_left_after_half_a_minute() {
    let network = trickling(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", b".", 5);
    let (said, took) = refused(&network).await;
    assert_eq!(
        said.to_string(),
        "http://bad.example/index.yaml sends too slowly: less than 1024 bytes in 30 s"
    );
    assert_eq!((said.kind(), took.as_secs()), (Kind::Timeout, 30));
}

#[tokio::test(start_paused = true)]
async fn who_is_slow_without_end_is_left_after_five_minutes() {
    let network = trickling(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", &[b'.'; 2000], 20);
    let (said, took) = refused(&network).await;
    assert!(matches!(said, Failure::TooLong { .. }), "{said}");
    assert_eq!(took.as_secs(), 300);
}

#[tokio::test]
async fn who_promises_too_much_is_not_read() {
    let network = trickling(b"HTTP/1.1 200 OK\r\ncontent-length: 500000000\r\n\r\n", b".", 3600);
    let (said, _) = refused(&network).await;
    assert_eq!(said.to_string(), "http://bad.example/index.yaml is larger than 1048576 bytes");
    assert_eq!(said.kind(), Kind::TooLarge);
}

#[tokio::test]
async fn who_has_no_end_is_left_at_the_limit() {
    let network = raw(async |mut line| {
        let _ = line.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        let mut piece = b"10000\r\n".to_vec();
        piece.resize(piece.len() + 0x10000, b'a');
        piece.extend(b"\r\n");
        while line.write_all(&piece).await.is_ok() {}
    });
    let (said, _) = refused(&network).await;
    assert_eq!(said.kind(), Kind::TooLarge);
}

#[tokio::test]
async fn who_sends_less_than_promised_has_broken_off() {
    let network = saying(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nshort");
    let (said, _) = refused(&network).await;
    assert!(matches!(said, Failure::Broken { .. }), "{said}");
    assert_eq!(said.kind(), Kind::Unavailable);
}

#[tokio::test]
async fn who_speaks_no_http_is_not_understood() {
    for words in [&b"SSH-2.0-OpenSSH_9.9\r\n"[..], b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", b""] {
        let (said, _) = refused(&saying(words)).await;
        assert!(matches!(said, Failure::Broken { .. }), "{said}");
    }
}

#[tokio::test]
async fn a_head_without_end_is_not_held() {
    let network = raw(async |mut line| {
        let _ = line.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while line
            .write_all(b"x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n")
            .await
            .is_ok()
        {}
    });
    assert!(matches!(refused(&network).await.0, Failure::Broken { .. }));
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(data).unwrap();
    packed.finish().unwrap()
}

fn packed(body: Vec<u8>) -> Network {
    let body = Bytes::from(body);
    let network = Network::new(move |_| {
        Response::builder().header("content-encoding", "gzip").body(Full::new(body.clone())).unwrap()
    });
    network.name("bad.example", &[&[PUBLIC]])
}

#[tokio::test]
async fn what_is_packed_is_unpacked_to_its_limit() {
    let text = b"apiVersion: v1\n".repeat(1000);
    assert_eq!(packed(gzip(&text)).get(ADDRESS).await.unwrap().body, text);
    let (said, _) = refused(&packed(gzip(&vec![0; 64 << 20]))).await;
    assert_eq!(said.kind(), Kind::TooLarge, "{said}");
    let half = gzip(&text);
    for damaged in [half[..half.len() / 2].to_vec(), b"no gzip".to_vec(), [half.clone(), half].concat()] {
        let (said, _) = refused(&packed(damaged)).await;
        assert!(matches!(said, Failure::Damaged { .. }), "{said}");
    }
}

/// Compressed bytes count toward the limit even if they decompress to nothing.
#[tokio::test]
async fn what_is_packed_and_comes_to_nothing_has_an_end() {
    let network = raw(async |mut line| {
        let head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n";
        let _ = line.write_all(head).await;
        let _ = line.write_all(b"a\r\n\x1f\x8b\x08\0\0\0\0\0\0\x03\r\n").await;
        let nothing = b"\0\0\0\xff\xff".repeat(0x1000);
        let piece = [b"5000\r\n", &*nothing, b"\r\n"].concat();
        while line.write_all(&piece).await.is_ok() {}
    });
    let (said, _) = refused(&network).await;
    assert_eq!(said.kind(), Kind::TooLarge, "{said}");
}

#[tokio::test]
async fn what_is_not_asked_for_packed_stays_as_it_is() {
    let body = gzip(b"an archive");
    let network = packed(body.clone());
    let address: Address = ADDRESS.parse().unwrap();
    let access = Access::none();
    let answer = network.client(Policy::default()).get(&Ask::new(&address, &access, 1 << 20)).await.unwrap();
    assert_eq!(answer.body, body);
}

#[tokio::test]
async fn what_is_unchanged_is_not_sent_again() {
    let network = Network::new(|request| {
        let had = request.headers().get("if-none-match").map(|value| value.to_str().unwrap().to_owned());
        let status = if had.as_deref() == Some("\"one\"") { 304 } else { 200 };
        let answer = Response::builder().status(status).header("etag", "\"one\"");
        answer.body(Full::new(if status == 304 { Bytes::new() } else { "text".into() })).unwrap()
    });
    let network = network.name("bad.example", &[&[PUBLIC]]);
    let first = network.get(ADDRESS).await.unwrap();
    assert_eq!(first.validators(), Validators { etag: Some("\"one\"".to_owned()), last_modified: None });
    let (address, access) = (ADDRESS.parse().unwrap(), Access::none());
    let had = first.validators();
    let ask = Ask { had: Some(&had), ..Ask::new(&address, &access, 100) };
    let second = network.client(Policy::default()).get(&ask).await.unwrap();
    assert!(second.is_unchanged() && second.body.is_empty());
}

#[tokio::test]
async fn what_is_refused_is_named_by_its_status() {
    for (status, kind) in [
        (401, Kind::Forbidden),
        (403, Kind::Forbidden),
        (404, Kind::NotFound),
        (429, Kind::Exhausted),
        (500, Kind::Unavailable),
        (503, Kind::Unavailable),
        (204, Kind::Invalid),
        (206, Kind::Invalid),
    ] {
        let network = Network::new(move |_| {
            let mut answer = ok(if status == 204 { "" } else { "canary" });
            *answer.status_mut() = http::StatusCode::from_u16(status).unwrap();
            answer
        });
        let said = network.name("bad.example", &[&[PUBLIC]]).get(ADDRESS).await.unwrap().ok().unwrap_err();
        assert_eq!(
            (said.kind(), said.to_string()),
            (kind, format!("http://bad.example/index.yaml answers {status}"))
        );
    }
}
