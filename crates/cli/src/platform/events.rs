//! Server-sent events of a platform.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use serde_json::Value;

use super::PlatformError;
use super::address::Address;

/// The platform sends a keep-alive every ten seconds.
const IDLE_TIMEOUT: Duration = Duration::from_secs(35);
/// Maximum size of an event, above that of any the platform sends.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// Stream of events. [`EventStream::next`] is cancel-safe.
pub struct EventStream {
    server: Address,
    /// Its errors are messages already.
    body: UnsyncBoxBody<Bytes, String>,
    buffer: EventBuffer,
}

impl EventStream {
    pub(super) fn new(server: Address, body: UnsyncBoxBody<Bytes, String>) -> Self {
        Self { server, body, buffer: EventBuffer::default() }
    }

    /// Returns the next event, or `None` at the end of the stream. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Value>, PlatformError> {
        loop {
            if let Some(data) = self.buffer.next() {
                let told = serde_json::from_str(&data);
                return told.map(Some).map_err(|_| self.protocol_error("an event is not JSON"));
            }
            if self.buffer.text.len() > MAX_EVENT_BYTES {
                return Err(self.protocol_error("an event is too large"));
            }
            let frame = tokio::time::timeout(IDLE_TIMEOUT, self.body.frame()).await;
            let frame = frame.map_err(|_| PlatformError::Timeout {
                server: self.server.clone(),
                seconds: IDLE_TIMEOUT.as_secs(),
            })?;
            match frame {
                None => return Ok(None),
                Some(Err(why)) => {
                    return Err(PlatformError::Unreachable { server: self.server.clone(), why });
                }
                Some(Ok(frame)) => self.buffer.push(&frame.into_data().unwrap_or_default()),
            }
        }
    }

    fn protocol_error(&self, why: &str) -> PlatformError {
        PlatformError::UnexpectedResponse { server: self.server.clone(), why: why.to_owned() }
    }
}

/// Buffer of received bytes.
#[derive(Default)]
struct EventBuffer {
    text: Vec<u8>,
}

impl EventBuffer {
    fn push(&mut self, bytes: &Bytes) {
        self.text.extend(bytes.iter().filter(|byte| **byte != b'\r'));
    }

    /// Data of the next complete event, skipping keep-alives.
    fn next(&mut self) -> Option<String> {
        loop {
            let end = self.text.windows(2).position(|pair| pair == b"\n\n")?;
            let rest = self.text.split_off(end + 2);
            let event = std::mem::replace(&mut self.text, rest);
            let event = String::from_utf8_lossy(&event).into_owned();
            let field = |name: &'static str| {
                event.lines().filter_map(move |line| line.strip_prefix(name)).map(str::trim_start)
            };
            let data: Vec<&str> = field("data:").collect();
            if field("event:").next() != Some("ping") && !data.is_empty() {
                return Some(data.join("\n"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_buffer_joins_split_chunks() {
        let mut read = EventBuffer::default();
        let mut told = Vec::new();
        let pieces = [
            "event: ping\ndata: {}\n\nevent: oper",
            "ation\r\ndata: {\"a\":1}\r\n\r",
            "\n:a remark\n\ndata: 2\ndata: 3\n",
            "\ndata: half",
        ];
        for piece in pieces {
            read.push(&Bytes::from(piece));
            told.extend(std::iter::from_fn(|| read.next()));
        }
        assert_eq!(told, ["{\"a\":1}", "2\n3"]);
    }
}
