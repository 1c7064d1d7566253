//! `values.schema.json`: whether the values of a chart are what its author asks for.
//!
//! Helm 3 and Helm 4 use two libraries that read the same schemas by different rules and complain in different words
//! ([`helm3`], [`helm4`]). Both are compiled to one [`model`]. Nothing outside the schema is ever looked at: a reference
//! to another document is an error.

mod compile;
mod document;
mod format;
mod helm3;
mod helm4;
mod model;
mod number;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use helm_template::budget::{Budget, VALUE_BYTES, count};
use helm_template::data::Data;
use helm_template::json;
use helm_template::profile::Profile;
use helm_template::value::{Map, Str, Value};
use helm_template::yaml;

use crate::chart::Chart;
use crate::values::{Warning, to_members};

/// Holds the merged values against the schema of the chart and those of its subcharts. The error is Helm's.
pub fn check(
    chart: &Chart,
    values: &Map,
    profile: Profile,
    budget: &Budget<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<(), Str> {
    let mut complaints = String::new();
    check_tree(chart, values, profile, budget, warnings, &mut complaints);
    if complaints.is_empty() {
        return Ok(());
    }
    Err(format!(
        "values don't meet the specifications of the schema(s) in the following chart(s):\n{complaints}"
    )
    .into())
}

fn check_tree(
    chart: &Chart,
    values: &Map,
    profile: Profile,
    budget: &Budget<'_>,
    warnings: &mut Vec<Warning>,
    complaints: &mut String,
) {
    if let Some(schema) = &chart.schema
        && let Err(complaint) = check_single(schema, values, profile, budget, warnings)
    {
        let _ = write!(complaints, "{}:\n{complaint}", chart.metadata.name);
    }
    for subchart in &chart.dependencies {
        // Merging has made a table for each of them.
        if let Some(Value::Map(values)) = values.get(&subchart.metadata.name) {
            check_tree(subchart, &values, profile, budget, warnings, complaints);
        }
    }
}

/// Holds values against one schema.
pub(crate) fn check_single(
    schema: &[u8],
    values: &Map,
    profile: Profile,
    budget: &Budget<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<(), String> {
    if profile == Profile::Helm3 {
        let values = Value::from(values.clone());
        // Helm 3 writes the values as YAML to read them as JSON. What YAML does not take never meets the schema.
        let extent = values.extent();
        budget.charge(extent as u64).and_then(|()| budget.fits(extent)).map_err(|why| why.to_string())?;
        yaml::write_value(&values).map_err(|error| error.to_string())?;
    }
    budget.charge(schema.len() as u64).map_err(|why| why.to_string())?;
    let most = values_in(schema).saturating_mul(VALUE_BYTES).saturating_add(schema.len());
    budget.fits(most).map_err(|why| why.to_string())?;
    let schema = json::parse(schema).map_err(|error| unreadable(schema, &error))?;
    budget.take_values(count(&schema)).map_err(|why| why.to_string())?;
    let values = to_members(values, budget).map_err(|error| error.to_string())?;
    let values = Data::Map(values);
    match profile {
        Profile::Helm3 => helm3::check(&schema, &values, budget),
        Profile::Helm4 => helm4::check(&schema, &values, budget, warnings),
    }
}

/// No fewer values than a JSON text can have: each but the first has a comma, a colon or a bracket before it.
fn values_in(text: &[u8]) -> usize {
    1 + text.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count()
}

/// Helm reads the schema from a stream, where an early end has another name.
fn unreadable(schema: &[u8], error: &str) -> String {
    match error {
        "unexpected end of JSON input" if schema.trim_ascii().is_empty() => "EOF".to_owned(),
        "unexpected end of JSON input" => "unexpected EOF".to_owned(),
        other => other.to_owned(),
    }
}
