//! Errors of a reconcile. It is retried with backoff.

use std::time::Duration;

use helm_release::StorageError;

use crate::key::Key;

#[derive(Debug, thiserror::Error)]
pub enum PassError {
    #[error("cannot {doing}: {}", words(cause))]
    Call { doing: String, cause: Box<kube::Error> },
    #[error("the pass broke off: {0}")]
    Broken(String),
    #[error("{0}")]
    Helm(String),
    #[error("cannot write the status of release `{0}`: it changes all the time")]
    Contended(Key),
    #[error("not done within {} s", .0.as_secs())]
    Deadline(Duration),
    #[error("cannot read the records of a release: {0}")]
    Records(#[from] StorageError),
}

impl PassError {
    /// Whether the write lost a conflict. The watch delivers the newer object.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Call { cause, .. } if matches!(&**cause, kube::Error::Api(status) if status.is_conflict()))
    }
}

/// The message of the API server's `Status`, else of the client. For the log, or for the caller whose identity made the request.
pub(crate) fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Adds the attempted operation to a failed Kubernetes call.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, PassError>;
}

impl<T> Doing<T> for Result<T, kube::Error> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, PassError> {
        self.map_err(|cause| PassError::Call { doing: what(), cause: Box::new(cause) })
    }
}
