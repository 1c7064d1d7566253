//! Chart repositories: the index and the archives that it refers to.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::ErrorKind;
use governor::bytes::ByteReservation;
use governor::work::{WorkContext, WorkError};
use helm_chart::index::{ChartVersion, Index, IndexError, MAX_ENTRY_LEN, MAX_FULL_PARSE_LEN};
use helm_template::profile::Profile;
use outbound::{Access, Address, FetchClient, FetchError, FetchRequest, Validators};

use crate::cache::RefreshingCache;
use crate::digest::Digest;
use crate::error::ChartError;
use crate::work::WorkBudget;

/// Maximum size of an index, compressed and uncompressed. The largest public ones have some 50 MB. Reading an endless response takes less
/// than 64 MB.
pub const MAX_INDEX_LEN: usize = 56 << 20;
/// Capacity of the index cache, in bytes.
const INDEX_CACHE_CAPACITY: usize = 64 << 20;
/// TTL of a cached index, after which it is revalidated.
const INDEX_TTL: Duration = Duration::from_mins(1);
/// Maximum memory of a parsed entry, in bytes per byte of its text, and memory of one version's position in the index.
const PARSED_MEMORY_FACTOR: usize = 32;
const VERSION_MEMORY: usize = 192;
/// Maximum number of chart versions in an index, counting dependencies.
const MAX_VERSIONS: usize = 400_000;
/// TTL of a failure, during which the repository is not retried.
const INDEX_FAILURE_TTL: Duration = Duration::from_secs(5);

/// A chart repository with resolved credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartRepository {
    /// Name of the repository, for messages.
    pub name: String,
    pub address: Address,
    pub access: Access,
    /// Credentials are also sent to other hosts that the index refers to.
    pub pass_credentials: bool,
}

/// Why an index cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IndexFetchError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Parse(#[from] IndexError),
    #[error("it has more than {MAX_VERSIONS} chart versions and dependencies")]
    TooManyVersions,
    #[error("{0}; try again later")]
    Work(#[from] WorkError),
}

impl IndexFetchError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Fetch(failure) => failure.kind(),
            Self::Parse(IndexError::TooLarge(_) | IndexError::Layout(_)) | Self::TooManyVersions => {
                ErrorKind::TooLarge
            }
            Self::Parse(_) => ErrorKind::Invalid,
            Self::Work(error) => crate::error::work_error_kind(*error),
        }
    }

    /// Whether the failure would be the same for every caller.
    fn is_shared(&self) -> bool {
        self.kind() != ErrorKind::Exhausted
    }
}

/// A chart archive listed in an index.
#[derive(Clone, Debug)]
pub struct ListedChart {
    pub entry: ChartVersion,
    pub address: Address,
    /// Expected digest of the archive, if the index has one.
    pub digest: Option<Digest>,
}

impl ChartRepository {
    /// The URL of the index.
    pub fn index_address(&self) -> Result<Address, FetchError> {
        let whole = self.address.path().ends_with("/index.yaml");
        if whole { Ok(self.address.clone()) } else { Ok(self.address.join_below("index.yaml")?) }
    }

    /// The credentials for a URL from the index: the repository's credentials if the origin is the same or they are passed on.
    pub fn access_for(&self, address: &Address) -> Access {
        if self.pass_credentials || address.origin() == self.address.origin() {
            self.access.clone()
        } else {
            self.access.for_other_origin()
        }
    }

    /// The newest version of a chart that a range permits.
    pub fn find(&self, index: &Index, chart: &str, version: &str) -> Result<ListedChart, ChartError> {
        let entry = index
            .get(chart, version)
            .map_err(|error| ChartError::from_index_error(error, &self.name, chart, version))?;
        self.to_listed_chart(entry)
    }

    fn to_listed_chart(&self, entry: ChartVersion) -> Result<ListedChart, ChartError> {
        let (chart, version) = (entry.metadata.name.to_string(), entry.metadata.version.to_string());
        let first = entry.urls.as_ref().and_then(|urls| urls.first()).filter(|url| !url.is_empty());
        let first = first.ok_or_else(|| ChartError::NoUrl {
            repo: self.name.clone(),
            chart: chart.clone(),
            version: version.clone(),
        })?;
        let address = self.address.join_below(first).map_err(FetchError::from)?;
        let digest = match &*entry.digest {
            "" => None,
            said => Some(said.parse().map_err(|_| ChartError::BadDigest {
                what: format!("`{chart}` {version} of repository `{}`", self.name),
                said: domain::ids::truncate_for_error(said),
            })?),
        };
        Ok(ListedChart { entry, address, digest })
    }
}

