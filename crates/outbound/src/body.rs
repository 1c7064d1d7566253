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
use crate::failure::Failure;

/// Minimum bytes per timeout interval. A slower body fails with [`Failure::Slow`].
const LEAST: usize = 1024;

/// Size limits of a body, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// As transferred.
    pub sent: usize,
    /// After decompression.
    pub unpacked: usize,
}

/// A memory budget that a body is charged to as it arrives.
pub trait Budget: Sync {
    /// Reserves `bytes` before they are allocated. The error says why the budget refuses.
    fn reserve(&self, bytes: usize) -> Result<(), String>;
}

/// Reads a body to its end. Decompresses gzip if the request allowed it.
pub async fn read(
    mut body: Incoming,
    headers: &HeaderMap,
    at: &Address,
    limit: Limit,
    (packed, budget): (bool, Option<&dyn Budget>),
    pause: Duration,
) -> Result<Bytes, Failure> {
    let too_large = |limit| Failure::TooLarge { at: at.clone(), limit };
    let said = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|length| length > limit.sent as u64) {
        return Err(too_large(limit.sent));
    }
    let gzip = packed && headers.get(CONTENT_ENCODING).is_some_and(|coding| coding == "gzip");
    let mut basin = Basin::new(gzip, if gzip { limit.unpacked } else { limit.sent }, budget);
    let (mut sent, mut counted, mut until) = (0, 0, Instant::now() + pause);
    loop {
        let slow = || Failure::Slow { at: at.clone(), least: LEAST, within: pause };
        let frame = timeout_at(until, body.frame()).await.map_err(|_| slow())?;
        let Some(frame) = frame else { break };
        let frame =
            frame.map_err(|error| Failure::Broken { at: at.clone(), why: crate::client::cause(&error) })?;
        let Ok(data) = frame.into_data() else { continue };
        sent += data.len();
        if sent > limit.sent {
            return Err(too_large(limit.sent));
        }
        counted += data.len();
        if counted >= LEAST {
            (counted, until) = (0, Instant::now() + pause);
        }
        basin.pour(&data).map_err(|spill| spill.failure(at, limit.unpacked))?;
    }
    basin.finish().map_err(|spill| spill.failure(at, limit.unpacked))
}

/// Collects the body and decompresses it if it is gzip.
enum Basin<'b> {
    Plain(Pool<'b>),
    Packed(Box<GzDecoder<Pool<'b>>>),
}

/// I/O error of the decoder: limit reached, budget exceeded or damaged data.
struct Spill(io::Error);

impl Spill {
    fn failure(self, at: &Address, limit: usize) -> Failure {
        match self.0.get_ref() {
            Some(error) if error.is::<Full>() => Failure::TooLarge { at: at.clone(), limit },
            Some(error) if error.is::<OverBudget>() => {
                Failure::OverBudget { at: at.clone(), why: error.to_string() }
            }
            _ => Failure::Damaged { at: at.clone(), why: self.0.to_string() },
        }
    }
}

impl<'b> Basin<'b> {
    fn new(gzip: bool, limit: usize, budget: Option<&'b dyn Budget>) -> Self {
        let pool = Pool { held: Vec::new(), limit, budget };
        if gzip { Self::Packed(Box::new(GzDecoder::new(pool))) } else { Self::Plain(pool) }
    }

    fn pour(&mut self, data: &[u8]) -> Result<(), Spill> {
        match self {
            Self::Plain(pool) => pool.write_all(data),
            Self::Packed(decoder) => decoder.write_all(data),
        }
        .map_err(Spill)
    }

    fn finish(self) -> Result<Bytes, Spill> {
        let pool = match self {
            Self::Plain(pool) => pool,
            Self::Packed(decoder) => decoder.finish().map_err(Spill)?,
        };
        Ok(pool.held.into())
    }
}

/// Buffer with a size limit.
struct Pool<'b> {
    held: Vec<u8>,
    limit: usize,
    budget: Option<&'b dyn Budget>,
}

/// The budget refused the reservation.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct OverBudget(String);

#[derive(Debug, thiserror::Error)]
#[error("it is full")]
struct Full;

/// Minimum growth of a large buffer. Doubling could allocate twice the body's size.
const STEP: usize = 1 << 20;

impl Write for Pool<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.held.len() + data.len() > self.limit {
            return Err(io::Error::other(Full));
        }
        let free = self.held.capacity() - self.held.len();
        if free < data.len() {
            let least = if self.held.len() > STEP { STEP.max(self.held.len() / 8) } else { self.held.len() };
            let grown = data.len().max(least);
            if let Some(budget) = self.budget {
                budget.reserve(grown).map_err(|why| io::Error::other(OverBudget(why)))?;
            }
            self.held.reserve_exact(grown);
        }
        self.held.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
