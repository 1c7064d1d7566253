//! Audit records: actor, action, object, client address and result. One line each, written before the response is sent.
//!
//! The API writes a [`Record`] for every request that changes state and for every refused request. Invariant: a record
//! contains only names and ids, never content of a request's body or query.

use std::io::{self, Write};
use std::net::IpAddr;

use jiff::Timestamp;
use serde::Serialize;

/// One action or attempted action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub time: Timestamp,
    /// User id or ServiceAccount. Absent if the caller was not authenticated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Authentication method: `session`, `token <id>`, `kubernetes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Action id from the route table, such as `users.create`.
    pub act: &'static str,
    /// Option that requested elevated permissions: `asAdministrator`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option: Option<&'static str>,
    /// Names and ids, for example `acme/uabcdez27a7`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<IpAddr>,
    pub result: Outcome,
    /// HTTP status of the response. Absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(rename = "requestID")]
    pub request_id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Done,
    /// Refused by the platform: the request or the caller was not acceptable.
    Refused,
    /// An error on the server's side.
    Failed,
    /// The client disconnected, or no response was produced. The operation may have taken effect.
    Abandoned,
}

impl Outcome {
    pub fn of_status(status: u16) -> Self {
        match status {
            ..400 => Self::Done,
            400..500 => Self::Refused,
            500.. => Self::Failed,
        }
    }
}

/// Destination of audit records. Writes must be short and must not block, because the response waits for them.
pub trait Sink: Send + Sync + 'static {
    fn write(&self, record: &Record) -> io::Result<()>;
}

/// Writes one JSON line per record to standard error, marked by `"log":"audit"`.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandardError;

impl Sink for StandardError {
    fn write(&self, record: &Record) -> io::Result<()> {
        io::stderr().lock().write_all(line(record)?.as_bytes())
    }
}

/// Serialises a record as one line.
pub fn line(record: &Record) -> io::Result<String> {
    #[derive(Serialize)]
    struct Line<'a> {
        log: &'static str,
        #[serde(flatten)]
        record: &'a Record,
    }
    let mut line = serde_json::to_string(&Line { log: "audit", record })?;
    line.push('\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_record_is_one_line_whatever_its_object_is_called() {
        let record = Record {
            time: Timestamp::UNIX_EPOCH,
            who: Some("uabcdez27a7".to_owned()),
            via: Some("session".to_owned()),
            act: "releases.update",
            option: Some("asAdministrator"),
            object: Some("acme\n\"x\"".to_owned()),
            from: Some(Ipv4Addr::LOCALHOST.into()),
            result: Outcome::of_status(403),
            status: Some(403),
            request_id: "r-1".to_owned(),
        };
        assert_eq!(
            line(&record).unwrap(),
            "{\"log\":\"audit\",\"time\":\"1970-01-01T00:00:00Z\",\"who\":\"uabcdez27a7\",\"via\":\"session\",\
             \"act\":\"releases.update\",\"option\":\"asAdministrator\",\"object\":\"acme\\n\\\"x\\\"\",\"from\":\"127.0.0.1\",\"result\":\"refused\",\
             \"status\":403,\"requestID\":\"r-1\"}\n"
        );
    }

    #[test]
    fn a_status_says_how_it_went() {
        let rows = [(200, Outcome::Done), (404, Outcome::Refused), (503, Outcome::Failed)];
        for (status, outcome) in rows {
            assert_eq!(Outcome::of_status(status), outcome, "{status}");
        }
    }
}
