//! Prepared charts: parsed once and serialized for records once, shared by all releases.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helm_chart::Chart;
use helm_chart::metadata::Metadata;
use helm_engine::{CacheMemory, CachedBytes, Prepared};
use helm_template::Unwritable;
use helm_template::budget::weigh_members;
use helm_template::data::Members;
use helm_template::profile::Profile;

use crate::record::ChartRecord;

/// Number of cached variants per chart.
const WAYS: usize = 4;

/// A chart with everything derived from it once.
pub struct ReadyChart {
    prepared: Prepared,
    memory: CacheMemory,
    /// Cached variants, newest last.
    settled: Mutex<VecDeque<Settled>>,
}

/// Variant of a chart for records. User values decide which dependencies are enabled and what they export, which
/// changes the chart's metadata and values; for most releases of a chart they are the same.
struct Settled {
    profile: Profile,
    metadata: Metadata,
    values: Members,
    record: ChartRecord,
    cached: CachedBytes,
}

impl ReadyChart {
    pub fn new(chart: Chart) -> Self {
        Self::within(chart, CacheMemory::new(usize::MAX))
    }

    /// Bounds the cached data of the chart by `memory`.
    pub fn within(chart: Chart, memory: CacheMemory) -> Self {
        Self { prepared: Prepared::within(chart, &memory), memory, settled: Mutex::default() }
    }

    /// Bytes of cached data: parsed templates and charts for records.
    pub fn weight(&self) -> usize {
        self.prepared.kept() + self.settled().iter().map(|settled| settled.cached.bytes()).sum::<usize>()
    }

    pub fn chart(&self) -> &Chart {
        self.prepared.chart()
    }

    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Returns the record form of `chart`, which is this chart after rendering.
    pub(super) fn record(&self, chart: &Chart, profile: Profile) -> Result<ChartRecord, Unwritable> {
        let is_it = |known: &Settled| {
            known.profile == profile && known.metadata == chart.metadata && known.values == chart.values
        };
        if let Some(known) = self.settled().iter().find(|known| is_it(known)) {
            return Ok(known.record.clone());
        }
        let record = ChartRecord::new(chart, profile)?;
        let mut settled = self.settled();
        // Another thread may have added it in the meantime.
        if let Some(known) = settled.iter().find(|known| is_it(known)) {
            return Ok(known.record.clone());
        }
        if settled.len() >= WAYS {
            settled.pop_front();
        }
        let mut cached = self.memory.share();
        // Counts the text, its compressed form, and the copies of metadata and values.
        if !cached.grow(weigh_members(&chart.values).saturating_add(record.weight().saturating_mul(2))) {
            return Ok(record);
        }
        settled.push_back(Settled {
            profile,
            metadata: chart.metadata.clone(),
            values: chart.values.clone(),
            record: record.clone(),
            cached,
        });
        Ok(record)
    }

    fn settled(&self) -> MutexGuard<'_, VecDeque<Settled>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Upper bound of the bytes needed to serialize a chart: its files in base64 and the text with them.
pub(super) fn record_bytes(chart: &Chart) -> u64 {
    let files: usize = chart.templates.iter().chain(&chart.files).map(|file| file.data.len()).sum();
    (files as u64).saturating_mul(3)
}

/// LRU cache of prepared charts by digest. Optional; it saves parsing.
pub struct Charts {
    most: usize,
    /// Most recently used last.
    known: Mutex<VecDeque<Known>>,
}

struct Known {
    digest: String,
    size: usize,
    chart: Arc<ReadyChart>,
}

impl Charts {
    /// Holds charts up to `most` bytes of files and derived data, but at least one.
    pub fn new(most: usize) -> Self {
        Self { most, known: Mutex::default() }
    }

    pub fn get(&self, digest: &str) -> Option<Arc<ReadyChart>> {
        let mut known = self.known();
        let at = known.iter().position(|known| known.digest == digest)?;
        let found = known.remove(at)?;
        let chart = found.chart.clone();
        known.push_back(found);
        Some(chart)
    }

    /// Adds a chart. If another thread was faster, its entry is returned.
    pub fn keep(&self, digest: &str, chart: Chart) -> Arc<ReadyChart> {
        if let Some(chart) = self.get(digest) {
            return chart;
        }
        let size = size(&chart);
        let chart = Arc::new(ReadyChart::new(chart));
        let mut known = self.known();
        known.push_back(Known { digest: digest.to_owned(), size, chart: chart.clone() });
        let weight = |known: &Known| known.size + known.chart.weight();
        while known.len() > 1 && known.iter().map(weight).sum::<usize>() > self.most {
            known.pop_front();
        }
        chart
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Total size of the files of a chart and its subcharts.
fn size(chart: &Chart) -> usize {
    let own: usize = chart.raw.iter().map(|file| file.data.len()).sum();
    own + chart.dependencies.iter().map(size).sum::<usize>()
}
