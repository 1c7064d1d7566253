//! Resolving the charts of releases, and a cache of parsed charts.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use chart_store::{ChartError, ChartReader, ChartSource, LoadedChart};
use helm_engine::CacheBudget;
use helm_release::render::PreparedChart;
use kube_types::HelmReleaseSpec;
use kube_types::package::PackageOrigin;
use kube_types::release::ResolvedChart;
use parking_lot::Mutex;

/// A resolved chart and its prepared form.
#[derive(Clone)]
pub struct ReleaseChart {
    pub resolved: ResolvedChart,
    pub prepared: Arc<PreparedChart>,
}

/// Limits of the cache of parsed charts: entries and total bytes. Each chart is parsed once for all releases that use it. Data derived
/// while rendering counts towards the bytes, however many renders run concurrently.
const MAX_CACHED_CHARTS: usize = 32;
const MAX_CACHE_BYTES: usize = 64 << 20;

/// Fetches charts. Every chart that is used is stored as a package.
pub struct ChartResolver {
    store: chart_store::ChartStore,
    cache: ChartCache,
}

/// Cache of prepared charts in LRU order (most recently used last), each with the weight of its files.
struct ChartCache {
    charts: Mutex<VecDeque<(ReleaseChart, usize)>>,
    memory: CacheBudget,
    limit: usize,
}

impl ChartCache {
    fn new(limit: usize) -> Self {
        Self { charts: Mutex::default(), memory: CacheBudget::new(limit), limit }
    }

    fn find(&self, matches: impl Fn(&ResolvedChart) -> bool) -> Option<ReleaseChart> {
        let mut charts = self.charts.lock();
        let at = charts.iter().position(|(chart, _)| matches(&chart.resolved))?;
        let (chart, weight) = charts.remove(at)?;
        charts.push_back((chart.clone(), weight));
        // The weight of a prepared chart grows after it was inserted.
        self.evict(&mut charts);
        Some(chart)
    }

    fn insert(&self, chart: ReleaseChart, weight: usize) {
        let mut charts = self.charts.lock();
        charts.push_back((chart, weight));
        self.evict(&mut charts);
    }

    fn evict(&self, charts: &mut VecDeque<(ReleaseChart, usize)>) {
        let total_weight =
            |(chart, weight): &(ReleaseChart, usize)| chart.prepared.cached_bytes().saturating_add(*weight);
        let mut held: usize = charts.iter().map(total_weight).fold(0, usize::saturating_add);
        while charts.len() > MAX_CACHED_CHARTS || held > self.limit {
            let Some(oldest) = charts.pop_front() else { break };
            held = held.saturating_sub(total_weight(&oldest));
        }
    }
}

impl ChartResolver {
    pub fn new(store: chart_store::ChartStore) -> Self {
        Self { store, cache: ChartCache::new(MAX_CACHE_BYTES) }
    }

    pub fn store(&self) -> &chart_store::ChartStore {
        &self.store
    }

    /// Fetches the chart at a source and stores it as a package that `reader` may read from then on.
    pub async fn get(&self, source: &ChartSource, reader: &ChartReader) -> Result<ReleaseChart, ChartError> {
        // Only the platform may use the cache here: it reads all packages. For a workspace the store checks access.
        if let ChartSource::Package(name) = source
            && matches!(reader, ChartReader::Platform | ChartReader::PlatformFor(_))
            && let Some(chart) = self.cache.find(|chart| chart.package == *name)
        {
            return Ok(chart);
        }
        let fetched = self.store.fetch(source, reader).await?;
        // Stored even if the chart is cached: its package may have been garbage-collected since.
        let package = match source {
            ChartSource::Package(name) => name.clone(),
            ChartSource::Archive(_) => self.store.store(&fetched, PackageOrigin::Upload, reader).await?,
            ChartSource::Repo { .. } | ChartSource::Oci { .. } => {
                self.store.store(&fetched, PackageOrigin::RepoCache, reader).await?
            }
        };
        Ok(self.cached_or_prepare(&fetched, package))
    }

    /// Stores an archive for all `readers`. Fails if it exceeds the quota of every one of them.
    pub async fn upload(&self, archive: Bytes, readers: &[ChartReader]) -> Result<ReleaseChart, ChartError> {
        let first = readers.first().unwrap_or(&ChartReader::Everyone);
        let fetched = self.store.fetch(&ChartSource::Archive(archive), first).await?;
        let (mut kept, mut refused) = (None, None);
        for reader in readers {
            match self.store.store(&fetched, PackageOrigin::Upload, reader).await {
                Ok(package) => kept = Some(package),
                Err(error @ ChartError::OverQuota { .. }) => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        match (kept, refused) {
            (Some(package), _) => Ok(self.cached_or_prepare(&fetched, package)),
            (None, Some(refused)) => Err(refused),
            (None, None) => {
                let package = self.store.store(&fetched, PackageOrigin::Upload, first).await?;
                Ok(self.cached_or_prepare(&fetched, package))
            }
        }
    }

    fn cached_or_prepare(&self, fetched: &LoadedChart, package: String) -> ReleaseChart {
        let digest = fetched.digest.to_string();
        let known = self.cache.find(|chart| chart.digest == digest);
        known.unwrap_or_else(|| self.prepare(fetched, digest, package))
    }

    fn prepare(&self, fetched: &LoadedChart, digest: String, package: String) -> ReleaseChart {
        let metadata = &fetched.chart.metadata;
        let resolved = ResolvedChart {
            name: metadata.name.to_string(),
            version: metadata.version.to_string(),
            app_version: metadata.app_version.to_string(),
            digest,
            package,
        };
        let ready =
            PreparedChart::with_memory(helm_chart::Chart::clone(&fetched.chart), self.cache.memory.clone());
        let chart = ReleaseChart { resolved, prepared: Arc::new(ready) };
        self.cache.insert(chart.clone(), fetched.weight());
        chart
    }
}

/// Returns the chart source of a release spec, or `None` if the spec names no repository, OCI reference or package.
pub(crate) fn chart_source(spec: &HelmReleaseSpec) -> Option<ChartSource> {
    let version = || spec.chart_version.clone();
    let said = spec.source.as_ref()?;
    match (&said.repo, &said.oci, &said.package) {
        (Some(repo), ..) => {
            Some(ChartSource::Repo { repo: repo.clone(), chart: spec.chart_name.clone(), version: version() })
        }
        (_, Some(oci), _) => Some(ChartSource::Oci { reference: oci.clone(), version: version() }),
        (.., Some(package)) => Some(ChartSource::Package(package.clone())),
        _ => None,
    }
}
