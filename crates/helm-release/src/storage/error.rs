//! Errors of the storage of records.

use domain::failure::Kind;
use governor::work::WorkError;
use kube_access::storage_budget;

use super::MAX_REVISION;
use super::fit::TooLarge;
use crate::record::{DecodeError, EncodeError};

/// Error of reading or writing a record. Nothing was changed, unless the cluster did not answer.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Another client created the revision first, for example the helm command.
    #[error("revision {revision} of release `{name}` exists already")]
    Exists { name: String, revision: i64 },
    #[error("revision {revision} of release `{name}` was changed by somebody else")]
    Changed { name: String, revision: i64 },
    #[error("revision {revision} of release `{name}` is gone")]
    Gone { name: String, revision: i64 },
    #[error("`{name}` is no name of a release: {why}")]
    Name { name: String, why: String },
    #[error(
        "release `{name}` cannot have revision {revision} (limit {MAX_REVISION}): delete its Secrets with higher revisions than were made"
    )]
    Revision { name: String, revision: i64 },
    #[error("user supplied labels contains system reserved label name. System labels: {system:?}")]
    SystemLabel { system: &'static [&'static str] },
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error("the record in Secret `{secret}` cannot be read")]
    Damaged { secret: String, source: DecodeError },
    #[error("the record in Secret `{secret}` is that of another release")]
    Mistaken { secret: String },
    #[error("Secret `{part}`, a part of the record in Secret `{secret}`, is missing or was changed")]
    Incomplete { secret: String, part: String },
    #[error("the records of the release cannot be packed or unpacked now: {0}")]
    Busy(#[from] WorkError),
    #[error("cannot {doing} the records of releases")]
    Call { doing: &'static str, source: Box<kube::Error> },
}

impl StorageError {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Exists { .. } | Self::Changed { .. } | Self::Gone { .. } => Kind::Conflict,
            Self::Name { .. } | Self::Revision { .. } | Self::SystemLabel { .. } | Self::Encode(_) => {
                Kind::Invalid
            }
            Self::Busy(WorkError::Rejected(_)) => Kind::Exhausted,
            Self::Busy(WorkError::DeadlineExceeded(_) | WorkError::Interrupted(_)) => Kind::Timeout,
            Self::TooLarge(_) => Kind::TooLarge,
            Self::Busy(WorkError::Panicked)
            | Self::Damaged { .. }
            | Self::Mistaken { .. }
            | Self::Incomplete { .. } => Kind::Internal,
            Self::Call { source, .. } => match &**source {
                error if storage_budget::exceeded(error).is_some() => Kind::Exhausted,
                kube::Error::Api(status) => Kind::of_http_status(status.code),
                _ => Kind::Unavailable,
            },
        }
    }

    pub(super) fn call(doing: &'static str) -> impl Fn(kube::Error) -> Self {
        move |source| Self::Call { doing, source: Box::new(source) }
    }
}

/// HTTP status code of the API server's error.
pub(super) fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
