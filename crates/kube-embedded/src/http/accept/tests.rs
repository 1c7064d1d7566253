//! Timeouts of unused connections, over sockets with paused time.

use bytes::Bytes;
use http_body_util::{Empty, Full};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

type StopSender = tokio::sync::oneshot::Sender<()>;

/// Starts a server that responds `ok`; the sender stops it.
async fn serve(limits: ConnectionLimits) -> (SocketAddr, StopSender) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let service = |_: SocketAddr, _: Option<&CertificateDer<'_>>| {
        tower::service_fn(|_: Request<Incoming>| async {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"ok"))))
        })
    };
    tokio::spawn(accept(listener, None, limits, service, async move {
        let _ = stopped.await;
    }));
    (address, stop)
}

/// Returns after how many seconds of paused time the server closes the connection.
async fn closed_after(stream: &mut TcpStream) -> u64 {
    let began = Instant::now();
    let mut rest = Vec::new();
    // A reset counts as closing.
    let _ = stream.read_to_end(&mut rest).await;
    began.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn silent_connection_is_closed() {
    let (address, _stop) = serve(ConnectionLimits::default()).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    assert!((10..=20).contains(&closed_after(&mut silent).await));
    for begun in ["PRI * HT", "GET / HTTP/1.1\r\nhost: a\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        let after = closed_after(&mut stream).await;
        assert!((10..=60).contains(&after), "{begun:?} was closed after {after} s");
    }
}

#[tokio::test(start_paused = true)]
async fn idle_http2_connection_is_closed_and_a_busy_one_is_not() {
    let (address, _stop) = serve(ConnectionLimits::default()).await;
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    for _ in 0..5 {
        let request = Request::get("http://a/").body(Empty::<Bytes>::new()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok");
        sleep(Duration::from_mins(1)).await;
    }
    let began = Instant::now();
    let _ = connection.await.unwrap();
    let idle = began.elapsed().as_secs();
    assert!((20..=180).contains(&idle), "{idle}");
}

#[tokio::test]
async fn connections_over_the_limit_are_closed_and_counted_down() {
    let (address, _stop) = serve(ConnectionLimits { total: 3, per_address: 2 }).await;
    let ask = async |stream: &mut TcpStream| {
        let mut answer = [0; 12];
        let sent = stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        sent.is_ok() && stream.read_exact(&mut answer).await.is_ok() && &answer == b"HTTP/1.1 200"
    };
    let mut held =
        vec![TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
    for stream in &mut held {
        assert!(ask(stream).await);
    }
    let mut third = TcpStream::connect(address).await.unwrap();
    assert!(!ask(&mut third).await, "one address has at most two");
    let from = |ip: [u8; 4]| async move {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((ip, 0).into()).unwrap();
        socket.connect(address).await.unwrap()
    };
    let mut other = from([127, 0, 0, 2]).await;
    assert!(ask(&mut other).await);
    let mut fourth = from([127, 0, 0, 3]).await;
    assert!(!ask(&mut fourth).await, "the listener has at most three");
    drop(held);
    let began = std::time::Instant::now();
    loop {
        let mut again = TcpStream::connect(address).await.unwrap();
        if ask(&mut again).await {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "closed connections are still counted");
        sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn addresses_of_one_host_count_together() {
    let of = |text: &str| client_network(text.parse().unwrap()).to_string();
    assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    assert_eq!(of("::ffff:10.0.0.1"), "10.0.0.1");
    assert_eq!(of("10.0.0.1"), "10.0.0.1");
}

#[tokio::test(start_paused = true)]
async fn peer_that_does_not_read_its_answer_is_disconnected() {
    const SIZE: usize = 64 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = |_: SocketAddr, _: Option<&CertificateDer<'_>>| {
        tower::service_fn(|_: Request<Incoming>| async {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(vec![b'x'; SIZE]))))
        })
    };
    tokio::spawn(accept(listener, None, ConnectionLimits::default(), service, std::future::pending()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    sleep(Duration::from_mins(1)).await;
    let mut taken = Vec::new();
    let _ = stream.read_to_end(&mut taken).await; // a reset counts as closing
    assert!(!taken.is_empty() && taken.len() < SIZE, "{}", taken.len());
}
