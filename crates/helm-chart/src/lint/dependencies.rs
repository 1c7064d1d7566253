//! Lint rules for dependencies: declarations in `Chart.yaml` and folders in `charts/` must match.

use std::collections::BTreeSet;

use super::Severity::{Error, Warning};
use super::{LintReport, LintSubject};
use crate::chart::Chart;

pub fn check(subject: &LintSubject<'_>, report: &mut LintReport) {
    let chart = match &subject.chart {
        Ok(chart) => chart,
        Err(why) => {
            report.record(Error, "", Err(format!("unable to load chart\n\t{why}")));
            return;
        }
    };
    let named = || chart.metadata.dependencies.iter().map(|dependency| &*dependency.name);
    let there = || chart.dependencies.iter().map(|subchart| &*subchart.metadata.name);
    let unnamed = missing_names(there(), &named().collect());
    report.record(
        Error,
        subject.dir_name,
        require_none(&unnamed, "chart metadata is missing these dependencies"),
    );
    report.record(
        Error,
        subject.dir_name,
        require_none(&duplicate_names(chart), "multiple dependencies with name or alias"),
    );
    let missing = missing_names(named(), &there().collect());
    report.record(
        Warning,
        subject.dir_name,
        require_none(&missing, "chart directory is missing these dependencies"),
    );
}

fn missing_names<'n>(names: impl Iterator<Item = &'n str>, known: &BTreeSet<&str>) -> Vec<&'n str> {
    names.filter(|name| !known.contains(name)).collect()
}

fn require_none(names: &[&str], problem: &str) -> Result<(), String> {
    if names.is_empty() { Ok(()) } else { Err(format!("{problem}: {}", names.join(","))) }
}

fn duplicate_names(chart: &Chart) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let keys = chart.metadata.dependencies.iter().map(crate::metadata::Dependency::key);
    keys.filter(|key| !seen.insert(*key)).collect()
}
