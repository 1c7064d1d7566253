//! Lint rules for dependencies: declarations in `Chart.yaml` and folders in `charts/` must match.

use std::collections::BTreeSet;

use super::Severity::{Error, Warning};
use super::{Report, Subject};
use crate::chart::Chart;

pub fn check(subject: &Subject<'_>, report: &mut Report) {
    let chart = match &subject.chart {
        Ok(chart) => chart,
        Err(why) => {
            report.check(Error, "", Err(format!("unable to load chart\n\t{why}")));
            return;
        }
    };
    let named = || chart.metadata.dependencies.iter().map(|dependency| &*dependency.name);
    let there = || chart.dependencies.iter().map(|subchart| &*subchart.metadata.name);
    let unnamed = without(there(), &named().collect());
    report.check(Error, subject.folder, none(&unnamed, "chart metadata is missing these dependencies"));
    report.check(Error, subject.folder, none(&twins(chart), "multiple dependencies with name or alias"));
    let missing = without(named(), &there().collect());
    report.check(Warning, subject.folder, none(&missing, "chart directory is missing these dependencies"));
}

fn without<'n>(names: impl Iterator<Item = &'n str>, known: &BTreeSet<&str>) -> Vec<&'n str> {
    names.filter(|name| !known.contains(name)).collect()
}

fn none(names: &[&str], problem: &str) -> Result<(), String> {
    if names.is_empty() { Ok(()) } else { Err(format!("{problem}: {}", names.join(","))) }
}

fn twins(chart: &Chart) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let keys = chart.metadata.dependencies.iter().map(crate::metadata::Dependency::key);
    keys.filter(|key| !seen.insert(*key)).collect()
}
