//! Runtime cost limit of CEL evaluations.
//!
//! A static bound is not sufficient: `split`, `replace` and `+` create values larger than any variable. The evaluated tree is therefore
//! instrumented: each round of a loop is charged for its nodes (`@round`), and each operand of a computed value for its size (`@weigh`),
//! before the value is created. The tree that is checked and estimated stays as written.

use std::cell::Cell;
use std::sync::Arc;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};
use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::{Context, ExecutionError, Value as Cel};

use super::children;

/// Budget of one evaluation: a quarter of a million steps, or ten megabytes of text.
const MAX_COST: u64 = 1_000_000;
const NODE_COST: u64 = 4;
const ELEMENT_COST: u64 = 2;
const BYTES_PER_COST_UNIT: u64 = 10;

/// Identifiers before a dot that are not values.
const NAMESPACES: &[&str] =
    &["base64", "cidr", "format", "ip", "jsonpatch", "lists", "math", "optional", "sets", "strings"];

thread_local! {
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Runs `evaluation` on this thread; `None` if it exceeds its budget.
pub fn with_budget<T>(evaluation: impl FnOnce() -> T) -> Option<T> {
    LEFT.set(Some(MAX_COST));
    let result = evaluation();
    LEFT.get().map(|_| result)
}

fn spend(cost: u64) -> Result<(), ExecutionError> {
    LEFT.set(LEFT.get().and_then(|left| left.checked_sub(cost)));
    match LEFT.get() {
        Some(_) => Ok(()),
        None => Err(ExecutionError::function_error(
            "evaluation",
            "operation cancelled: actual cost limit exceeded",
        )),
    }
}

fn size(value: &Cel) -> u64 {
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    match value {
        Cel::String(text) => count(text.len()) / BYTES_PER_COST_UNIT,
        Cel::Bytes(bytes) => count(bytes.len()) / BYTES_PER_COST_UNIT,
        // Texts inside are shared until a new value is computed from them.
        Cel::List(items) => items.iter().fold(0, |sum, item| {
            sum + ELEMENT_COST
                + if let Cel::String(text) = item { count(text.len()) / BYTES_PER_COST_UNIT } else { 0 }
        }),
        Cel::Map(map) => count(map.map.len()).saturating_mul(ELEMENT_COST),
        _ => 0,
    }
}

/// Adds the charging functions, and replacements for functions whose results can be far larger than their arguments.
pub fn register_functions(library: &mut Context<'_>) {
    library.add_function("@round", |cost: i64, goes_on: Cel| -> Result<Cel, ExecutionError> {
        spend(cost.unsigned_abs())?;
        Ok(goes_on)
    });
    library.add_function("@weigh", |value: Cel| -> Result<Cel, ExecutionError> {
        spend(size(&value))?;
        Ok(value)
    });
    library.add_function("replace", replace);
    library.add_function("split", split);
    library.add_function("join", join);
    library.add_function("lists.range", |length: i64| -> Result<Cel, ExecutionError> {
        spend(length.max(0).unsigned_abs().saturating_mul(ELEMENT_COST))?;
        Ok(Cel::List(Arc::new((0..length).map(Cel::Int).collect())))
    });
}

fn replace(This(text): This<Arc<String>>, Arguments(args): Arguments) -> Result<Cel, ExecutionError> {
    let (Some(Cel::String(from)), Some(Cel::String(to))) = (args.first(), args.get(1)) else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let most = match args.get(2) {
        Some(Cel::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX), // negative: all
        _ => usize::MAX,
    };
    let found = text.matches(from.as_str()).take(most).count();
    spend_bytes(found.saturating_mul(to.len()))?;
    Ok(Cel::String(Arc::new(text.replacen(from.as_str(), to, most))))
}

fn split(This(text): This<Arc<String>>, Arguments(args): Arguments) -> Result<Cel, ExecutionError> {
    let Some(Cel::String(between)) = args.first() else { return Err(ExecutionError::NoSuchOverload) };
    let most = match args.get(1) {
        Some(Cel::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX), // negative: all
        _ => usize::MAX,
    };
    let found =
        if between.is_empty() { text.chars().count() } else { text.matches(between.as_str()).count() + 1 };
    spend(u64::try_from(found.min(most)).unwrap_or(u64::MAX).saturating_mul(ELEMENT_COST))?;
    let parts: Vec<&str> = if between.is_empty() {
        split_chars(&text, most)
    } else {
        text.splitn(most, between.as_str()).collect()
    };
    Ok(Cel::List(Arc::new(parts.into_iter().map(|part| Cel::String(Arc::new(part.to_owned()))).collect())))
}

/// Splits into at most `most` parts, of one character each but the last.
fn split_chars(text: &str, most: usize) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next().filter(|_| parts.len() < most) {
        let end = if parts.len() + 1 == most { rest.len() } else { first.len_utf8() };
        let (part, after) = rest.split_at(end);
        parts.push(part);
        rest = after;
    }
    parts
}

