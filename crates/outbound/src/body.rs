//! Reads response bodies with limits on size, memory and transfer rate.

use std::io::{self, Write};
use std::time::Duration;

use bytes::Bytes;
use flate2::write::GzDecoder;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use crate::address::Address;
use crate::error::FetchError;

/// Minimum bytes per timeout interval. A slower body fails with [`FetchError::BodyTooSlow`].
const MIN_BYTES_PER_INTERVAL: usize = 1024;

/// Size limits of a body, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimit {
    /// As transferred.
    pub transferred: usize,
    /// After decompression.
    pub decompressed: usize,
}

/// A memory budget that a body is charged to as it arrives.
pub trait MemoryBudget: Sync {
    /// Reserves `bytes` before they are allocated. The error says why the budget refuses.
    fn reserve(&self, bytes: usize) -> Result<(), String>;
}

/// Reads a body to its end. Decompresses gzip if the request allowed it.
pub async fn read_body(
    mut body: Incoming,
    headers: &HeaderMap,
    at: &Address,
    limit: BodyLimit,
    (packed, budget): (bool, Option<&dyn MemoryBudget>),
    pause: Duration,
) -> Result<Bytes, FetchError> {
    let too_large = |limit| FetchError::TooLarge { at: at.clone(), limit };
    let said = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|length| length > limit.transferred as u64) {
        return Err(too_large(limit.transferred));
    }
    let gzip = packed && headers.get(CONTENT_ENCODING).is_some_and(|coding| coding == "gzip");
    let mut basin = BodyDecoder::new(gzip, if gzip { limit.decompressed } else { limit.transferred }, budget);
    let (mut sent, mut counted, mut until) = (0, 0, Instant::now() + pause);
    loop {
        let slow =
            || FetchError::BodyTooSlow { at: at.clone(), least: MIN_BYTES_PER_INTERVAL, within: pause };
        let frame = timeout_at(until, body.frame()).await.map_err(|_| slow())?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| FetchError::Interrupted {
            at: at.clone(),
            why: crate::client::root_cause(&error),
        })?;
        let Ok(data) = frame.into_data() else { continue };
        sent += data.len();
        if sent > limit.transferred {
            return Err(too_large(limit.transferred));
        }
        counted += data.len();
        if counted >= MIN_BYTES_PER_INTERVAL {
            (counted, until) = (0, Instant::now() + pause);
        }
        basin.write_chunk(&data).map_err(|spill| spill.into_fetch_error(at, limit.decompressed))?;
    }
    basin.finish().map_err(|spill| spill.into_fetch_error(at, limit.decompressed))
}

/// Collects the body and decompresses it if it is gzip.
enum BodyDecoder<'b> {
    Plain(LimitedBuffer<'b>),
    Gzip(Box<GzDecoder<LimitedBuffer<'b>>>),
}

/// I/O error of the decoder: limit reached, budget exceeded or damaged data.
struct DecodeError(io::Error);

impl DecodeError {
    fn into_fetch_error(self, at: &Address, limit: usize) -> FetchError {
        match self.0.get_ref() {
            Some(error) if error.is::<LimitReached>() => FetchError::TooLarge { at: at.clone(), limit },
            Some(error) if error.is::<BudgetExceeded>() => {
                FetchError::OverBudget { at: at.clone(), why: error.to_string() }
            }
            _ => FetchError::Damaged { at: at.clone(), why: self.0.to_string() },
        }
    }
}

impl<'b> BodyDecoder<'b> {
    fn new(gzip: bool, limit: usize, budget: Option<&'b dyn MemoryBudget>) -> Self {
        let pool = LimitedBuffer { buffer: Vec::new(), limit, budget };
        if gzip { Self::Gzip(Box::new(GzDecoder::new(pool))) } else { Self::Plain(pool) }
    }

    fn write_chunk(&mut self, data: &[u8]) -> Result<(), DecodeError> {
        match self {
            Self::Plain(pool) => pool.write_all(data),
            Self::Gzip(decoder) => decoder.write_all(data),
        }
        .map_err(DecodeError)
    }

    fn finish(self) -> Result<Bytes, DecodeError> {
        let pool = match self {
            Self::Plain(pool) => pool,
            Self::Gzip(decoder) => decoder.finish().map_err(DecodeError)?,
        };
        Ok(pool.buffer.into())
    }
}

/// Buffer with a size limit.
struct LimitedBuffer<'b> {
    buffer: Vec<u8>,
    limit: usize,
    budget: Option<&'b dyn MemoryBudget>,
}

/// The budget refused the reservation.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct BudgetExceeded(String);

#[derive(Debug, thiserror::Error)]
#[error("the buffer is full")]
struct LimitReached;

/// Minimum growth of a large buffer. Doubling could allocate twice the body's size.
const MIN_GROWTH: usize = 1 << 20;

impl Write for LimitedBuffer<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + data.len() > self.limit {
            return Err(io::Error::other(LimitReached));
        }
        let free = self.buffer.capacity() - self.buffer.len();
        if free < data.len() {
            let least = if self.buffer.len() > MIN_GROWTH {
                MIN_GROWTH.max(self.buffer.len() / 8)
            } else {
                self.buffer.len()
            };
            let grown = data.len().max(least);
            if let Some(budget) = self.budget {
                budget.reserve(grown).map_err(|why| io::Error::other(BudgetExceeded(why)))?;
            }
            self.buffer.reserve_exact(grown);
        }
        self.buffer.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
