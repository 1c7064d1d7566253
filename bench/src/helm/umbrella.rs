//! An umbrella chart of thirty subcharts.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::corpus::CorpusChart;

const SUBCHART_COUNT: usize = 30;
/// Source of the subcharts: the largest family, which shares one library like typical umbrella charts.
const SUBCHART_PREFIX: &str = "bitnami__";

/// Writes the chart below `folder`.
pub fn write_umbrella(folder: &Path, samples: &[CorpusChart]) -> Result<PathBuf> {
    let chart = folder.join("umbrella");
    let charts = chart.join("charts");
    fs::create_dir_all(&charts).with_context(|| format!("cannot make {}", charts.display()))?;
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: umbrella\nversion: 1.0.0\n")?;
    let fitting = |sample: &&CorpusChart| {
        sample.id.starts_with(SUBCHART_PREFIX) && sample.values.is_none() && !sample.generates_keys
    };
    let chosen: Vec<_> = samples.iter().filter(fitting).take(SUBCHART_COUNT).collect();
    ensure!(chosen.len() == SUBCHART_COUNT, "the corpus has only {} charts for the umbrella", chosen.len());
    for sample in chosen {
        let name = sample.archive.file_name().context("an archive has no name")?;
        fs::copy(&sample.archive, charts.join(name))?;
    }
    Ok(chart)
}

/// A chart without templates.
pub fn write_empty_chart(folder: &Path) -> Result<PathBuf> {
    let chart = folder.join("empty");
    fs::create_dir_all(chart.join("templates"))
        .with_context(|| format!("cannot make {}", chart.display()))?;
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: empty\nversion: 1.0.0\n")?;
    Ok(chart)
}
