//! Regular expression functions.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::exec::{Machine, Row, Run};
use crate::go::regexp::{Alphabet, Expression, Subject, quote_meta};
use crate::go::{can_backquote, quote};
use crate::profile::Profile;
use crate::value::{List, Str, Type, Value};

type Done = Result<Value, Str>;

const ONE: &[Type] = &[Type::String];
const TWO: &[Type] = &[Type::String, Type::String];
const THREE: &[Type] = &[Type::String, Type::String, Type::String];
const LIMITED: &[Type] = &[Type::String, Type::String, Type::Int];

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
    ("regexMatch",                 TWO,     false, Run::Machine(is_match)),
    ("mustRegexMatch",             TWO,     false, Run::Machine(must_match)),
    ("regexFind",                  TWO,     false, Run::Machine(|m, args| find(&compile(m, args)?, args))),
    ("mustRegexFind",              TWO,     false, Run::Machine(|m, args| find(&must(m, args)?, args))),
    ("regexFindAll",               LIMITED, false, Run::Machine(|m, args| find_all(&compile(m, args)?, m, args))),
    ("mustRegexFindAll",           LIMITED, false, Run::Machine(|m, args| find_all(&must(m, args)?, m, args))),
    ("regexSplit",                 LIMITED, false, Run::Machine(|m, args| split(&compile(m, args)?, m, args))),
    ("mustRegexSplit",             LIMITED, false, Run::Machine(|m, args| split(&must(m, args)?, m, args))),
    ("regexReplaceAll",            THREE,   false, Run::Machine(|m, args| replace(&compile(m, args)?, m, args))),
    ("mustRegexReplaceAll",        THREE,   false, Run::Machine(|m, args| replace(&must(m, args)?, m, args))),
    ("regexReplaceAllLiteral",     THREE,   false, Run::Machine(|m, args| replace_literally(&compile(m, args)?, m, args))),
    ("mustRegexReplaceAllLiteral", THREE,   false, Run::Machine(|m, args| replace_literally(&must(m, args)?, m, args))),
    ("regexQuoteMeta",             ONE,     false, Run::Plain(|args| Ok(Value::string_of(quote_meta(bytes(&args[0])))))),
];

/// Cache capacity per profile and alphabet. Charts use the same few expressions repeatedly, often in loops.
const KEPT: usize = 256;

type Kept = HashMap<(Profile, Alphabet), HashMap<Box<str>, Rc<Expression>>>;

thread_local! {
    static COMPILED: RefCell<Kept> = RefCell::new(Kept::new());
}

/// Compiles the first argument, for matching against the second argument.
fn must(machine: &mut Machine<'_>, args: &[Value]) -> Result<Rc<Expression>, Str> {
    let profile = machine.functions.profile;
    let pattern = match &args[0] {
        Value::Raw(bytes) => {
            let valid = bytes.utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
            let rest = String::from_utf8_lossy(&bytes[valid..]);
            return Err(format!("error parsing regexp: invalid UTF-8: `{rest}`").into());
        }
        pattern => pattern.as_str().unwrap_or_default(),
    };
    let alphabet = Alphabet::of(args.get(1).map_or(&[], bytes));
    let expression = COMPILED.with_borrow_mut(|kept| {
        let kept = kept.entry((profile, alphabet)).or_default();
        if let Some(expression) = kept.get(pattern) {
            return Ok::<_, Str>(expression.clone());
        }
        let expression = match Expression::compile_for(alphabet, pattern, profile) {
            Ok(expression) => Rc::new(expression),
            Err(why) => {
                machine.charge(Expression::steps_to_refuse(&why, pattern))?;
                return Err(why.into());
            }
        };
        machine.charge(expression.steps_to_compile())?;
        // Larger expressions are not cached.
        if expression.is_small() {
            if kept.len() >= KEPT {
                kept.clear();
            }
            kept.insert(pattern.into(), expression.clone());
        }
        Ok(expression)
    })?;
    // Charges the first search. Later searches in the same text are charged through `toll`.
    machine.charge(expression.steps(args.get(1).map_or(0, Value::width)))?;
    Ok(expression)
}

fn toll(machine: &mut Machine<'_>) -> impl FnMut(u64, usize) -> Result<(), Str> {
    |steps, bytes| {
        machine.charge(steps)?;
        machine.room_for(bytes)
    }
}

/// Like [`must`], for the functions that panic in Go when the expression is invalid.
fn compile(machine: &mut Machine<'_>, args: &[Value]) -> Result<Rc<Expression>, Str> {
    must(machine, args).map_err(|why| {
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
    List::texts(found.iter().map(|bytes| Value::string_of(bytes.to_vec()))).into()
}

/// The only function that ignores an invalid expression.
fn is_match(machine: &mut Machine<'_>, args: &[Value]) -> Done {
    Ok(must(machine, args).is_ok_and(|expression| expression.is_match(&subject(args))).into())
}

fn must_match(machine: &mut Machine<'_>, args: &[Value]) -> Done {
    Ok(must(machine, args)?.is_match(&subject(args)).into())
}

fn find(expression: &Rc<Expression>, args: &[Value]) -> Done {
    Ok(Value::string_of(expression.find(&subject(args)).to_vec()))
}

fn find_all(expression: &Rc<Expression>, machine: &mut Machine<'_>, args: &[Value]) -> Done {
    let found = expression.find_all(&subject(args), limit(args), &mut toll(machine))?;
    Ok(if found.is_empty() { List::nil_strings().into() } else { strings(&found) })
}

fn split(expression: &Rc<Expression>, machine: &mut Machine<'_>, args: &[Value]) -> Done {
    let limit = limit(args);
    Ok(if limit == 0 {
        List::nil_strings().into()
    } else {
        strings(&expression.split(&subject(args), limit, &mut toll(machine))?)
    })
}

fn replace(expression: &Rc<Expression>, machine: &mut Machine<'_>, args: &[Value]) -> Done {
    expression.replace_all(&subject(args), bytes(&args[2]), &mut toll(machine)).map(Value::string_of)
}

fn replace_literally(expression: &Rc<Expression>, machine: &mut Machine<'_>, args: &[Value]) -> Done {
    expression.replace_literally(&subject(args), bytes(&args[2]), &mut toll(machine)).map(Value::string_of)
}
