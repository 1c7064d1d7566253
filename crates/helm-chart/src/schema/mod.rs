//! Validation of values against `values.schema.json`.
//!
//! Helm 3 and Helm 4 use different libraries with different rules and messages ([`helm3`], [`helm4`]). Both compile
//! to one [`model`]. References to other documents are errors: nothing outside the schema is read.

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

use helm_template::budget::{Budget, VALUE_BYTES, count_values};
use helm_template::data::Data;
use helm_template::json;
use helm_template::profile::Profile;
use helm_template::value::{Map, Str, Value};
use helm_template::yaml;

use crate::chart::Chart;
use crate::values::{ValuesWarning, to_members};

/// Validates the merged values against the schemas of the chart and its subcharts. The error is Helm's message.
pub fn check(
    chart: &Chart,
    values: &Map,
    profile: Profile,
    budget: &Budget<'_>,
    warnings: &mut Vec<ValuesWarning>,
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
    warnings: &mut Vec<ValuesWarning>,
    complaints: &mut String,
) {
    if let Some(schema) = &chart.schema
        && let Err(complaint) = check_single(schema, values, profile, budget, warnings)
    {
        let _ = write!(complaints, "{}:\n{complaint}", chart.metadata.name);
    }
    for subchart in &chart.dependencies {
        // Merging created a table for each subchart.
        if let Some(Value::Map(values)) = values.get(&subchart.metadata.name) {
            check_tree(subchart, &values, profile, budget, warnings, complaints);
        }
    }
}

/// Validates values against one schema.
pub(crate) fn check_single(
    schema: &[u8],
    values: &Map,
    profile: Profile,
    budget: &Budget<'_>,
    warnings: &mut Vec<ValuesWarning>,
) -> Result<(), String> {
    if profile == Profile::Helm3 {
        let values = Value::from(values.clone());
        // Helm 3 converts the values through YAML to JSON. Values that YAML rejects never reach the schema.
        let extent = values.extent();
        budget.charge(extent as u64).and_then(|()| budget.fits(extent)).map_err(|why| why.to_string())?;
        yaml::write_value(&values).map_err(|error| error.to_string())?;
    }
    budget.charge(schema.len() as u64).map_err(|why| why.to_string())?;
    let most = estimate_value_count(schema).saturating_mul(VALUE_BYTES).saturating_add(schema.len());
    budget.fits(most).map_err(|why| why.to_string())?;
    let schema = json::parse(schema).map_err(|error| decode_error(schema, &error))?;
    budget.allocate_values(count_values(&schema)).map_err(|why| why.to_string())?;
    let values = to_members(values, budget).map_err(|error| error.to_string())?;
    let values = Data::Map(values);
    match profile {
        Profile::Helm3 => helm3::check(&schema, &values, budget),
        Profile::Helm4 => helm4::check(&schema, &values, budget, warnings),
    }
}

/// Upper bound of the values in a JSON text: each but the first follows a comma, colon or bracket.
fn estimate_value_count(text: &[u8]) -> usize {
    1 + text.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count()
}

/// Helm decodes the schema from a stream, where truncated input has another message.
fn decode_error(schema: &[u8], error: &str) -> String {
    match error {
        "unexpected end of JSON input" if schema.trim_ascii().is_empty() => "EOF".to_owned(),
        "unexpected end of JSON input" => "unexpected EOF".to_owned(),
        other => other.to_owned(),
    }
}
