//! A tenant requests large responses of the platform's port and never reads them.

use std::net::SocketAddr;
use std::time::Duration;

use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::platform::{PlatformUser, call, until};
use crate::releases::charts::{release_body, release_path, upload_chart, wait_for_state};
use crate::target::Cluster;

/// Six objects of half a megabyte.
const LARGE_CHART: &[(&str, &str)] = &[
    ("Chart.yaml", "apiVersion: v2\nname: large\nversion: 1.0.0\n"),
    (
        "templates/all.yaml",
        "{{ range until 6 }}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: large-{{ . }}}\ndata: {text: {{ repeat 500000 \"x\" }}}\n{{ end }}",
    ),
];
/// Response bytes that one user may have in flight, see `docs/limits.md`.
const USER_BYTE_BUDGET: usize = 24 << 20;
const MANIFEST_BYTES: usize = 3_000_000;
const REQUESTS: u32 = 40;

/// An HTTP/2 connection that grants each stream a window of 64 KiB and never enlarges it.
struct StalledConnection(TcpStream);

impl StalledConnection {
    async fn open(server: &str) -> Self {
        let address: SocketAddr = server.rsplit('/').next().unwrap().parse().unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
            .await
            .unwrap();
        Self(stream)
    }

    /// Sends a GET as the stream with this number.
    async fn send_get(&mut self, number: u32, path: &str, token: &str) {
        let mut block = Vec::new();
        let bearer = format!("Bearer {token}");
        let fields = [
            (":method", "GET"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            ("authorization", &bearer),
        ];
        for text in fields.iter().flat_map(|(name, value)| [("\0", *name), ("", *value)]) {
            // An HPACK literal without indexing; lengths below 127 take one byte.
            block.extend_from_slice(text.0.as_bytes());
            assert!(text.1.len() < 127);
            block.push(u8::try_from(text.1.len()).unwrap());
            block.extend_from_slice(text.1.as_bytes());
        }
        let mut frame = u32::try_from(block.len()).unwrap().to_be_bytes()[1..].to_vec();
        // HEADERS with END_STREAM and END_HEADERS.
        frame.extend_from_slice(&[1, 5]);
        frame.extend_from_slice(&(number * 2 + 1).to_be_bytes());
        frame.extend_from_slice(&block);
        self.0.write_all(&frame).await.unwrap();
    }

    /// Reads until this many response heads have arrived. Returns the number with status 200.
    async fn read_heads(&mut self, mut heads: u32) -> u32 {
        let mut good = 0;
        while heads > 0 {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.0.read_exact(&mut payload).await.unwrap();
            if head[3] == 1 {
                heads -= 1;
                // `:status: 200` is in the static table.
                good += u32::from(payload[0] == 0x88);
            }
        }
        good
    }

    /// Waits until the server closes the connection.
    async fn wait_until_closed(mut self) {
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest).await; // a reset is fine, too
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_leaves_large_answers_unread_and_stops_nobody() {
    let (cluster, server) = Cluster::with_platform().await;
    let attacker = PlatformUser::register(&server, &cluster).await;
    let victim = PlatformUser::register(&server, &cluster).await;
    for person in [&attacker, &victim] {
        let package = upload_chart(&server, person, &person.id, LARGE_CHART).await;
        let body = release_body(&person.id, "large", &package, &json!({}));
        let made = person.call(Method::POST, "releases", Some(&body)).await;
        assert_eq!(made.code, 201, "{}", made.text);
        wait_for_state(&server, &person.token, &release_path(&person.id, "large"), "active").await;
    }
    server.memory();
    let manifest = |person: &PlatformUser| format!("{}/manifest", release_path(&person.id, "large"));

    let mut unread = StalledConnection::open(&server.url).await;
    let path = format!("/api/longshore/v1/{}", manifest(&attacker));
    for number in 0..REQUESTS {
        unread.send_get(number, &path, &attacker.token).await;
    }
    let mut good = timeout(Duration::from_mins(1), unread.read_heads(REQUESTS)).await.unwrap();
    // A slow machine may reject some requests because they waited too long. Sent one after another, only the budget
    // decides.
    for number in REQUESTS.. {
        unread.send_get(number, &path, &attacker.token).await;
        if timeout(Duration::from_mins(1), unread.read_heads(1)).await.unwrap() == 0 {
            break;
        }
        good += 1;
        assert!(usize::try_from(good).unwrap() <= USER_BYTE_BUDGET / MANIFEST_BYTES, "{good} were answered");
    }
    assert!(
        (1..=USER_BYTE_BUDGET / MANIFEST_BYTES).contains(&usize::try_from(good).unwrap()),
        "{good} were answered"
    );

    // The attacker's budget is used up, the victim's is not.
    let platform = server.platform_without_retries();
    let refused = call(&platform, Some(&attacker.token), Method::GET, &manifest(&attacker), None).await;
    assert_eq!(refused.code, 429, "{:.200}", refused.text);
    assert_ne!(refused.header("retry-after"), "");
    assert_eq!(refused.json()["code"], "budget", "{}", refused.text);
    let other = victim.call(Method::GET, &manifest(&victim), None).await;
    assert_eq!(other.code, 200, "{:.200}", other.text);
    assert!(other.text.len() > MANIFEST_BYTES);
    let (_, peak) = server.memory();
    assert!(peak < 1 << 30, "{} MiB", peak >> 20);

    // The connection is closed, and the budget returned.
    timeout(Duration::from_mins(2), unread.wait_until_closed()).await.unwrap();
    until("the attacker is served again", async || {
        let answer = attacker.call(Method::GET, &manifest(&attacker), None).await;
        (answer.code == 200).then_some(())
    })
    .await;
}
