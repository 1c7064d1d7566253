//! Answers on their way to the client: their bytes count against the caller's budget until they are sent.
//!
//! Each chunk of an answer owns a share of the answer's [`Hold`]. HTTP/2 drops a chunk when it has been written to the
//! connection, however long the body itself is gone; with the last chunk the reservation ends. The connection's [`Outbox`]
//! knows since when each answer has made no progress, so that a client that does not read is disconnected.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use governor::bytes::Reserved;
use http::Response;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, StreamBody};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::respond::Body;

/// An answer of which nothing was sent for this long is given up with its connection.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Answers are sent in chunks of at most this size.
pub const CHUNK: usize = 64 << 10;
/// Counted for every answer, for its head and the state of its stream.
pub const OVERHEAD: u64 = 2 << 10;

/// The answers of one connection that are not sent yet, with the time of their last progress.
#[derive(Default)]
pub struct Outbox {
    next: AtomicU64,
    unsent: Mutex<HashMap<u64, Instant>>,
}

impl Outbox {
    /// For how long the answer with the oldest progress has made none.
    pub fn stalled_for(&self) -> Duration {
        let oldest = self.unsent.lock().values().min().copied();
        oldest.map_or(Duration::ZERO, |oldest| oldest.elapsed())
    }
}

/// An answer in the outbox of its connection; no longer in it when dropped.
struct Unsent {
    outbox: Arc<Outbox>,
    id: u64,
}

impl Unsent {
    fn begin(outbox: &Arc<Outbox>) -> Self {
        let id = outbox.next.fetch_add(1, Ordering::Relaxed);
        outbox.unsent.lock().insert(id, Instant::now());
        Self { outbox: outbox.clone(), id }
    }

    fn progress(&self) {
        if let Some(at) = self.outbox.unsent.lock().get_mut(&self.id) {
            *at = Instant::now();
        }
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.outbox.unsent.lock().remove(&self.id);
    }
}

/// What an answer holds until its last byte is sent.
pub struct Hold {
    _reserved: Vec<Reserved>,
    unsent: Option<Unsent>,
}

impl Hold {
    /// `outbox` is that of the connection; there is none in process.
    pub fn new(reserved: Vec<Reserved>, outbox: Option<&Arc<Outbox>>) -> Arc<Self> {
        Arc::new(Self { _reserved: reserved, unsent: outbox.map(Unsent::begin) })
    }

    /// The bytes as a chunk of this answer.
    pub fn chunk(self: &Arc<Self>, data: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Chunk { data, hold: self.clone() })
    }
}

/// A part of an answer; sent when dropped.
struct Chunk<T> {
    data: T,
    hold: Arc<Hold>,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Chunk<T> {
    fn as_ref(&self) -> &[u8] {
        self.data.as_ref()
    }
}

impl<T> Drop for Chunk<T> {
    fn drop(&mut self) {
        if let Some(unsent) = &self.hold.unsent {
            unsent.progress();
        }
    }
}

/// The response with a body that keeps `hold` until it is sent, in chunks of at most [`CHUNK`].
pub fn hold(response: Response<Body>, hold: Arc<Hold>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let exact = body.size_hint().exact();
    if let Some(size) = exact.filter(|&size| size > 0) {
        // The mapped body does not know it any more.
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
    }
    if exact.is_none_or(|size| size > CHUNK as u64) {
        let frames = body.into_data_stream().flat_map(move |data| {
            let hold = hold.clone();
            let slices: Vec<_> = match data {
                Ok(data) => (0..data.len())
                    .step_by(CHUNK)
                    .map(|at| Ok(Frame::data(hold.chunk(data.slice(at..data.len().min(at + CHUNK))))))
                    .collect(),
                Err(error) => vec![Err(error)],
            };
            stream::iter(slices)
        });
        return Response::from_parts(parts, StreamBody::new(frames).boxed_unsync());
    }
    let body = body.map_frame(move |frame| frame.map_data(|data| hold.chunk(data)));
    Response::from_parts(parts, body.boxed_unsync())
}
