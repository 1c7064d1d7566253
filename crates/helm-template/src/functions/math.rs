//! Math functions: integers that wrap around as in Go, decimals, and integer sequences.

use super::arguments::{FunctionResult, int};
use super::decimal::Decimal;
use super::numbers::{to_float, to_int};
use crate::exec::{FunctionBody, FunctionRow, Machine};
use crate::value::{List, Str, Type, Value};

const ANY: &[Type] = &[Type::Any];
const TWO: &[Type] = &[Type::Any, Type::Any];
const STEPS: &[Type] = &[Type::Int, Type::Int, Type::Int];

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    ("add",       ANY, true,  FunctionBody::Plain(|args| fold_ints(0, args, i64::wrapping_add))),
    ("add1",      ANY, false, FunctionBody::Plain(|args| fold_ints(1, args, i64::wrapping_add))),
    ("sub",       TWO, false, FunctionBody::Plain(|args| fold_ints_from_first(args, i64::wrapping_sub))),
    ("mul",       TWO, true,  FunctionBody::Plain(|args| fold_ints_from_first(args, i64::wrapping_mul))),
    ("div",       TWO, false, FunctionBody::Plain(|args| divide_ints(args, i64::wrapping_div))),
    ("mod",       TWO, false, FunctionBody::Plain(|args| divide_ints(args, i64::wrapping_rem))),
    ("max",       TWO, true,  FunctionBody::Plain(|args| fold_ints_from_first(args, i64::max))),
    ("biggest",   TWO, true,  FunctionBody::Plain(|args| fold_ints_from_first(args, i64::max))),
    ("min",       TWO, true,  FunctionBody::Plain(|args| fold_ints_from_first(args, i64::min))),
    ("addf",      ANY, true,  FunctionBody::Plain(|args| fold_decimals(Decimal::new(0.0)?, args, |a, b| Ok(a.add(b))))),
    ("add1f",     ANY, false, FunctionBody::Plain(|args| fold_decimals(Decimal::new(1.0)?, args, |a, b| Ok(a.add(b))))),
    ("subf",      TWO, true,  FunctionBody::Plain(|args| fold_decimals_from_first(args, |a, b| Ok(a.subtract(b))))),
    ("mulf",      TWO, true,  FunctionBody::Plain(|args| fold_decimals_from_first(args, |a, b| Ok(a.multiply(b))))),
    ("divf",      TWO, true,  FunctionBody::Plain(|args| fold_decimals_from_first(args, Decimal::divide))),
    ("maxf",      TWO, true,  FunctionBody::Plain(|args| Ok(fold_floats(args, larger)))),
    ("minf",      TWO, true,  FunctionBody::Plain(|args| Ok(fold_floats(args, smaller)))),
    ("ceil",      ANY, false, FunctionBody::Plain(|args| Ok(Value::Float(to_float(&args[0]).ceil())))),
    ("floor",     ANY, false, FunctionBody::Plain(|args| Ok(Value::Float(to_float(&args[0]).floor())))),
    ("round",     &[Type::Any, Type::Int, Type::Float64], true, FunctionBody::Plain(round)),
    ("seq",       &[Type::Int], true,  FunctionBody::Machine(seq)),
    ("until",     &[Type::Int], false, FunctionBody::Machine(until)),
    ("untilStep", STEPS,        false, FunctionBody::Machine(until_step)),
];

fn fold_ints(start: i64, args: &[Value], op: fn(i64, i64) -> i64) -> FunctionResult {
    Ok(Value::Int64(args.iter().map(to_int).fold(start, op)))
}

fn fold_ints_from_first(args: &[Value], op: fn(i64, i64) -> i64) -> FunctionResult {
    fold_ints(to_int(&args[0]), &args[1..], op)
}

fn divide_ints(args: &[Value], op: fn(i64, i64) -> i64) -> FunctionResult {
    if to_int(&args[1]) == 0 {
        return Err("runtime error: integer divide by zero".into());
    }
    fold_ints_from_first(args, op)
}

type Op = fn(&Decimal, &Decimal) -> Result<Decimal, Str>;

