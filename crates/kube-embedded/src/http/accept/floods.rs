//! Known attacks on HTTP/2 and HTTP/1, frame by frame over TCP.
//!
//! Each test asserts that the connection is ended or answered with 4xx, that the number of running requests stays bounded and
//! returns to zero, and that another client is served during the attack.

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{Empty, Full};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use super::*;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Concurrent streams per connection, as announced in SETTINGS.
const MAX_STREAMS: usize = 1000;
/// Timeout after which the test fails.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// HPACK: `:method` POST, `:scheme` http, `:path` of at most 126 bytes, `:authority` a.
fn head(path: &str) -> Vec<u8> {
    let mut head = vec![0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
    head.extend(path.as_bytes());
    head.extend([0x01, 1, b'a']);
    head
}

/// Encodes an HPACK string without compression.
fn hpack_string(text: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    match u8::try_from(text.len()) {
        Ok(short) if short < 127 => encoded.push(short),
        _ => {
            encoded.push(127);
            let mut rest = text.len() - 127;
            while rest >= 128 {
                encoded.push(u8::try_from(rest % 128).unwrap() | 128);
                rest /= 128;
            }
            encoded.push(u8::try_from(rest).unwrap());
        }
    }
    encoded.extend(text);
    encoded
}

/// Returns the frames that follow the head of a stream.
type FaultFrames<'a> = &'a dyn Fn(u32) -> Vec<u8>;

/// Stream ids of a client.
fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|n| 2 * n + 1)
}

#[derive(Default)]
struct ServerState {
    running: AtomicUsize,
    max_running: AtomicUsize,
    paths: Mutex<Vec<String>>,
}

struct RunningRequest(Arc<ServerState>);

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts a server on its own runtime threads: `/wait` is never answered, other paths are when their body is complete.
async fn serve() -> (SocketAddr, Arc<ServerState>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(ServerState::default());
    let of_peer = {
        let seen = seen.clone();
        move |_: SocketAddr, _: Option<&CertificateDer<'_>>| {
            let seen = seen.clone();
            tower::service_fn(move |request: Request<Incoming>| {
                let seen = seen.clone();
                async move {
                    let now = seen.running.fetch_add(1, Ordering::Relaxed) + 1;
                    seen.max_running.fetch_max(now, Ordering::Relaxed);
                    let _running = RunningRequest(seen.clone());
                    let path = request.uri().path().to_owned();
                    seen.paths.lock().push(path.clone());
                    if path == "/wait" {
                        std::future::pending::<()>().await;
                    }
                    let mut response = Response::new(Full::new(Bytes::from_static(b"ok")));
                    if request.into_body().collect().await.is_err() {
                        *response.status_mut() = StatusCode::BAD_REQUEST;
                    }
                    Ok::<_, Infallible>(response)
                }
            })
        }
    };
    tokio::spawn(accept(listener, None, ConnectionLimits::default(), of_peer, std::future::pending()));
    (address, seen)
}

/// Starts another client that sends requests continuously; it panics when it gets no response.
fn bystander(address: SocketAddr) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            let asked = async {
                let stream = TcpStream::connect(address).await.unwrap();
                let (mut sender, connection) =
                    hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                        .await
                        .unwrap();
                let connection = tokio::spawn(connection);
                let request = Request::get("http://a/other").body(Empty::<Bytes>::new()).unwrap();
                assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
                connection.abort();
            };
            timeout(Duration::from_secs(5), asked).await.expect("another client is served");
            sleep(Duration::from_millis(20)).await;
        }
    })
}

/// Result of an attack.
#[derive(Debug, Default)]
struct AttackOutcome {
    /// Whether the server closed the connection.
    is_closed: bool,
    /// Error code of the GOAWAY frame.
    goaway: Option<u32>,
    /// Number of `RST_STREAM` frames from the server.
    resets: usize,
    /// Number of HEADERS frames from the server.
    responses: usize,
    /// Bytes that the server accepted.
    written: usize,
}

/// Sends the chunks on a new HTTP/2 connection, reading the server's frames or not.
async fn attack(
    address: SocketAddr,
    chunks: impl Iterator<Item = Vec<u8>> + Send,
    is_reading: bool,
) -> AttackOutcome {
    let socket = TcpSocket::new_v4().unwrap();
    if !is_reading {
        socket.set_recv_buffer_size(32 << 10).unwrap();
    }
    let (mut reader, mut writer) = socket.connect(address).await.unwrap().into_split();
    let mut outcome = AttackOutcome::default();
    let read = tokio::spawn(async move {
        let mut seen = AttackOutcome::default();
        if !is_reading {
            std::future::pending::<()>().await;
        }
        loop {
            let mut head = [0; 9];
            if reader.read_exact(&mut head).await.is_err() {
                seen.is_closed = true;
                return seen;
            }
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            if reader.read_exact(&mut payload).await.is_err() {
                seen.is_closed = true;
                return seen;
            }
            match head[3] {
                GOAWAY => seen.goaway = payload[4..8].try_into().ok().map(u32::from_be_bytes),
                RST_STREAM => seen.resets += 1,
                HEADERS => seen.responses += 1,
                _ => {}
            }
        }
    });
    let began = std::time::Instant::now();
    let greeting = [PREFACE.to_vec(), frame(SETTINGS, 0, 0, &[])].concat();
    for piece in std::iter::once(greeting).chain(chunks) {
        assert!(began.elapsed() < TEST_TIMEOUT, "the attack goes on after {} bytes", outcome.written);
        // A server that accepts no more bytes has stopped the attack.
        match timeout(Duration::from_secs(3), writer.write_all(&piece)).await {
            Ok(Ok(())) => outcome.written += piece.len(),
            Ok(Err(_)) => {
                outcome.is_closed = true;
                break;
            }
            Err(_) => break,
        }
    }
    // Remaining frames of the server.
    if is_reading && let Ok(Ok(seen)) = timeout(Duration::from_secs(3), read).await {
        let AttackOutcome { is_closed: ended, goaway, resets, responses: answers, .. } = seen;
        outcome = AttackOutcome {
            is_closed: outcome.is_closed || ended,
            goaway,
            resets,
            responses: answers,
            ..outcome
        };
    }
    outcome
}

