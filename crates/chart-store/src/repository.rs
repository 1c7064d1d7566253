//! Chart repositories: the index and the archives that it refers to.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::Kind;
use governor::bytes::Reserved;
use governor::work::{Ticket, WorkError};
use helm_chart::index::{ChartVersion, Index, IndexError, MAX_ENTRY, MAX_WHOLE};
use helm_template::profile::Profile;
use outbound::{Access, Address, Ask, Client, Failure, Validators};

use crate::digest::Digest;
use crate::failure::ChartError;
use crate::memory::Hearsay;
use crate::work::Work;

/// Maximum size of an index, compressed and uncompressed. The largest public ones have some 50 MB. Reading an endless response takes less
/// than 64 MB.
pub const LARGEST_INDEX: usize = 56 << 20;
/// Capacity of the index cache, in bytes.
const REMEMBERED: usize = 64 << 20;
/// TTL of a cached index, after which it is revalidated.
const FRESH: Duration = Duration::from_mins(1);
/// Maximum memory of a parsed entry, in bytes per byte of its text, and memory of one version's position in the index.
const PARSED_FACTOR: usize = 32;
const PLACE: usize = 192;
/// Maximum number of chart versions in an index, counting dependencies.
const MAX_VERSIONS: usize = 400_000;
/// TTL of a failure, during which the repository is not retried.
const SULK: Duration = Duration::from_secs(5);

/// A chart repository with resolved credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// Name of the repository, for messages.
    pub name: String,
    pub address: Address,
    pub access: Access,
    /// Credentials are also sent to other hosts that the index refers to.
    pub pass_credentials: bool,
}

/// Why an index cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IndexFailure {
    #[error(transparent)]
    Fetch(#[from] Failure),
    #[error(transparent)]
    Text(#[from] IndexError),
    #[error("it has more than {MAX_VERSIONS} versions of charts and dependencies")]
    TooMany,
    #[error("{0}; try again later")]
    Work(#[from] WorkError),
}

impl IndexFailure {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Fetch(failure) => failure.kind(),
            Self::Text(IndexError::TooLarge(_) | IndexError::Layout(_)) | Self::TooMany => Kind::TooLarge,
            Self::Text(_) => Kind::Invalid,
            Self::Work(error) => crate::failure::of_work(*error),
        }
    }

    /// Whether the failure would be the same for every caller.
    fn is_shared(&self) -> bool {
        self.kind() != Kind::Exhausted
    }
}

/// A chart archive listed in an index.
#[derive(Clone, Debug)]
pub struct Listed {
    pub entry: ChartVersion,
    pub address: Address,
    /// Expected digest of the archive, if the index has one.
    pub digest: Option<Digest>,
}

impl Repository {
    /// The URL of the index.
    pub fn index(&self) -> Result<Address, Failure> {
        let whole = self.address.path().ends_with("/index.yaml");
        if whole { Ok(self.address.clone()) } else { Ok(self.address.below("index.yaml")?) }
    }

    /// The credentials for a URL from the index: those of the repository if the origin is the same or they are passed on.
    pub fn access_at(&self, address: &Address) -> Access {
        if self.pass_credentials || address.origin() == self.address.origin() {
            self.access.clone()
        } else {
            self.access.elsewhere()
        }
    }

    /// The newest version of a chart that a range permits.
    pub fn find(&self, index: &Index, chart: &str, version: &str) -> Result<Listed, ChartError> {
        let entry = index
            .get(chart, version)
            .map_err(|error| ChartError::of_index(error, &self.name, chart, version))?;
        self.listed(entry)
    }

    fn listed(&self, entry: ChartVersion) -> Result<Listed, ChartError> {
        let (chart, version) = (entry.metadata.name.to_string(), entry.metadata.version.to_string());
        let first = entry.urls.as_ref().and_then(|urls| urls.first()).filter(|url| !url.is_empty());
        let first = first.ok_or_else(|| ChartError::NoAddress {
            repo: self.name.clone(),
            chart: chart.clone(),
            version: version.clone(),
        })?;
        let address = self.address.below(first).map_err(Failure::from)?;
        let digest = match &*entry.digest {
            "" => None,
            said => Some(said.parse().map_err(|_| ChartError::BadDigest {
                what: format!("`{chart}` {version} of the repository `{}`", self.name),
                said: domain::ids::shortened(said),
            })?),
        };
        Ok(Listed { entry, address, digest })
    }
}

