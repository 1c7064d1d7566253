//! Regular expression functions.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::exec::{FunctionBody, FunctionRow, Machine};
use crate::go::regexp::{Alphabet, Expression, Subject, quote_meta};
use crate::go::{can_backquote, quote};
use crate::profile::Profile;
use crate::value::{List, Str, Type, Value};

type RegexResult = Result<Value, Str>;

const ONE: &[Type] = &[Type::String];
const TWO: &[Type] = &[Type::String, Type::String];
const THREE: &[Type] = &[Type::String, Type::String, Type::String];
const LIMITED: &[Type] = &[Type::String, Type::String, Type::Int];

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    ("regexMatch",                 TWO,     false, FunctionBody::Machine(is_match)),
    ("mustRegexMatch",             TWO,     false, FunctionBody::Machine(must_match)),
    ("regexFind",                  TWO,     false, FunctionBody::Machine(|m, args| find(&compile_with_panic_message(m, args)?, args))),
    ("mustRegexFind",              TWO,     false, FunctionBody::Machine(|m, args| find(&compile_cached(m, args)?, args))),
    ("regexFindAll",               LIMITED, false, FunctionBody::Machine(|m, args| find_all(&compile_with_panic_message(m, args)?, m, args))),
    ("mustRegexFindAll",           LIMITED, false, FunctionBody::Machine(|m, args| find_all(&compile_cached(m, args)?, m, args))),
    ("regexSplit",                 LIMITED, false, FunctionBody::Machine(|m, args| split(&compile_with_panic_message(m, args)?, m, args))),
    ("mustRegexSplit",             LIMITED, false, FunctionBody::Machine(|m, args| split(&compile_cached(m, args)?, m, args))),
    ("regexReplaceAll",            THREE,   false, FunctionBody::Machine(|m, args| replace(&compile_with_panic_message(m, args)?, m, args))),
    ("mustRegexReplaceAll",        THREE,   false, FunctionBody::Machine(|m, args| replace(&compile_cached(m, args)?, m, args))),
    ("regexReplaceAllLiteral",     THREE,   false, FunctionBody::Machine(|m, args| replace_literally(&compile_with_panic_message(m, args)?, m, args))),
    ("mustRegexReplaceAllLiteral", THREE,   false, FunctionBody::Machine(|m, args| replace_literally(&compile_cached(m, args)?, m, args))),
    ("regexQuoteMeta",             ONE,     false, FunctionBody::Plain(|args| Ok(Value::string_from_bytes(quote_meta(bytes(&args[0])))))),
];

/// Cache capacity per profile and alphabet. Charts use the same few expressions repeatedly, often in loops.
const CACHE_CAPACITY: usize = 256;

type ExpressionCache = HashMap<(Profile, Alphabet), HashMap<Box<str>, Rc<Expression>>>;

thread_local! {
    static COMPILED: RefCell<ExpressionCache> = RefCell::new(ExpressionCache::new());
}

/// Compiles the first argument, for matching against the second argument.
fn compile_cached(machine: &mut Machine<'_>, args: &[Value]) -> Result<Rc<Expression>, Str> {
    let profile = machine.functions.profile;
    let pattern = match &args[0] {
        Value::Raw(bytes) => {
            let valid = bytes.utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
            let rest = String::from_utf8_lossy(&bytes[valid..]);
            return Err(format!("error parsing regexp: invalid UTF-8: `{rest}`").into());
        }
        pattern => pattern.as_str().unwrap_or_default(),
    };
    let alphabet = Alphabet::from_text(args.get(1).map_or(&[], bytes));
    let expression = COMPILED.with_borrow_mut(|kept| {
        let kept = kept.entry((profile, alphabet)).or_default();
        if let Some(expression) = kept.get(pattern) {
            return Ok::<_, Str>(expression.clone());
        }
        let expression = match Expression::compile_for(alphabet, pattern, profile) {
            Ok(expression) => Rc::new(expression),
            Err(why) => {
                machine.charge(Expression::steps_to_reject(&why, pattern))?;
                return Err(why.into());
            }
        };
        machine.charge(expression.steps_to_compile())?;
        // Larger expressions are not cached.
        if expression.is_small() {
            if kept.len() >= CACHE_CAPACITY {
                kept.clear();
            }
            kept.insert(pattern.into(), expression.clone());
        }
        Ok(expression)
    })?;
    // Charges the first search. Later searches in the same text are charged through [`charge_callback`].
    machine.charge(expression.steps(args.get(1).map_or(0, Value::width)))?;
    Ok(expression)
}

fn charge_callback(machine: &mut Machine<'_>) -> impl FnMut(u64, usize) -> Result<(), Str> {
    |steps, bytes| {
        machine.charge(steps)?;
        machine.check_memory(bytes)
    }
}

/// Like [`compile_cached`], for the functions that panic in Go when the expression is invalid.
fn compile_with_panic_message(machine: &mut Machine<'_>, args: &[Value]) -> Result<Rc<Expression>, Str> {
    compile_cached(machine, args).map_err(|why| {
        let pattern = args[0].text().unwrap_or_default();
        let shown = if can_backquote(&pattern) { format!("`{pattern}`") } else { quote(&pattern) };
        format!("regexp: Compile({shown}): {why}").into()
    })
}

fn bytes(value: &Value) -> &[u8] {
    value.string_bytes().unwrap_or_default()
}

fn subject(args: &[Value]) -> Subject<'_> {
    Subject::new(bytes(&args[1]))
}

fn limit(args: &[Value]) -> i64 {
    if let Value::Int(limit) = args[2] { limit } else { -1 }
}

fn strings(found: &[&[u8]]) -> Value {
    List::texts(found.iter().map(|bytes| Value::string_from_bytes(bytes.to_vec()))).into()
}

/// The only function that ignores an invalid expression.
fn is_match(machine: &mut Machine<'_>, args: &[Value]) -> RegexResult {
    Ok(compile_cached(machine, args).is_ok_and(|expression| expression.is_match(&subject(args))).into())
}

fn must_match(machine: &mut Machine<'_>, args: &[Value]) -> RegexResult {
    Ok(compile_cached(machine, args)?.is_match(&subject(args)).into())
}

fn find(expression: &Rc<Expression>, args: &[Value]) -> RegexResult {
    Ok(Value::string_from_bytes(expression.find(&subject(args)).to_vec()))
}

fn find_all(expression: &Rc<Expression>, machine: &mut Machine<'_>, args: &[Value]) -> RegexResult {
    let found = expression.find_all(&subject(args), limit(args), &mut charge_callback(machine))?;
    Ok(if found.is_empty() { List::nil_strings().into() } else { strings(&found) })
}

fn split(expression: &Rc<Expression>, machine: &mut Machine<'_>, args: &[Value]) -> RegexResult {
    let limit = limit(args);
    Ok(if limit == 0 {
        List::nil_strings().into()
    } else {
        strings(&expression.split(&subject(args), limit, &mut charge_callback(machine))?)
    })
}

fn replace(expression: &Rc<Expression>, machine: &mut Machine<'_>, args: &[Value]) -> RegexResult {
    expression
        .replace_all(&subject(args), bytes(&args[2]), &mut charge_callback(machine))
        .map(Value::string_from_bytes)
}

fn replace_literally(expression: &Rc<Expression>, machine: &mut Machine<'_>, args: &[Value]) -> RegexResult {
    expression
        .replace_literally(&subject(args), bytes(&args[2]), &mut charge_callback(machine))
        .map(Value::string_from_bytes)
}
