//! Dependencies of a chart: presence, conditions, aliases and imported values.
//!
//! Helm works on a graph of pointers, and the sharing is visible in rendered output: Helm 3 renames the dependencies of
//! both uses of a chart when it renames the dependencies of one. The charts are therefore converted to such a graph
//! ([`graph`]), processed as Helm does ([`enable`], [`import`]) and converted back to a tree.

mod enable;
mod graph;
mod import;
#[cfg(test)]
mod tests;

use helm_template::budget::Budget;
use helm_template::data::Members;
use helm_template::profile::Profile;
use helm_template::semver::{Constraints, Version};
use helm_template::value::Str;

use crate::chart::Chart;
use crate::values::{CoalesceError, TypeMismatch, ValuesWarning, to_map};
use graph::{ChartGraph, ROOT};

/// Maximum nesting depth of charts.
pub const MAX_DEPTH: usize = 64;

/// Maximum number of charts, counted under every alias.
pub const MAX_CHARTS: usize = 10_000;

/// Maximum number of declared dependencies, counted the same way.
pub const MAX_NAMED: usize = 100_000;

/// Error of preparing dependencies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    #[error(transparent)]
    Mismatch(#[from] TypeMismatch),
    #[error("chart {chart}: subcharts are nested deeper than {MAX_DEPTH}")]
    TooDeep { chart: Str },
    #[error("chart {chart}: its dependencies come to more than {MAX_CHARTS} charts")]
    TooManyCharts { chart: Str },
    #[error("chart {chart}: its charts name more than {MAX_NAMED} dependencies")]
    TooManyDependencies { chart: Str },
    #[error(
        "chart {chart}: an import-values entry of dependency {dependency} needs texts as child and parent"
    )]
    InvalidImport { chart: Str, dependency: Str },
    #[error("chart {chart}: {why}")]
    Values { chart: Str, why: Str },
    /// A rendering limit is exceeded.
    #[error("chart {chart}: its dependencies: {why}")]
    Budget { chart: Str, why: Str },
}

impl From<CoalesceError> for PrepareError {
    fn from(error: CoalesceError) -> Self {
        match error {
            CoalesceError::Mismatch(mismatch) => Self::Mismatch(mismatch),
            CoalesceError::Budget { chart, why } => Self::Budget { chart, why },
        }
    }
}

/// Prepares a chart for rendering with the user's values: removes disabled dependencies, applies aliases, imports
/// values. Errors are Helm's messages.
pub fn prepare(
    chart: &Chart,
    user: &Members,
    profile: Profile,
    budget: &Budget<'_>,
    warnings: &mut Vec<ValuesWarning>,
) -> Result<Chart, Str> {
    prepare_tree(chart, user, profile, budget, warnings).map_err(|error| match profile {
        Profile::Helm3 => error.to_string().into(),
        Profile::Helm4 => format!("chart dependencies processing failed: {error}").into(),
    })
}

fn prepare_tree(
    chart: &Chart,
    user: &Members,
    profile: Profile,
    budget: &Budget<'_>,
    warnings: &mut Vec<ValuesWarning>,
) -> Result<Chart, PrepareError> {
    let exceeded = |why| PrepareError::Budget { chart: chart.metadata.name.clone(), why };
    let mut graph = ChartGraph::from_chart(chart, profile, budget)?;
    let user = to_map(user, budget).map_err(exceeded)?;
    enable::enable(&mut graph, ROOT, &user, "", warnings)?;
    import::import(&mut graph, ROOT, warnings)?;
    graph.into_tree().map_err(exceeded)
}

/// Checks that every declared dependency is present below `charts/`. The error is Helm's message.
pub fn check_present(chart: &Chart) -> Result<(), Str> {
    let is_missing =
        |name: &&str| chart.dependencies.iter().all(|subchart| &*subchart.metadata.name != *name);
    let named = chart.metadata.dependencies.iter().map(|dependency| &*dependency.name);
    let missing: Vec<&str> = named.filter(is_missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("found in Chart.yaml, but missing in charts/ directory: {}", missing.join(", ")).into())
}

/// Like [`check_present`], with Helm's advice for installations.
pub fn check(chart: &Chart, profile: Profile) -> Result<(), Str> {
    let advice = match profile {
        Profile::Helm3 => {
            "An error occurred while checking for chart dependencies. You may need to run `helm dependency build` to \
             fetch missing dependencies"
        }
        Profile::Helm4 => {
            "an error occurred while checking for chart dependencies. You may need to run 'helm dependency build' to \
             fetch missing dependencies"
        }
    };
    check_present(chart).map_err(|why| format!("{advice}: {why}").into())
}

/// Result of matching a version against a constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    Satisfied,
    Unsatisfied,
    InvalidConstraint(Str),
    InvalidVersion(Str),
}

pub fn match_version(constraint: &str, version: &str, profile: Profile) -> VersionMatch {
    let constraints = match Constraints::parse(constraint, profile) {
        Ok(constraints) => constraints,
        Err(why) => return VersionMatch::InvalidConstraint(why),
    };
    match Version::parse(version, profile) {
        Ok(version) if constraints.check(&version) => VersionMatch::Satisfied,
        Ok(_) => VersionMatch::Unsatisfied,
        Err(why) => VersionMatch::InvalidVersion(why),
    }
}

/// Whether the constraint allows the version; false if either is invalid.
fn is_compatible(constraint: &str, version: &str, profile: Profile) -> bool {
    match_version(constraint, version, profile) == VersionMatch::Satisfied
}
