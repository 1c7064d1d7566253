//! Server-sent events of a platform.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use serde_json::Value;

use super::Failure;
use super::address::Address;

/// The platform sends a keep-alive every ten seconds.
const SILENCE: Duration = Duration::from_secs(35);
/// Maximum size of an event, above that of any the platform sends.
const LARGEST_EVENT: usize = 4 << 20;

/// Stream of events. [`Events::next`] is cancel-safe.
pub struct Events {
    server: Address,
    /// Its errors are messages already.
    body: UnsyncBoxBody<Bytes, String>,
    read: Reading,
}

impl Events {
    pub(super) fn new(server: Address, body: UnsyncBoxBody<Bytes, String>) -> Self {
        Self { server, body, read: Reading::default() }
    }

    /// Returns the next event, or `None` at the end of the stream. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Value>, Failure> {
        loop {
            if let Some(data) = self.read.next() {
                let told = serde_json::from_str(&data);
                return told.map(Some).map_err(|_| self.strange("what it tells is not JSON"));
            }
            if self.read.text.len() > LARGEST_EVENT {
                return Err(self.strange("what it tells has no end"));
            }
            let frame = tokio::time::timeout(SILENCE, self.body.frame()).await;
            let frame = frame
                .map_err(|_| Failure::Silent { server: self.server.clone(), seconds: SILENCE.as_secs() })?;
            match frame {
                None => return Ok(None),
                Some(Err(why)) => return Err(Failure::Unreachable { server: self.server.clone(), why }),
                Some(Ok(frame)) => self.read.hear(&frame.into_data().unwrap_or_default()),
            }
        }
    }

    fn strange(&self, why: &str) -> Failure {
        Failure::Strange { server: self.server.clone(), why: why.to_owned() }
    }
}

/// Buffer of received bytes.
#[derive(Default)]
struct Reading {
    text: Vec<u8>,
}

impl Reading {
    fn hear(&mut self, bytes: &Bytes) {
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
    fn events_come_in_pieces() {
        let mut read = Reading::default();
        let mut told = Vec::new();
        let pieces = [
            "event: ping\ndata: {}\n\nevent: oper",
            "ation\r\ndata: {\"a\":1}\r\n\r",
            "\n:a remark\n\ndata: 2\ndata: 3\n",
            "\ndata: half",
        ];
        for piece in pieces {
            read.hear(&Bytes::from(piece));
            told.extend(std::iter::from_fn(|| read.next()));
        }
        assert_eq!(told, ["{\"a\":1}", "2\n3"]);
    }
}
