//! JSON schema as in Helm 4: rules and messages of santhosh-tekuri's jsonschema.

mod compile;
mod failure;
mod meta;
mod unevaluated;
mod validate;

use helm_template::budget::Budget;
use helm_template::data::Data;

use crate::values::ValuesWarning;

/// Validates values against a schema. The error is a tree of lines, or the problem of the schema itself.
pub fn check(
    schema: &Data,
    values: &Data,
    budget: &Budget<'_>,
    warnings: &mut Vec<ValuesWarning>,
) -> Result<(), String> {
    let schemas = compile::compile(schema, budget, warnings)?;
    validate::validate(&schemas, values)
}
