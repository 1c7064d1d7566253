//! Conversion between numbers and strings, and Go type inspection.

use super::arguments::{FunctionResult, text};
use super::numbers::{decimal, to_float, to_int};
use crate::exec::{FunctionBody, FunctionRow, Machine};
use crate::go::print;
use crate::value::{Type, Value, deep_equal_counted};

const ANY: &[Type] = &[Type::Any];
const NAMED: &[Type] = &[Type::String, Type::Any];

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    ("atoi",       &[Type::String], false, FunctionBody::Plain(|args| Ok(Value::Int(decimal(&text(&args[0])))))),
    ("int",        ANY,   false, FunctionBody::Plain(|args| Ok(Value::Int(to_int(&args[0]))))),
    ("int64",      ANY,   false, FunctionBody::Plain(|args| Ok(Value::Int64(to_int(&args[0]))))),
    ("float64",    ANY,   false, FunctionBody::Plain(|args| Ok(Value::Float(to_float(&args[0]))))),
    ("toDecimal",  ANY,   false, FunctionBody::Plain(|args| Ok(Value::Int64(octal(&args[0]))))),
    ("typeOf",     ANY,   false, FunctionBody::Plain(|args| Ok(args[0].type_name().into()))),
    ("typeIs",     NAMED, false, FunctionBody::Plain(|args| Ok((text(&args[0]) == args[1].type_name()).into()))),
    ("typeIsLike", NAMED, false, FunctionBody::Plain(type_is_like)),
    ("kindOf",     ANY,   false, FunctionBody::Plain(|args| Ok(args[0].kind().name().into()))),
    ("kindIs",     NAMED, false, FunctionBody::Plain(|args| Ok((text(&args[0]) == args[1].kind().name()).into()))),
    ("deepEqual",  &[Type::Any, Type::Any], false, FunctionBody::Machine(are_equal)),
];

fn are_equal(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    let (equal, looked) = deep_equal_counted(&args[0], &args[1]);
    machine.charge(looked)?;
    Ok(equal.into())
}

/// Parses an octal file mode such as `0755`.
fn octal(value: &Value) -> i64 {
    i64::from_str_radix(&print(value), 8).unwrap_or_default()
}

/// Also accepts a pointer to the type.
fn type_is_like(args: &[Value]) -> FunctionResult {
    let (wanted, is) = (text(&args[0]), args[1].type_name());
    Ok((wanted == is || Some(wanted.as_ref()) == is.strip_prefix('*')).into())
}
