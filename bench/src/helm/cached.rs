//! Rendering in a running process with parsed templates, as in a server.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result};
use helm_engine::{Engine, OutputOptions};
use helm_host::Host;

use super::corpus::{CorpusChart, LoadedChart, PROFILE};
use crate::report::median;

/// Number of renderings per chart, after a warm-up that parses its templates.
const RENDERINGS: usize = 7;

/// Milliseconds from values to manifest text: the median over charts of each chart's median.
pub fn median_render_millis<'s>(samples: impl Iterator<Item = &'s CorpusChart>) -> Result<f64> {
    let (engine, host) = (Engine::new(PROFILE), Host::new());
    let mut medians = Vec::new();
    for sample in samples {
        let loaded = LoadedChart::load(sample)?;
        let mut turns = Vec::new();
        for _ in 0..=RENDERINGS {
            let began = Instant::now();
            let release = loaded.render(&engine, host.render_env())?;
            black_box(release.text(OutputOptions { crds: false, hooks: true, tests: true }));
            drop(release);
            turns.push(began.elapsed().as_secs_f64() * 1e3);
        }
        medians.extend(median(&turns[1..]));
    }
    median(&medians).context("there are no charts")
}
