//! Errors of the service functions. Messages are for the caller; causes are for the log.

use chart_store::ChartError;
use chart_store::failure::reason;
use domain::Kind;
use domain::actor::Refusal;
use helm_release::StorageError;
use helm_release::render::share::WorkError;
use kube_access::storage_budget;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("`{0}` is no namespace of yours")]
    NotYours(String),
    #[error("`{0}` is no workspace of yours")]
    NoWorkspace(String),
    #[error("workspace `{0}` is being removed: nothing can be added to it")]
    Leaving(String),
    #[error("you may not {verb} releases in namespace `{namespace}`")]
    Forbidden { verb: String, namespace: String },
    #[error("{object} is in namespace `{namespace}`, which does not belong to workspace `{workspace}`")]
    Outside { object: String, namespace: String, workspace: String },
    #[error("only people ask for releases here: a program writes a HelmRelease in its own namespace")]
    NoPerson,
    #[error("there is no release `{0}`")]
    NotFound(String),
    #[error("there is no repository `{}`", domain::ids::shortened(.0))]
    NoRepo(String),
    #[error("there is a repository `{0}` already")]
    RepoExists(String),
    #[error("looks like \"{url}\" is not a valid chart repository or cannot be reached: {why}")]
    BadRepo { url: String, why: String },
    #[error("there is no operation `{}`", domain::ids::shortened(.0))]
    NoOperation(String),
    #[error("release `{0}` was written by hand: it is changed as it was written")]
    ByHand(String),
    #[error("release `{0}` was not deployed yet")]
    NotDeployed(String),
    #[error("release `{0}` has no revision {1} that it could go back to")]
    NoRevision(String, i64),
    #[error(
        "asAdministrator applies to content that the administrator states: state {0}, which would be taken from the last version"
    )]
    Unstated(String),
    #[error(
        "revision {1} of release `{0}` was not made with asAdministrator by Longshore: upgrade the release with its chart and \
         values instead"
    )]
    NotAdministrators(String, i64),
    #[error("the manifest of revision {revision} of release `{name}` cannot be read")]
    Unreadable { name: String, revision: i64 },
    #[error("there is a release `{0}` in this namespace already")]
    Exists(String),
    #[error("{0}")]
    Invalid(String),
    #[error("{what} has {size} bytes, and {limit} are the most")]
    TooLarge { what: &'static str, size: usize, limit: usize },
    #[error(transparent)]
    Chart(Box<ChartError>),
    #[error("somebody else changed `{0}` at the same time; look again")]
    Changed(String),
    #[error("`{0}` is no longer as you saw it; look again")]
    Moved(String),
    #[error("{0}")]
    Helm(Box<helm_release::Error>),
    #[error("the release cannot be examined now: {0}")]
    Busy(#[from] WorkError),
    #[error("{message}")]
    Kubernetes { kind: Kind, message: String },
    #[error("release `{0}` has not failed: there is nothing to try again")]
    NotFailed(String),
    #[error("you listen to {0} releases already, and more at once are not let in; end one")]
    Listening(usize),
    #[error(
        "workspace `{workspace}` has {used} repositories (limit {limit}): delete one that is no longer needed"
    )]
    TooManyRepos { workspace: String, used: usize, limit: usize },
    #[error(
        "workspace `{workspace}` has {used} requests for releases (limit {limit}): delete releases that are no longer needed"
    )]
    TooManyRequests { workspace: String, used: usize, limit: usize },
    #[error(
        "the values quota of workspace `{workspace}` is {limit} bytes: {used} are used by the kept versions of its releases and {wanted} more \
         are needed; delete releases that are no longer needed, or keep fewer versions (`maxHistory`)"
    )]
    OverValuesQuota { workspace: String, wanted: u64, used: u64, limit: u64 },
    #[error("the records of the release cannot be read")]
    Records(#[from] StorageError),
    #[error("the cluster does not answer; nothing was changed, or its outcome is not known yet")]
    Unavailable(#[source] Box<kube::Error>),
}

impl Error {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Refused(refusal) => refusal.kind(),
            Self::NotYours(_)
            | Self::NoWorkspace(_)
            | Self::Forbidden { .. }
            | Self::NotAdministrators(..)
            | Self::Outside { .. } => Kind::Forbidden,
            Self::NoPerson | Self::ByHand(_) => Kind::Unsupported,
            Self::NotFound(_)
            | Self::NoRepo(_)
            | Self::NoOperation(_)
            | Self::NotDeployed(_)
            | Self::NoRevision(..) => Kind::NotFound,
            Self::Exists(_)
            | Self::RepoExists(_)
            | Self::Leaving(_)
            | Self::Changed(_)
            | Self::NotFailed(_) => Kind::Conflict,
            Self::Invalid(_) | Self::Unstated(_) | Self::BadRepo { .. } => Kind::Invalid,
            Self::TooLarge { .. } => Kind::TooLarge,
            Self::Listening(_)
            | Self::TooManyRepos { .. }
            | Self::TooManyRequests { .. }
            | Self::OverValuesQuota { .. }
            | Self::Busy(WorkError::Rejected(_)) => Kind::Exhausted,
            Self::Busy(WorkError::DeadlineExceeded(_) | WorkError::Interrupted(_)) => Kind::Timeout,
            Self::Chart(error) => error.kind(),
            Self::Moved(_) => Kind::Precondition,
            Self::Helm(error) => error.kind(),
            Self::Kubernetes { kind, .. } => *kind,
            Self::Records(error) => error.kind(),
            Self::Busy(WorkError::Panicked) | Self::Unreadable { .. } => Kind::Internal,
            Self::Unavailable(_) => Kind::Unavailable,
        }
    }
}

impl Error {
    /// Maps a failed call that was made with the identity of the caller or the release. The caller may see its message.
    pub(crate) fn of_caller(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if !matches!(status.code, 429 | 500..) => {
                Self::Kubernetes { kind: Kind::of_http_status(status.code), message: status.message.clone() }
            }
            other => Self::Unavailable(Box::new(other)),
        }
    }
}

/// Maps a failed call of the platform's own identity. Its message may name that identity and objects of others, so it goes to the log and
/// the caller gets a reason. Validation errors are passed on, because the caller provided the object.
impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        if let Some(why) = storage_budget::exceeded(&error) {
            let message = format!("{why}: delete what is no longer needed");
            return Self::Kubernetes { kind: Kind::Exhausted, message };
        }
        match &error {
            kube::Error::Api(status) if !matches!(status.code, 400 | 422 | 429 | 500..) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "a call of the platform's own was refused"
                );
                let message = format!("the request could not be carried out: {}", reason(&error));
                Self::Kubernetes { kind: Kind::of_http_status(status.code), message }
            }
            _ => Self::of_caller(error),
        }
    }
}

impl From<ChartError> for Error {
    fn from(error: ChartError) -> Self {
        Self::Chart(Box::new(error))
    }
}

impl From<helm_release::Error> for Error {
    fn from(error: helm_release::Error) -> Self {
        Self::Helm(Box::new(error))
    }
}
