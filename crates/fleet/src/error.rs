//! Errors of the service.

use domain::Kind;
use domain::actor::Refusal;
use kube_access::patience::may_pass;

/// Error of a request. The message is for the caller; causes are for the log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("{0}")]
    Invalid(String),
    /// The object does not exist, or the caller may not see it.
    #[error("there is no {kind} `{name}`")]
    NotFound { kind: &'static str, name: String },
    #[error("{0}")]
    Conflict(String),
    #[error("somebody else changed {0} at the same time; look again")]
    Changed(String),
    #[error("this cluster has no node pools: nobody has defined them")]
    NoPools,
    /// Kubernetes refused a request made as the caller.
    #[error("Kubernetes does not allow it to you")]
    Forbidden(#[source] Box<kube::Error>),
    #[error("the cluster does not answer; nothing was changed, or its outcome is not known yet")]
    Unavailable(#[source] Box<kube::Error>),
    #[error("an internal error; the log has more under this request's id")]
    Internal(#[source] Box<kube::Error>),
}

impl Error {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Refused(refusal) => refusal.kind(),
            Self::Invalid(_) => Kind::Invalid,
            Self::NotFound { .. } => Kind::NotFound,
            Self::Conflict(_) | Self::Changed(_) => Kind::Conflict,
            Self::NoPools => Kind::Unsupported,
            Self::Forbidden(_) => Kind::Forbidden,
            Self::Unavailable(_) => Kind::Unavailable,
            Self::Internal(_) => Kind::Internal,
        }
    }
}

/// Default conversion of Kubernetes errors. Their messages go to the log only.
impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        let error = Box::new(error);
        if may_pass(&error) { Self::Unavailable(error) } else { Self::Internal(error) }
    }
}
