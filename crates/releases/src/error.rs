//! Errors of a reconcile. It is retried with backoff.

use std::time::Duration;

use helm_release::StorageError;

use crate::key::ReleaseKey;

#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error("cannot {doing}: {}", error_message(cause))]
    Api { doing: String, cause: Box<kube::Error> },
    #[error("the reconcile was aborted: {0}")]
    Panicked(String),
    #[error("{0}")]
    Helm(String),
    #[error("cannot write the status of release `{0}`: too many conflicts")]
    TooManyConflicts(ReleaseKey),
    #[error("timeout after {} s", .0.as_secs())]
    DeadlineExceeded(Duration),
    #[error("cannot read the records of a release: {0}")]
    Storage(#[from] StorageError),
}

impl ReconcileError {
    /// Whether the write lost a conflict. The watch delivers the newer object.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { cause, .. } if matches!(&**cause, kube::Error::Api(status) if status.is_conflict()))
    }
}

/// The message of the API server's `Status`, else of the client. For the log, or for the caller whose identity made the request.
pub(crate) fn error_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Adds the attempted operation to a failed Kubernetes call.
pub(crate) trait ErrorContext<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, ReconcileError>;
}

impl<T> ErrorContext<T> for Result<T, kube::Error> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, ReconcileError> {
        self.map_err(|cause| ReconcileError::Api { doing: what(), cause: Box::new(cause) })
    }
}
