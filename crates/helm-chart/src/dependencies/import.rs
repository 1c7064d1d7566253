//! Imports values of dependencies into the parent chart (`import-values`).

use std::rc::Rc;

use helm_template::budget::Budget;
use helm_template::data::{Data, Members};
use helm_template::go::{print, quote};
use helm_template::profile::Profile;
use helm_template::value::{Map, Str, Value};

use super::PrepareError;
use super::graph::{ChartGraph, ChartId, DependencyNode};
use crate::values::{ValuesWarning, deep_copy_map, merge, merge_tables, table, to_members};

/// Maximum number of path segments. Each creates a nested table.
const MAX_PATH_SEGMENTS: usize = 100;

/// Replaces the values of every chart with dependencies, bottom up, by the merge of its own values, its dependencies'
/// values and its imports.
pub fn import(
    graph: &mut ChartGraph<'_>,
    chart: ChartId,
    warnings: &mut Vec<ValuesWarning>,
) -> Result<(), PrepareError> {
    for child in graph.charts[chart].children.clone() {
        import(graph, child, warnings)?;
    }
    let needs = graph.dependency_ids(chart);
    if needs.is_empty() {
        return Ok(());
    }
    let (profile, budget) = (graph.profile, graph.budget);
    let name = graph.name(chart).clone();
    let values = merge(graph.tree(chart), profile, budget, warnings)?;
    let imported = Map::new();
    for need in needs {
        let need = &mut graph.dependencies[need];
        import_dependency(need, &name, &values, &imported, (profile, budget), warnings)?;
    }
    // Imported values share tables with their source, which must not change.
    let merged = deep_copy_map(&values, budget).and_then(|values| {
        merge_tables(&values, &imported, profile, budget, warnings)?;
        Ok(values)
    });
    let merged = merged.map_err(|why| PrepareError::Budget { chart: name.clone(), why })?;
    let merged = to_members(&merged, budget).map_err(|why| PrepareError::Values { chart: name, why })?;
    graph.charts[chart].values = Rc::new(merged);
    Ok(())
}

/// Adds the imported values of one dependency to `imported`, and replaces its `import-values` by their full form.
fn import_dependency(
    need: &mut DependencyNode,
    chart: &Str,
    values: &Map,
    imported: &Map,
    (profile, budget): (Profile, &Budget<'_>),
    warnings: &mut Vec<ValuesWarning>,
) -> Result<(), PrepareError> {
    let exceeded = |why| PrepareError::Budget { chart: chart.clone(), why };
    let dependency = &mut need.dependency;
    let entries = std::mem::take(&mut dependency.import_values);
    if need.is_imported {
        return Ok(());
    }
    need.is_imported = true;
    for entry in entries {
        let wanted = match &entry {
            Data::String(exported) => ImportMapping {
                child: format!("exports.{exported}"),
                parent: ".".to_owned(),
                is_export: true,
            },
            Data::Map(pair) => {
                match (mapping_path(pair, "child", profile), mapping_path(pair, "parent", profile)) {
                    (Some(child), Some(parent)) => ImportMapping { child, parent, is_export: false },
                    _ => {
                        return Err(PrepareError::InvalidImport {
                            chart: chart.clone(),
                            dependency: dependency.name.clone(),
                        });
                    }
                }
            }
            _ => continue,
        };
        if wanted.parent.bytes().filter(|byte| *byte == b'.').count() > MAX_PATH_SEGMENTS {
            let why = format!(
                "import-values of {}: a path has more than {MAX_PATH_SEGMENTS} dots",
                dependency.name
            );
            return Err(PrepareError::Values { chart: chart.clone(), why: why.into() });
        }
        let path = format!("{}.{}", dependency.name, wanted.child);
        budget.allocate(path.len().saturating_add(wanted.parent.len())).map_err(exceeded)?;
        match table(values, &path) {
            Ok(found) => {
                let found = nest_at_path(&wanted.parent, found);
                merge_tables(imported, &found, profile, budget, warnings).map_err(exceeded)?;
            }
            Err(key) => {
                budget.allocate(key.len()).map_err(exceeded)?;
                warnings.push(wanted.missing_warning(profile, &dependency.name, key));
            }
        }
        dependency.import_values.push(Data::Map(Members::from([
            ("child".into(), Data::string(wanted.child)),
            ("parent".into(), Data::string(wanted.parent)),
        ])));
    }
    Ok(())
}

/// Source table in the dependency and destination in the parent.
struct ImportMapping {
    child: String,
    parent: String,
    is_export: bool,
}

impl ImportMapping {
    fn missing_warning(&self, profile: Profile, dependency: &str, key: &str) -> ValuesWarning {
        let error = format!("{} is not a table", quote(key));
        if self.is_export {
            let text = format!("Warning: ImportValues missing table: {error}");
            let helm4 = "ImportValues missing table";
            ValuesWarning::warn_record(profile, ("dependencies.go:286", &text), helm4, &[("error", &error)])
        } else {
            let text = format!("Warning: ImportValues missing table from chart {dependency}: {error}");
            let helm4 = "ImportValues missing table from chart";
            let attributes = [("chart", dependency), ("error", &error)];
            ValuesWarning::warn_record(profile, ("dependencies.go:269", &text), helm4, &attributes)
        }
    }
}

/// One end of an import. Helm 4 formats any value as text; Helm 3 panics on anything but a string.
fn mapping_path(pair: &Members, key: &str, profile: Profile) -> Option<String> {
    match (pair.get(key), profile) {
        (Some(Data::String(path)), _) => Some(path.to_string()),
        (_, Profile::Helm3) => None,
        (other, Profile::Helm4) => Some(print(&other.map_or(Value::Null, Value::from))),
    }
}

/// Nests the table below a path; `.` is the root. An empty table is not shared.
fn nest_at_path(path: &str, found: Map) -> Map {
    let found = if found.is_empty() { Map::new() } else { found };
    if path == "." {
        return found;
    }
    path.rsplit('.').fold(found, |inner, key| Map::from_entries([(key.into(), inner.into())]))
}
