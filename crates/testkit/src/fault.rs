//! Fault injection for requests: a connection that is slow, silent or cut, after a number of writes or on demand.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::sync::watch;
use tower::service_fn;

type FaultyBody = UnsyncBoxBody<Bytes, kube::Error>;

/// Where the first failing request is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePoint {
    /// Before it reaches the server.
    BeforeHandling,
    /// After the server handled it: the write happened, but the response is lost.
    AfterHandling,
}

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    Healthy,
    /// Every request is delayed by this.
    Slow(Duration),
    /// No response and no error. Requests and bodies in flight hang too.
    Unresponsive,
    /// Every request fails, and bodies in flight break off.
    Disconnected,
}

/// Faulty transport that wraps clients. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct FaultInjector(Arc<Inner>);

struct Inner {
    link: watch::Sender<LinkState>,
    plan: Mutex<CutPlan>,
}

#[derive(Default)]
struct CutPlan {
    /// Number of writes that still pass before the connection is cut.
    remaining: Option<(usize, FailurePoint)>,
    /// Path of the request that panics.
    panicking: Option<String>,
    calls: usize,
    writes: usize,
}

impl FaultInjector {
    /// A healthy connection.
    pub fn healthy() -> Self {
        Self(Arc::new(Inner { link: watch::Sender::new(LinkState::Healthy), plan: Mutex::default() }))
    }

    /// Lets `allowed_writes` writes pass. The next one and every later request fails.
    pub fn cut_after_writes(allowed_writes: usize, blow: FailurePoint) -> Self {
        let fault = Self::healthy();
        fault.0.plan.lock().remaining = Some((allowed_writes, blow));
        fault
    }

    /// Makes the next request to this path panic in the task that sends it.
    pub fn panic_once(&self, path: &str) {
        self.0.plan.lock().panicking = Some(path.to_owned());
    }

    /// Sets the state of the connection.
    pub fn set_link(&self, line: LinkState) {
        self.0.link.send_replace(line);
    }

    /// Restores the connection and cancels the planned cut.
    pub fn restore(&self) {
        self.0.plan.lock().remaining = None;
        self.set_link(LinkState::Healthy);
    }

    /// Whether every request fails.
    pub fn is_disconnected(&self) -> bool {
        *self.0.link.borrow() == LinkState::Disconnected
    }

    /// Resolves when the connection is cut.
    pub async fn wait_until_disconnected(&self) {
        // The sender lives as long as this fault.
        let _ = self.0.link.subscribe().wait_for(|line| *line == LinkState::Disconnected).await;
    }

    /// Number of requests that were not cut off.
    pub fn calls(&self) -> usize {
        self.0.plan.lock().calls
    }

    /// Number of these that were writes.
    pub fn writes(&self) -> usize {
        self.0.plan.lock().writes
    }

    /// Wraps a client so that its requests pass through the fault.
    pub fn wrap(&self, client: kube::Client) -> kube::Client {
        let namespace = client.default_namespace().to_owned();
        let fault = self.clone();
        let call = move |request| {
            let (fault, client) = (fault.clone(), client.clone());
            async move { fault.send(&client, request).await }
        };
        kube::Client::new(service_fn(call), namespace)
    }

    async fn send(
        &self,
        client: &kube::Client,
        request: Request<Body>,
    ) -> kube::Result<Response<FaultyBody>> {
        let line = *self.0.link.borrow();
        match line {
            LinkState::Disconnected => return Err(connection_error()),
            LinkState::Unresponsive => pending().await,
            LinkState::Slow(by) => tokio::time::sleep(by).await,
            LinkState::Healthy => {}
        }
        let panicking = self.0.plan.lock().panicking.take_if(|path| *path == request.uri().path());
        assert!(panicking.is_none(), "an injected panic at {panicking:?}");
        let blow = self.count_request(is_write(&request));
        if blow == Some(FailurePoint::BeforeHandling) {
            self.set_link(LinkState::Disconnected);
            return Err(connection_error());
        }
        let answer = client.send(request).await?;
        if blow == Some(FailurePoint::AfterHandling) {
            self.set_link(LinkState::Disconnected);
            return Err(connection_error());
        }
        Ok(self.wrap_body(answer))
    }

    /// Counts a request and returns the failure point if this is the one to cut off.
    fn count_request(&self, write: bool) -> Option<FailurePoint> {
        let mut plan = self.0.plan.lock();
        if write && let Some((left, blow)) = &mut plan.remaining {
            let blow = *blow;
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => return Some(blow),
            }
        }
        plan.calls += 1;
        plan.writes += usize::from(write);
        None
    }

    /// Makes the response's body break off or hang with the connection.
    fn wrap_body(&self, answer: Response<Body>) -> Response<FaultyBody> {
        let (head, body) = answer.into_parts();
        let line = self.0.link.subscribe();
        let frames = stream::unfold((BodyStream::new(body), line), |(mut frames, line)| async move {
            let frame = tokio::select! {
                biased;
                () = wait_for_link(line.clone(), LinkState::Disconnected) => Err(connection_error()),
                () = wait_for_link(line.clone(), LinkState::Unresponsive) => pending().await,
                frame = frames.next() => frame?,
            };
            Some((frame, (frames, line)))
        });
        Response::from_parts(head, StreamBody::new(frames).boxed_unsync())
    }
}

async fn wait_for_link(mut line: watch::Receiver<LinkState>, wanted: LinkState) {
    if line.wait_for(|line| *line == wanted).await.is_err() {
        pending::<()>().await;
    }
}

/// Access and token reviews are POST requests but write nothing.
fn is_write(request: &Request<Body>) -> bool {
    let path = request.uri().path();
    let review = ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"];
    !matches!(*request.method(), Method::GET | Method::HEAD)
        && !review.iter().any(|group| path.starts_with(group))
}

fn connection_error() -> kube::Error {
    kube::Error::Service(Box::new(io::Error::other("the line is cut")))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::{ListParams, PostParams};
    use tokio::time::Instant;

    use super::*;
    use crate::TestCluster;

    #[tokio::test]
    async fn slow_link_delays_requests_and_reviews_are_not_counted_as_writes() {
        let (world, fault) = (TestCluster::new().await, FaultInjector::healthy());
        let client = fault.wrap(world.platform_client());
        let slow = Duration::from_millis(200);
        fault.set_link(LinkState::Slow(slow));
        let began = Instant::now();
        Api::<ConfigMap>::all(client.clone()).list(&ListParams::default()).await.unwrap();
        assert!(began.elapsed() >= slow);
        fault.set_link(LinkState::Healthy);
        let reviews = Api::<SelfSubjectAccessReview>::all(client);
        let asked = serde_json::from_value(serde_json::json!({
            "spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}
        }));
        reviews.create(&PostParams::default(), &asked.unwrap()).await.unwrap();
        assert_eq!((fault.calls(), fault.writes()), (2, 0));
    }
}
