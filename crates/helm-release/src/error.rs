//! Errors of actions on releases.
//!
//! Messages are Helm's where Helm has one. Invariant: no message repeats a value or the data of a Secret; text from
//! other sources is masked by [`kube_apply::Mask`] first.

use domain::Kind;
use helm_engine::Event;
use kube_apply::{ApplyError, Failure, NotReady, ParseError};

use crate::hold::HoldError;
use crate::record::Record;
use crate::render::RenderError;
use crate::render::share::WorkError;
use crate::storage::StorageError;

/// Error of an action.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Name(String),
    #[error("cannot reuse a name that is still in use")]
    NameInUse,
    #[error("release: not found")]
    NotFound,
    #[error("{name:?} has no deployed releases")]
    NoneDeployed { name: String },
    #[error("release has no {0} version")]
    NoRevision(i64),
    #[error("invalid release revision")]
    BadRevision,
    #[error("the release named {name:?} is already deleted")]
    AlreadyDeleted { name: String },
    #[error("description must be 256 characters or less, got {0}")]
    Description(usize),
    /// The operation belongs to a client that uses no Lease, such as the helm command.
    #[error("another operation (install/upgrade/rollback) is in progress")]
    Pending,
    #[error(transparent)]
    Hold(#[from] HoldError),
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
    Crd { file: String, why: String, kind: Kind },
    #[error("cannot look at namespace {namespace:?}, or make it: {why}")]
    Namespace { namespace: String, why: String, kind: Kind },
    /// Rejected before anything was written.
    #[error("unable to continue with {act}: {why}")]
    Refused { act: &'static str, why: String, kind: Kind },
    /// The failure is recorded in `record`.
    #[error("{said}")]
    Failed { said: String, kind: Kind, record: Box<Record> },
    #[error("failed to delete release: {name}: {why}")]
    NotDeleted { name: String, why: String, kind: Kind },
    #[error("uninstallation completed with 1 error(s): {why}")]
    Uninstalled { why: String, kind: Kind },
    #[error("uninstall: Release not loaded: {name}: release: not found")]
    NotLoaded { name: String },
    #[error("cannot record the digest of the new revision: {0}")]
    Ledger(String),
    /// Another client changed the release during the operation, and its change stands.
    #[error("release {name:?} was changed by somebody else in the middle of it")]
    Overtaken { name: String },
}

impl Error {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Name(_)
            | Self::BadRevision
            | Self::Description(_)
            | Self::Values(_)
            | Self::PostRender(_)
            | Self::Manifest { .. } => Kind::Invalid,
            Self::NotFound | Self::NotLoaded { .. } | Self::NoneDeployed { .. } | Self::NoRevision(_) => {
                Kind::NotFound
            }
            Self::NameInUse | Self::AlreadyDeleted { .. } | Self::Pending | Self::Overtaken { .. } => {
                Kind::Conflict
            }
            Self::Ledger(_) => Kind::Unavailable,
            Self::Hold(error) => error.kind(),
            Self::Storage(error) => error.kind(),
            Self::Render(error) => error.kind(),
            Self::Crd { kind, .. }
            | Self::Namespace { kind, .. }
            | Self::Refused { kind, .. }
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
pub enum Cause {
    #[error("{}{error}", before(*event))]
    Hook { event: Event, error: HookError },
    #[error("{0}")]
    Apply(Box<ApplyError>),
    #[error(transparent)]
    NotReady(NotReady),
    /// The record could not be written.
    #[error(transparent)]
    Storage(StorageError),
}

impl Cause {
    pub(crate) fn apply(error: ApplyError) -> Self {
        Self::Apply(Box::new(error))
    }

    /// Whether another client wrote or deleted the record.
    pub(crate) fn is_overtaken(&self) -> bool {
        match self {
            Self::Storage(error) | Self::Hook { error: HookError::Storage(error), .. } => {
                error.is_overtaken()
            }
            Self::Hook { .. } | Self::Apply(_) | Self::NotReady(_) => false,
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::Hook { error, .. } => error.kind(),
            Self::Apply(error) => error.kind(),
            Self::NotReady(error) => error.kind(),
            Self::Storage(error) => error.kind(),
        }
    }
}

/// Helm's prefix for a failed event.
fn before(event: Event) -> &'static str {
    match event {
        Event::PreInstall => "failed pre-install: ",
        Event::PostInstall => "failed post-install: ",
        Event::PreUpgrade => "pre-upgrade hooks failed: ",
        Event::PostUpgrade => "post-upgrade hooks failed: ",
        Event::PreDelete | Event::PostDelete | Event::PreRollback | Event::PostRollback | Event::Test => "",
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
    NotDone(NotReady),
    #[error("unable to delete hook {path}: {}", said(failures))]
    Remove { path: String, failures: Vec<Failure> },
    #[error(transparent)]
    Storage(StorageError),
    #[error("the hook cannot be parsed: {0}")]
    Work(#[from] WorkError),
}

impl HookError {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Manifest { .. } => Kind::Invalid,
            Self::Apply { source, .. } => source.kind(),
            Self::NotDone(error) => error.kind(),
            Self::Remove { failures, .. } => failures.first().map_or(Kind::Internal, Failure::kind),
            Self::Storage(error) => error.kind(),
            Self::Work(error) => RenderError::from(*error).kind(),
        }
    }
}

fn said(failures: &[Failure]) -> String {
    let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
    failures.join("; ")
}

impl StorageError {
    /// Whether another client wrote or deleted the record.
    pub(crate) fn is_overtaken(&self) -> bool {
        matches!(self, Self::Changed { .. } | Self::Gone { .. })
    }
}
