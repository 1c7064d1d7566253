//! Shutdown of open requests: streams end immediately, other requests after a grace period.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::RETRY_AFTER;
use axum::http::{Request, Response, StatusCode};
use tower::{Service, ServiceExt};

use crate::revocable_body::close_when;

/// Grace period for requests without a response when the server stops.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// Ends the requests of a service when `stopped()` resolves. A request without a response is answered with 503; it may have taken
/// effect.
pub fn with_graceful_shutdown<S, B, F>(
    service: S,
    stopped: impl Fn() -> F + Clone + Send + 'static,
) -> impl Service<Request<B>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send
where
    S: Service<Request<B>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
        + Clone
        + Send
        + 'static,
    B: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    service.map_future(move |answer| {
        let (stopped, stream_stopped) = (stopped(), stopped());
        async move {
            let overdue = async {
                stopped.await;
                tokio::time::sleep(SHUTDOWN_GRACE_PERIOD).await;
            };
            tokio::select! {
                answered = answer => answered.map(|response| close_when(response, stream_stopped, "stopping")),
                () = overdue => Ok(unavailable()),
            }
        }
    })
}

fn unavailable() -> Response<Body> {
    let mut response = Response::new(Body::from("the server is stopping; retry\n"));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(RETRY_AFTER, axum::http::HeaderValue::from_static("1"));
    response
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use futures::{StreamExt, future, stream};
    use tokio::sync::watch;
    use tower::service_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn open_requests_end_after_stop_signal() {
        let (stop, stopping) = watch::channel(false);
        let stopped = move || {
            let mut stopping = stopping.clone();
            async move { drop(stopping.wait_for(|stopping| *stopping).await) }
        };
        let service = service_fn(|request: Request<()>| async move {
            if request.uri().path() == "/waits" {
                future::pending::<()>().await;
            }
            let endless = stream::iter([Ok::<_, Infallible>("data: 1\n\n")]).chain(stream::pending());
            let response = Response::builder().header("content-type", "text/event-stream");
            Ok::<_, Infallible>(response.body(Body::from_stream(endless)).unwrap())
        });
        let service = with_graceful_shutdown(service, stopped);
        let ask = |path: &str| service.clone().oneshot(Request::get(path).body(()).unwrap());
        let followed = ask("/follows").await.unwrap();
        let waiting = tokio::spawn(ask("/waits"));
        let mut frames = followed.into_body().into_data_stream();
        assert_eq!(frames.next().await.unwrap().unwrap(), "data: 1\n\n");
        stop.send_replace(true);
        let rest = Body::from_stream(frames);
        let ended =
            tokio::time::timeout(Duration::from_secs(1), to_bytes(rest, 1024)).await.unwrap().unwrap();
        assert_eq!(ended, "event: bye\ndata: {\"reason\":\"stopping\"}\n\n");
        let answered =
            tokio::time::timeout(2 * SHUTDOWN_GRACE_PERIOD, waiting).await.unwrap().unwrap().unwrap();
        assert_eq!(answered.status(), 503);
    }
}
