//! Resolving the charts of releases, and a cache of parsed charts.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use chart_store::{ChartError, Fetched, Reader, Source};
use helm_engine::CacheMemory;
use helm_release::render::ReadyChart;
use kube_types::HelmReleaseSpec;
use kube_types::package::Origin;
use kube_types::release::ResolvedChart;
use parking_lot::Mutex;

/// A resolved chart and its prepared form.
#[derive(Clone)]
pub struct Chart {
    pub resolved: ResolvedChart,
    pub ready: Arc<ReadyChart>,
}

/// Limits of the cache of parsed charts: entries and total bytes. Each chart is parsed once for all releases that use it. Data derived
/// while rendering counts towards the bytes, however many renders run concurrently.
const READY: usize = 32;
const READY_BYTES: usize = 64 << 20;

/// Fetches charts. Every chart that is used is stored as a package.
pub struct Charts {
    store: chart_store::Charts,
    ready: Ready,
}

/// Cache of prepared charts in LRU order (most recently used last), each with the weight of its files.
struct Ready {
    charts: Mutex<VecDeque<(Chart, usize)>>,
    memory: CacheMemory,
    limit: usize,
}

impl Ready {
    fn new(limit: usize) -> Self {
        Self { charts: Mutex::default(), memory: CacheMemory::new(limit), limit }
    }

    fn get(&self, is_meant: impl Fn(&ResolvedChart) -> bool) -> Option<Chart> {
        let mut charts = self.charts.lock();
        let at = charts.iter().position(|(chart, _)| is_meant(&chart.resolved))?;
        let (chart, weight) = charts.remove(at)?;
        charts.push_back((chart.clone(), weight));
        // The weight of a prepared chart grows after it was inserted.
        self.shrink(&mut charts);
        Some(chart)
    }

    fn put(&self, chart: Chart, weight: usize) {
        let mut charts = self.charts.lock();
        charts.push_back((chart, weight));
        self.shrink(&mut charts);
    }

    fn shrink(&self, charts: &mut VecDeque<(Chart, usize)>) {
        let of = |(chart, weight): &(Chart, usize)| chart.ready.weight().saturating_add(*weight);
        let mut held: usize = charts.iter().map(of).fold(0, usize::saturating_add);
        while charts.len() > READY || held > self.limit {
            let Some(oldest) = charts.pop_front() else { break };
            held = held.saturating_sub(of(&oldest));
        }
    }
}

impl Charts {
    pub fn new(store: chart_store::Charts) -> Self {
        Self { store, ready: Ready::new(READY_BYTES) }
    }

    pub fn store(&self) -> &chart_store::Charts {
        &self.store
    }

    /// Fetches the chart at a source and stores it as a package that `reader` may read from then on.
    pub async fn get(&self, source: &Source, reader: &Reader) -> Result<Chart, ChartError> {
        // Only the platform may use the cache here: it reads all packages. For a workspace the store checks access.
        if let Source::Package(name) = source
            && matches!(reader, Reader::Platform | Reader::PlatformFor(_))
            && let Some(chart) = self.ready.get(|chart| chart.package == *name)
        {
            return Ok(chart);
        }
        let fetched = self.store.fetch(source, reader).await?;
        // Stored even if the chart is cached: its package may have been garbage-collected since.
        let package = match source {
            Source::Package(name) => name.clone(),
            Source::Archive(_) => self.store.keep(&fetched, Origin::Upload, reader).await?,
            Source::Repo { .. } | Source::Oci { .. } => {
                self.store.keep(&fetched, Origin::RepoCache, reader).await?
            }
        };
        Ok(self.ready(&fetched, package))
    }

    /// Stores an archive for all `readers`. Fails if it exceeds the quota of every one of them.
    pub async fn upload(&self, archive: Bytes, readers: &[Reader]) -> Result<Chart, ChartError> {
        let first = readers.first().unwrap_or(&Reader::Everyone);
        let fetched = self.store.fetch(&Source::Archive(archive), first).await?;
        let (mut kept, mut refused) = (None, None);
        for reader in readers {
            match self.store.keep(&fetched, Origin::Upload, reader).await {
                Ok(package) => kept = Some(package),
                Err(error @ ChartError::OverQuota { .. }) => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        match (kept, refused) {
            (Some(package), _) => Ok(self.ready(&fetched, package)),
            (None, Some(refused)) => Err(refused),
            (None, None) => {
                let package = self.store.keep(&fetched, Origin::Upload, first).await?;
                Ok(self.ready(&fetched, package))
            }
        }
    }

    fn ready(&self, fetched: &Fetched, package: String) -> Chart {
        let digest = fetched.digest.to_string();
        let known = self.ready.get(|chart| chart.digest == digest);
        known.unwrap_or_else(|| self.remember(fetched, digest, package))
    }

    fn remember(&self, fetched: &Fetched, digest: String, package: String) -> Chart {
        let metadata = &fetched.chart.metadata;
        let resolved = ResolvedChart {
            name: metadata.name.to_string(),
            version: metadata.version.to_string(),
            app_version: metadata.app_version.to_string(),
            digest,
            package,
        };
        let ready = ReadyChart::within(helm_chart::Chart::clone(&fetched.chart), self.ready.memory.clone());
        let chart = Chart { resolved, ready: Arc::new(ready) };
        self.ready.put(chart.clone(), fetched.weight());
        chart
    }
}

/// Returns the chart source of a release spec, or `None` if the spec names no repository, OCI reference or package.
pub(crate) fn source(spec: &HelmReleaseSpec) -> Option<Source> {
    let version = || spec.chart_version.clone();
    let said = spec.source.as_ref()?;
    match (&said.repo, &said.oci, &said.package) {
        (Some(repo), ..) => {
            Some(Source::Repo { repo: repo.clone(), chart: spec.chart_name.clone(), version: version() })
        }
        (_, Some(oci), _) => Some(Source::Oci { reference: oci.clone(), version: version() }),
        (.., Some(package)) => Some(Source::Package(package.clone())),
        _ => None,
    }
}
