//! Outgoing responses: their bytes are charged to the caller's budget until they are sent.
//!
//! Each chunk of a response shares ownership of the response's [`ResponseReservation`]. HTTP/2 drops a chunk when it has been written to
//! the connection, possibly long after the body was dropped; dropping the last chunk ends the reservation. The connection's [`Outbox`]
//! tracks the progress and the deadline of each response, so that a client that does not read ([`STALL_TIMEOUT`]) or reads slowly
//! ([`MIN_RATE`]) is disconnected. Unbounded streams such as watches are not tracked.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use governor::bytes::ByteReservation;
use http::Response;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, StreamBody};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::respond::Body;

/// A response without progress for this long is aborted with its connection.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum chunk size of responses.
pub const MAX_CHUNK_SIZE: usize = 64 << 10;
/// Bytes counted per response for its head and stream state.
pub const RESPONSE_OVERHEAD: u64 = 2 << 10;

/// Minimum average rate in bytes per second at which a client must read a response.
pub const MIN_RATE: u64 = 16 << 10;
/// How far a client may fall behind [`MIN_RATE`]. Reading faster earns no more than this.
pub const SLOW_TIMEOUT: Duration = Duration::from_mins(1);

/// Unsent responses of one connection.
#[derive(Default)]
pub struct Outbox {
    next_id: AtomicU64,
    unsent: Mutex<HashMap<u64, ReadProgress>>,
}

impl Outbox {
    /// Whether the client reads one of the responses too slowly, or not at all.
    pub fn is_overdue(&self) -> bool {
        let now = Instant::now();
        self.unsent.lock().values().any(|pace| pace.is_overdue(now))
    }
}

/// Read rate of one response.
struct ReadProgress {
    last_progress: Instant,
    /// Deadline for further progress.
    deadline: Instant,
    /// Since when the server produces the next part; this time is not charged to the client.
    producing_since: Option<Instant>,
}

impl ReadProgress {
    fn begin(now: Instant) -> Self {
        Self { last_progress: now, deadline: now + SLOW_TIMEOUT, producing_since: None }
    }

    fn is_overdue(&self, now: Instant) -> bool {
        // A client can keep the next part from being polled, so the excused time is bounded.
        let excused = self.producing_since.map_or(Duration::ZERO, |since| (now - since).min(STALL_TIMEOUT));
        now >= self.last_progress + STALL_TIMEOUT + excused || now >= self.deadline + excused
    }

    fn record_read(&mut self, bytes: usize, now: Instant) {
        let earned = Duration::from_millis((bytes as u64).saturating_mul(1000) / MIN_RATE);
        self.last_progress = now;
        self.deadline = (self.deadline + earned).min(now + SLOW_TIMEOUT);
    }

    /// Records that the next part was polled, and whether it was ready.
    fn record_poll(&mut self, is_ready: bool, now: Instant) {
        if !is_ready {
            self.producing_since.get_or_insert(now);
        } else if let Some(since) = self.producing_since.take() {
            self.last_progress = now;
            self.deadline = (self.deadline + (now - since).min(STALL_TIMEOUT)).min(now + SLOW_TIMEOUT);
        }
    }
}

/// Registration of a response in the outbox of its connection; removed on drop.
struct OutboxEntry {
    outbox: Arc<Outbox>,
    id: u64,
}

impl OutboxEntry {
    fn begin(outbox: &Arc<Outbox>) -> Self {
        let id = outbox.next_id.fetch_add(1, Ordering::Relaxed);
        outbox.unsent.lock().insert(id, ReadProgress::begin(Instant::now()));
        Self { outbox: outbox.clone(), id }
    }

    fn update(&self, change: impl FnOnce(&mut ReadProgress, Instant)) {
        if let Some(pace) = self.outbox.unsent.lock().get_mut(&self.id) {
            change(pace, Instant::now());
        }
    }
}

impl Drop for OutboxEntry {
    fn drop(&mut self) {
        self.outbox.unsent.lock().remove(&self.id);
    }
}

/// Resources of a response until its last byte is sent.
pub struct ResponseReservation {
    _reserved: Vec<ByteReservation>,
    outbox_entry: Option<OutboxEntry>,
}

impl ResponseReservation {
    /// `outbox` is that of the connection; `None` in process.
    pub fn new(reserved: Vec<ByteReservation>, outbox: Option<&Arc<Outbox>>) -> Arc<Self> {
        Arc::new(Self { _reserved: reserved, outbox_entry: outbox.map(OutboxEntry::begin) })
    }

