//! Schemas as Helm 4 understands them: the rules and the words of santhosh-tekuri's jsonschema.

mod compile;
mod failure;
mod meta;
mod unevaluated;
mod validate;

use helm_template::budget::Budget;
use helm_template::data::Data;

use crate::values::Warning;

/// Holds values against a schema. The error is a tree of lines, or what is wrong with the schema itself.
pub fn check(
    schema: &Data,
    values: &Data,
    budget: &Budget<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<(), String> {
    let schemas = compile::compile(schema, budget, warnings)?;
    validate::validate(&schemas, values)
}
