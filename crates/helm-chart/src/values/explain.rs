//! Explains the origin of each merged value.

use helm_template::data::{Data, Members};
use helm_template::value::{Map, Str, Value};

use super::GLOBAL;
use crate::chart::Chart;
use crate::set::SetFlag;

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueOrigin {
    /// `values.yaml` of the chart or a subchart, with the names from the root chart down.
    Chart(Vec<Str>),
    /// A values file of the user.
    File(Str),
    /// A `--set` argument of the user.
    Set(SetFlag, Str),
    /// A global passed down to a subchart, with its origin.
    Global(Box<ValueOrigin>),
    /// Created by merging: an imported value or an empty table.
    Merged,
}

/// A layer of user values.
#[derive(Clone, Debug, PartialEq)]
pub struct UserValuesLayer {
    pub origin: ValueOrigin,
    pub values: Members,
}

/// A leaf value: not a table, or an empty one.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedValue {
    pub path: Vec<Str>,
    pub value: Data,
    pub origin: ValueOrigin,
}

/// Determines the origin of every leaf of `merged`. `chart` is the loaded chart before its dependencies were
/// prepared; `layers` are ordered from weakest to strongest.
pub fn explain(chart: &Chart, layers: &[UserValuesLayer], merged: &Map) -> Result<Vec<ExplainedValue>, Str> {
    let mut found = Vec::new();
    let mut path = Vec::new();
    walk(merged, &mut path, &mut |path, value| {
        let value = Data::try_from(value)?;
        found.push(ExplainedValue { path: path.to_vec(), value, origin: origin(chart, layers, path) });
        Ok(())
    })?;
    Ok(found)
}

type LeafVisitor<'v> = dyn FnMut(&[Str], &Value) -> Result<(), Str> + 'v;

fn walk(table: &Map, path: &mut Vec<Str>, visit: &mut LeafVisitor) -> Result<(), Str> {
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

fn origin(chart: &Chart, layers: &[UserValuesLayer], path: &[Str]) -> ValueOrigin {
    if let Some(origin) = explicit_origin(chart, layers, path) {
        return origin;
    }
    // A global of a subchart may originate from the same global of a parent.
    for (at, key) in path.iter().enumerate().skip(1) {
        if &**key == GLOBAL && is_subchart(chart, &path[..at]) {
            let above: Vec<Str> = path[..at - 1].iter().chain(&path[at..]).cloned().collect();
            return match origin(chart, layers, &above) {
                ValueOrigin::Merged => ValueOrigin::Merged,
                handed @ ValueOrigin::Global(_) => handed,
                own => ValueOrigin::Global(Box::new(own)),
            };
        }
    }
    ValueOrigin::Merged
}

/// Origin of exactly this path: user layers from the strongest, then the charts from the root down.
fn explicit_origin(chart: &Chart, layers: &[UserValuesLayer], path: &[Str]) -> Option<ValueOrigin> {
    let layer = layers.iter().rev().find(|layer| has_value(&layer.values, path));
    layer.map(|layer| layer.origin.clone()).or_else(|| chart_origin(chart, path, &mut Vec::new()))
}

fn chart_origin(chart: &Chart, path: &[Str], names: &mut Vec<Str>) -> Option<ValueOrigin> {
    names.push(chart.metadata.name.clone());
    if has_value(&chart.values, path) {
        return Some(ValueOrigin::Chart(std::mem::take(names)));
    }
    let (first, rest) = path.split_first()?;
    let found = subchart(chart, first).and_then(|subchart| chart_origin(subchart, rest, names));
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
fn has_value(values: &Members, path: &[Str]) -> bool {
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
