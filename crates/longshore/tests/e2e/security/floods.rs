//! Known attacks on HTTP/2 and HTTP/1 against the platform's port, frame by frame, without credentials.
//!
//! Both ports of the server accept connections with the same code. The unit tests of `kube_embedded::http::accept`
//! cover more attacks.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::time::timeout;

use crate::request::get;
use crate::target::Cluster;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// HPACK: GET `http://a/healthz` without the dynamic table.
const HEAD: &[u8] = b"\x82\x86\x04\x08/healthz\x01\x01a";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Sends the frames until the server closes the connection or accepts no bytes for some seconds. Returns the
/// response. A client that does not read has a small receive buffer, so that responses stay in the server.
async fn send_frames(to: SocketAddr, pieces: impl IntoIterator<Item = Vec<u8>>, reads: bool) -> Vec<u8> {
    let socket = TcpSocket::new_v4().unwrap();
    if !reads {
        socket.set_recv_buffer_size(32 << 10).unwrap();
    }
    let (mut reader, mut writer) = socket.connect(to).await.unwrap().into_split();
    let read = tokio::spawn(async move {
        let mut answer = Vec::new();
        if reads {
            let _ = timeout(Duration::from_secs(10), reader.read_to_end(&mut answer)).await; // or reset
        } else {
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        answer
    });
    for piece in pieces {
        if !matches!(timeout(Duration::from_secs(3), writer.write_all(&piece)).await, Ok(Ok(()))) {
            break;
        }
    }
    read.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anonymous_http_floods_do_not_stop_platform_port() {
    let (_cluster, server) = Cluster::with_platform().await;
    let to: SocketAddr = server.url.rsplit('/').next().unwrap().parse().unwrap();
    let (before, _) = server.memory();
    let greeting = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &[])].concat();
    let http2 = |pieces: Vec<Vec<u8>>| std::iter::once(greeting.clone()).chain(pieces);
    let ids = |count: u32| (0..count).map(|n| 2 * n + 1);

    let reset = |id| {
        let request = frame(HEADERS, END_HEADERS | END_STREAM, id, HEAD);
        [request, frame(RST_STREAM, 0, id, &8_u32.to_be_bytes())].concat()
    };
    let resets: Vec<_> = ids(50_000).map(reset).collect();
    // An entry of the dynamic table with 4,000 bytes, then 16,000 references to it: 64 MB per request.
    let entry = [b"\x40\x01x\x7f\xa1\x1e".to_vec(), vec![b'v'; 4_000]].concat();
    let bomb = |id| {
        let fields = if id == 1 { entry.clone() } else { vec![0xbe; 16_000] };
        frame(HEADERS, END_HEADERS | END_STREAM, id, &[HEAD.to_vec(), fields].concat())
    };
    let endless = std::iter::once(frame(HEADERS, END_STREAM, 1, HEAD));
    let endless =
        endless.chain((0..2_000).map(|_| frame(CONTINUATION, 0, 1, &b"\x00\x01x\x01y".repeat(3_000))));
    let settings = frame(SETTINGS, 0, 0, &[]).repeat(2_000);
    let pings = frame(PING, 0, 0, &[1; 8]).repeat(2_000);
    let lines = |text: String| vec![text.into_bytes()];
    let many = format!("GET /healthz HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: y\r\n".repeat(50_000));
    let long = format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "x".repeat(3 << 20));
    let attacks: Vec<(&str, Vec<Vec<u8>>, bool)> = vec![
        ("resets", http2(resets.chunks(500).map(<[_]>::concat).collect()).collect(), true),
        ("compressed headers", http2(ids(200).map(bomb).collect()).collect(), true),
        ("continuations", http2(endless.collect()).collect(), true),
        ("settings", http2(vec![settings; 2_000]).collect(), false),
        ("pings", http2(vec![pings; 2_000]).collect(), false),
        ("50,000 headers", lines(many), true),
        ("a URL of 3 MB", lines(long), true),
    ];
    let client = server.platform();
    for (name, pieces, reads) in attacks {
        let attack = tokio::spawn(send_frames(to, pieces, reads));
        while !attack.is_finished() {
            let asked = timeout(Duration::from_secs(5), get(&client, "/healthz")).await;
            assert_eq!(asked.unwrap_or_else(|_| panic!("{name}: /healthz takes 5 s")).code, 200, "{name}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let answer = attack.await.unwrap();
        if !name.starts_with("50,000") && !name.starts_with("a URL") {
            continue;
        }
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    let (_, peak) = server.memory();
    assert!(peak < before + (128 << 20), "memory grew from {} to {} MiB", before >> 20, peak >> 20);
    // Errors of single connections must not make the server unready.
    assert_eq!(get(&client, "/readyz").await.code, 200);
}
