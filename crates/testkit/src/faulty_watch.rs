//! Fault injection for watches: events are duplicated, reordered, replayed, dropped or cut off. Other requests pass
//! unchanged.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::sync::watch;
use tower::service_fn;

/// Number of recent events that may be replayed.
const REPLAY_WINDOW: u64 = 16;

/// The error event of an expired watch: the client must list again.
const EXPIRED_EVENT: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#;

/// Faulty transport that wraps clients. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct FaultyWatch(Arc<Inner>);

struct Inner {
    rng_state: Mutex<u64>,
    /// Also drops events silently.
    drops_silently: bool,
    stopped: watch::Sender<bool>,
    fault_count: Mutex<usize>,
}

/// Fault applied to a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchFault {
    Unchanged,
    Duplicated,
    /// Followed by a replayed older event.
    Replayed,
    /// Delivered after the following event.
    Delayed,
    /// Dropped, and the watch ends with 410 Expired.
    Expired,
    /// Dropped, and the connection breaks.
    Disconnected,
    /// Dropped silently.
    Dropped,
}

impl FaultyWatch {
    /// The same seed produces the same faults for the same events. Dropped events are always signalled by an error.
    pub fn new(seed: u64) -> Self {
        Self::with_options(seed, false)
    }

    /// Additionally drops events silently.
    pub fn with_silent_drops(seed: u64) -> Self {
        Self::with_options(seed, true)
    }

    fn with_options(seed: u64, forgetful: bool) -> Self {
        let chance = Mutex::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Self(Arc::new(Inner {
            rng_state: chance,
            drops_silently: forgetful,
            stopped: watch::Sender::new(false),
            fault_count: Mutex::default(),
        }))
    }

    /// Ends every watch with 410 Expired and injects no faults from then on.
    pub fn stop(&self) {
        self.0.stopped.send_replace(true);
    }

    /// Number of faults injected.
    pub fn fault_count(&self) -> usize {
        *self.0.fault_count.lock()
    }

    /// Wraps a client so that its watches pass through the faults.
    pub fn wrap(&self, client: kube::Client) -> kube::Client {
        let namespace = client.default_namespace().to_owned();
        let gossip = self.clone();
        let call = move |request: Request<Body>| {
            let (gossip, client) = (gossip.clone(), client.clone());
            async move {
                let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
                let (head, body) = client.send(request).await?.into_parts();
                let body = if watches && head.status.is_success() {
                    gossip.wrap_body(body)
                } else {
                    body.boxed_unsync()
                };
                Ok::<_, kube::Error>(Response::from_parts(head, body))
            }
        };
        kube::Client::new(service_fn(call), namespace)
    }

    fn random_below(&self, limit: u64) -> u64 {
        let mut chance = self.0.rng_state.lock();
        *chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*chance >> 33) % limit
    }

    fn next_fault(&self) -> WatchFault {
        if *self.0.stopped.borrow() {
            return WatchFault::Unchanged;
        }
        let tale = match self.random_below(20) {
            0 | 1 => WatchFault::Duplicated,
            2..=4 => WatchFault::Replayed,
            5 | 6 => WatchFault::Delayed,
            7 => WatchFault::Expired,
            8 => WatchFault::Disconnected,
            9 | 10 if self.0.drops_silently => WatchFault::Dropped,
            _ => return WatchFault::Unchanged,
        };
        *self.0.fault_count.lock() += 1;
        tale
    }

    fn wrap_body(&self, body: Body) -> UnsyncBoxBody<Bytes, kube::Error> {
        let teller = FaultyEventStream {
            faults: self.clone(),
            stopped: (!*self.0.stopped.borrow()).then(|| self.0.stopped.subscribe()),
            frames: BodyStream::new(body),
            buffer: BytesMut::new(),
            recent: VecDeque::new(),
            delayed: None,
            ready: VecDeque::new(),
            ended: false,
        };
        let frames = stream::unfold(teller, |mut teller| async move {
            let said = teller.next().await?;
            Some((said.map(Frame::data), teller))
        });
        StreamBody::new(frames).boxed_unsync()
    }
}

