//! Errors of one object and of an apply.
//!
//! Invariant: no message repeats a value of a Secret, whatever the API server returned.

use std::fmt;

use domain::Kind;
use kube_access::patience::is_out_of_reach;
use kube_access::storage_budget;
use serde_json::Value;

use crate::apply::Applied;
use crate::discovery::FindError;
use crate::object::{Id, Object};

/// Failure of one object.
#[derive(Debug)]
pub struct Failure {
    pub id: Id,
    /// Chart file of the object.
    pub source: Option<String>,
    pub why: Why,
}

#[derive(Debug, thiserror::Error)]
pub enum Why {
    #[error(transparent)]
    Find(#[from] FindError),
    #[error("it exists and cannot be imported into the current release: {0}")]
    Taken(String),
    #[error("{message}")]
    Cluster { kind: Kind, message: String },
    #[error("{0}")]
    NotEstablished(String),
}

/// Some objects failed. `applied` holds the results until then; later waves were not tried.
#[derive(Debug)]
pub struct ApplyError {
    pub failures: Vec<Failure>,
    pub applied: Applied,
}

impl Failure {
    pub(crate) fn new(object: &Object, id: Id, why: impl Into<Why>) -> Self {
        Self { id, source: object.source.clone(), why: why.into() }
    }

    /// Failure from an API error of this object.
    pub(crate) fn of_cluster(object: &Object, id: Id, error: &kube::Error) -> Self {
        Self::new(object, id, Why::Cluster { kind: kind_of(error), message: words(object, error) })
    }

    pub fn kind(&self) -> Kind {
        match &self.why {
            Why::Find(error) => error.kind(),
            Why::Taken(_) => Kind::Conflict,
            Why::Cluster { kind, .. } => *kind,
            Why::NotEstablished(_) => Kind::Timeout,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, source, why } = self;
        match source {
            Some(source) => write!(f, "{id} ({source}): {why}"),
            None => write!(f, "{id}: {why}"),
        }
    }
}

impl ApplyError {
    pub(crate) fn before_any_write(failures: Vec<Failure>) -> Self {
        Self { failures, applied: Applied::default() }
    }

    /// Kind of the first failure, which usually represents the others.
    pub fn kind(&self) -> Kind {
        self.failures.first().map_or(Kind::Internal, Failure::kind)
    }
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failures: Vec<_> = self.failures.iter().map(ToString::to_string).collect();
        f.write_str(&failures.join("; "))
    }
}

impl std::error::Error for ApplyError {}

/// Error kind of an API error.
pub fn kind_of(error: &kube::Error) -> Kind {
    match error {
        // Quota errors are 403, but can succeed later when capacity is freed.
        kube::Error::Api(status) if status.code == 403 && status.message.contains("exceeded quota") => {
            Kind::Exhausted
        }
        error if storage_budget::exceeded(error).is_some() => Kind::Exhausted,
        kube::Error::Api(status) => Kind::of_http_status(status.code),
        error if is_out_of_reach(error) => Kind::Unavailable,
        _ => Kind::Internal,
    }
}

/// Error message, unless it repeats a value of a Secret.
fn words(object: &Object, error: &kube::Error) -> String {
    let words = match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    };
    if object.kind() == "Secret" && repeats(&words, object.value()) {
        return "the cluster refused it, in words that are withheld because they repeat a value of it"
            .to_owned();
    }
    words
}

fn repeats(words: &str, secret: &Value) -> bool {
    let values = ["data", "stringData"].into_iter().filter_map(|field| secret[field].as_object());
    values.flat_map(|map| map.values()).any(|value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty() && words.contains(text.as_str()),
        other => words.contains(&other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_failure_says_how_it_is_to_be_treated() {
        let said = |code: u16, message: &str| {
            let status = Status { code, message: message.to_owned(), ..Status::default() };
            kind_of(&kube::Error::Api(Box::new(status)))
        };
        assert_eq!(said(403, "pods \"a\" is forbidden: exceeded quota: q"), Kind::Exhausted);
        assert_eq!(said(403, "no"), Kind::Forbidden);
        let full = json!({"message": "full", "code": 403, "details": {"causes": [{"reason": "StorageBudgetExceeded"}]}});
        let full: Status = serde_json::from_value(full).unwrap();
        assert_eq!(kind_of(&kube::Error::Api(Box::new(full))), Kind::Exhausted);
        assert_eq!(said(422, "wrong"), Kind::Invalid);
        assert_eq!(said(409, "conflict"), Kind::Conflict);
        assert_eq!(said(503, "later"), Kind::Unavailable);
        assert_eq!(kind_of(&kube::Error::Service("the line is cut".into())), Kind::Unavailable);
    }
}
