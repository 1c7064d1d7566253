//! Audit records: actor, action, object, client address and result. One line each, written before the response is sent.
//!
//! The API writes an [`AuditRecord`] for every request that changes state and for every refused request. Invariant: a record
//! contains only names and ids, never content of a request's body or query.

use std::io::{self, Write};
use std::net::IpAddr;

use jiff::Timestamp;
use serde::Serialize;

/// One action or attempted action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
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
    pub result: AuditOutcome,
    /// HTTP status of the response. Absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(rename = "requestID")]
    pub request_id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditOutcome {
    Done,
    /// Refused by the platform: the request or the caller was not acceptable.
    Refused,
    /// An error on the server's side.
    Failed,
    /// The client disconnected, or no response was produced. The operation may have taken effect.
    Abandoned,
}

impl AuditOutcome {
    pub fn from_status(status: u16) -> Self {
        match status {
            ..400 => Self::Done,
            400..500 => Self::Refused,
            500.. => Self::Failed,
        }
    }
}

/// Destination of audit records. Writes must be short and must not block, because the response waits for them.
pub trait AuditRecordSink: Send + Sync + 'static {
    fn write(&self, record: &AuditRecord) -> io::Result<()>;
}

/// Writes one JSON line per record to standard error, marked by `"log":"audit"`.
#[derive(Clone, Copy, Debug, Default)]
pub struct StderrSink;

impl AuditRecordSink for StderrSink {
    fn write(&self, record: &AuditRecord) -> io::Result<()> {
        io::stderr().lock().write_all(to_json_line(record)?.as_bytes())
    }
}

/// Serialises a record as one line.
pub fn to_json_line(record: &AuditRecord) -> io::Result<String> {
    #[derive(Serialize)]
    struct AuditLine<'a> {
        log: &'static str,
        #[serde(flatten)]
        record: &'a AuditRecord,
    }
    let mut line = serde_json::to_string(&AuditLine { log: "audit", record })?;
    line.push('\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn record_is_serialised_as_one_line() {
        let record = AuditRecord {
            time: Timestamp::UNIX_EPOCH,
            who: Some("uabcdez27a7".to_owned()),
            via: Some("session".to_owned()),
            act: "releases.update",
            option: Some("asAdministrator"),
            object: Some("acme\n\"x\"".to_owned()),
            from: Some(Ipv4Addr::LOCALHOST.into()),
            result: AuditOutcome::from_status(403),
            status: Some(403),
            request_id: "r-1".to_owned(),
        };
        assert_eq!(
            to_json_line(&record).unwrap(),
            "{\"log\":\"audit\",\"time\":\"1970-01-01T00:00:00Z\",\"who\":\"uabcdez27a7\",\"via\":\"session\",\
             \"act\":\"releases.update\",\"option\":\"asAdministrator\",\"object\":\"acme\\n\\\"x\\\"\",\"from\":\"127.0.0.1\",\"result\":\"refused\",\
             \"status\":403,\"requestID\":\"r-1\"}\n"
        );
    }

    #[test]
    fn outcome_follows_http_status() {
        let rows = [(200, AuditOutcome::Done), (404, AuditOutcome::Refused), (503, AuditOutcome::Failed)];
        for (status, outcome) in rows {
            assert_eq!(AuditOutcome::from_status(status), outcome, "{status}");
        }
    }
}