    /// Returns the bytes as a chunk of this response.
    pub fn chunk(self: &Arc<Self>, data: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Chunk { data, reservation: self.clone() })
    }
}

/// A part of a response; counted as sent when dropped.
struct Chunk<T: AsRef<[u8]>> {
    data: T,
    reservation: Arc<ResponseReservation>,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Chunk<T> {
    fn as_ref(&self) -> &[u8] {
        self.data.as_ref()
    }
}

impl<T: AsRef<[u8]>> Drop for Chunk<T> {
    fn drop(&mut self) {
        if let Some(unsent) = &self.reservation.outbox_entry {
            unsent.update(|pace, now| pace.record_read(self.data.as_ref().len(), now));
        }
    }
}

/// Returns the response with a body that owns the reservation until it is sent, in chunks of at most [`MAX_CHUNK_SIZE`].
pub fn with_reservation(response: Response<Body>, hold: Arc<ResponseReservation>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let exact = body.size_hint().exact();
    if let Some(size) = exact.filter(|&size| size > 0) {
        // The mapped body has no exact size hint.
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
    }
    if exact.is_none_or(|size| size > MAX_CHUNK_SIZE as u64) {
        let (mut data, making) = (body.into_data_stream(), hold.clone());
        let data = stream::poll_fn(move |context| {
            let polled = data.poll_next_unpin(context);
            if let Some(unsent) = &making.outbox_entry {
                unsent.update(|pace, now| pace.record_poll(polled.is_ready(), now));
            }
            polled
        });
        let frames = data.flat_map(move |data| {
            let hold = hold.clone();
            let slices: Vec<_> = match data {
                Ok(data) => (0..data.len())
                    .step_by(MAX_CHUNK_SIZE)
                    .map(|at| {
                        Ok(Frame::data(hold.chunk(data.slice(at..data.len().min(at + MAX_CHUNK_SIZE)))))
                    })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns after how many seconds a client that takes `bytes` every `seconds` is disconnected; `None` if not within two hours.
    async fn disconnected_after(bytes: usize, seconds: u64) -> Option<u64> {
        let outbox = Arc::new(Outbox::default());
        let hold = ResponseReservation::new(Vec::new(), Some(&outbox));
        let began = Instant::now();
        while began.elapsed() < Duration::from_hours(2) {
            for _ in 0..seconds {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if outbox.is_overdue() {
                    return Some(began.elapsed().as_secs());
                }
            }
            drop(hold.chunk(vec![0; bytes]));
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_reads_slowly_is_disconnected() {
        assert_eq!(disconnected_after(MAX_CHUNK_SIZE, 31).await, Some(30), "no progress");
        let slow = disconnected_after(MAX_CHUNK_SIZE, 29).await;
        assert!(slow.is_some_and(|after| (60..90).contains(&after)), "{slow:?}");
        assert_eq!(disconnected_after(MAX_CHUNK_SIZE, 3).await, None);
        // A burst earns no time for later chunks.
        let outbox = Arc::new(Outbox::default());
        let hold = ResponseReservation::new(Vec::new(), Some(&outbox));
        drop(hold.chunk(vec![0; 64 << 20]));
        for _ in 0..4 {
            assert!(!outbox.is_overdue());
            tokio::time::sleep(Duration::from_secs(16)).await;
            drop(hold.chunk(vec![0; 1]));
        }
        assert!(outbox.is_overdue());
        drop(hold);
        assert!(!outbox.is_overdue());
    }

    #[tokio::test(start_paused = true)]
    async fn time_of_the_server_is_not_charged_to_the_client() {
        let outbox = Arc::new(Outbox::default());
        let hold = ResponseReservation::new(Vec::new(), Some(&outbox));
        let unsent = hold.outbox_entry.as_ref().unwrap();
        for _ in 0..20 {
            unsent.update(|pace, now| pace.record_poll(false, now));
            tokio::time::sleep(Duration::from_secs(25)).await;
            assert!(!outbox.is_overdue());
            unsent.update(|pace, now| pace.record_poll(true, now));
            drop(hold.chunk(vec![0; 100]));
        }
        // The excuse for a client that does not poll the next part is bounded.
        unsent.update(|pace, now| pace.record_poll(false, now));
        tokio::time::sleep(Duration::from_secs(70)).await;
        assert!(outbox.is_overdue());
    }
}