/// Cache key. It includes the credentials, so that no caller reads an index that was fetched with another caller's credentials.
type IndexKey = (Address, Access);

/// A cached index, with the validators for a conditional request.
#[derive(Clone)]
struct CachedIndex {
    index: Arc<Index>,
    text_digest: Digest,
    size: usize,
    validators: Validators,
}

/// Cache of repository indexes.
pub(crate) struct IndexCache {
    profile: Profile,
    cache: RefreshingCache<IndexKey, CachedIndex, IndexFetchError>,
}

impl IndexCache {
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            cache: RefreshingCache::new(
                INDEX_CACHE_CAPACITY,
                INDEX_TTL,
                INDEX_FAILURE_TTL,
                IndexFetchError::is_shared,
            ),
        }
    }

    pub async fn get(
        &self,
        client: &FetchClient,
        repository: &ChartRepository,
        work: &WorkBudget,
    ) -> Result<Arc<Index>, IndexFetchError> {
        let address = repository.index_address()?;
        let key = (address.clone(), repository.access.clone());
        let ask =
            async |before: Option<CachedIndex>| self.fetch(client, repository, &address, before, work).await;
        Ok(self.cache.get(&key, |read| read.size, ask).await?.index)
    }

    async fn fetch(
        &self,
        client: &FetchClient,
        repository: &ChartRepository,
        address: &Address,
        before: Option<CachedIndex>,
        work: &WorkBudget,
    ) -> Result<CachedIndex, IndexFetchError> {
        let had = before.as_ref().map(|read| &read.validators);
        let download = work.download().await.map_err(WorkError::from)?;
        let budget = Some(&download as &dyn outbound::MemoryBudget);
        let ask = FetchRequest {
            validators: had,
            accept_gzip: true,
            budget,
            ..FetchRequest::new(address, &repository.access, MAX_INDEX_LEN)
        };
        let answer = client.get(&ask).await?;
        let held = Arc::new(download.into_reserved());
        if let Some(before) = before.as_ref().filter(|_| answer.is_not_modified()) {
            return Ok(before.clone());
        }
        let answer = answer.ok()?;
        let validators = answer.validators();
        let text = Digest::sha256(&answer.body);
        if let Some(before) = before.filter(|before| before.text_digest == text) {
            return Ok(CachedIndex { validators, ..before });
        }
        let index = Arc::new(parse_index(answer.body, self.profile, work, held).await?);
        let size = index.text_len() + index.len() * VERSION_MEMORY;
        Ok(CachedIndex { index, text_digest: text, size, validators })
    }
}

/// Downloads and parses an index, without caching. Returns its text too.
pub async fn download_index(
    client: &FetchClient,
    repository: &ChartRepository,
    profile: Profile,
    work: &WorkBudget,
) -> Result<(Bytes, Index), IndexFetchError> {
    let address = repository.index_address()?;
    let download = work.download().await.map_err(WorkError::from)?;
    let budget = Some(&download as &dyn outbound::MemoryBudget);
    let ask = FetchRequest {
        accept_gzip: true,
        budget,
        ..FetchRequest::new(&address, &repository.access, MAX_INDEX_LEN)
    };
    let text = client.get(&ask).await?.ok()?.body;
    let held = Arc::new(download.into_reserved());
    let index = parse_index(text.clone(), profile, work, held).await?;
    Ok((text, index))
}

/// Parses an index on the work pool, with its maximum memory reserved. `held` is the reservation of the text.
pub async fn parse_index(
    text: Bytes,
    profile: Profile,
    work: &WorkBudget,
    held: Arc<ByteReservation>,
) -> Result<Index, IndexFetchError> {
    if !work.is_bounded() {
        return Ok(work.run(0, Some(held), move |_| Index::parse(&text, profile)).await??);
    }
    let versions = memchr::memmem::find_iter(&text, b"version").take(MAX_VERSIONS + 1).count();
    if versions > MAX_VERSIONS {
        return Err(IndexFetchError::TooManyVersions);
    }
    // A small index is parsed as a whole; a large one entry by entry, so that its data is never in memory at once.
    let whole = if text.len() > MAX_FULL_PARSE_LEN { MAX_ENTRY_LEN } else { text.len() };
    let needed = whole * PARSED_MEMORY_FACTOR + versions * VERSION_MEMORY;
    let read = move |ticket: &WorkContext| {
        let interrupt = || ticket.check().map_err(|interrupted| interrupted.to_string().into());
        let index = Index::parse_bounded(&text, profile, &interrupt);
        index.map_err(|error| match ticket.check() {
            Err(interrupted) => IndexFetchError::Work(interrupted.into()),
            Ok(()) => error.into(),
        })
    };
    work.run(needed as u64, Some(held), read).await?
}
