//! Where each value comes from, in the end.

use helm_template::data::{Data, Members};
use helm_template::value::{Map, Str, Value};

use super::GLOBAL;
use crate::chart::Chart;
use crate::set::Kind;

/// What said a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The `values.yaml` of the chart, or of a subchart: the names from the chart down.
    Chart(Vec<Str>),
    /// A file of the user's.
    File(Str),
    /// An argument of the user's.
    Set(Kind, Str),
    /// Handed down to a subchart as a global, by what said it further up.
    Global(Box<Origin>),
    /// Nobody's own: imported from a subchart, or an empty table that merging made.
    Merged,
}

/// One of the user's layers of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    pub origin: Origin,
    pub values: Members,
}

/// A value that is no table, or an empty one.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    pub path: Vec<Str>,
    pub value: Data,
    pub origin: Origin,
}

/// Says of every leaf of `merged` who said it: `chart` is as it was loaded, before its dependencies were prepared, and
/// `layers` go from the weakest to the strongest.
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
    // A global of a subchart is also whoever's said the same global further up.
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

/// Who said exactly this path: the user, the strongest layer first, then the charts from the top down.
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

/// The subchart that goes by this name, which can be an alias.
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

/// There is a value at the path, and no null: a null says that there shall be none.
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
