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
    #[error("namespace `{0}` not found or not accessible")]
    NamespaceNotAccessible(String),
    #[error("workspace `{0}` not found or not accessible")]
    WorkspaceNotAccessible(String),
    #[error("workspace `{0}` is being deleted: nothing can be added to it")]
    WorkspaceTerminating(String),
    #[error("you may not {verb} releases in namespace `{namespace}`")]
    Forbidden { verb: String, namespace: String },
    #[error("{object} is in namespace `{namespace}`, which does not belong to workspace `{workspace}`")]
    OutsideWorkspace { object: String, namespace: String, workspace: String },
    #[error("only users can request releases: programs create a HelmRelease in their own namespace")]
    UserRequired,
    #[error("release `{0}` not found")]
    NotFound(String),
    #[error("repository `{}` not found", domain::ids::truncate_for_error(.0))]
    RepoNotFound(String),
    #[error("repository `{0}` already exists")]
    RepoAlreadyExists(String),
    #[error("looks like \"{url}\" is not a valid chart repository or cannot be reached: {why}")]
    InvalidRepo { url: String, why: String },
    #[error("operation `{}` not found", domain::ids::truncate_for_error(.0))]
    OperationNotFound(String),
    #[error("release `{0}` is managed as a HelmRelease object without a request: change that object")]
    NotManagedByRequest(String),
    #[error("release `{0}` was not deployed yet")]
    NotDeployed(String),
    #[error("release `{0}` has no revision {1} to roll back to")]
    RevisionNotFound(String, i64),
    #[error(
        "asAdministrator requires that the request contains all content: set {0}, which would be taken from the last version"
    )]
    InheritedContent(String),
    #[error(
        "revision {1} of release `{0}` was not made with asAdministrator by Longshore: upgrade the release with its chart and \
         values instead"
    )]
    NotAdministratorRevision(String, i64),
    #[error("cannot parse the manifest of revision {revision} of release `{name}`")]
    UnreadableManifest { name: String, revision: i64 },
    #[error("release `{0}` already exists in this namespace")]
    AlreadyExists(String),
    #[error("{0}")]
    Invalid(String),
    #[error("{what} has {size} bytes, more than the limit of {limit}")]
    TooLarge { what: &'static str, size: usize, limit: usize },
    #[error(transparent)]
    Chart(Box<ChartError>),
    #[error("`{0}` was changed concurrently: read it again and retry")]
    Conflict(String),
    #[error("`{0}` has changed since you read it: read it again")]
    PreconditionFailed(String),
    #[error("{0}")]
    Helm(Box<helm_release::Error>),
    #[error("cannot read the release now: {0}")]
    RendererPool(#[from] WorkError),
    #[error("{message}")]
    Kubernetes { kind: ErrorKind, message: String },
    #[error("release `{0}` has not failed: nothing to retry")]
    NotFailed(String),
    #[error("too many log streams (limit {0}): end one")]
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
    #[error("cannot read the Helm records of the release")]
    Storage(#[from] StorageError),
    #[error("the cluster does not answer; a change may or may not have taken effect")]
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
                    "the cluster refused a request of the platform"
                );
                let message = format!("the request failed: {}", tenant_message(&error));
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
