//! Prepared charts: parsed once and serialized for records once, shared by all releases.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helm_chart::Chart;
use helm_chart::metadata::Metadata;
use helm_engine::{CacheBudget, CacheReservation, ParsedChart};
use helm_template::EncodeError;
use helm_template::budget::members_size;
use helm_template::data::Members;
use helm_template::profile::Profile;

use crate::record::ChartRecord;

/// Number of cached variants per chart.
const MAX_VARIANTS: usize = 4;

/// A chart with everything derived from it once.
pub struct PreparedChart {
    prepared: ParsedChart,
    memory: CacheBudget,
    /// Cached variants, newest last.
    variants: Mutex<VecDeque<ChartVariant>>,
}

/// Variant of a chart for records. User values decide which dependencies are enabled and which values they export,
/// which changes the chart's metadata and values; for most releases of a chart they are the same.
struct ChartVariant {
    profile: Profile,
    metadata: Metadata,
    values: Members,
    record: ChartRecord,
    cached: CacheReservation,
}

impl PreparedChart {
    pub fn new(chart: Chart) -> Self {
        Self::with_memory(chart, CacheBudget::new(usize::MAX))
    }

    /// Bounds the cached data of the chart by `memory`.
    pub fn with_memory(chart: Chart, memory: CacheBudget) -> Self {
        Self { prepared: ParsedChart::with_cache_budget(chart, &memory), memory, variants: Mutex::default() }
    }

    /// Bytes of cached data: parsed templates and charts for records.
    pub fn cached_bytes(&self) -> usize {
        self.prepared.cached_bytes()
            + self.variants().iter().map(|settled| settled.cached.bytes()).sum::<usize>()
    }

    pub fn chart(&self) -> &Chart {
        self.prepared.chart()
    }

    pub fn prepared(&self) -> &ParsedChart {
        &self.prepared
    }

    /// Returns the record form of `chart`, which is this chart after rendering.
    pub(super) fn record(&self, chart: &Chart, profile: Profile) -> Result<ChartRecord, EncodeError> {
        let is_it = |known: &ChartVariant| {
            known.profile == profile && known.metadata == chart.metadata && known.values == chart.values
        };
        if let Some(known) = self.variants().iter().find(|known| is_it(known)) {
            return Ok(known.record.clone());
        }
        let record = ChartRecord::new(chart, profile)?;
        let mut settled = self.variants();
        // Another thread may have added it in the meantime.
        if let Some(known) = settled.iter().find(|known| is_it(known)) {
            return Ok(known.record.clone());
        }
        if settled.len() >= MAX_VARIANTS {
            settled.pop_front();
        }
        let mut cached = self.memory.reservation();
        // Counts the text, its compressed form, and the copies of metadata and values.
        if !cached.grow(members_size(&chart.values).saturating_add(record.text_len().saturating_mul(2))) {
            return Ok(record);
        }
        settled.push_back(ChartVariant {
            profile,
            metadata: chart.metadata.clone(),
            values: chart.values.clone(),
            record: record.clone(),
            cached,
        });
        Ok(record)
    }

    fn variants(&self) -> MutexGuard<'_, VecDeque<ChartVariant>> {
        self.variants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Upper bound of the bytes needed to serialize a chart: its files in base64 and the text with them.
pub(super) fn record_bytes(chart: &Chart) -> u64 {
    let files: usize = chart.templates.iter().chain(&chart.files).map(|file| file.data.len()).sum();
    (files as u64).saturating_mul(3)
}

/// LRU cache of prepared charts by digest. Optional; it saves parsing.
pub struct PreparedChartCache {
    max_bytes: usize,
    /// Most recently used last.
    entries: Mutex<VecDeque<ChartCacheEntry>>,
}

struct ChartCacheEntry {
    digest: String,
    size: usize,
    chart: Arc<PreparedChart>,
}

impl PreparedChartCache {
    /// Holds charts up to `max_bytes` bytes of files and derived data, but at least one.
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, entries: Mutex::default() }
    }

    pub fn get(&self, digest: &str) -> Option<Arc<PreparedChart>> {
        let mut known = self.entries();
        let at = known.iter().position(|known| known.digest == digest)?;
        let found = known.remove(at)?;
        let chart = found.chart.clone();
        known.push_back(found);
        Some(chart)
    }

    /// Adds a chart. If another thread was faster, its entry is returned.
    pub fn insert(&self, digest: &str, chart: Chart) -> Arc<PreparedChart> {
        if let Some(chart) = self.get(digest) {
            return chart;
        }
        let size = file_bytes(&chart);
        let chart = Arc::new(PreparedChart::new(chart));
        let mut known = self.entries();
        known.push_back(ChartCacheEntry { digest: digest.to_owned(), size, chart: chart.clone() });
        let weight = |known: &ChartCacheEntry| known.size + known.chart.cached_bytes();
        while known.len() > 1 && known.iter().map(weight).sum::<usize>() > self.max_bytes {
            known.pop_front();
        }
        chart
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<ChartCacheEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Total size of the files of a chart and its subcharts.
fn file_bytes(chart: &Chart) -> usize {
    let own: usize = chart.raw.iter().map(|file| file.data.len()).sum();
    own + chart.dependencies.iter().map(file_bytes).sum::<usize>()
}
