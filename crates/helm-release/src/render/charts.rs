//! Charts that are ready to be rendered: parsed once, and written for the record once, however many releases there are.

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

/// So many ways to settle a chart are remembered.
const WAYS: usize = 4;

/// A chart, and what is made of it once.
pub struct ReadyChart {
    prepared: Prepared,
    memory: CacheMemory,
    /// The newest at the end.
    settled: Mutex<VecDeque<Settled>>,
}

/// A chart for the record. What the user says decides which dependencies are on and what they export, and so changes the
/// chart's metadata and values; most releases of a chart say nothing of the kind.
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

    /// A chart that keeps no more of what is made of it than there is memory for.
    pub fn within(chart: Chart, memory: CacheMemory) -> Self {
        Self { prepared: Prepared::within(chart, &memory), memory, settled: Mutex::default() }
    }

    /// The bytes of what was made of the chart since and is kept: parsed templates, and charts for records.
    pub fn weight(&self) -> usize {
        self.prepared.kept() + self.settled().iter().map(|settled| settled.cached.bytes()).sum::<usize>()
    }

    pub fn chart(&self) -> &Chart {
        self.prepared.chart()
    }

    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// `chart`, which is this one after it was rendered, for the record.
    pub(super) fn record(&self, chart: &Chart, profile: Profile) -> Result<ChartRecord, Unwritable> {
        let is_it = |known: &Settled| {
            known.profile == profile && known.metadata == chart.metadata && known.values == chart.values
        };
        if let Some(known) = self.settled().iter().find(|known| is_it(known)) {
            return Ok(known.record.clone());
        }
        let record = ChartRecord::new(chart, profile)?;
        let mut settled = self.settled();
        // Somebody else may have been as fast.
        if let Some(known) = settled.iter().find(|known| is_it(known)) {
            return Ok(known.record.clone());
        }
        if settled.len() >= WAYS {
            settled.pop_front();
        }
        let mut cached = self.memory.share();
        // Its text, the same compressed, and its metadata and values once more.
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

/// The bytes that the chart of a record takes at most while it is written: its files in base64, and the text that has them.
pub(super) fn record_bytes(chart: &Chart) -> u64 {
    let files: usize = chart.templates.iter().chain(&chart.files).map(|file| file.data.len()).sum();
    (files as u64).saturating_mul(3)
}

/// The charts that were last used, by digest. Nobody has to keep one here; it saves work.
pub struct Charts {
    most: usize,
    /// The last used at the end.
    known: Mutex<VecDeque<Known>>,
}

struct Known {
    digest: String,
    size: usize,
    chart: Arc<ReadyChart>,
}

impl Charts {
    /// As many as have so many bytes together, of files and of what is made of them, but one at least.
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

    /// Keeps a chart. If somebody else was faster, theirs is used.
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

/// Bytes of files.
fn size(chart: &Chart) -> usize {
    let own: usize = chart.raw.iter().map(|file| file.data.len()).sum();
    own + chart.dependencies.iter().map(size).sum::<usize>()
}
