//! Fetches charts from repositories and registries; needs no cluster.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use domain::Kind;
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
use crate::work::Work;

/// Capacity of the chart cache, in bytes.
const REMEMBERED: usize = 32 << 20;
/// Capacity of the tag cache, in bytes.
const TAGS: usize = 1 << 20;
/// TTL of a resolved tag, and of a failure.
const FRESH: Duration = Duration::from_mins(1);
const SULK: Duration = Duration::from_secs(5);

/// Fetches charts for one work flow and caches indexes, tags and charts. Cheap to clone; clones share state.
///
/// In a server with several tenants, a cached chart is returned only by [`Fetcher::remembered`], whose caller authorises the access.
/// All other methods fetch from the requested source, so knowledge of a digest gives no access to the bytes.
#[derive(Clone)]
pub struct Fetcher {
    shared: Arc<Shared>,
    work: Work,
}

struct Shared {
    client: Client,
    /// Whether there is only one user, who may read everything in the cache.
    single_user: bool,
    profile: Profile,
    /// Maximum size of a chart archive.
    largest: usize,
    indexes: Indexes,
    charts: Mutex<Bounded<Digest, Fetched>>,
    layers: Hearsay<(Reference, String, Access, bool), Tagged, RegistryError>,
}

/// The resolved reference and layer of a version in a registry.
#[derive(Clone)]
struct Tagged {
    reference: Reference,
    layer: crate::oci::Layer,
}

impl Fetcher {
    /// A fetcher for one user, without work limits.
    pub fn new(client: Client, profile: Profile, largest: usize) -> Self {
        Self::with(client, profile, largest, Work::unbounded(), true)
    }

    /// A fetcher for several tenants, with work limits.
    pub fn within(client: Client, profile: Profile, largest: usize, work: Work) -> Self {
        Self::with(client, profile, largest, work, false)
    }

    fn with(client: Client, profile: Profile, largest: usize, work: Work, single_user: bool) -> Self {
        let shared = Shared {
            client,
            single_user,
            profile,
            largest,
            indexes: Indexes::new(profile),
            charts: Mutex::new(Bounded::new(REMEMBERED)),
            layers: Hearsay::new(TAGS, FRESH, SULK, |error| error.kind() != Kind::Exhausted),
        };
        Self { shared: Arc::new(shared), work }
    }

    /// This fetcher, charged to another flow.
    #[must_use]
    pub fn for_flow(&self, key: impl Hash) -> Self {
        Self { shared: self.shared.clone(), work: self.work.for_flow(key) }
    }

    pub fn profile(&self) -> Profile {
        self.shared.profile
    }

    pub fn work(&self) -> &Work {
        &self.work
    }

    /// The index of a repository, cached.
    pub async fn index(&self, repository: &Repository) -> Result<Arc<Index>, ChartError> {
        let repo = || repository.name.clone();
        let index = self.shared.indexes.get(&self.shared.client, repository, &self.work).await;
        index.map_err(|source| ChartError::Index { repo: repo(), source: Box::new(source) })
    }

    /// Checks that a repository has a valid index, bypassing the cache.
    pub async fn check(&self, repository: &Repository) -> Result<(), ChartError> {
        let read =
            repository::download(&self.shared.client, repository, self.shared.profile, &self.work).await;
        let repo = || repository.name.clone();
        read.map(drop).map_err(|source| ChartError::Index { repo: repo(), source: Box::new(source) })
    }

    /// Fetches a chart from a repository.
    pub async fn from_repository(
        &self,
        repository: &Repository,
        chart: &str,
        version: &str,
    ) -> Result<Fetched, ChartError> {
        let index = self.index(repository).await?;
        self.listed(repository, &repository.find(&index, chart, version)?).await
    }

    /// Fetches a chart by its entry in an index, and verifies digest and name.
    pub async fn listed(&self, repository: &Repository, listed: &Listed) -> Result<Fetched, ChartError> {
        let fetched = match listed.digest.and_then(|digest| self.own(&digest)) {
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

    /// Fetches a chart by the URL of its archive.
    pub async fn from_address(&self, address: &Address, access: &Access) -> Result<Fetched, ChartError> {
        let download = self.work.download().await?;
        let budget = Some(&download as &dyn outbound::Budget);
        let ask = Ask { budget, ..Ask::new(address, access, self.shared.largest) };
        let answer = self.shared.client.get(&ask).await?.ok()?;
        Fetched::load_within(answer.body, self.shared.profile, &self.work, download.into_reserved()).await
    }

    /// Fetches a chart from a registry. `plain`: without TLS.
    pub async fn from_registry(
        &self,
        reference: &Reference,
        version: &str,
        access: &Access,
        plain: bool,
    ) -> Result<Fetched, ChartError> {
        self.from_registry_unless(reference, version, access, plain, async |digest| Ok(self.own(digest)))
            .await
    }

    /// Fetches a chart from a registry, unless `known` returns the chart with the digest that the registry names.
    pub async fn from_registry_unless(
        &self,
        reference: &Reference,
        version: &str,
        access: &Access,
        plain: bool,
        known: impl AsyncFnOnce(&Digest) -> Result<Option<Fetched>, ChartError>,
    ) -> Result<Fetched, ChartError> {
        let download = self.work.download().await?;
        let shared = &self.shared;
        let mut registry = Registry::new(&shared.client, reference, access, plain, &download)?;
        let key = (reference.clone(), version.to_owned(), access.clone(), plain);
        let asking = &mut registry;
        let ask = async move |_: Option<Tagged>| {
            let reference = asking.resolve(version, shared.profile).await?;
            let layer = asking.layer(&reference).await?;
            Ok(Tagged { reference, layer })
        };
        let Tagged { reference, layer } = shared.layers.get(&key, |_| 256, ask).await?;
        if let Some(known) = known(&layer.digest).await? {
            return Ok(known);
        }
        let bytes = registry.archive(&reference, &layer, shared.largest).await?;
        let held = download.into_reserved();
        let fetched = Fetched::load_within(bytes, shared.profile, &self.work, held).await?;
        self.remember(&fetched);
        Ok(fetched)
    }

    /// A cached chart, for fetchers with one user.
    fn own(&self, digest: &Digest) -> Option<Fetched> {
        self.remembered(digest).filter(|_| self.shared.single_user)
    }

    pub(crate) fn remembered(&self, digest: &Digest) -> Option<Fetched> {
        self.shared.charts.lock().get(digest)
    }

    pub(crate) fn remember(&self, fetched: &Fetched) {
        self.shared.charts.lock().put(fetched.digest, fetched.clone(), fetched.weight());
    }
}
