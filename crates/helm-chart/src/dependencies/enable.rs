//! Selects the enabled dependencies of a chart and applies their aliases.

use std::collections::BTreeSet;

use helm_template::value::{Map, Str, Value};

use super::graph::{ChartGraph, ChartId, DependencyId};
use super::{PrepareError, is_compatible};
use crate::values::{ValuesWarning, coalesce_over, path_value, table};

/// Budget steps to compare a subchart with a dependency.
const STEPS_PER_PAIR: u64 = 20;

/// Selects the enabled subcharts recursively. `path` leads to the chart's part of the values.
pub fn enable(
    graph: &mut ChartGraph<'_>,
    chart: ChartId,
    values: &Map,
    path: &str,
    warnings: &mut Vec<ValuesWarning>,
) -> Result<(), PrepareError> {
    let needs = graph.dependency_ids(chart);
    if needs.is_empty() {
        return Ok(());
    }
    let children = select_charts(graph, chart, &needs)?;
    graph.set_children(chart, children);
    graph.check_size()?;
    for need in &needs {
        graph.dependencies[*need].dependency.enabled = true;
    }
    // Here Helm places the values of a subchart beside the values of its parent, not below them.
    let values = coalesce_over(graph.tree(chart), values, graph.profile, graph.budget, warnings)?;
    apply_tags(graph, &needs, &values, warnings);
    apply_conditions(graph, &needs, &values, path, warnings);

    let (kept, disabled): (Vec<_>, Vec<_>) =
        needs.into_iter().partition(|need| graph.dependencies[*need].dependency.enabled);
    let disabled: BTreeSet<Str> =
        disabled.into_iter().map(|need| graph.dependencies[need].dependency.name.clone()).collect();
    let kept = kept
        .into_iter()
        .filter(|need| !disabled.contains(&graph.dependencies[*need].dependency.name))
        .collect();
    let children: Vec<ChartId> = graph.charts[chart].children.clone();
    let children: Vec<ChartId> =
        children.into_iter().filter(|child| !disabled.contains(graph.name(*child))).collect();
    for child in &children {
        let path = format!("{path}{}.", graph.name(*child));
        enable(graph, *child, &values, &path, warnings)?;
    }
    let meta = graph.charts[chart].meta;
    graph.metadata[meta].dependencies = kept;
    graph.set_children(chart, children);
    Ok(())
}

/// Returns the undeclared subcharts, then the declared ones as copies under their declared names.
fn select_charts(
    graph: &mut ChartGraph<'_>,
    chart: ChartId,
    needs: &[DependencyId],
) -> Result<Vec<ChartId>, PrepareError> {
    let there = graph.charts[chart].children.clone();
    // Each subchart is compared with each dependency, some of them by version.
    let versions: usize = needs.iter().map(|need| graph.dependencies[*need].dependency.version.len()).sum();
    let per_child = (needs.len() as u64).saturating_mul(STEPS_PER_PAIR).saturating_add(versions as u64);
    let steps = per_child.saturating_mul(there.len() as u64);
    graph.budget.charge(steps).map_err(|why| graph.budget_error(why))?;
    let is_for = |graph: &ChartGraph<'_>, child: ChartId, need: DependencyId| {
        let dependency = &graph.dependencies[need].dependency;
        dependency.name == *graph.name(child)
            && is_compatible(&dependency.version, graph.version(child), graph.profile)
    };
    let is_named = |child: &ChartId| needs.iter().any(|need| is_for(graph, *child, *need));
    let mut wanted: Vec<ChartId> = there.iter().copied().filter(|child| !is_named(child)).collect();
    for need in needs {
        let found = there.iter().copied().find(|child| is_for(graph, *child, *need));
        let alias = graph.dependencies[*need].dependency.alias.clone();
        if let Some(found) = found {
            let copy = graph.copy(found)?;
            if !alias.is_empty() {
                let meta = graph.charts[copy].meta;
                graph.metadata[meta].name = alias.clone();
            }
            wanted.push(copy);
        }
        if !alias.is_empty() {
            graph.dependencies[*need].dependency.name = alias;
        }
    }
    Ok(wanted)
}

/// Disables a dependency if some of its tags are false and none is true.
fn apply_tags(
    graph: &mut ChartGraph<'_>,
    needs: &[DependencyId],
    values: &Map,
    warnings: &mut Vec<ValuesWarning>,
) {
    let Ok(tags) = table(values, "tags") else { return };
    for need in needs {
        let dependency = &mut graph.dependencies[*need].dependency;
        let (mut any_true, mut any_false) = (false, false);
        for tag in &dependency.tags {
            match tags.get(tag) {
                None => {}
                Some(Value::Bool(true)) => any_true = true,
                Some(Value::Bool(false)) => any_false = true,
                Some(_) => {
                    let text =
                        format!("Warning: Tag '{tag}' for chart {} returned non-bool value", dependency.name);
                    warnings.push(ValuesWarning::warn_record(
                        graph.profile,
                        ("dependencies.go:94", &text),
                        "returned non-bool value",
                        &[("tag", tag), ("chart", &dependency.name)],
                    ));
                }
            }
        }
        dependency.enabled = any_true || !any_false;
    }
}

/// The first condition that resolves to a boolean decides.
fn apply_conditions(
    graph: &mut ChartGraph<'_>,
    needs: &[DependencyId],
    values: &Map,
    path: &str,
    warnings: &mut Vec<ValuesWarning>,
) {
    for need in needs {
        let dependency = &mut graph.dependencies[*need].dependency;
        for condition in dependency.condition.trim().split(',').filter(|condition| !condition.is_empty()) {
            match path_value(values, &format!("{path}{condition}")) {
                None => {}
                Some(Value::Bool(enabled)) => {
                    dependency.enabled = enabled;
                    break;
                }
                Some(_) => {
                    let text = format!(
                        "Warning: Condition path '{condition}' for chart {} returned non-bool value",
                        dependency.name
                    );
                    warnings.push(ValuesWarning::warn_record(
                        graph.profile,
                        ("dependencies.go:63", &text),
                        "returned non-bool value",
                        &[("path", condition), ("chart", &dependency.name)],
                    ));
                }
            }
        }
    }
}
