//! Charts that are ready to be rendered: parsed once, and written for the record once, however many releases there are.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use helm_chart::Chart;
use helm_engine::Prepared;
use helm_template::Unwritable;
use helm_template::profile::Profile;

use crate::record::ChartRecord;

/// A chart, and what is made of it once.
pub struct ReadyChart {
    prepared: Prepared,
    records: [OnceLock<ChartRecord>; 2],
}

impl ReadyChart {
    pub fn new(chart: Chart) -> Self {
        Self { prepared: Prepared::new(chart), records: [OnceLock::new(), OnceLock::new()] }
    }

    pub fn chart(&self) -> &Chart {
        self.prepared.chart()
    }

    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// `settled`, which is this chart after it was rendered, for the record. One without dependencies is always the same.
    pub(super) fn record(&self, settled: &Chart, profile: Profile) -> Result<ChartRecord, Unwritable> {
        if !self.chart().metadata.dependencies.is_empty() || !self.chart().dependencies.is_empty() {
            return ChartRecord::new(settled, profile);
        }
        let known = &self.records[usize::from(profile == Profile::Helm4)];
        if let Some(record) = known.get() {
            return Ok(record.clone());
        }
        let record = ChartRecord::new(settled, profile)?;
        Ok(known.get_or_init(|| record).clone())
    }
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
    /// As many as have so many bytes of files together, but one at least.
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
        while known.len() > 1 && known.iter().map(|known| known.size).sum::<usize>() > self.most {
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
