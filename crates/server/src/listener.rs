//! Supervised listeners: an accept loop that ends or panics is restarted on the same socket.

use std::io;

use kube_access::controller::runtime;
use tokio::net::TcpListener;

/// Serves on a listener until `is_stopping` holds and `serve` has ended. The socket stays open while `serve` is restarted.
pub async fn supervise<F: Future<Output = ()>>(
    name: &'static str,
    listener: TcpListener,
    serve: impl Fn(TcpListener) -> F,
    is_stopping: impl Fn() -> bool,
) -> io::Result<()> {
    let socket = listener.into_std()?;
    let start = async || match socket.try_clone().and_then(TcpListener::from_std) {
        Ok(listener) => serve(listener).await,
        // Most likely out of file descriptors. The runtime restarts it with backoff.
        Err(error) => tracing::warn!(%error, listener = name, "cannot listen"),
    };
    runtime().run_until(name, "", start, is_stopping).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn listener_whose_accept_loop_panics_accepts_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let starts = AtomicUsize::new(0);
        let serve = |listener: TcpListener| {
            let start = starts.fetch_add(1, Ordering::Relaxed);
            async move {
                let accepted = listener.accept().await.unwrap();
                assert!(start > 0, "injected");
                drop(accepted);
            }
        };
        let client = async {
            TcpStream::connect(address).await.unwrap();
            TcpStream::connect(address).await.unwrap();
        };
        let served = supervise("test", listener, serve, || starts.load(Ordering::Relaxed) == 2);
        let (served, ()) = tokio::join!(served, client);
        served.unwrap();
    }
}
