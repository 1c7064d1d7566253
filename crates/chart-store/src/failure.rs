//! Errors of fetching and storing charts.

use std::sync::Arc;

use domain::Kind;
use governor::Rejected;
use governor::work::WorkError;
use helm_chart::LoadError;
use helm_chart::index::IndexError;
pub use kube_access::failure::reason;

use crate::digest::Digest;
use crate::oci::{BadReference, RegistryError};
use crate::repository::IndexFailure;

#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    #[error(transparent)]
    Fetch(Box<outbound::Failure>),
    #[error("the index of the repository `{repo}` cannot be used: {source}")]
    Index { repo: String, source: Box<IndexFailure> },
    #[error("the repository `{repo}` has no chart `{chart}`")]
    NoChart { repo: String, chart: String },
    #[error("the repository `{repo}` has no version of `{chart}` that `{version}` allows")]
    NoVersion { repo: String, chart: String, version: String },
    #[error("`{version}` is neither a version nor a range of versions: {why}")]
    Range { version: String, why: String },
    #[error("the repository `{repo}` does not say where `{chart}` {version} is")]
    NoAddress { repo: String, chart: String, version: String },
    #[error("{what} has the digest {found}, and not {expected}")]
    Digest { what: String, expected: Digest, found: Digest },
    #[error("{what} is said to have the digest `{said}`, which is none")]
    BadDigest { what: String, said: String },
    #[error("{what} has the chart `{found}` in it, and not `{expected}`")]
    OtherChart { what: String, expected: String, found: String },
    #[error("the archive is no chart: {0}")]
    Load(LoadError),
    #[error(
        "the chart has files of more than {unpacked} bytes, templates of more than {templates}, or values and metadata of more than {parsed}"
    )]
    Unpacked { unpacked: usize, parsed: usize, templates: usize },
    /// The work budget of the workspace or of the server is exhausted for now.
    #[error("fetching and unpacking charts: {0}; try again later")]
    Work(#[from] WorkError),
    #[error(transparent)]
    Reference(#[from] BadReference),
    #[error(transparent)]
    Registry(Box<RegistryError>),
    #[error("there is no repository `{0}`")]
    NoRepo(String),
    #[error("the repository `{0}` is suspended")]
    Suspended(String),
    #[error("the repository `{repo}` cannot be used: {why}")]
    BadRepo { repo: String, why: String },
    #[error("there is no package `{0}`")]
    NoPackage(String),
    #[error("some bytes of the package `{0}` are missing")]
    Incomplete(String),
    #[error("the bytes of the package `{0}` are not those that it was made of")]
    Corrupt(String),
    #[error("the package `{0}` has other bytes")]
    Taken(String),
    #[error("the archive has {size} bytes, and {limit} are the most")]
    TooLarge { size: usize, limit: usize },
    #[error(
        "the package quota of {owner} is {limit} bytes ([store] quota): {used} are used and {wanted} more are needed; \
         delete releases that use old charts, or wait until unused packages are collected"
    )]
    OverQuota { owner: String, wanted: u64, used: u64, limit: u64 },
    #[error(
        "the package store is full: all packages have {limit} bytes together ([store] capacity) and {wanted} more are needed"
    )]
    Full { wanted: u64, limit: u64 },
    #[error("cannot look for the repository `{repo}`: {}", reason(source))]
    Lookup { repo: String, source: Arc<kube::Error> },
    #[error("the package could not be stored or read: {}", reason(.0))]
    Cluster(#[source] Box<kube::Error>),
}

impl From<Rejected> for ChartError {
    fn from(rejected: Rejected) -> Self {
        Self::Work(rejected.into())
    }
}

impl From<outbound::Failure> for ChartError {
    fn from(failure: outbound::Failure) -> Self {
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
    pub fn kind(&self) -> Kind {
        match self {
            Self::Fetch(failure) => failure.kind(),
            Self::Index { source, .. } => source.kind(),
            Self::NoChart { .. } | Self::NoVersion { .. } | Self::NoRepo(_) | Self::NoPackage(_) => {
                Kind::NotFound
            }
            Self::Range { .. }
            | Self::Load(_)
            | Self::Reference(_)
            | Self::BadRepo { .. }
            | Self::NoAddress { .. }
            | Self::BadDigest { .. }
            | Self::OtherChart { .. } => Kind::Invalid,
            // The promised content is not available now; a retry may succeed.
            Self::Digest { .. } | Self::Incomplete(_) | Self::Corrupt(_) => Kind::Unavailable,
            Self::Registry(error) => error.kind(),
            Self::Suspended(_) => Kind::Precondition,
            Self::Taken(_) => Kind::Conflict,
            Self::TooLarge { .. } | Self::Unpacked { .. } => Kind::TooLarge,
            Self::OverQuota { .. } | Self::Full { .. } => Kind::Exhausted,
            Self::Work(error) => of_work(*error),
            Self::Cluster(error) => of_cluster(error),
            Self::Lookup { source, .. } => of_cluster(source),
        }
    }

    /// Converts an error of the repository index.
    pub(crate) fn of_index(error: IndexError, repo: &str, chart: &str, version: &str) -> Self {
        let (repo, chart, version) = (repo.to_owned(), chart.to_owned(), version.to_owned());
        match error {
            IndexError::NoChart => Self::NoChart { repo, chart },
            IndexError::NoVersions | IndexError::NoVersion { .. } => Self::NoVersion { repo, chart, version },
            IndexError::Constraint(why) => Self::Range { version, why: why.to_string() },
            other => Self::Index { repo, source: Box::new(IndexFailure::Text(other)) },
        }
    }
}

pub(crate) fn of_work(error: WorkError) -> Kind {
    match error {
        WorkError::Rejected(_) => Kind::Exhausted,
        WorkError::DeadlineExceeded(_) | WorkError::Interrupted(_) => Kind::Timeout,
        WorkError::Panicked => Kind::Internal,
    }
}

fn of_cluster(error: &kube::Error) -> Kind {
    match error {
        kube::Error::Api(status) => Kind::of_http_status(status.code),
        kube::Error::Service(_) | kube::Error::HyperError(_) => Kind::Unavailable,
        _ => Kind::Internal,
    }
}
