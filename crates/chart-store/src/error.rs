//! Errors of fetching and storing charts.

use std::sync::Arc;

use domain::ErrorKind;
use governor::AdmissionError;
use governor::work::WorkError;
use helm_chart::LoadError;
use helm_chart::index::IndexError;
pub use kube_access::errors::tenant_message;

use crate::digest::Digest;
use crate::oci::{ParseReferenceError, RegistryError};
use crate::repository::IndexFetchError;

#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    #[error(transparent)]
    Fetch(Box<outbound::FetchError>),
    #[error("cannot use the index of repository `{repo}`: {source}")]
    Index { repo: String, source: Box<IndexFetchError> },
    #[error("repository `{repo}` has no chart `{chart}`")]
    NoChart { repo: String, chart: String },
    #[error("repository `{repo}` has no version of `{chart}` that matches `{version}`")]
    NoVersion { repo: String, chart: String, version: String },
    #[error("`{version}` is not a version or version range: {why}")]
    InvalidRange { version: String, why: String },
    #[error("repository `{repo}` has no URL for `{chart}` {version}")]
    NoUrl { repo: String, chart: String, version: String },
    #[error("{what} has digest {found}, expected {expected}")]
    DigestMismatch { what: String, expected: Digest, found: Digest },
    #[error("{what} has an invalid digest `{said}`")]
    BadDigest { what: String, said: String },
    #[error("{what} contains chart `{found}`, expected `{expected}`")]
    ChartNameMismatch { what: String, expected: String, found: String },
    #[error("the archive is not a chart: {0}")]
    Load(LoadError),
    #[error(
        "the chart exceeds a limit: {unpacked} bytes of files, {templates} bytes of templates, or {parsed} bytes of values and metadata"
    )]
    UnpackedTooLarge { unpacked: usize, parsed: usize, templates: usize },
    /// The work budget of the workspace or of the server is exhausted for now.
    #[error("fetching and unpacking charts: {0}; try again later")]
    Work(#[from] WorkError),
    #[error(transparent)]
    Reference(#[from] ParseReferenceError),
    #[error(transparent)]
    Registry(Box<RegistryError>),
    #[error("repository `{0}` not found")]
    NoRepo(String),
    #[error("repository `{0}` is suspended")]
    Suspended(String),
    #[error("cannot use repository `{repo}`: {why}")]
    BadRepo { repo: String, why: String },
    #[error("package `{0}` not found")]
    NoPackage(String),
    #[error("package `{0}` is incomplete: upload the chart again")]
    Incomplete(String),
    #[error("package `{0}` is damaged: its digest does not match")]
    Corrupt(String),
    #[error("package `{0}` already exists with other contents")]
    PackageConflict(String),
    #[error("the archive has {size} bytes, more than the limit of {limit}")]
    TooLarge { size: usize, limit: usize },
    #[error(
        "the package quota of {owner} is {limit} bytes ([store] quota): {used} are used and {wanted} more are needed; \
         delete releases that use old charts, or wait until unused packages are collected"
    )]
    OverQuota { owner: String, wanted: u64, used: u64, limit: u64 },
    #[error(
        "the package store is full: its capacity is {limit} bytes ([store] capacity) and {wanted} more are needed"
    )]
    StoreFull { wanted: u64, limit: u64 },
    #[error("cannot read repository `{repo}`: {}", tenant_message(source))]
    Lookup { repo: String, source: Arc<kube::Error> },
    #[error("cannot read or write the package: {}", tenant_message(.0))]
    Cluster(#[source] Box<kube::Error>),
}

impl From<AdmissionError> for ChartError {
    fn from(rejected: AdmissionError) -> Self {
        Self::Work(rejected.into())
    }
}

impl From<outbound::FetchError> for ChartError {
    fn from(failure: outbound::FetchError) -> Self {
        Self::Fetch(Box::new(failure))
    }
}

impl From<RegistryError> for ChartError {
    fn from(error: RegistryError) -> Self {
        Self::Registry(Box::new(error))
    }
}

impl From<kube::Error> for ChartError {
    fn from(error: kube::Error) -> Self {
        Self::Cluster(Box::new(error))
    }
}

impl ChartError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Fetch(failure) => failure.kind(),
            Self::Index { source, .. } => source.kind(),
            Self::NoChart { .. } | Self::NoVersion { .. } | Self::NoRepo(_) | Self::NoPackage(_) => {
                ErrorKind::NotFound
            }
            Self::InvalidRange { .. }
            | Self::Load(_)
            | Self::Reference(_)
            | Self::BadRepo { .. }
            | Self::NoUrl { .. }
            | Self::BadDigest { .. }
            | Self::ChartNameMismatch { .. } => ErrorKind::Invalid,
            // The promised content is not available now; a retry may succeed.
            Self::DigestMismatch { .. } | Self::Incomplete(_) | Self::Corrupt(_) => ErrorKind::Unavailable,
            Self::Registry(error) => error.kind(),
            Self::Suspended(_) => ErrorKind::Precondition,
            Self::PackageConflict(_) => ErrorKind::Conflict,
            Self::TooLarge { .. } | Self::UnpackedTooLarge { .. } => ErrorKind::TooLarge,
            Self::OverQuota { .. } | Self::StoreFull { .. } => ErrorKind::Exhausted,
            Self::Work(error) => work_error_kind(*error),
            Self::Cluster(error) => kube_error_kind(error),
            Self::Lookup { source, .. } => kube_error_kind(source),
        }
    }

    /// Converts an error of the repository index.
    pub(crate) fn from_index_error(error: IndexError, repo: &str, chart: &str, version: &str) -> Self {
        let (repo, chart, version) = (repo.to_owned(), chart.to_owned(), version.to_owned());
        match error {
            IndexError::ChartNotFound => Self::NoChart { repo, chart },
            IndexError::NoVersions | IndexError::VersionNotFound { .. } => {
                Self::NoVersion { repo, chart, version }
            }
            IndexError::Constraint(why) => Self::InvalidRange { version, why: why.to_string() },
            other => Self::Index { repo, source: Box::new(IndexFetchError::Parse(other)) },
        }
    }
}

pub(crate) fn work_error_kind(error: WorkError) -> ErrorKind {
    match error {
        WorkError::Rejected(_) => ErrorKind::Exhausted,
        WorkError::DeadlineExceeded(_) | WorkError::Interrupted(_) => ErrorKind::Timeout,
        WorkError::Panicked => ErrorKind::Internal,
    }
}

fn kube_error_kind(error: &kube::Error) -> ErrorKind {
    match error {
        kube::Error::Api(status) => ErrorKind::from_http_status(status.code),
        kube::Error::Service(_) | kube::Error::HyperError(_) => ErrorKind::Unavailable,
        _ => ErrorKind::Internal,
    }
}