/// Checks that the requests of the attack end, and never exceeded the limit of one connection.
async fn check_end(state: &ServerState, bystander: JoinHandle<()>) {
    assert!(state.max_running.load(Ordering::Relaxed) <= MAX_STREAMS + 10);
    let quiet = async {
        loop {
            if state.running.load(Ordering::Relaxed) <= 1 {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(10), quiet).await.expect("the requests of an ended attack end");
    if bystander.is_finished() {
        bystander.await.expect("another client is served");
    } else {
        bystander.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rapid_reset_ends_the_connection() {
    let (address, seen) = serve().await;
    let other = bystander(address);
    let pieces = streams(500_000).map(|id| {
        let cancel = frame(RST_STREAM, 0, id, &8_u32.to_be_bytes());
        [frame(HEADERS, END_HEADERS | END_STREAM, id, &head("/wait")), cancel].concat()
    });
    // Many frames at once, so that they arrive together.
    let pieces: Vec<_> = pieces.collect();
    let outcome = attack(address, pieces.chunks(500).map(<[_]>::concat), true).await;
    assert!(outcome.is_closed && outcome.written < 12 << 20, "{outcome:?}");
    check_end(&seen, other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resets_that_the_client_makes_the_server_send_end_the_connection() {
    let (address, seen) = serve().await;
    let other = bystander(address);
    // Frames that are stream errors.
    let window = |id, increment: u32| frame(WINDOW_UPDATE, 0, id, &increment.to_be_bytes());
    let largest = 0x7fff_ffff;
    let faults: [(&str, u8, FaultFrames<'_>); 3] = [
        ("window update of 0", 0, &|id| window(id, 0)),
        ("window overflow", 0, &|id| window(id, largest)),
        ("data after the end", END_STREAM, &|id| frame(DATA, 0, id, b"x")),
    ];
    for (name, flags, fault) in faults {
        let pieces: Vec<_> = streams(400_000)
            .map(|id| [frame(HEADERS, END_HEADERS | flags, id, &head("/wait")), fault(id)].concat())
            .collect();
        let outcome = attack(address, pieces.chunks(50).map(<[_]>::concat), true).await;
        assert!(outcome.is_closed && outcome.written < 12 << 20, "{name}: {outcome:?}");
    }
    check_end(&seen, other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_continuation_frames_end_the_connection() {
    let (address, seen) = serve().await;
    let other = bystander(address);
    let field = [vec![0x00], hpack_string(b"x-a"), hpack_string(&[b'v'; 100])].concat();
    let full = field.repeat(16_000 / field.len());
    for (name, payload) in [("full", full), ("empty", Vec::new())] {
        let begun = std::iter::once(frame(HEADERS, END_STREAM, 1, &head("/")));
        let rest = (0..2_000).map(|_| frame(CONTINUATION, 0, 1, &payload));
        let outcome = attack(address, begun.chain(rest), true).await;
        assert!(outcome.is_closed && outcome.written < 8 << 20, "{name}: {outcome:?}");
    }
    assert!(seen.paths.lock().iter().all(|path| path == "/other"));
    check_end(&seen, other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compressed_headers_that_expand_are_refused() {
    let (address, seen) = serve().await;
    let other = bystander(address);
    // An entry of the dynamic table with 4 KB, then 16,000 references to it: 64 MB a request.
    let entry = [vec![0x40], hpack_string(b"x"), hpack_string(&[b'v'; 4_000])].concat();
    let first = [head("/bomb"), entry].concat();
    let bomb = [head("/bomb"), vec![0xbe; 16_000]].concat();
    let begun = std::iter::once(frame(HEADERS, END_HEADERS | END_STREAM, 1, &first));
    let rest = streams(201).skip(1).map(|id| frame(HEADERS, END_HEADERS | END_STREAM, id, &bomb));
    let outcome = attack(address, begun.chain(rest), true).await;
    assert!(outcome.is_closed || outcome.responses + outcome.resets >= 200, "{outcome:?}");
    let reached = seen.paths.lock().iter().filter(|path| *path == "/bomb").count();
    assert!(reached <= 1, "{reached} requests with 64 MB of headers reached the service");
    check_end(&seen, other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_settings_and_pings_are_bounded_and_delay_nobody() {
    let (address, seen) = serve().await;
    let other = bystander(address);
    for (name, one) in [("settings", frame(SETTINGS, 0, 0, &[])), ("ping", frame(PING, 0, 0, &[1; 8]))] {
        let burst = one.repeat(2_000);
        // Unread acknowledgements are not buffered: the server stops reading.
        let unread = attack(address, (0..2_000).map(|_| burst.clone()), false).await;
        assert!(unread.written < 16 << 20, "{name}: {unread:?}");
        // If they are read, they cost no more than the client's own traffic.
        let read = attack(address, (0..50).map(|_| burst.clone()), true).await;
        assert!(read.is_closed || read.written >= 50 * burst.len(), "{name}: {read:?}");
    }
    check_end(&seen, other).await;
}

/// Returns the response to raw HTTP/1 bytes, until the server closes or pauses.
async fn raw_response(address: SocketAddr, sent: &[u8]) -> String {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let write = async {
        let _ = writer.write_all(sent).await; // the server may refuse before everything is sent
        std::future::pending::<()>().await;
    };
    let mut answer = Vec::new();
    let read = async {
        let mut part = [0; 4096];
        while let Ok(Ok(count @ 1..)) = timeout(Duration::from_millis(500), reader.read(&mut part)).await {
            answer.extend_from_slice(&part[..count]);
        }
    };
    tokio::select! {
        () = write => {}
        () = read => {}
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_with_ambiguous_lengths_are_refused_or_read_in_one_way() {
    let (address, seen) = serve().await;
    let other = bystander(address);
    let hidden = "GET /hidden HTTP/1.1\r\nhost: a\r\n\r\n";
    for (lengths, body) in [
        ("content-length: 5\r\ncontent-length: 6", "12345"),
        ("content-length: 5, 6", "12345"),
        ("content-length: +5", "12345"),
        ("content-length: -1", ""),
        ("content-length: 0x5", "12345"),
        ("content-length: 18446744073709551616", "12345"),
        ("transfer-encoding: chunked, identity", "0\r\n\r\n"),
        ("transfer-encoding: xchunked", "0\r\n\r\n"),
        ("transfer-encoding : chunked", "0\r\n\r\n"),
        ("transfer-encoding: chunked", "5 5\r\n12345\r\n0\r\n\r\n"),
        ("transfer-encoding: chunked", "fffffffffffffffff\r\n"),
    ] {
        let request = format!("POST /first HTTP/1.1\r\nhost: a\r\n{lengths}\r\n\r\n{body}{hidden}");
        let answer = raw_response(address, request.as_bytes()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{lengths}: {answer}");
        assert!(!seen.paths.lock().iter().any(|path| path == "/hidden"), "{lengths}");
    }
    // With both headers the length is ignored, as in RFC 9112: the bytes after the last chunk are the next request.
    let request = "POST /first HTTP/1.1\r\nhost: a\r\ncontent-length: 60\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    let next = "GET /next HTTP/1.1\r\nhost: a\r\nx: \"POST /hidden HTTP/1.1\"\r\n\r\n";
    let answer = raw_response(address, format!("{request}{next}").as_bytes()).await;
    let paths = seen.paths.lock().clone();
    assert!(!paths.iter().any(|path| path == "/hidden"), "{answer}");
    check_end(&seen, other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extreme_heads_are_refused() {
    let (address, seen) = serve().await;
    let other = bystander(address);
    let many = format!("GET /many HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: y\r\n".repeat(50_000));
    let long = format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "x".repeat(3 << 20));
    let endless = format!("GET /endless HTTP/1.1\r\nx: {}", "y".repeat(3 << 20));
    for request in [&many, &long, &endless] {
        let answer = raw_response(address, request.as_bytes()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{request:.40}: {answer}");
    }
    // The same over HTTP/2, in frames of 16 KB.
    let fields = |count: usize| [vec![0x00], hpack_string(b"x"), hpack_string(b"y")].concat().repeat(count);
    let many = [head("/many"), fields(50_000)].concat();
    let long = [vec![0x83, 0x86, 0x04], hpack_string(&vec![b'x'; 3 << 20]), vec![0x01, 1, b'a']].concat();
    for block in [many, long] {
        let parts: Vec<_> = block.chunks(16_384).collect();
        let pieces = parts.iter().enumerate().map(|(n, part)| {
            let end = if n + 1 == parts.len() { END_HEADERS } else { 0 };
            match n {
                0 => frame(HEADERS, END_STREAM | end, 1, part),
                _ => frame(CONTINUATION, end, 1, part),
            }
        });
        let outcome = attack(address, pieces.collect::<Vec<_>>().into_iter(), true).await;
        assert!(outcome.is_closed || outcome.responses + outcome.resets > 0, "{outcome:?}");
    }
    assert!(seen.paths.lock().iter().all(|path| path == "/other"), "{:?}", seen.paths.lock());
    check_end(&seen, other).await;
}
