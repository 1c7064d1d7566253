//! Errors of the service functions. Messages are for the caller; causes are for the log.

use chart_store::ChartError;
use chart_store::error::tenant_message;
use domain::ErrorKind;
use domain::actor::AuthorizationError;
use helm_release::StorageError;
use helm_release::render::share::WorkError;
use kube_access::storage_budget;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Unauthorized(#[from] AuthorizationError),
    #[error("`{0}` is no namespace of yours")]
    NamespaceNotAccessible(String),
    #[error("`{0}` is no workspace of yours")]
    WorkspaceNotAccessible(String),
    #[error("workspace `{0}` is being removed: nothing can be added to it")]
    WorkspaceTerminating(String),
    #[error("you may not {verb} releases in namespace `{namespace}`")]
    Forbidden { verb: String, namespace: String },
    #[error("{object} is in namespace `{namespace}`, which does not belong to workspace `{workspace}`")]
    OutsideWorkspace { object: String, namespace: String, workspace: String },
    #[error("only people ask for releases here: a program writes a HelmRelease in its own namespace")]
    UserRequired,
    #[error("there is no release `{0}`")]
    NotFound(String),
    #[error("there is no repository `{}`", domain::ids::truncate_for_error(.0))]
    RepoNotFound(String),
    #[error("there is a repository `{0}` already")]
    RepoAlreadyExists(String),
    #[error("looks like \"{url}\" is not a valid chart repository or cannot be reached: {why}")]
    InvalidRepo { url: String, why: String },
    #[error("there is no operation `{}`", domain::ids::truncate_for_error(.0))]
    OperationNotFound(String),
    #[error("release `{0}` was written by hand: it is changed as it was written")]
    NotManagedByRequest(String),
    #[error("release `{0}` was not deployed yet")]
    NotDeployed(String),
    #[error("release `{0}` has no revision {1} that it could go back to")]
    RevisionNotFound(String, i64),
    #[error(
        "asAdministrator applies to content that the administrator states: state {0}, which would be taken from the last version"
    )]
    InheritedContent(String),
    #[error(
        "revision {1} of release `{0}` was not made with asAdministrator by Longshore: upgrade the release with its chart and \
         values instead"
    )]
    NotAdministratorRevision(String, i64),
    #[error("the manifest of revision {revision} of release `{name}` cannot be read")]
    UnreadableManifest { name: String, revision: i64 },
    #[error("there is a release `{0}` in this namespace already")]
    AlreadyExists(String),
    #[error("{0}")]
    Invalid(String),
    #[error("{what} has {size} bytes, and {limit} are the most")]
    TooLarge { what: &'static str, size: usize, limit: usize },
    #[error(transparent)]
    Chart(Box<ChartError>),
    #[error("somebody else changed `{0}` at the same time; look again")]
    Conflict(String),
    #[error("`{0}` is no longer as you saw it; look again")]
    PreconditionFailed(String),
    #[error("{0}")]
    Helm(Box<helm_release::Error>),
    #[error("the release cannot be examined now: {0}")]
    RendererPool(#[from] WorkError),
    #[error("{message}")]
    Kubernetes { kind: ErrorKind, message: String },
    #[error("release `{0}` has not failed: there is nothing to try again")]
    NotFailed(String),
    #[error("you listen to {0} releases already, and more at once are not let in; end one")]
    TooManyLogStreams(usize),
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
    Storage(#[from] StorageError),
    #[error("the cluster does not answer; nothing was changed, or its outcome is not known yet")]
    Unavailable(#[source] Box<kube::Error>),
}

impl Error {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unauthorized(refusal) => refusal.kind(),
            Self::NamespaceNotAccessible(_)
            | Self::WorkspaceNotAccessible(_)
            | Self::Forbidden { .. }
            | Self::NotAdministratorRevision(..)
            | Self::OutsideWorkspace { .. } => ErrorKind::Forbidden,
            Self::UserRequired | Self::NotManagedByRequest(_) => ErrorKind::Unsupported,
            Self::NotFound(_)
            | Self::RepoNotFound(_)
            | Self::OperationNotFound(_)
            | Self::NotDeployed(_)
            | Self::RevisionNotFound(..) => ErrorKind::NotFound,
            Self::AlreadyExists(_)
            | Self::RepoAlreadyExists(_)
            | Self::WorkspaceTerminating(_)
            | Self::Conflict(_)
            | Self::NotFailed(_) => ErrorKind::Conflict,
            Self::Invalid(_) | Self::InheritedContent(_) | Self::InvalidRepo { .. } => ErrorKind::Invalid,
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::TooManyLogStreams(_)
            | Self::TooManyRepos { .. }
            | Self::TooManyRequests { .. }
            | Self::OverValuesQuota { .. }
            | Self::RendererPool(WorkError::Rejected(_)) => ErrorKind::Exhausted,
            Self::RendererPool(WorkError::DeadlineExceeded(_) | WorkError::Interrupted(_)) => {
                ErrorKind::Timeout
            }
            Self::Chart(error) => error.kind(),
            Self::PreconditionFailed(_) => ErrorKind::Precondition,
            Self::Helm(error) => error.kind(),
            Self::Kubernetes { kind, .. } => *kind,
            Self::Storage(error) => error.kind(),
            Self::RendererPool(WorkError::Panicked) | Self::UnreadableManifest { .. } => ErrorKind::Internal,
            Self::Unavailable(_) => ErrorKind::Unavailable,
        }
    }
}

impl Error {
    /// Maps a failed call that was made with the identity of the caller or the release. The caller may see its message.
    pub(crate) fn from_impersonated_call(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if !matches!(status.code, 429 | 500..) => Self::Kubernetes {
                kind: ErrorKind::from_http_status(status.code),
                message: status.message.clone(),
            },
            other => Self::Unavailable(Box::new(other)),
        }
    }
}

/// Maps a failed call of the platform's own identity. Its message may name that identity and objects of others, so it goes to the log and
/// the caller gets a reason. Validation errors are passed on, because the caller provided the object.
impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        if let Some(why) = storage_budget::exceeded_message(&error) {
            let message = format!("{why}: delete what is no longer needed");
            return Self::Kubernetes { kind: ErrorKind::Exhausted, message };
        }
        match &error {
            kube::Error::Api(status) if !matches!(status.code, 400 | 422 | 429 | 500..) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "a call of the platform's own was refused"
                );
                let message = format!("the request could not be carried out: {}", tenant_message(&error));
                Self::Kubernetes { kind: ErrorKind::from_http_status(status.code), message }
            }
            _ => Self::from_impersonated_call(error),
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
