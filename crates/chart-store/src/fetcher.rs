//! Fetches charts from repositories and registries; needs no cluster.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use domain::ErrorKind;
use helm_chart::index::Index;
use helm_template::profile::Profile;
use outbound::{Access, Address, FetchClient, FetchRequest};
use parking_lot::Mutex;

use crate::cache::{LruCache, RefreshingCache};
use crate::digest::Digest;
use crate::error::ChartError;
use crate::oci::{OciReference, RegistryClient, RegistryError};
use crate::repository::{self, ChartRepository, IndexCache, ListedChart};
use crate::source::LoadedChart;
use crate::work::WorkBudget;

/// Capacity of the chart cache, in bytes.
const CHART_CACHE_CAPACITY: usize = 32 << 20;
/// Capacity of the tag cache, in bytes.
const TAG_CACHE_CAPACITY: usize = 1 << 20;
/// TTL of a resolved tag, and of a failure.
const TAG_TTL: Duration = Duration::from_mins(1);
const TAG_FAILURE_TTL: Duration = Duration::from_secs(5);

/// Fetches charts for one work flow and caches indexes, tags and charts. Cheap to clone; clones share state.
///
/// In a server with several tenants, a cached chart is returned only by [`Fetcher::cached`], whose caller authorises the access.
/// All other methods fetch from the requested source, so knowledge of a digest gives no access to the bytes.
#[derive(Clone)]
pub struct Fetcher {
    shared: Arc<Shared>,
    work: WorkBudget,
}

struct Shared {
    client: FetchClient,
    /// Whether there is a single user, which may read everything in the cache.
    single_user: bool,
    profile: Profile,
    /// Maximum size of a chart archive.
    max_archive_len: usize,
    indexes: IndexCache,
    charts: Mutex<LruCache<Digest, LoadedChart>>,
    layers: RefreshingCache<(OciReference, String, Access, bool), ResolvedLayer, RegistryError>,
}

/// The resolved reference and layer of a version in a registry.
#[derive(Clone)]
struct ResolvedLayer {
    reference: OciReference,
    layer: crate::oci::ChartLayer,
}

impl Fetcher {
    /// A fetcher for one user, without work limits.
    pub fn new(client: FetchClient, profile: Profile, largest: usize) -> Self {
        Self::build(client, profile, largest, WorkBudget::unbounded(), true)
    }

    /// A fetcher for several tenants, with work limits.
    pub fn multi_tenant(client: FetchClient, profile: Profile, largest: usize, work: WorkBudget) -> Self {
        Self::build(client, profile, largest, work, false)
    }

