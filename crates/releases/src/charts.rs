//! Where the charts of releases come from, and how they are kept ready.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use chart_store::{ChartError, Fetched, Reader, Source};
use helm_release::render::ReadyChart;
use kube_types::HelmReleaseSpec;
use kube_types::package::Origin;
use kube_types::release::ResolvedChart;
use parking_lot::Mutex;

/// A chart that was found, and what is to be remembered of it.
#[derive(Clone)]
pub struct Chart {
    pub resolved: ResolvedChart,
    pub ready: Arc<ReadyChart>,
}

/// How many charts are kept ready, and how many bytes together: parsed once, however many releases have them.
const READY: usize = 32;
const READY_BYTES: usize = 64 << 20;

/// The charts of the server: each that is used is kept as a package.
pub struct Charts {
    store: chart_store::Charts,
    /// The last used at the end.
    ready: Mutex<VecDeque<(Chart, usize)>>,
}

impl Charts {
    pub fn new(store: chart_store::Charts) -> Self {
        Self { store, ready: Mutex::default() }
    }

    pub fn store(&self) -> &chart_store::Charts {
        &self.store
    }

    /// The chart at a source, kept as a package that the reader may read from now on.
    pub async fn get(&self, source: &Source, reader: &Reader) -> Result<Chart, ChartError> {
        // The platform reads all packages. Whether a workspace does is for the store to say.
        if let Source::Package(name) = source
            && matches!(reader, Reader::Platform | Reader::PlatformFor(_))
            && let Some(chart) = self.known(|chart| chart.package == *name)
        {
            return Ok(chart);
        }
        let fetched = self.store.fetch(source, reader).await?;
        // Kept even where the chart is known: its package may have been collected since.
        let package = match source {
            Source::Package(name) => name.clone(),
            Source::Archive(_) => self.store.keep(&fetched, Origin::Upload, reader).await?,
            Source::Repo { .. } | Source::Oci { .. } => {
                self.store.keep(&fetched, Origin::RepoCache, reader).await?
            }
        };
        Ok(self.ready(&fetched, package))
    }

    /// Keeps an archive for all of these readers: at least one of them has room for it.
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
        let known = self.known(|chart| chart.digest == digest);
        known.unwrap_or_else(|| self.remember(fetched, digest, package))
    }

    fn known(&self, is_meant: impl Fn(&ResolvedChart) -> bool) -> Option<Chart> {
        let mut ready = self.ready.lock();
        let at = ready.iter().position(|(chart, _)| is_meant(&chart.resolved))?;
        let (chart, weight) = ready.remove(at)?;
        ready.push_back((chart.clone(), weight));
        Some(chart)
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
        let chart =
            Chart { resolved, ready: Arc::new(ReadyChart::new(helm_chart::Chart::clone(&fetched.chart))) };
        let mut ready = self.ready.lock();
        ready.push_back((chart.clone(), fetched.weight()));
        let held = |ready: &VecDeque<(Chart, usize)>| ready.iter().map(|(_, weight)| weight).sum::<usize>();
        while ready.len() > READY || held(&ready) > READY_BYTES {
            ready.pop_front();
        }
        chart
    }
}

/// Where the chart of a release is said to be; nothing if it says nothing that we can follow.
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
