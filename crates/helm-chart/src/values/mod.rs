//! The values of a chart: what its `values.yaml` says, what the user says, and what comes of both.
//!
//! Modules in reading order: how a chart's defaults, those of its subcharts and the user's values become one tree
//! ([`coalesce`]), what the user can say and in which order it holds ([`layers`]), how a file of values is read
//! ([`read`]), where a value in the end comes from ([`explain`]), and what is said to the user meanwhile ([`warning`]).
//!
//! The merged tree is made of shared maps, not of plain data. Helm hands the tables below `global` down to subcharts
//! without copying what is inside them, so that parent and child hold the same tables: what merging or a template
//! changes in one is seen in the other. Charts rely on it without knowing.

mod coalesce;
mod explain;
mod layers;
mod read;
mod warning;

use helm_template::budget::Budget;
use helm_template::data::Members;
use helm_template::profile::Profile;
use helm_template::value::{Map, Str, Value};

pub use coalesce::{CoalesceError, Tree, TypeMismatch, coalesce, over};
pub(crate) use coalesce::{
    coalesce_over, coalesce_tables, deep_copy_map, merge, merge_tables, to_map, to_members,
};
pub use explain::{Explained, Layer, Origin, explain};
pub use layers::{Source, layers, overlay, user_values};
pub use read::read;
pub use warning::{Attribute, Warning, quoted};

use crate::chart::Chart;
use crate::schema;

/// The key under which values are seen by all subcharts.
pub const GLOBAL: &str = "global";

/// The values that templates see, checked against the schemas of the chart and its subcharts. The chart has been through
/// [`dependencies::prepare`](crate::dependencies::prepare).
pub fn render_values(
    chart: &Chart,
    user: &Members,
    check: bool,
    profile: Profile,
    budget: &Budget<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Map, Str> {
    let values =
        coalesce(chart, user, profile, budget, warnings).map_err(|error| Str::from(error.to_string()))?;
    if check {
        schema::check(chart, &values, profile, budget, warnings)?;
    }
    Ok(values)
}

/// The table at a path of keys joined by dots, or the first key of the path that leads to none.
pub fn table<'p>(values: &Map, path: &'p str) -> Result<Map, &'p str> {
    let mut table = values.clone();
    for key in path.split('.') {
        table = match table.get(key) {
            Some(Value::Map(inner)) => inner,
            _ => return Err(key),
        };
    }
    Ok(table)
}

/// The value at a path of keys joined by dots; none where there is nothing, or a table.
pub fn path_value(values: &Map, path: &str) -> Option<Value> {
    let found = match path.rsplit_once('.') {
        Some((above, key)) => table(values, above).ok()?.get(key)?,
        None => values.get(path)?,
    };
    (!matches!(found, Value::Map(_))).then_some(found)
}
