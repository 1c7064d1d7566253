//! Memory budgets of callers: request bodies while they are read and parsed, and responses until they are sent.
//!
//! Every request that passes the [route guard](crate::route_guard) has a [`RequestBudget`] for the caller's flow: the user, or
//! the address of a caller without credentials. A body is counted as it arrives, before it is buffered, and released
//! when the handler has finished. A response is counted before it is sent, in chunks: the transport drops a chunk
//! once it is written to the connection, and the reservation ends with the last chunk. A caller over the budget gets
//! 429 with `Retry-After`.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Method, Response};
use domain::{Actor, ErrorKind};
use governor::bytes::ByteReservation;
use governor::seats::Seat;
use governor::streams::StreamSlot;
use governor::{AdmissionError, Flow, Governor, LevelLimits, Limits, PriorityLevel};
use http_body::{Frame, SizeHint};

use crate::problem::Problem;

const MIB: u64 = 1 << 20;
/// Reserved for every request before its handler runs; most responses are smaller.
const BASE_BYTES: u64 = 8 << 10;
/// Reserved while a large response of unknown size is produced.
const LARGE_BYTES: u64 = 4 * MIB;
/// Maximum size of the chunks of a response.
const MAX_CHUNK_LEN: usize = 64 << 10;

/// Limits of the platform's port. Seats limit concurrent large responses only.
pub fn limits() -> LevelLimits {
    let authenticated = Limits {
        seats: 8,
        seats_per_flow: 2,
        queue: 400,
        queue_per_flow: 40,
        wait: Duration::from_secs(15),
        bytes: 64 * MIB,
        bytes_per_flow: 24 * MIB,
        streams: 5_000,
        streams_per_flow: 200,
    };
    let anonymous =
        Limits { bytes: 8 * MIB, bytes_per_flow: 2 * MIB, streams: 16, streams_per_flow: 4, ..authenticated };
    // The platform does not call its own port.
    let platform = Limits { bytes: 0, bytes_per_flow: 0, streams: 0, streams_per_flow: 0, ..authenticated };
    LevelLimits([platform, authenticated, anonymous])
}

/// The budgets of the platform's port, with the limits of [`limits`].
pub fn governor() -> Governor {
    Governor::new(&limits())
}

/// The budget of a request and the reservations of its body. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct RequestBudget {
    governor: Governor,
    level: PriorityLevel,
    flow: Flow,
    body_reservations: Arc<Mutex<Vec<ByteReservation>>>,
}

impl RequestBudget {
    /// The budget of `actor`, or of the remote address if the caller is not authenticated.
    pub fn for_caller(governor: &Governor, actor: Option<&Actor>, from: Option<IpAddr>) -> Self {
        let (level, flow) = match actor {
            Some(actor) => (
                PriorityLevel::Authenticated,
                actor.user_id().map_or_else(|| governor.flow(from), |id| governor.flow(id.to_string())),
            ),
            None => (PriorityLevel::Anonymous, governor.flow(from)),
        };
        Self { governor: governor.clone(), level, flow, body_reservations: Arc::default() }
    }

    /// Reserves `bytes`. Call it before the allocation.
    pub fn reserve(&self, bytes: u64) -> Result<ByteReservation, AdmissionError> {
        self.governor.reserve(self.level, self.flow, bytes)
    }

    /// Holds a reservation until [`Self::release_body`].
    pub fn add_body_reservation(&self, reserved: ByteReservation) {
        self.body_reservations.lock().unwrap_or_else(PoisonError::into_inner).push(reserved);
    }

    /// Releases the reservations of the body, after the handler has finished.
    pub fn release_body(&self) {
        self.body_reservations.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Admits a request to its handler. A `large` one waits for a seat.
    pub async fn admit(&self, large: bool) -> Result<AdmittedRequest, AdmissionError> {
        if !large {
            return Ok(AdmittedRequest { reserved: self.reserve(BASE_BYTES)?, _seat: None });
        }
        let seat = self.governor.acquire_seat(self.level, self.flow).await?;
        Ok(AdmittedRequest { reserved: self.reserve(LARGE_BYTES)?, _seat: Some(seat) })
    }

    /// Counts the response body until it is sent. A body of unknown size counts as a stream.
    pub fn charge(
        &self,
        response: Response<Body>,
        admitted: AdmittedRequest,
        method: &Method,
    ) -> Result<Response<Body>, Problem> {
        let AdmittedRequest { mut reserved, .. } = admitted;
        let Some(size) = response.body().size_hint().exact() else {
            let stream = self.governor.open_stream(self.level, self.flow)?;
            // A stream is sent while it is produced and needs no large reservation.
            drop(reserved);
            let reserved = self.reserve(BASE_BYTES)?;
            return Ok(
                response.map(|body| Body::new(StreamedBody { body, _stream: stream, _reserved: reserved }))
            );
        };
        let refused = |rejected: AdmissionError| {
            let problem = Problem::from(rejected);
            if method.is_safe() { problem } else { problem.after_side_effects() }
        };
        let needed = size.max(BASE_BYTES);
        if reserved.held() > needed {
            // A large response that is smaller than expected.
            drop(reserved);
            reserved = self.reserve(needed).map_err(refused)?;
        } else {
            reserved.grow(needed.saturating_sub(reserved.held())).map_err(refused)?;
        }
        Ok(response.map(|body| {
            Body::new(BudgetedBody { body, pending: Bytes::new(), reservation: Arc::new(reserved) })
        }))
    }
}

/// An admitted request: the reservation for its response, and its seat until the response is produced.
#[must_use]
pub struct AdmittedRequest {
    reserved: ByteReservation,
    _seat: Option<Seat>,
}

impl From<AdmissionError> for Problem {
    fn from(rejected: AdmissionError) -> Self {
        let seconds = rejected.retry_after().as_secs().max(1);
        Self::new(ErrorKind::Exhausted, "budget", rejected.to_string()).retry_after(seconds)
    }
}

/// A response of known size. Each of its chunks holds the reservation.
struct BudgetedBody {
    body: Body,
    pending: Bytes,
    reservation: Arc<ByteReservation>,
}

/// A chunk of a response; dropped once it is sent.
struct ReservedChunk {
    data: Bytes,
    _reservation: Arc<ByteReservation>,
}

impl AsRef<[u8]> for ReservedChunk {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl HttpBody for BudgetedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.pending.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.pending = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return Poll::Ready(other),
            }
        }
        let size = self.pending.len().min(MAX_CHUNK_LEN);
        let data = self.pending.split_to(size);
        let chunk = ReservedChunk { data, _reservation: self.reservation.clone() };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(chunk)))))
    }

    fn is_end_stream(&self) -> bool {
        self.pending.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        if let Some(rest) = self.body.size_hint().exact() {
            hint.set_exact(rest.saturating_add(self.pending.len() as u64));
        }
        hint
    }
}