fn fold_decimals(start: Decimal, args: &[Value], op: Op) -> FunctionResult {
    let result = args.iter().try_fold(start, |sum, arg| op(&sum, &Decimal::new(to_float(arg))?))?;
    Ok(Value::Float(result.to_float()))
}

fn fold_decimals_from_first(args: &[Value], op: Op) -> FunctionResult {
    fold_decimals(Decimal::new(to_float(&args[0]))?, &args[1..], op)
}

fn fold_floats(args: &[Value], of: fn(f64, f64) -> f64) -> Value {
    Value::Float(args[1..].iter().map(to_float).fold(to_float(&args[0]), of))
}

/// The larger number. NaN wins over numbers, but not over positive infinity.
fn larger(a: f64, b: f64) -> f64 {
    if a == f64::INFINITY || b == f64::INFINITY {
        f64::INFINITY
    } else if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == 0.0 && b == 0.0 {
        if a.is_sign_negative() { b } else { a }
    } else {
        a.max(b)
    }
}

fn smaller(a: f64, b: f64) -> f64 {
    -larger(-a, -b)
}

/// Rounds to a number of decimal places; fractions at or above 0.5, or the given threshold, round up.
fn round(args: &[Value]) -> FunctionResult {
    let from = args.get(2).map_or(0.5, to_float);
    let power = power_of_ten(int(&args[1]));
    let shifted = power * to_float(&args[0]);
    let rounded = if shifted.fract() >= from { shifted.ceil() } else { shifted.floor() };
    Ok(Value::Float(rounded / power))
}

/// `math.Pow(10, n)`, bit-exact: Go multiplies mantissa and exponent of ten separately, by repeated squaring over the bits of `n`.
fn power_of_ten(n: i64) -> f64 {
    let (mut fraction, mut exponent) = (0.625, 4_i32);
    let (mut product, mut shift) = (1.0, 0_i32);
    let mut bits = n.unsigned_abs();
    while bits != 0 {
        if exponent > 1 << 12 {
            shift += exponent;
            break;
        }
        if bits & 1 == 1 {
            product *= fraction;
            shift += exponent;
        }
        fraction *= fraction;
        exponent <<= 1;
        if fraction < 0.5 {
            fraction += fraction;
            exponent -= 1;
        }
        bits >>= 1;
    }
    if n < 0 {
        (product, shift) = (1.0 / product, -shift);
    }
    // In two steps, because one power of two could overflow a float.
    let half = shift / 2;
    product * 2.0_f64.powi(half) * 2.0_f64.powi(shift - half)
}

fn until(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    let end = int(&args[0]);
    Ok(List::ints(steps(machine, 0, end, if end < 0 { -1 } else { 1 })?).into())
}

fn until_step(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    Ok(List::ints(steps(machine, int(&args[0]), int(&args[1]), int(&args[2]))?).into())
}

/// Numbers from `start` up or down to `end`, exclusive.
fn steps(
    machine: &mut Machine<'_>,
    start: i64,
    end: i64,
    step: i64,
) -> Result<impl Iterator<Item = i64>, Str> {
    let down = end < start;
    let none = if down { step >= 0 } else { step <= 0 };
    let count = if none { 0 } else { start.abs_diff(end).div_ceil(step.unsigned_abs()) };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    machine.check_memory(count.saturating_mul(size_of::<Value>()))?;
    Ok((0..).map(move |n: i64| start.wrapping_add(n.wrapping_mul(step))).take(count))
}

/// The sequence as text, inclusive of `end`, like the `seq` program.
fn seq(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    let beyond = |start: i64, end: i64| if end < start { end.wrapping_sub(1) } else { end.wrapping_add(1) };
    let direction = |start: i64, end: i64| if end < start { -1 } else { 1 };
    let params: Vec<_> = args.iter().map(int).collect();
    let (start, end, step) = match *params.as_slice() {
        [end] => (1, beyond(1, end), direction(1, end)),
        [start, end] => (start, beyond(start, end), direction(start, end)),
        [start, step, end] => (start, beyond(start, end), step),
        _ => return Ok("".into()),
    };
    let words: Vec<_> = steps(machine, start, end, step)?.map(|n| n.to_string()).collect();
    Ok(words.join(" ").into())
}