/// Cache key. It includes the credentials, so that no caller reads an index that was fetched with those of another.
type Key = (Address, Access);

/// A cached index, with the validators for a conditional request.
#[derive(Clone)]
struct Read {
    index: Arc<Index>,
    text: Digest,
    size: usize,
    validators: Validators,
}

/// Cache of repository indexes.
pub(crate) struct Indexes {
    profile: Profile,
    heard: Hearsay<Key, Read, IndexFailure>,
}

impl Indexes {
    pub fn new(profile: Profile) -> Self {
        Self { profile, heard: Hearsay::new(REMEMBERED, FRESH, SULK, IndexFailure::is_shared) }
    }

    pub async fn get(
        &self,
        client: &Client,
        repository: &Repository,
        work: &Work,
    ) -> Result<Arc<Index>, IndexFailure> {
        let address = repository.index()?;
        let key = (address.clone(), repository.access.clone());
        let ask = async |before: Option<Read>| self.read(client, repository, &address, before, work).await;
        Ok(self.heard.get(&key, |read| read.size, ask).await?.index)
    }

    async fn read(
        &self,
        client: &Client,
        repository: &Repository,
        address: &Address,
        before: Option<Read>,
        work: &Work,
    ) -> Result<Read, IndexFailure> {
        let had = before.as_ref().map(|read| &read.validators);
        let download = work.download().await.map_err(WorkError::from)?;
        let budget = Some(&download as &dyn outbound::Budget);
        let ask = Ask { had, packed: true, budget, ..Ask::new(address, &repository.access, LARGEST_INDEX) };
        let answer = client.get(&ask).await?;
        let held = Arc::new(download.into_reserved());
        if let Some(before) = before.as_ref().filter(|_| answer.is_unchanged()) {
            return Ok(before.clone());
        }
        let answer = answer.ok()?;
        let validators = answer.validators();
        let text = Digest::of(&answer.body);
        if let Some(before) = before.filter(|before| before.text == text) {
            return Ok(Read { validators, ..before });
        }
        let index = Arc::new(parse(answer.body, self.profile, work, held).await?);
        let size = index.text_len() + index.len() * PLACE;
        Ok(Read { index, text, size, validators })
    }
}

/// Downloads and parses an index, without caching. Returns its text too.
pub async fn download(
    client: &Client,
    repository: &Repository,
    profile: Profile,
    work: &Work,
) -> Result<(Bytes, Index), IndexFailure> {
    let address = repository.index()?;
    let download = work.download().await.map_err(WorkError::from)?;
    let budget = Some(&download as &dyn outbound::Budget);
    let ask = Ask { packed: true, budget, ..Ask::new(&address, &repository.access, LARGEST_INDEX) };
    let text = client.get(&ask).await?.ok()?.body;
    let held = Arc::new(download.into_reserved());
    let index = parse(text.clone(), profile, work, held).await?;
    Ok((text, index))
}

/// Parses an index on the work pool, with its maximum memory reserved. `held` is the reservation of the text.
pub async fn parse(
    text: Bytes,
    profile: Profile,
    work: &Work,
    held: Arc<Reserved>,
) -> Result<Index, IndexFailure> {
    if !work.is_bounded() {
        return Ok(work.run(0, Some(held), move |_| Index::parse(&text, profile)).await??);
    }
    let versions = memchr::memmem::find_iter(&text, b"version").take(MAX_VERSIONS + 1).count();
    if versions > MAX_VERSIONS {
        return Err(IndexFailure::TooMany);
    }
    // A small index is parsed as a whole; a large one entry by entry, so that its data is never in memory at once.
    let whole = if text.len() > MAX_WHOLE { MAX_ENTRY } else { text.len() };
    let needed = whole * PARSED_FACTOR + versions * PLACE;
    let read = move |ticket: &Ticket| {
        let interrupt = || ticket.check().map_err(|interrupted| interrupted.to_string().into());
        let index = Index::parse_bounded(&text, profile, &interrupt);
        index.map_err(|error| match ticket.check() {
            Err(interrupted) => IndexFailure::Work(interrupted.into()),
            Ok(()) => error.into(),
        })
    };
    work.run(needed as u64, Some(held), read).await?
}
