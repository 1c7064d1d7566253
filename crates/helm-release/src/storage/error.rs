//! Errors of the storage of records.

use domain::error::ErrorKind;
use governor::work::WorkError;
use kube_access::storage_budget;

use super::MAX_REVISION;
use super::layout::RecordTooLarge;
use crate::record::{DecodeError, EncodeError};

/// Error of reading or writing a record. Nothing was changed, unless the cluster did not answer.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Another client created the revision first, for example the helm command.
    #[error("revision {revision} of release `{name}` already exists")]
    AlreadyExists { name: String, revision: i64 },
    #[error("revision {revision} of release `{name}` was changed by another client")]
    ChangedConcurrently { name: String, revision: i64 },
    #[error("revision {revision} of release `{name}` was deleted")]
    NotFound { name: String, revision: i64 },
    #[error("`{name}` is not a valid release name: {why}")]
    InvalidName { name: String, why: String },
    #[error(
        "release `{name}` cannot have revision {revision} (limit {MAX_REVISION}): delete its Secrets with higher revisions than were made"
    )]
    InvalidRevision { name: String, revision: i64 },
    #[error("user supplied labels contains system reserved label name. System labels: {system:?}")]
    SystemLabel { system: &'static [&'static str] },
    #[error(transparent)]
    TooLarge(#[from] RecordTooLarge),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error("cannot decode the record in Secret `{secret}`")]
    Undecodable { secret: String, source: DecodeError },
    #[error("the record in Secret `{secret}` belongs to another release")]
    WrongRelease { secret: String },
    #[error("Secret `{part}`, a part of the record in Secret `{secret}`, is missing or was changed")]
    Incomplete { secret: String, part: String },
    #[error("cannot encode or decode the records of the release now: {0}")]
    Busy(#[from] WorkError),
    #[error("cannot {doing} the records of releases")]
    Api { doing: &'static str, source: Box<kube::Error> },
}

impl StorageError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::AlreadyExists { .. } | Self::ChangedConcurrently { .. } | Self::NotFound { .. } => {
                ErrorKind::Conflict
            }
            Self::InvalidName { .. }
            | Self::InvalidRevision { .. }
            | Self::SystemLabel { .. }
            | Self::Encode(_) => ErrorKind::Invalid,
            Self::Busy(WorkError::Rejected(_)) => ErrorKind::Exhausted,
            Self::Busy(WorkError::DeadlineExceeded(_) | WorkError::Interrupted(_)) => ErrorKind::Timeout,
            Self::TooLarge(_) => ErrorKind::TooLarge,
            Self::Busy(WorkError::Panicked)
            | Self::Undecodable { .. }
            | Self::WrongRelease { .. }
            | Self::Incomplete { .. } => ErrorKind::Internal,
            Self::Api { source, .. } => match &**source {
                error if storage_budget::exceeded_message(error).is_some() => ErrorKind::Exhausted,
                kube::Error::Api(status) => ErrorKind::from_http_status(status.code),
                _ => ErrorKind::Unavailable,
            },
        }
    }

    pub(super) fn api_error(doing: &'static str) -> impl Fn(kube::Error) -> Self {
        move |source| Self::Api { doing, source: Box::new(source) }
    }
}

/// HTTP status code of the API server's error.
pub(super) fn status_code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