    fn build(
        client: FetchClient,
        profile: Profile,
        largest: usize,
        work: WorkBudget,
        single_user: bool,
    ) -> Self {
        let shared = Shared {
            client,
            single_user,
            profile,
            max_archive_len: largest,
            indexes: IndexCache::new(profile),
            charts: Mutex::new(LruCache::new(CHART_CACHE_CAPACITY)),
            layers: RefreshingCache::new(TAG_CACHE_CAPACITY, TAG_TTL, TAG_FAILURE_TTL, |error| {
                error.kind() != ErrorKind::Exhausted
            }),
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

    pub fn work(&self) -> &WorkBudget {
        &self.work
    }

    /// The index of a repository, cached.
    pub async fn index(&self, repository: &ChartRepository) -> Result<Arc<Index>, ChartError> {
        let repo = || repository.name.clone();
        let index = self.shared.indexes.get(&self.shared.client, repository, &self.work).await;
        index.map_err(|source| ChartError::Index { repo: repo(), source: Box::new(source) })
    }

    /// Checks that a repository has a valid index, bypassing the cache.
    pub async fn check(&self, repository: &ChartRepository) -> Result<(), ChartError> {
        let read =
            repository::download_index(&self.shared.client, repository, self.shared.profile, &self.work)
                .await;
        let repo = || repository.name.clone();
        read.map(drop).map_err(|source| ChartError::Index { repo: repo(), source: Box::new(source) })
    }

    /// Fetches a chart from a repository.
    pub async fn from_repository(
        &self,
        repository: &ChartRepository,
        chart: &str,
        version: &str,
    ) -> Result<LoadedChart, ChartError> {
        let index = self.index(repository).await?;
        self.fetch_listed(repository, &repository.find(&index, chart, version)?).await
    }

    /// Fetches a chart by its entry in an index, and verifies digest and name.
    pub async fn fetch_listed(
        &self,
        repository: &ChartRepository,
        listed: &ListedChart,
    ) -> Result<LoadedChart, ChartError> {
        let fetched = match listed.digest.and_then(|digest| self.cached_if_single_user(&digest)) {
            Some(known) => known,
            None => self.from_address(&listed.address, &repository.access_for(&listed.address)).await?,
        };
        let what = || format!("what {} gives", listed.address);
        if let Some(expected) = listed.digest.filter(|digest| *digest != fetched.digest) {
            return Err(ChartError::DigestMismatch { what: what(), expected, found: fetched.digest });
        }
        let expected = &listed.entry.metadata.name;
        if fetched.name() != &**expected {
            let (expected, found) = (expected.to_string(), fetched.name().to_owned());
            return Err(ChartError::ChartNameMismatch { what: what(), expected, found });
        }
        self.insert_cached(&fetched);
        Ok(fetched)
    }

    /// Fetches a chart by the URL of its archive.
    pub async fn from_address(&self, address: &Address, access: &Access) -> Result<LoadedChart, ChartError> {
        let download = self.work.download().await?;
        let budget = Some(&download as &dyn outbound::MemoryBudget);
        let ask = FetchRequest { budget, ..FetchRequest::new(address, access, self.shared.max_archive_len) };
        let answer = self.shared.client.get(&ask).await?.ok()?;
        LoadedChart::load_with_budget(answer.body, self.shared.profile, &self.work, download.into_reserved())
            .await
    }

    /// Fetches a chart from a registry. `plain`: without TLS.
    pub async fn from_registry(
        &self,
        reference: &OciReference,
        version: &str,
        access: &Access,
        plain: bool,
    ) -> Result<LoadedChart, ChartError> {
        self.from_registry_or_stored(reference, version, access, plain, async |digest| {
            Ok(self.cached_if_single_user(digest))
        })
        .await
    }

    /// Fetches a chart from a registry, unless `known` returns the chart with the digest that the registry names.
    pub async fn from_registry_or_stored(
        &self,
        reference: &OciReference,
        version: &str,
        access: &Access,
        plain: bool,
        known: impl AsyncFnOnce(&Digest) -> Result<Option<LoadedChart>, ChartError>,
    ) -> Result<LoadedChart, ChartError> {
        let download = self.work.download().await?;
        let shared = &self.shared;
        let mut registry = RegistryClient::new(&shared.client, reference, access, plain, &download)?;
        let key = (reference.clone(), version.to_owned(), access.clone(), plain);
        let asking = &mut registry;
        let ask = async move |_: Option<ResolvedLayer>| {
            let reference = asking.resolve(version, shared.profile).await?;
            let layer = asking.layer(&reference).await?;
            Ok(ResolvedLayer { reference, layer })
        };
        let ResolvedLayer { reference, layer } = shared.layers.get(&key, |_| 256, ask).await?;
        if let Some(known) = known(&layer.digest).await? {
            return Ok(known);
        }
        let bytes = registry.archive(&reference, &layer, shared.max_archive_len).await?;
        let held = download.into_reserved();
        let fetched = LoadedChart::load_with_budget(bytes, shared.profile, &self.work, held).await?;
        self.insert_cached(&fetched);
        Ok(fetched)
    }

    /// A cached chart, for fetchers with one user.
    fn cached_if_single_user(&self, digest: &Digest) -> Option<LoadedChart> {
        self.cached(digest).filter(|_| self.shared.single_user)
    }

    pub(crate) fn cached(&self, digest: &Digest) -> Option<LoadedChart> {
        self.shared.charts.lock().get(digest)
    }

    pub(crate) fn insert_cached(&self, fetched: &LoadedChart) {
        self.shared.charts.lock().put(fetched.digest, fetched.clone(), fetched.weight());
    }
}