fn join(This(list): This<Arc<Vec<Cel>>>, Arguments(args): Arguments) -> Result<Cel, ExecutionError> {
    let between = match args.first() {
        Some(Cel::String(between)) => between.as_str(),
        Some(_) => return Err(ExecutionError::NoSuchOverload),
        None => "",
    };
    spend_bytes(list.len().saturating_mul(between.len()))?;
    let mut joined = String::new();
    for (place, part) in list.iter().enumerate() {
        let Cel::String(part) = part else { return Err(ExecutionError::NoSuchOverload) };
        if place > 0 {
            joined.push_str(between);
        }
        joined.push_str(part);
    }
    Ok(Cel::String(Arc::new(joined)))
}

fn spend_bytes(bytes: usize) -> Result<(), ExecutionError> {
    spend(u64::try_from(bytes).unwrap_or(u64::MAX) / BYTES_PER_COST_UNIT)
}

/// Returns the expression with charges inserted.
pub fn instrument(node: &IdedExpr) -> IdedExpr {
    let all = |nodes: &[IdedExpr]| nodes.iter().map(instrument).collect::<Vec<_>>();
    let expr = match &node.expr {
        Expr::Call(written) => {
            let mut call = CallExpr {
                func_name: written.func_name.clone(),
                target: written.target.as_deref().map(|target| Box::new(instrument(target))),
                args: all(&written.args),
            };
            // The rounds of a loop have already been charged for its result list.
            let gathers =
                matches!(&written.args[..], [so_far, ..] if is_ident(so_far, |name| name == "@result"));
            if written.func_name == operators::ADD && !gathers || is_function(&written.func_name) {
                call.args = call.args.into_iter().map(with_size_charge).collect();
            }
            call.target = call.target.map(|target| {
                let namespace = is_ident(&target, |name| NAMESPACES.contains(&name));
                if namespace { target } else { Box::new(with_size_charge(*target)) }
            });
            Expr::Call(call)
        }
        Expr::Comprehension(loops) => {
            let nodes = nodes_per_round(&loops.loop_cond) + nodes_per_round(&loops.loop_step);
            let cost = i64::try_from(nodes.saturating_mul(NODE_COST)).unwrap_or(i64::MAX);
            let cost = new_node(Expr::Literal(LiteralValue::Int(cost.into())));
            Expr::Comprehension(Box::new(ComprehensionExpr {
                iter_range: instrument(&loops.iter_range),
                accu_init: instrument(&loops.accu_init),
                loop_cond: call("@round", vec![cost, instrument(&loops.loop_cond)]),
                loop_step: instrument(&loops.loop_step),
                result: instrument(&loops.result),
                ..ComprehensionExpr::clone(loops)
            }))
        }
        Expr::Select(select) => {
            let mut select = select.clone();
            select.operand = Box::new(instrument(&select.operand));
            Expr::Select(select)
        }
        Expr::List(list) => {
            let mut list = list.clone();
            list.elements = all(&list.elements);
            Expr::List(list)
        }
        Expr::Map(map) => {
            let mut map = map.clone();
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    (entry.key, entry.value) = (instrument(&entry.key), instrument(&entry.value));
                }
            }
            Expr::Map(map)
        }
        other => other.clone(),
    };
    IdedExpr { id: node.id, expr }
}

/// Whether a name is a function: operators have names that cannot be written, the internal functions begin with `@`.
fn is_function(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
}

fn is_ident(node: &IdedExpr, which: impl Fn(&str) -> bool) -> bool {
    matches!(&node.expr, Expr::Ident(name) if which(name))
}

/// Number of nodes that one round evaluates; nested loops are charged separately.
fn nodes_per_round(node: &IdedExpr) -> u64 {
    match &node.expr {
        Expr::Comprehension(loops) => 1 + nodes_per_round(&loops.iter_range),
        _ => 1 + children(node).into_iter().map(nodes_per_round).sum::<u64>(),
    }
}

fn with_size_charge(node: IdedExpr) -> IdedExpr {
    match node.expr {
        Expr::Literal(_) => node,
        _ => call("@weigh", vec![node]),
    }
}

fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    new_node(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
}

fn new_node(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}
