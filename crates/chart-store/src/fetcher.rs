//! Fetching charts from repositories and registries, without a cluster.

use std::sync::Arc;
use std::time::Duration;

use helm_chart::index::Index;
use helm_template::profile::Profile;
use outbound::{Access, Address, Ask, Client};
use parking_lot::Mutex;

use crate::digest::Digest;
use crate::failure::ChartError;
use crate::memory::{Bounded, Hearsay};
use crate::oci::{Reference, Registry, RegistryError};
use crate::repository::{self, Indexes, Listed, Repository};
use crate::source::Fetched;

/// What charts may take together while they are remembered.
const REMEMBERED: usize = 32 << 20;
/// What tags may take together.
const TAGS: usize = 1 << 20;
/// How long a tag is believed to be what it was.
const FRESH: Duration = Duration::from_mins(1);
const SULK: Duration = Duration::from_secs(5);

/// Fetches charts, and remembers what it can.
pub struct Fetcher {
    client: Client,
    profile: Profile,
    /// The largest archive that is fetched.
    largest: usize,
    indexes: Indexes,
    charts: Mutex<Bounded<Digest, Fetched>>,
    layers: Hearsay<(Reference, String, Access, bool), Tagged, RegistryError>,
}

/// What a version in a registry came to.
#[derive(Clone)]
struct Tagged {
    reference: Reference,
    layer: crate::oci::Layer,
}

impl Fetcher {
    pub fn new(client: Client, profile: Profile, largest: usize) -> Self {
        Self {
            client,
            profile,
            largest,
            indexes: Indexes::new(profile),
            charts: Mutex::new(Bounded::new(REMEMBERED)),
            layers: Hearsay::new(TAGS, FRESH, SULK),
        }
    }

    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// What a repository has.
    pub async fn index(&self, repository: &Repository) -> Result<Arc<Index>, ChartError> {
        let repo = || repository.name.clone();
        let index = self.indexes.get(&self.client, repository).await;
        index.map_err(|source| ChartError::Index { repo: repo(), source: Box::new(source) })
    }

    /// Whether a repository has an index that can be read. Asked now, whatever is remembered.
    pub async fn check(&self, repository: &Repository) -> Result<(), ChartError> {
        let read = repository::download(&self.client, repository, self.profile).await;
        let repo = || repository.name.clone();
        read.map(drop).map_err(|source| ChartError::Index { repo: repo(), source: Box::new(source) })
    }

    /// A chart of a repository.
    pub async fn from_repository(
        &self,
        repository: &Repository,
        chart: &str,
        version: &str,
    ) -> Result<Fetched, ChartError> {
        let index = self.index(repository).await?;
        self.listed(repository, &repository.find(&index, chart, version)?).await
    }

    /// A chart that an index leads to.
    pub async fn listed(&self, repository: &Repository, listed: &Listed) -> Result<Fetched, ChartError> {
        let fetched = match listed.digest.and_then(|digest| self.remembered(&digest)) {
            Some(known) => known,
            None => self.from_address(&listed.address, &repository.access_at(&listed.address)).await?,
        };
        let what = || format!("what {} gives", listed.address);
        if let Some(expected) = listed.digest.filter(|digest| *digest != fetched.digest) {
            return Err(ChartError::Digest { what: what(), expected, found: fetched.digest });
        }
        let expected = &listed.entry.metadata.name;
        if fetched.name() != &**expected {
            let (expected, found) = (expected.to_string(), fetched.name().to_owned());
            return Err(ChartError::OtherChart { what: what(), expected, found });
        }
        self.remember(&fetched);
        Ok(fetched)
    }

    /// A chart by the address of its archive.
    pub async fn from_address(&self, address: &Address, access: &Access) -> Result<Fetched, ChartError> {
        let answer = self.client.get(&Ask::new(address, access, self.largest)).await?.ok()?;
        Fetched::load(answer.body, self.profile).await
    }

    /// A chart of a registry. `plain`: without TLS.
    pub async fn from_registry(
        &self,
        reference: &Reference,
        version: &str,
        access: &Access,
        plain: bool,
    ) -> Result<Fetched, ChartError> {
        let mut registry = Registry::new(&self.client, reference, access, plain)?;
        let key = (reference.clone(), version.to_owned(), access.clone(), plain);
        let asking = &mut registry;
        let ask = async move |_: Option<Tagged>| {
            let reference = asking.resolve(version, self.profile).await?;
            let layer = asking.layer(&reference).await?;
            Ok(Tagged { reference, layer })
        };
        let Tagged { reference, layer } = self.layers.get(&key, |_| 256, ask).await?;
        if let Some(known) = self.remembered(&layer.digest) {
            return Ok(known);
        }
        let bytes = registry.archive(&reference, &layer, self.largest).await?;
        let fetched = Fetched::load(bytes, self.profile).await?;
        self.remember(&fetched);
        Ok(fetched)
    }

    pub(crate) fn remembered(&self, digest: &Digest) -> Option<Fetched> {
        self.charts.lock().get(digest)
    }

    pub(crate) fn remember(&self, fetched: &Fetched) {
        self.charts.lock().put(fetched.digest, fetched.clone(), fetched.weight());
    }
}
