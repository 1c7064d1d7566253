//! Values of a chart: its defaults, the user's values, and their merge.
//!
//! Modules:
//!
//! - [`mod@coalesce`]: merges defaults of charts and subcharts with user values
//! - [`mod@layers`]: user values and their order
//! - [`mod@read`]: parses a values file
//! - [`mod@explain`]: origin of each merged value
//! - [`warning`]: warnings for the user
//!
//! The merged tree consists of shared maps, not plain data. Helm passes the tables below `global` to subcharts
//! without copying their content, so parent and child share them: changes by merging or by a template in one are
//! visible in the other. Charts depend on this unknowingly.

mod coalesce;
mod explain;
mod layers;
mod read;
mod warning;

use helm_template::budget::Budget;
use helm_template::data::Members;
use helm_template::profile::Profile;
use helm_template::value::{Map, Str, Value};

pub use coalesce::{ChartTree, CoalesceError, TypeMismatch, coalesce, merge_over};
pub(crate) use coalesce::{
    coalesce_over, coalesce_tables, deep_copy_map, merge, merge_tables, to_map, to_members,
};
pub use explain::{ExplainedValue, UserValuesLayer, ValueOrigin, explain};
pub use layers::{ValuesSource, layers, overlay, user_values};
pub use read::read;
pub use warning::{LogAttribute, ValuesWarning, slog_quote};

use crate::chart::Chart;
use crate::schema;

/// Key of the values visible to all subcharts.
pub const GLOBAL: &str = "global";

/// Values for templates, validated against the schemas of the chart and its subcharts. The chart must be processed by
/// [`dependencies::prepare`](crate::dependencies::prepare).
pub fn render_values(
    chart: &Chart,
    user: &Members,
    check: bool,
    profile: Profile,
    budget: &Budget<'_>,
    warnings: &mut Vec<ValuesWarning>,
) -> Result<Map, Str> {
    let values =
        coalesce(chart, user, profile, budget, warnings).map_err(|error| Str::from(error.to_string()))?;
    if check {
        schema::check(chart, &values, profile, budget, warnings)?;
    }
    Ok(values)
}

/// The table at a dotted path, or the first key that does not lead to a table.
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

/// The value at a dotted path; `None` if missing or a table.
pub fn path_value(values: &Map, path: &str) -> Option<Value> {
    let found = match path.rsplit_once('.') {
        Some((above, key)) => table(values, above).ok()?.get(key)?,
        None => values.get(path)?,
    };
    (!matches!(found, Value::Map(_))).then_some(found)
}
