//! JSON schema as in Helm 3: rules, order and messages of gojsonschema.

mod compile;
mod validate;

use helm_template::budget::Budget;
use helm_template::data::Data;

/// Validates values against a schema. The error is a list of lines, or the problem of the schema itself.
pub fn check(schema: &Data, values: &Data, budget: &Budget<'_>) -> Result<(), String> {
    let schemas = compile::compile(schema, budget)?;
    validate::validate(&schemas, values)
}
