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
const REMEMBERED: u64 = 16;

/// The error event of an expired watch: the client must list again.
const EXPIRED: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#;

/// Faulty transport that wraps clients. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Gossip(Arc<Inner>);

struct Inner {
    chance: Mutex<u64>,
    /// Also drops events silently.
    forgetful: bool,
    over: watch::Sender<bool>,
    tales: Mutex<usize>,
}

/// Fault applied to a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tale {
    True,
    Twice,
    /// Followed by a replayed older event.
    OldNews,
    /// Delivered after the following event.
    Late,
    /// Dropped, and the watch ends with 410 Expired.
    Expired,
    /// Dropped, and the connection breaks.
    Broken,
    /// Dropped silently.
    Forgotten,
}

impl Gossip {
    /// The same seed produces the same faults for the same events. Dropped events are always signalled by an error.
    pub fn new(seed: u64) -> Self {
        Self::with(seed, false)
    }

    /// Additionally drops events silently.
    pub fn forgetful(seed: u64) -> Self {
        Self::with(seed, true)
    }

    fn with(seed: u64, forgetful: bool) -> Self {
        let chance = Mutex::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Self(Arc::new(Inner { chance, forgetful, over: watch::Sender::new(false), tales: Mutex::default() }))
    }

    /// Ends every watch with 410 Expired and injects no faults from then on.
    pub fn end(&self) {
        self.0.over.send_replace(true);
    }

    /// Number of faults injected.
    pub fn tales(&self) -> usize {
        *self.0.tales.lock()
    }

    /// Wraps a client so that its watches pass through the faults.
    pub fn over(&self, client: kube::Client) -> kube::Client {
        let namespace = client.default_namespace().to_owned();
        let gossip = self.clone();
        let call = move |request: Request<Body>| {
            let (gossip, client) = (gossip.clone(), client.clone());
            async move {
                let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
                let (head, body) = client.send(request).await?.into_parts();
                let body =
                    if watches && head.status.is_success() { gossip.tell(body) } else { body.boxed_unsync() };
                Ok::<_, kube::Error>(Response::from_parts(head, body))
            }
        };
        kube::Client::new(service_fn(call), namespace)
    }

    fn below(&self, limit: u64) -> u64 {
        let mut chance = self.0.chance.lock();
        *chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*chance >> 33) % limit
    }

    fn tale(&self) -> Tale {
        if *self.0.over.borrow() {
            return Tale::True;
        }
        let tale = match self.below(20) {
            0 | 1 => Tale::Twice,
            2..=4 => Tale::OldNews,
            5 | 6 => Tale::Late,
            7 => Tale::Expired,
            8 => Tale::Broken,
            9 | 10 if self.0.forgetful => Tale::Forgotten,
            _ => return Tale::True,
        };
        *self.0.tales.lock() += 1;
        tale
    }

    fn tell(&self, body: Body) -> UnsyncBoxBody<Bytes, kube::Error> {
        let teller = Teller {
            gossip: self.clone(),
            over: (!*self.0.over.borrow()).then(|| self.0.over.subscribe()),
            frames: BodyStream::new(body),
            unread: BytesMut::new(),
            past: VecDeque::new(),
            late: None,
            next: VecDeque::new(),
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
struct Teller {
    gossip: Gossip,
    /// Set for a watch that began before [`Gossip::end`].
    over: Option<watch::Receiver<bool>>,
    frames: BodyStream<Body>,
    unread: BytesMut,
    past: VecDeque<Bytes>,
    late: Option<Bytes>,
    next: VecDeque<Result<Bytes, kube::Error>>,
    ended: bool,
}

impl Teller {
    async fn next(&mut self) -> Option<Result<Bytes, kube::Error>> {
        loop {
            if let Some(said) = self.next.pop_front() {
                // Random delays make watches of different kinds overtake each other.
                tokio::time::sleep(Duration::from_millis(self.gossip.below(10))).await;
                return Some(said);
            }
            if self.ended {
                return None;
            }
            let frame = tokio::select! {
                biased;
                () = ends(self.over.clone()) => {
                    self.next.push_back(Ok(line(EXPIRED)));
                    None
                }
                frame = self.frames.next() => frame,
            };
            match frame {
                None => {
                    self.next.extend(self.late.take().map(Ok));
                    self.ended = true;
                }
                Some(Err(error)) => self.stop(Err(error)),
                Some(Ok(frame)) => {
                    self.unread.extend_from_slice(&frame.into_data().unwrap_or_default());
                    self.read();
                }
            }
        }
    }

    /// Processes all complete lines in the buffer.
    fn read(&mut self) {
        while !self.ended
            && let Some(end) = self.unread.iter().position(|byte| *byte == b'\n')
        {
            let line = self.unread.split_to(end + 1).freeze();
            self.say(line);
        }
    }

    fn say(&mut self, line: Bytes) {
        // Bookmarks pass unchanged, so that an idle watch injects no faults.
        let mark = line.starts_with(br#"{"type":"BOOKMARK""#);
        let tale = match if mark { Tale::True } else { self.gossip.tale() } {
            // A delayed event would be lost with the connection without any signal, so the watch expires instead.
            Tale::Broken if self.late.is_some() => Tale::Expired,
            Tale::Late if self.late.is_some() => Tale::True,
            tale => tale,
        };
        match tale {
            Tale::True => self.next.push_back(Ok(line.clone())),
            Tale::Twice => self.next.extend([Ok(line.clone()), Ok(line.clone())]),
            Tale::OldNews => {
                let place = usize::try_from(self.gossip.below(REMEMBERED)).unwrap();
                let old = self.past.get(place % self.past.len().max(1)).cloned();
                self.next.extend([Some(line.clone()), old].into_iter().flatten().map(Ok));
            }
            Tale::Late => {
                self.late = Some(line);
                return;
            }
            Tale::Expired => return self.stop(Ok(self::line(EXPIRED))),
            Tale::Broken => {
                let broken = io::Error::other("the line broke");
                return self.stop(Err(kube::Error::Service(Box::new(broken))));
            }
            Tale::Forgotten => return,
        }
        self.next.extend(self.late.take().map(Ok));
        self.past.push_front(line);
        self.past.truncate(usize::try_from(REMEMBERED).unwrap());
    }

    fn stop(&mut self, last: Result<Bytes, kube::Error>) {
        self.next.push_back(last);
        self.ended = true;
    }
}

/// Resolves when [`Gossip::end`] was called.
async fn ends(over: Option<watch::Receiver<bool>>) {
    if let Some(mut over) = over
        && over.wait_for(|over| *over).await.is_ok()
    {
        return;
    }
    pending::<()>().await;
}

fn line(text: &str) -> Bytes {
    format!("{text}\n").into()
}