/// A streamed response; counts as a stream.
struct StreamedBody {
    body: Body,
    _stream: StreamSlot,
    _reserved: ByteReservation,
}

impl HttpBody for StreamedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use axum::response::IntoResponse;
    use futures::StreamExt;

    use super::*;

    fn test_budget(governor: &Governor, address: [u8; 4]) -> RequestBudget {
        RequestBudget::for_caller(governor, None, Some(address.into()))
    }

    async fn charge_response(account: &RequestBudget, size: usize) -> Result<Response<Body>, Problem> {
        let admitted = account.admit(false).await?;
        account.charge(Response::new(Body::from(vec![b'x'; size])), admitted, &Method::GET)
    }

    #[tokio::test]
    async fn response_is_charged_until_its_last_chunk_is_dropped() {
        let governor = governor();
        let (greedy, other) =
            (test_budget(&governor, [192, 0, 2, 1]), test_budget(&governor, [192, 0, 2, 2]));
        let size = 900 << 10;
        let first = charge_response(&greedy, size).await.unwrap();
        let second = charge_response(&greedy, size).await.unwrap();
        let refused = charge_response(&greedy, size).await.err().unwrap().into_response();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refused.headers()["retry-after"], "1");
        assert!(charge_response(&other, size).await.is_ok());
        drop(second);
        // A chunk that the connection has not sent yet keeps the reservation, although the body is gone.
        assert_eq!(first.body().size_hint().exact(), Some(size as u64));
        let mut chunks: Vec<_> = first.into_body().into_data_stream().map(Result::unwrap).collect().await;
        assert!(chunks.iter().all(|chunk| chunk.len() <= MAX_CHUNK_LEN));
        assert_eq!(chunks.iter().map(Bytes::len).sum::<usize>(), size);
        let _other = charge_response(&greedy, size).await.unwrap();
        chunks.truncate(1);
        assert!(charge_response(&greedy, size).await.is_err());
        chunks.clear();
        assert!(charge_response(&greedy, size).await.is_ok());
    }

    #[tokio::test]
    async fn large_request_with_small_response_reserves_little() {
        let governor = governor();
        let actor = test_budget(&governor, [192, 0, 2, 1]);
        let actor = RequestBudget { level: PriorityLevel::Authenticated, ..actor };
        let mut unread = Vec::new();
        for _ in 0..100 {
            let admitted = actor.admit(true).await.unwrap();
            unread.push(actor.charge(Response::new(Body::from("none")), admitted, &Method::GET).unwrap());
        }
    }

    #[tokio::test]
    async fn large_request_with_stream_reserves_little() {
        let governor = governor();
        let actor = test_budget(&governor, [192, 0, 2, 1]);
        let actor = RequestBudget { level: PriorityLevel::Authenticated, ..actor };
        let mut open = Vec::new();
        for _ in 0..100 {
            let body = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
            let admitted = actor.admit(true).await.unwrap();
            open.push(actor.charge(Response::new(body), admitted, &Method::GET).unwrap());
        }
    }

    #[tokio::test]
    async fn open_streams_count_against_the_limit() {
        let governor = governor();
        let account = test_budget(&governor, [192, 0, 2, 1]);
        let open = async || {
            let body = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
            let admitted = account.admit(false).await.unwrap();
            account.charge(Response::new(body), admitted, &Method::GET)
        };
        let mut streams = Vec::new();
        for _ in 0..limits().0[2].streams_per_flow {
            streams.push(open().await.unwrap());
        }
        assert!(open().await.is_err());
        streams.pop();
        assert!(open().await.is_ok());
    }
}
