//! Default values and refusals: `default`, `coalesce`, `ternary`, `fail`, `required`.

use super::arguments::{FunctionResult, text};
use crate::exec::{FunctionBody, FunctionRow, IgnoredFailure, Machine};
use crate::value::{Type, Value};

const ANY: &[Type] = &[Type::Any];

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    ("default",  &[Type::Any, Type::Any], true, FunctionBody::Plain(default)),
    ("empty",    ANY, false, FunctionBody::Plain(|args| Ok(is_empty(&args[0]).into()))),
    ("coalesce", ANY, true,  FunctionBody::Plain(coalesce)),
    ("all",      ANY, true,  FunctionBody::Plain(|args| Ok((!args.iter().any(is_empty)).into()))),
    ("any",      ANY, true,  FunctionBody::Plain(|args| Ok((!args.iter().all(is_empty)).into()))),
    ("ternary",  &[Type::Any, Type::Any, Type::Bool], false, FunctionBody::Plain(ternary)),
    ("fail",     &[Type::String], false, FunctionBody::Machine(fail)),
    ("required", &[Type::String, Type::Any], false, FunctionBody::Machine(required)),
];

/// Markers around a chart author's message in an error. Users are shown the text between them.
pub const AUTHOR_MESSAGE_MARKERS: (&str, &str) = ("HELM_ERR_START", "HELM_ERR_END");

/// Whether a value is nil, zero, false, or an empty string, list or map.
pub(super) fn is_empty(value: &Value) -> bool {
    !value.is_true()
}

fn default(args: &[Value]) -> FunctionResult {
    Ok(match args.get(1) {
        Some(given) if !is_empty(given) => given.clone(),
        _ => args[0].clone(),
    })
}

fn coalesce(args: &[Value]) -> FunctionResult {
    Ok(args.iter().find(|arg| !is_empty(arg)).cloned().unwrap_or_default())
}

fn ternary(args: &[Value]) -> FunctionResult {
    Ok(args[usize::from(!args[2].is_true())].clone())
}

fn fail(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    fail_unless_lint(machine, &args[0], IgnoredFailure::Failed)
}

/// Fails for nil and for an empty string. Zero is a value.
fn required(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    match &args[1] {
        Value::Nil | Value::Null => fail_unless_lint(machine, &args[0], IgnoredFailure::MissingValue),
        Value::String(given) if given.is_empty() => {
            fail_unless_lint(machine, &args[0], IgnoredFailure::EmptyValue)
        }
        given => Ok(given.clone()),
    }
}

fn fail_unless_lint(
    machine: &mut Machine<'_>,
    message: &Value,
    what: fn(String) -> IgnoredFailure,
) -> FunctionResult {
    let message = text(message);
    if machine.is_lint {
        machine.record_ignored_failure(what(message.into()));
        return Ok("".into());
    }
    let (start, end) = AUTHOR_MESSAGE_MARKERS;
    Err(format!("{start}{message}{end}").into())
}
