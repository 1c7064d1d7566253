//! Default values and refusals: `default`, `coalesce`, `ternary`, `fail`, `required`.

use super::arguments::{Done, text};
use crate::exec::{Machine, Overlooked, Row, Run};
use crate::value::{Type, Value};

const ANY: &[Type] = &[Type::Any];

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
    ("default",  &[Type::Any, Type::Any], true, Run::Plain(default)),
    ("empty",    ANY, false, Run::Plain(|args| Ok(is_empty(&args[0]).into()))),
    ("coalesce", ANY, true,  Run::Plain(coalesce)),
    ("all",      ANY, true,  Run::Plain(|args| Ok((!args.iter().any(is_empty)).into()))),
    ("any",      ANY, true,  Run::Plain(|args| Ok((!args.iter().all(is_empty)).into()))),
    ("ternary",  &[Type::Any, Type::Any, Type::Bool], false, Run::Plain(ternary)),
    ("fail",     &[Type::String], false, Run::Machine(fail)),
    ("required", &[Type::String, Type::Any], false, Run::Machine(required)),
];

/// Markers around a chart author's message in an error. Users are shown the text between them.
pub const SAID_BY_CHART: (&str, &str) = ("HELM_ERR_START", "HELM_ERR_END");

/// Whether a value is nil, zero, false, or an empty string, list or map.
pub(super) fn is_empty(value: &Value) -> bool {
    !value.is_true()
}

fn default(args: &[Value]) -> Done {
    Ok(match args.get(1) {
        Some(given) if !is_empty(given) => given.clone(),
        _ => args[0].clone(),
    })
}

fn coalesce(args: &[Value]) -> Done {
    Ok(args.iter().find(|arg| !is_empty(arg)).cloned().unwrap_or_default())
}

fn ternary(args: &[Value]) -> Done {
    Ok(args[usize::from(!args[2].is_true())].clone())
}

fn fail(machine: &mut Machine<'_>, args: &[Value]) -> Done {
    refuse(machine, &args[0], Overlooked::Failed)
}

/// Fails for nil and for an empty string. Zero is a value.
fn required(machine: &mut Machine<'_>, args: &[Value]) -> Done {
    match &args[1] {
        Value::Nil | Value::Null => refuse(machine, &args[0], Overlooked::Missing),
        Value::String(given) if given.is_empty() => refuse(machine, &args[0], Overlooked::Empty),
        given => Ok(given.clone()),
    }
}

fn refuse(machine: &mut Machine<'_>, message: &Value, what: fn(String) -> Overlooked) -> Done {
    let message = text(message);
    if machine.lint {
        machine.overlook(what(message.into()));
        return Ok("".into());
    }
    let (start, end) = SAID_BY_CHART;
    Err(format!("{start}{message}{end}").into())
}
