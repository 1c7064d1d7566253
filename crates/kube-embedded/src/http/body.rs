//! Request bodies: bounded in size, in time, and by the caller's share of memory.
//!
//! The body is read before the request acquires a seat, so that a slow client occupies only its connection and the memory of the bytes it
//! has sent.

use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::Bytes;
use governor::bytes::ByteReservation;
use governor::{Flow, Governor, PriorityLevel};
use http::StatusCode;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout, timeout_at};

use crate::error::{ApiError, Result};

/// Same limit as kube-apiserver.
pub const BODY_LIMIT: usize = 3 * 1024 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_mins(1);
/// A body that transfers less than this per window is rejected.
const MIN_PROGRESS: usize = 1 << 10;
const PROGRESS_WINDOW: Duration = Duration::from_secs(10);
/// Time limit for draining the rest of a refused body: a client that is still sending when the connection is closed never reads the
/// response.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);
/// Reserved per request with a body, for the buffers of its stream.
const OVERHEAD: u64 = 16 << 10;

/// A request body and its memory reservation.
#[derive(Default)]
pub struct RequestBody {
    pub bytes: Bytes,
    pub reserved: Option<ByteReservation>,
}

/// Reads a body and charges its memory to `flow`.
pub async fn read<B>(body: B, governor: &Governor, level: PriorityLevel, flow: Flow) -> Result<RequestBody>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.is_end_stream() {
        return Ok(RequestBody::default());
    }
    let mut body = pin!(body);
    collect(&mut body, governor, level, flow).await
}

/// Drains the rest of the body of a request that was refused with `status`.
pub async fn discard<B>(mut body: Pin<&mut B>, status: StatusCode)
where
    B: http_body::Body<Data = Bytes>,
{
    if status == StatusCode::REQUEST_TIMEOUT || body.is_end_stream() {
        return;
    }
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    let _ = timeout(DISCARD_TIMEOUT, rest).await;
}

async fn collect<B>(
    body: &mut B,
    governor: &Governor,
    level: PriorityLevel,
    flow: Flow,
) -> Result<RequestBody>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let rejected = |rejected| ApiError::rejected(&rejected);
    let late = || ApiError::new(408, "Timeout", "the request's body did not arrive in time");
    if body.size_hint().lower() > BODY_LIMIT as u64 {
        return Err(ApiError::too_large(BODY_LIMIT));
    }
    let mut reserved = governor.reserve(level, flow, OVERHEAD).map_err(rejected)?;
    let deadline = Instant::now() + BODY_TIMEOUT;
    let mut window = (Instant::now() + PROGRESS_WINDOW, 0);
    // A body usually consists of one frame, which is not copied.
    let (mut first, mut whole) = (Bytes::new(), Vec::new());
    loop {
        let frame = timeout_at(deadline.min(window.0), body.frame()).await;
        if let Ok(frame) = frame {
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|error| {
                ApiError::bad_request(format!("the request's body could not be read: {}", error.into()))
            })?;
            if let Ok(data) = frame.into_data() {
                if first.len() + whole.len() + data.len() > BODY_LIMIT {
                    return Err(ApiError::too_large(BODY_LIMIT));
                }
                reserved.grow(data.len() as u64).map_err(rejected)?;
                window.1 += data.len();
                if first.is_empty() && whole.is_empty() {
                    first = data;
                } else {
                    if whole.is_empty() {
                        whole.extend_from_slice(&std::mem::take(&mut first));
                    }
                    whole.extend_from_slice(&data);
                }
            }
        }
        let now = Instant::now();
        if now >= deadline || (now >= window.0 && window.1 < MIN_PROGRESS) {
            return Err(late());
        }
        if now >= window.0 {
            window = (now + PROGRESS_WINDOW, 0);
        }
    }
    let bytes = if whole.is_empty() { first } else { whole.into() };
    Ok(RequestBody { bytes, reserved: Some(reserved) })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt, stream};
    use governor::LevelLimits;
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    /// A body of chunks of `size` bytes, each after a pause in seconds.
    fn body(pieces: Vec<(u64, usize)>) -> impl http_body::Body<Data = Bytes, Error = Infallible> + Send {
        StreamBody::new(stream::iter(pieces).then(|(seconds, size)| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok(Frame::data(Bytes::from(vec![b'x'; size])))
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn body_is_bounded_in_size_and_time() {
        let governor = Governor::default();
        let flow = governor.flow("jane");
        let read = async |pieces| {
            let read = read(body(pieces), &governor, PriorityLevel::Authenticated, flow).await;
            read.map(|body| body.bytes.len()).map_err(|error| error.code)
        };
        assert_eq!(read(vec![]).await, Ok(0));
        assert_eq!(read(vec![(0, 5)]).await, Ok(5));
        assert_eq!(read(vec![(1, 5), (1, 7), (1, 1)]).await, Ok(13));
        assert_eq!(read(vec![(0, 1 << 20); 3]).await, Ok(3 << 20));
        assert_eq!(read(vec![(0, 1 << 20); 4]).await, Err(413));
        assert_eq!(read(vec![(1, 1); 100]).await, Err(408), "too little in a window");
        assert_eq!(read(vec![(5, 1 << 10); 11]).await, Ok(11 << 10), "slow, but not too slow");
        assert_eq!(read(vec![(5, 1 << 10); 13]).await, Err(408), "a minute is the limit");
        assert_eq!(read(vec![(100, 1)]).await, Err(408));
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_of_one_user_are_bounded_in_total_and_leave_room_for_others() {
        let governor = Governor::default();
        let limits = LevelLimits::default().0[1];
        let (greedy, other) = (governor.flow("greedy"), governor.flow("other"));
        let read = |flow| read(body(vec![(0, 3 << 20)]), &governor, PriorityLevel::Authenticated, flow);
        let mut held = Vec::new();
        let refused = loop {
            match read(greedy).await {
                Ok(body) => held.push(body),
                Err(error) => break error,
            }
        };
        assert!((held.len() * (3 << 20)) as u64 <= limits.bytes_per_flow);
        assert_eq!(refused.code, 429);
        assert!(refused.message.contains("over its budget"), "{}", refused.message);
        assert!(read(other).await.is_ok());
        held.clear();
        assert!(read(greedy).await.is_ok());
    }
}
