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

type Breakable = UnsyncBoxBody<Bytes, kube::Error>;

/// Where the first failing request is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// Before it reaches the server.
    Before,
    /// After the server handled it: the write happened, but the response is lost.
    After,
}

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    Sound,
    /// Every request is delayed by this.
    Slow(Duration),
    /// No response and no error. Requests and bodies in flight hang too.
    Silent,
    /// Every request fails, and bodies in flight break off.
    Cut,
}

/// Faulty transport that wraps clients. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Fault(Arc<Inner>);

struct Inner {
    line: watch::Sender<Line>,
    plan: Mutex<Plan>,
}

#[derive(Default)]
struct Plan {
    /// Number of writes that still pass before the connection is cut.
    left: Option<(usize, Blow)>,
    calls: usize,
    writes: usize,
}

impl Fault {
    /// A healthy connection.
    pub fn none() -> Self {
        Self(Arc::new(Inner { line: watch::Sender::new(Line::Sound), plan: Mutex::default() }))
    }

    /// Lets `passing` writes pass. The next one and every later request fails.
    pub fn after_writes(passing: usize, blow: Blow) -> Self {
        let fault = Self::none();
        fault.0.plan.lock().left = Some((passing, blow));
        fault
    }

    /// Sets the state of the connection.
    pub fn turn(&self, line: Line) {
        self.0.line.send_replace(line);
    }

    /// Restores the connection and cancels the planned cut.
    pub fn mend(&self) {
        self.0.plan.lock().left = None;
        self.turn(Line::Sound);
    }

    /// Whether every request fails.
    pub fn is_cut(&self) -> bool {
        *self.0.line.borrow() == Line::Cut
    }

    /// Resolves when the connection is cut.
    pub async fn cut(&self) {
        // The sender lives as long as this fault.
        let _ = self.0.line.subscribe().wait_for(|line| *line == Line::Cut).await;
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
    pub fn over(&self, client: kube::Client) -> kube::Client {
        let namespace = client.default_namespace().to_owned();
        let fault = self.clone();
        let call = move |request| {
            let (fault, client) = (fault.clone(), client.clone());
            async move { fault.pass(&client, request).await }
        };
        kube::Client::new(service_fn(call), namespace)
    }

    async fn pass(&self, client: &kube::Client, request: Request<Body>) -> kube::Result<Response<Breakable>> {
        let line = *self.0.line.borrow();
        match line {
            Line::Cut => return Err(broken()),
            Line::Silent => pending().await,
            Line::Slow(by) => tokio::time::sleep(by).await,
            Line::Sound => {}
        }
        let blow = self.count(is_write(&request));
        if blow == Some(Blow::Before) {
            self.turn(Line::Cut);
            return Err(broken());
        }
        let answer = client.send(request).await?;
        if blow == Some(Blow::After) {
            self.turn(Line::Cut);
            return Err(broken());
        }
        Ok(self.breakable(answer))
    }

    /// Counts a request and returns the failure point if this is the one to cut off.
    fn count(&self, write: bool) -> Option<Blow> {
        let mut plan = self.0.plan.lock();
        if write && let Some((left, blow)) = &mut plan.left {
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
    fn breakable(&self, answer: Response<Body>) -> Response<Breakable> {
        let (head, body) = answer.into_parts();
        let line = self.0.line.subscribe();
        let frames = stream::unfold((BodyStream::new(body), line), |(mut frames, line)| async move {
            let frame = tokio::select! {
                biased;
                () = until(line.clone(), Line::Cut) => Err(broken()),
                () = until(line.clone(), Line::Silent) => pending().await,
                frame = frames.next() => frame?,
            };
            Some((frame, (frames, line)))
        });
        Response::from_parts(head, StreamBody::new(frames).boxed_unsync())
    }
}

async fn until(mut line: watch::Receiver<Line>, wanted: Line) {
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

fn broken() -> kube::Error {
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
    use crate::World;

    #[tokio::test]
    async fn a_slow_line_is_slow_and_a_review_is_no_write() {
        let (world, fault) = (World::new().await, Fault::none());
        let client = fault.over(world.platform());
        let slow = Duration::from_millis(200);
        fault.turn(Line::Slow(slow));
        let began = Instant::now();
        Api::<ConfigMap>::all(client.clone()).list(&ListParams::default()).await.unwrap();
        assert!(began.elapsed() >= slow);
        fault.turn(Line::Sound);
        let reviews = Api::<SelfSubjectAccessReview>::all(client);
        let asked = serde_json::from_value(serde_json::json!({
            "spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}
        }));
        reviews.create(&PostParams::default(), &asked.unwrap()).await.unwrap();
        assert_eq!((fault.calls(), fault.writes()), (2, 0));
    }
}
