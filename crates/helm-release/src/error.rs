//! Errors of actions on releases.
//!
//! Messages are Helm's where Helm has one. Invariant: no message repeats a value or the data of a Secret; text from
//! other sources is masked by [`kube_apply::Mask`] first.

use domain::ErrorKind;
use helm_engine::HookEvent;
use kube_apply::{ApplyError, NotReadyError, ObjectError, ParseError};

use crate::lock::LockError;
use crate::record::Record;
use crate::render::RenderError;
use crate::render::share::WorkError;
use crate::storage::StorageError;

/// Error of an action.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    InvalidName(String),
    #[error("cannot reuse a name that is still in use")]
    NameInUse,
    #[error("release: not found")]
    NotFound,
    #[error("{name:?} has no deployed releases")]
    NoneDeployed { name: String },
    #[error("release has no {0} version")]
    NoRevision(i64),
    #[error("invalid release revision")]
    InvalidRevision,
    #[error("the release named {name:?} is already deleted")]
    AlreadyDeleted { name: String },
    #[error("description must be 256 characters or less, got {0}")]
    DescriptionTooLong(usize),
    /// The operation belongs to a client that uses no Lease, such as the helm command.
    #[error("another operation (install/upgrade/rollback) is in progress")]
    Pending,
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error("{0}")]
    Values(String),
    #[error("error while running post render on files: {0}")]
    PostRender(String),
    #[error("unable to build kubernetes objects from {which} release manifest: {source}")]
    Manifest { which: &'static str, source: ParseError },
    #[error("failed to install CRD {file}: {why}")]
    Crd { file: String, why: String, kind: ErrorKind },
    #[error("cannot read or create namespace {namespace:?}: {why}")]
    Namespace { namespace: String, why: String, kind: ErrorKind },
    /// Rejected before anything was written.
    #[error("unable to continue with {act}: {why}")]
    Rejected { act: &'static str, why: String, kind: ErrorKind },
    /// The failure is recorded in `record`.
    #[error("{said}")]
    Failed { said: String, kind: ErrorKind, record: Box<Record> },
    #[error("failed to delete release: {name}: {why}")]
    NotDeleted { name: String, why: String, kind: ErrorKind },
    #[error("uninstallation completed with 1 error(s): {why}")]
    Uninstalled { why: String, kind: ErrorKind },
    #[error("uninstall: Release not loaded: {name}: release: not found")]
    NotLoaded { name: String },
    #[error("cannot record the digest of the new revision: {0}")]
    Ledger(String),
    /// Another client changed the release during the operation, and its change stands.
    #[error("release {name:?} was changed by another client during the operation")]
    ChangedConcurrently { name: String },
}

impl Error {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidName(_)
            | Self::InvalidRevision
            | Self::DescriptionTooLong(_)
            | Self::Values(_)
            | Self::PostRender(_)
            | Self::Manifest { .. } => ErrorKind::Invalid,
            Self::NotFound | Self::NotLoaded { .. } | Self::NoneDeployed { .. } | Self::NoRevision(_) => {
                ErrorKind::NotFound
            }
            Self::NameInUse
            | Self::AlreadyDeleted { .. }
            | Self::Pending
            | Self::ChangedConcurrently { .. } => ErrorKind::Conflict,
            Self::Ledger(_) => ErrorKind::Unavailable,
            Self::Lock(error) => error.kind(),
            Self::Storage(error) => error.kind(),
            Self::Render(error) => error.kind(),
            Self::Crd { kind, .. }
            | Self::Namespace { kind, .. }
            | Self::Rejected { kind, .. }
            | Self::Failed { kind, .. }
            | Self::NotDeleted { kind, .. }
            | Self::Uninstalled { kind, .. } => *kind,
        }
    }

    pub(crate) fn manifest(which: &'static str) -> impl Fn(ParseError) -> Self {
        move |source| Self::Manifest { which, source }
    }
}

/// Failure between the first and the last record of an operation.
#[derive(Debug, thiserror::Error)]
pub enum FailureCause {
    #[error("{}{error}", before(*event))]
    Hook { event: HookEvent, error: HookError },
    #[error("{0}")]
    Apply(Box<ApplyError>),
    #[error(transparent)]
    NotReady(NotReadyError),
    /// The record could not be written.
    #[error(transparent)]
    Storage(StorageError),
}

impl FailureCause {
    pub(crate) fn apply(error: ApplyError) -> Self {
        Self::Apply(Box::new(error))
    }

    /// Whether another client wrote or deleted the record.
    pub(crate) fn is_concurrent_change(&self) -> bool {
        match self {
            Self::Storage(error) | Self::Hook { error: HookError::Storage(error), .. } => {
                error.is_concurrent_change()
            }
            Self::Hook { .. } | Self::Apply(_) | Self::NotReady(_) => false,
        }
    }

    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Hook { error, .. } => error.kind(),
            Self::Apply(error) => error.kind(),
            Self::NotReady(error) => error.kind(),
            Self::Storage(error) => error.kind(),
        }
    }
}

/// Helm's prefix for a failed event.
fn before(event: HookEvent) -> &'static str {
    match event {
        HookEvent::PreInstall => "failed pre-install: ",
        HookEvent::PostInstall => "failed post-install: ",
        HookEvent::PreUpgrade => "pre-upgrade hooks failed: ",
        HookEvent::PostUpgrade => "post-upgrade hooks failed: ",
        HookEvent::PreDelete
        | HookEvent::PostDelete
        | HookEvent::PreRollback
        | HookEvent::PostRollback
        | HookEvent::Test => "",
    }
}

/// Error of a hook.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    #[error("unable to build kubernetes object for {event} hook {path}: {source}")]
    Manifest { event: &'static str, path: String, source: ParseError },
    #[error("warning: Hook {event} {path} failed: {source}")]
    Apply { event: &'static str, path: String, source: Box<ApplyError> },
    #[error(transparent)]
    NotReady(NotReadyError),
    #[error("unable to delete hook {path}: {}", join_messages(failures))]
    Remove { path: String, failures: Vec<ObjectError> },
    #[error(transparent)]
    Storage(StorageError),
    #[error("cannot parse the hook: {0}")]
    Work(#[from] WorkError),
}

impl HookError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Manifest { .. } => ErrorKind::Invalid,
            Self::Apply { source, .. } => source.kind(),
            Self::NotReady(error) => error.kind(),
            Self::Remove { failures, .. } => failures.first().map_or(ErrorKind::Internal, ObjectError::kind),
            Self::Storage(error) => error.kind(),
            Self::Work(error) => RenderError::from(*error).kind(),
        }
    }
}

fn join_messages(failures: &[ObjectError]) -> String {
    let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
    failures.join("; ")
}

impl StorageError {
    /// Whether another client wrote or deleted the record.
    pub(crate) fn is_concurrent_change(&self) -> bool {
        matches!(self, Self::ChangedConcurrently { .. } | Self::NotFound { .. })
    }
}
