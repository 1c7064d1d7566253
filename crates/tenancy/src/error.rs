//! Errors of operations.

use domain::ErrorKind;
use domain::actor::AuthorizationError;
use domain::fields::FieldError;
use domain::ids::IdError;
use domain::roles::UnknownRole;
use domain::scopes::UnknownScope;
use kube_access::timeout::is_retriable;

use crate::quota::QuotaError;

/// Why a request failed. The text is for the caller; causes are for the log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Authorization(#[from] AuthorizationError),
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error(transparent)]
    Name(#[from] IdError),
    #[error(transparent)]
    Role(#[from] UnknownRole),
    #[error(transparent)]
    Scope(#[from] UnknownScope),
    #[error(transparent)]
    Quota(#[from] QuotaError),
    #[error("{0}")]
    Invalid(String),
    /// One text for an unknown account, a wrong secret and a disabled account.
    #[error("unknown account or wrong password or token")]
    WrongCredentials,
    /// One text for every invalid credential: unknown, forged, expired, revoked, or of a deleted account.
    #[error("authentication required: sign in or send a valid token")]
    Unauthenticated,
    #[error("the old password is wrong")]
    WrongOldSecret,
    #[error("the header X-CSRF-Token does not belong to this session")]
    InvalidCsrfToken,
    /// Returned only to a caller that knows the secret.
    #[error("the account has expired: ask an administrator to extend it")]
    AccountExpired,
    #[error("too many attempts; try again in {seconds} s")]
    Throttled { seconds: u64 },
    #[error("registration is closed: ask an administrator for an account")]
    RegistrationClosed,
    /// Does not name the field that is in use.
    #[error("an account with this e-mail address or phone number already exists")]
    AccountExists,
    #[error("{kind} `{name}` not found")]
    NotFound { kind: &'static str, name: String },
    #[error("{0}")]
    Conflict(String),
    #[error("{0} was changed concurrently: read it again and retry")]
    ConcurrentUpdate(String),
    /// The caller named a `resourceVersion` that is no longer current.
    #[error("{0} has changed since you read it: read it again")]
    StaleResourceVersion(String),
    #[error("the cluster does not answer; a change may or may not have taken effect")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("internal error; see the server log for this request id")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Authorization(refusal) => refusal.kind(),
            Self::Field(_)
            | Self::Name(_)
            | Self::Role(_)
            | Self::Scope(_)
            | Self::Quota(_)
            | Self::Invalid(_) => ErrorKind::Invalid,
            Self::WrongCredentials | Self::Unauthenticated => ErrorKind::Unauthenticated,
            Self::Throttled { .. } => ErrorKind::Exhausted,
            Self::RegistrationClosed
            | Self::InvalidCsrfToken
            | Self::AccountExpired
            | Self::WrongOldSecret => ErrorKind::Forbidden,
            Self::AccountExists | Self::Conflict(_) | Self::ConcurrentUpdate(_) => ErrorKind::Conflict,
            Self::StaleResourceVersion(_) => ErrorKind::Precondition,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Unavailable(_) => ErrorKind::Unavailable,
            Self::Internal(_) => ErrorKind::Internal,
        }
    }
}

/// Fallback for errors of the Kubernetes API. Their text goes to the log only.
impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        let error = Box::new(error);
        if is_retriable(&error) { Self::Unavailable(error) } else { Self::Internal(error) }
    }
}
