//! Response bodies that end when the caller's credential is revoked.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Response;
use axum::http::header::CONTENT_TYPE;
use http_body::{Frame, SizeHint};

type RevocationFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The last event of an event stream.
fn closing_event(reason: &str) -> Bytes {
    Bytes::from(format!("event: bye\ndata: {{\"reason\":\"{reason}\"}}\n\n"))
}

struct RevocableBody {
    body: Body,
    /// `None` once the credential is revoked.
    revoked: Option<RevocationFuture>,
    /// The last event, for event streams.
    closing_event: Option<Bytes>,
}

impl HttpBody for RevocableBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(revoked) = &mut self.revoked else { return Poll::Ready(None) };
        if revoked.as_mut().poll(context).is_ready() {
            self.revoked = None;
            self.body = Body::empty(); // drops the inner stream and its subscriptions
            return Poll::Ready(self.closing_event.take().map(|last| Ok(Frame::data(last))));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.revoked.is_none() || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// Ends a streaming body on revocation. Complete bodies are sent in full.
pub fn close_on_revocation(
    response: Response<Body>,
    revoked: impl Future<Output = ()> + Send + 'static,
) -> Response<Body> {
    close_when(response, revoked, "revoked")
}

/// Ends a streaming body when `ended` resolves. An event stream ends with an event that has the reason.
pub fn close_when(
    response: Response<Body>,
    ended: impl Future<Output = ()> + Send + 'static,
    reason: &str,
) -> Response<Body> {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let events = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let farewell = events.then(|| closing_event(reason));
    response.map(|body| {
        Body::new(RevocableBody { body, revoked: Some(Box::pin(ended)), closing_event: farewell })
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use axum::body::to_bytes;
    use futures::{StreamExt, stream};
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn endless_stream_is_closed_on_revocation() {
        for (kind, last) in [("text/event-stream", closing_event("revoked")), ("text/plain", Bytes::new())] {
            let endless = stream::iter([Ok::<_, Infallible>("first\n")]).chain(stream::pending());
            let response =
                Response::builder().header(CONTENT_TYPE, kind).body(Body::from_stream(endless)).unwrap();
            let (revoke, revoked) = oneshot::channel::<()>();
            let guarded = close_on_revocation(response, async { drop(revoked.await) });
            let reading = tokio::spawn(to_bytes(guarded.into_body(), 1024));
            revoke.send(()).unwrap();
            let read = tokio::time::timeout(Duration::from_secs(5), reading).await.unwrap().unwrap().unwrap();
            assert!(read.ends_with(&last), "{read:?}");
        }
    }

    #[tokio::test]
    async fn complete_response_is_sent_despite_revocation() {
        let guarded = close_on_revocation(Response::new(Body::from("whole")), async {});
        assert_eq!(to_bytes(guarded.into_body(), 1024).await.unwrap(), "whole");
    }
}