/// Response stream of one watch.
struct FaultyEventStream {
    faults: FaultyWatch,
    /// Set for a watch that began before [`FaultyWatch::stop`].
    stopped: Option<watch::Receiver<bool>>,
    frames: BodyStream<Body>,
    buffer: BytesMut,
    recent: VecDeque<Bytes>,
    delayed: Option<Bytes>,
    ready: VecDeque<Result<Bytes, kube::Error>>,
    ended: bool,
}

impl FaultyEventStream {
    async fn next(&mut self) -> Option<Result<Bytes, kube::Error>> {
        loop {
            if let Some(said) = self.ready.pop_front() {
                // Random delays make watches of different kinds overtake each other.
                tokio::time::sleep(Duration::from_millis(self.faults.random_below(10))).await;
                return Some(said);
            }
            if self.ended {
                return None;
            }
            let frame = tokio::select! {
                biased;
                () = wait_until_stopped(self.stopped.clone()) => {
                    self.ready.push_back(Ok(event_line(EXPIRED_EVENT)));
                    None
                }
                frame = self.frames.next() => frame,
            };
            match frame {
                None => {
                    self.ready.extend(self.delayed.take().map(Ok));
                    self.ended = true;
                }
                Some(Err(error)) => self.finish(Err(error)),
                Some(Ok(frame)) => {
                    self.buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
                    self.process_lines();
                }
            }
        }
    }

    /// Processes all complete lines in the buffer.
    fn process_lines(&mut self) {
        while !self.ended
            && let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n')
        {
            let line = self.buffer.split_to(end + 1).freeze();
            self.process_line(line);
        }
    }

    fn process_line(&mut self, line: Bytes) {
        // Bookmarks pass unchanged, so that an idle watch injects no faults.
        let is_bookmark = line.starts_with(br#"{"type":"BOOKMARK""#);
        let tale = match if is_bookmark { WatchFault::Unchanged } else { self.faults.next_fault() } {
            // A delayed event would be lost with the connection without any signal, so the watch expires instead.
            WatchFault::Disconnected if self.delayed.is_some() => WatchFault::Expired,
            WatchFault::Delayed if self.delayed.is_some() => WatchFault::Unchanged,
            tale => tale,
        };
        match tale {
            WatchFault::Unchanged => self.ready.push_back(Ok(line.clone())),
            WatchFault::Duplicated => self.ready.extend([Ok(line.clone()), Ok(line.clone())]),
            WatchFault::Replayed => {
                let index = usize::try_from(self.faults.random_below(REPLAY_WINDOW)).unwrap();
                let old = self.recent.get(index % self.recent.len().max(1)).cloned();
                self.ready.extend([Some(line.clone()), old].into_iter().flatten().map(Ok));
            }
            WatchFault::Delayed => {
                self.delayed = Some(line);
                return;
            }
            WatchFault::Expired => return self.finish(Ok(self::event_line(EXPIRED_EVENT))),
            WatchFault::Disconnected => {
                let broken = io::Error::other("the line broke");
                return self.finish(Err(kube::Error::Service(Box::new(broken))));
            }
            WatchFault::Dropped => return,
        }
        self.ready.extend(self.delayed.take().map(Ok));
        self.recent.push_front(line);
        self.recent.truncate(usize::try_from(REPLAY_WINDOW).unwrap());
    }

    fn finish(&mut self, last: Result<Bytes, kube::Error>) {
        self.ready.push_back(last);
        self.ended = true;
    }
}

/// Resolves when [`FaultyWatch::stop`] was called.
async fn wait_until_stopped(over: Option<watch::Receiver<bool>>) {
    if let Some(mut over) = over
        && over.wait_for(|over| *over).await.is_ok()
    {
        return;
    }
    pending::<()>().await;
}

fn event_line(text: &str) -> Bytes {
    format!("{text}\n").into()
}
