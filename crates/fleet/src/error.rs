//! Errors of the service.

use domain::ErrorKind;
use domain::actor::AuthorizationError;
use kube_access::timeout::is_retriable;

/// Error of a request. The message is for the caller; causes are for the log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Unauthorized(#[from] AuthorizationError),
    #[error("{0}")]
    Invalid(String),
    /// The object does not exist, or the caller may not see it.
    #[error("{kind} `{name}` not found")]
    NotFound { kind: &'static str, name: String },
    #[error("{0}")]
    Conflict(String),
    #[error("{0} was changed concurrently: read it again and retry")]
    ModifiedConcurrently(String),
    #[error("this cluster has no node pools: the CRD NodePool is not installed")]
    PoolsUnsupported,
    /// Kubernetes refused a request made as the caller.
    #[error("Kubernetes denies you permission")]
    Forbidden(#[source] Box<kube::Error>),
    #[error("the cluster does not answer; a change may or may not have taken effect")]
    Unavailable(#[source] Box<kube::Error>),
    #[error("internal error; see the server log for this request id")]
    Internal(#[source] Box<kube::Error>),
}

impl Error {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unauthorized(refusal) => refusal.kind(),
            Self::Invalid(_) => ErrorKind::Invalid,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Conflict(_) | Self::ModifiedConcurrently(_) => ErrorKind::Conflict,
            Self::PoolsUnsupported => ErrorKind::Unsupported,
            Self::Forbidden(_) => ErrorKind::Forbidden,
            Self::Unavailable(_) => ErrorKind::Unavailable,
            Self::Internal(_) => ErrorKind::Internal,
        }
    }
}

/// Default conversion of Kubernetes errors. Their messages go to the log only.
impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        let error = Box::new(error);
        if is_retriable(&error) { Self::Unavailable(error) } else { Self::Internal(error) }
    }
}
