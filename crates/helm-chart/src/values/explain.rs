//! Explains the origin of each merged value.

use helm_template::data::{Data, Members};
use helm_template::value::{Map, Str, Value};

use super::GLOBAL;
use crate::chart::Chart;
use crate::set::Kind;

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `values.yaml` of the chart or a subchart, with the names from the root chart down.
    Chart(Vec<Str>),
    /// A values file of the user.
    File(Str),
    /// A `--set` argument of the user.
    Set(Kind, Str),
    /// A global passed down to a subchart, with its origin.
    Global(Box<Origin>),
    /// Created by merging: an imported value or an empty table.
    Merged,
}

/// A layer of user values.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    pub origin: Origin,
    pub values: Members,
}

/// A leaf value: not a table, or an empty one.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    pub path: Vec<Str>,
    pub value: Data,
    pub origin: Origin,
}

/// Determines the origin of every leaf of `merged`. `chart` is the loaded chart before its dependencies were
/// prepared; `layers` are ordered from weakest to strongest.
pub fn explain(chart: &Chart, layers: &[Layer], merged: &Map) -> Result<Vec<Explained>, Str> {
    let mut found = Vec::new();
    let mut path = Vec::new();
    walk(merged, &mut path, &mut |path, value| {
        let value = Data::try_from(value)?;
        found.push(Explained { path: path.to_vec(), value, origin: origin(chart, layers, path) });
        Ok(())
    })?;
    Ok(found)
}

type Visit<'v> = dyn FnMut(&[Str], &Value) -> Result<(), Str> + 'v;

fn walk(table: &Map, path: &mut Vec<Str>, visit: &mut Visit) -> Result<(), Str> {
    for (key, value) in table.snapshot() {
        path.push(key);
        match &value {
            Value::Map(inner) if !inner.is_empty() => walk(inner, path, visit)?,
            _ => visit(path, &value)?,
        }
        path.pop();
    }
    Ok(())
}

fn origin(chart: &Chart, layers: &[Layer], path: &[Str]) -> Origin {
    if let Some(origin) = said(chart, layers, path) {
        return origin;
    }
    // A global of a subchart may originate from the same global of a parent.
    for (at, key) in path.iter().enumerate().skip(1) {
        if &**key == GLOBAL && is_subchart(chart, &path[..at]) {
            let above: Vec<Str> = path[..at - 1].iter().chain(&path[at..]).cloned().collect();
            return match origin(chart, layers, &above) {
                Origin::Merged => Origin::Merged,
                handed @ Origin::Global(_) => handed,
                own => Origin::Global(Box::new(own)),
            };
        }
    }
    Origin::Merged
}

/// Origin of exactly this path: user layers from the strongest, then the charts from the root down.
fn said(chart: &Chart, layers: &[Layer], path: &[Str]) -> Option<Origin> {
    let layer = layers.iter().rev().find(|layer| has(&layer.values, path));
    layer.map(|layer| layer.origin.clone()).or_else(|| said_by_charts(chart, path, &mut Vec::new()))
}

fn said_by_charts(chart: &Chart, path: &[Str], names: &mut Vec<Str>) -> Option<Origin> {
    names.push(chart.metadata.name.clone());
    if has(&chart.values, path) {
        return Some(Origin::Chart(std::mem::take(names)));
    }
    let (first, rest) = path.split_first()?;
    let found = subchart(chart, first).and_then(|subchart| said_by_charts(subchart, rest, names));
    names.pop();
    found
}

/// The subchart with this name or alias.
fn subchart<'c>(chart: &'c Chart, name: &str) -> Option<&'c Chart> {
    let aliased = chart.metadata.dependencies.iter().find(|dependency| &*dependency.alias == name);
    let name = aliased.map_or(name, |dependency| &dependency.name);
    chart.dependencies.iter().find(|subchart| &*subchart.metadata.name == name)
}

fn is_subchart(chart: &Chart, path: &[Str]) -> bool {
    let mut chart = chart;
    for name in path {
        match subchart(chart, name) {
            Some(inner) => chart = inner,
            None => return false,
        }
    }
    true
}

/// Whether there is a value other than null at the path; a null deletes the value.
fn has(values: &Members, path: &[Str]) -> bool {
    let Some((last, tables)) = path.split_last() else { return false };
    let mut table = values;
    for key in tables {
        match table.get(key) {
            Some(Data::Map(inner)) => table = inner,
            _ => return false,
        }
    }
    table.get(last).is_some_and(|value| *value != Data::Null)
}
