//! Why something could not be done.

use domain::Kind;
use domain::actor::Refusal;
use kube_access::patience::may_pass;

/// Why something that a caller asked for could not be done. The text is for the caller; causes are for the log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("{0}")]
    Invalid(String),
    /// It is not there, or not for those who ask.
    #[error("there is no {kind} `{name}`")]
    NotFound { kind: &'static str, name: String },
    #[error("{0}")]
    Conflict(String),
    #[error("somebody else changed {0} at the same time; look again")]
    Changed(String),
    #[error("this cluster has no node pools: nobody has defined them")]
    NoPools,
    /// What Kubernetes itself says to whoever asked.
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

/// What Kubernetes answered to us, where nothing better is known of it. Its own words stay in the log.
impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        let error = Box::new(error);
        if may_pass(&error) { Self::Unavailable(error) } else { Self::Internal(error) }
    }
}
