//! Repositories of charts: an index, and archives wherever it says.

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

/// The largest index that is read, as it is sent and unpacked. The largest public ones have some 50 MB, and less than 64 MB
/// are held of one that has no end.
pub const LARGEST_INDEX: usize = 56 << 20;
/// What indexes may take together while they are remembered.
const REMEMBERED: usize = 64 << 20;
/// How long an index is believed before the repository is asked whether it is still the same.
const FRESH: Duration = Duration::from_mins(1);
/// Bytes of memory that a byte of a parsed entry takes at most, and those that the place of a version takes in the index.
const PARSED_FACTOR: usize = 32;
const PLACE: usize = 192;
/// The most versions of charts that an index may have, dependencies counted.
const MAX_VERSIONS: usize = 400_000;
/// How long a repository that failed is not asked again.
const SULK: Duration = Duration::from_secs(5);

/// A repository that can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// What people call it.
    pub name: String,
    pub address: Address,
    pub access: Access,
    /// The credentials go wherever the index leads.
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

    /// Whether it would be the same for any caller.
    fn is_shared(&self) -> bool {
        self.kind() != Kind::Exhausted
    }
}

/// An archive that an index leads to.
#[derive(Clone, Debug)]
pub struct Listed {
    pub entry: ChartVersion,
    pub address: Address,
    /// What its bytes must have, where the index says it.
    pub digest: Option<Digest>,
}

impl Repository {
    /// Where the index is.
    pub fn index(&self) -> Result<Address, Failure> {
        let whole = self.address.path().ends_with("/index.yaml");
        if whole { Ok(self.address.clone()) } else { Ok(self.address.below("index.yaml")?) }
    }

    /// What lets one in at an address that the index leads to.
    pub fn access_at(&self, address: &Address) -> Access {
        if self.pass_credentials || address.origin() == self.address.origin() {
            self.access.clone()
        } else {
            self.access.elsewhere()
        }
    }

    /// The newest version of a chart that a range allows.
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

/// Whose index: what lets one in counts, too, so that nobody reads what was fetched for others.
type Key = (Address, Access);

/// An index, and by what the repository recognises it.
#[derive(Clone)]
struct Read {
    index: Arc<Index>,
    text: Digest,
    size: usize,
    validators: Validators,
}

/// Reads indexes, and remembers them.
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

/// Fetches an index as it is written, without remembering it. It can be read.
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

/// Reads an index on the pool, with the memory reserved that it takes at most. `held` is the reservation of its text.
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
    // Parsed as a whole if it is small, entry by entry if not: a text of the latter kind is never held as data.
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
