//! The chart of this benchmark: Deployment, Service, ServiceAccount and Ingress, written like typical charts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Files of the chart: path and text.
const FILES: &[(&str, &str)] = &[
    ("Chart.yaml", include_str!("chart/Chart.yaml")),
    ("values.yaml", include_str!("chart/values.yaml")),
    ("templates/_helpers.tpl", include_str!("chart/templates/_helpers.tpl")),
    ("templates/deployment.yaml", include_str!("chart/templates/deployment.yaml")),
    ("templates/service.yaml", include_str!("chart/templates/service.yaml")),
    ("templates/serviceaccount.yaml", include_str!("chart/templates/serviceaccount.yaml")),
    ("templates/ingress.yaml", include_str!("chart/templates/ingress.yaml")),
    ("templates/NOTES.txt", include_str!("chart/templates/NOTES.txt")),
];

/// Packs the chart below `folder`. Both sides install this archive.
pub fn pack(folder: &Path) -> Result<PathBuf> {
    let chart = folder.join("web");
    fs::create_dir_all(chart.join("templates"))
        .with_context(|| format!("cannot make {}", chart.display()))?;
    for (name, text) in FILES {
        fs::write(chart.join(name), text)?;
    }
    let archive = folder.join("web-1.0.0.tgz");
    let packed = Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(folder).arg("web").status()?;
    ensure!(packed.success(), "cannot pack the chart");
    Ok(archive)
}
