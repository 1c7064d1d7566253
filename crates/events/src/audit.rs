//! Who did what, on which object, from where, with what result: one line each, before the answer is sent.
//!
//! The doors write a [`Record`] for every request that is meant to change something and for every one that was refused.
//! Always true: a record holds names and ids only. Nothing that somebody sent in a body or a query gets here.

use std::io::{self, Write};
use std::net::IpAddr;

use jiff::Timestamp;
use serde::Serialize;

/// One act, or the attempt at one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub time: Timestamp,
    /// The person's id or the ServiceAccount; absent where nobody was recognised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// By what they were recognised: `session`, `token <id>`, `kubernetes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// A word of the route table, such as `users.create`.
    pub act: &'static str,
    /// The option by which more rights than usual were asked for: `asAdministrator`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option: Option<&'static str>,
    /// Names and ids, for example `acme/uabcdez27a7`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<IpAddr>,
    pub result: Outcome,
    /// The HTTP status of the answer; absent where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(rename = "requestID")]
    pub request_id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Done,
    /// By us, for what was asked or for who asked.
    Refused,
    /// Something else failed.
    Failed,
    /// Nobody waited for the answer, or there was none: what was begun may have been done.
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

/// Where records go. Writing is short and does not wait for anybody: the answer waits for it.
pub trait Sink: Send + Sync + 'static {
    fn write(&self, record: &Record) -> io::Result<()>;
}

/// A JSON line each on standard error, which `"log":"audit"` tells from the others.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandardError;

impl Sink for StandardError {
    fn write(&self, record: &Record) -> io::Result<()> {
        io::stderr().lock().write_all(line(record)?.as_bytes())
    }
}

/// A record as it is written.
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
