//! Schemas as Helm 3 understands them: the rules, the order and the words of gojsonschema.

mod compile;
mod validate;

use helm_template::budget::Budget;
use helm_template::data::Data;

/// Holds values against a schema. The error is a list of lines, or what is wrong with the schema itself.
pub fn check(schema: &Data, values: &Data, budget: &Budget<'_>) -> Result<(), String> {
    let schemas = compile::compile(schema, budget)?;
    validate::validate(&schemas, values)
}
