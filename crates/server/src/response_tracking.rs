//! Disconnection of clients that do not read responses from the platform's HTTP port.
//!
//! `api` charges the memory of a response. The connection's [`Outbox`] tracks whether the client reads it, as for the embedded Kubernetes
//! API. Streaming responses are not tracked.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube_embedded::http::outgoing::{Outbox, ResponseReservation, with_reservation};
use kube_embedded::http::respond::{Body, TruncatedBody};
use tower::{Service, ServiceExt, service_fn};

/// Wraps a service so that each response is in the connection's outbox until its last byte is sent.
pub fn track_until_sent<S, B, R>(
    service: S,
) -> impl Service<Request<B>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send + 'static
where
    S: Service<Request<B>, Response = Response<R>, Error = Infallible, Future: Send> + Clone + Send + 'static,
    B: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
{
    service_fn(move |request: Request<B>| {
        let outbox = request.extensions().get::<Arc<Outbox>>().cloned();
        let answer = service.clone().oneshot(request);
        async move {
            let response = answer.await?;
            let is_whole = response.body().size_hint().exact().is_some_and(|size| size > 0);
            let response = response.map(|body| body.map_err(|_| TruncatedBody).boxed_unsync());
            Ok(match outbox {
                Some(outbox) if is_whole => {
                    with_reservation(response, ResponseReservation::new(Vec::new(), Some(&outbox)))
                }
                _ => response,
            })
        }
    })
}
