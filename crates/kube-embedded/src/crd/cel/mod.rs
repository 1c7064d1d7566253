//! Common Expression Language: rules of CRDs and of admission policies.
//!
//! The interpreter and the Kubernetes libraries come from `kube-cel`. This module adds the static check (`check`), a budget (`meter`),
//! macros (`rewrite`), optional field selection, and the error texts of Kubernetes. An expression that cannot be evaluated is an error,
//! never a pass.
//!
//! Invariant: evaluating an [`Expression`] ends and uses bounded memory, because its cost is bounded before it starts and counted while it
//! runs.

pub mod check;
pub mod cost;
mod height;
mod meter;
mod rewrite;
pub mod rules;
pub mod values;

use std::cmp::Ordering;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, Value as Cel};

/// Maximum nesting of brackets and conditionals, checked before parsing because the parser recurses.
const MAX_NESTING: usize = 40;
const MAX_LENGTH: usize = 20_000;
/// Maximum depth of a tree: all walks recurse.
const MAX_DEPTH: usize = 150;
/// Maximum estimated height, checked before parsing. Larger than [`MAX_DEPTH`] because the estimate counts the operands of one operator as
/// if they were nested.
const MAX_HEIGHT: usize = 2 * MAX_DEPTH;
/// Longer expressions are parsed on a separate stack.
const MAX_INLINE_PARSE_LEN: usize = 200;
/// Twice the stack of the deepest accepted expression in an unoptimised build.
const DEEP_STACK_BYTES: usize = 64 << 20;
/// Deeper trees are also evaluated on a separate stack: the interpreter recurses, with large frames.
const MAX_INLINE_DEPTH: usize = 25;
/// Maximum number of steps of one evaluation.
const MAX_STEPS: u64 = 20_000_000;

/// All functions, without variables.
static FUNCTION_LIBRARY: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut library = Context::default().with_all();
    library.add_function("dyn", |value: Cel| -> Result<Cel, ExecutionError> { Ok(value) });
    library.add_function("bool", |value: Cel| -> Result<Cel, ExecutionError> {
        match &value {
            Cel::Bool(_) => Ok(value),
            Cel::String(text) => match text.as_str() {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Cel::Bool(true)),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Cel::Bool(false)),
                _ => Err(ExecutionError::function_error("bool", "type conversion error")),
            },
            _ => Err(ExecutionError::NoSuchOverload),
        }
    });
    library.add_function("@pairs", pairs);
    library.add_function("@sortBy", sort_by);
    meter::register_functions(&mut library);
    library
});

/// Returns keys or indices with their values, for macros with two variables.
fn pairs(container: Cel) -> Result<Cel, ExecutionError> {
    let pair = |key: Cel, value: Cel| Cel::List(Arc::new(vec![key, value]));
    let all = match container {
        Cel::List(items) => {
            (0..).zip(items.iter()).map(|(at, item)| pair(Cel::Int(at), item.clone())).collect()
        }
        Cel::Map(map) => map.map.iter().map(|(key, value)| pair(key.clone().into(), value.clone())).collect(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(Cel::List(Arc::new(all)))
}

#[expect(clippy::needless_pass_by_value, reason = "the interpreter hands over what it made")]
fn sort_by(list: Arc<Vec<Cel>>, keys: Arc<Vec<Cel>>) -> Result<Cel, ExecutionError> {
    let mut both: Vec<(&Cel, &Cel)> = keys.iter().zip(list.iter()).collect();
    let comparable = both.windows(2).all(|two| two[0].0.partial_cmp(two[1].0).is_some());
    if !comparable {
        return Err(ExecutionError::NoSuchOverload);
    }
    both.sort_by(|a, b| a.0.partial_cmp(b.0).unwrap_or(Ordering::Equal));
    Ok(Cel::List(Arc::new(both.into_iter().map(|(_, item)| item.clone()).collect())))
}

/// A parsed expression.
#[derive(Debug)]
pub struct Expression {
    pub source: Box<str>,
    root: IdedExpr,
    /// The instrumented tree that is evaluated.
    instrumented: IdedExpr,
    needs_deep_stack: bool,
}

impl Expression {
    /// Whether the expression is only a field, at any depth, of one of `roots`.
    pub fn reads_field_of(&self, roots: &[&str]) -> bool {
        let mut here = &self.root.expr;
        while let Expr::Select(select) = here {
            here = &select.operand.expr;
        }
        matches!(here, Expr::Ident(name) if roots.contains(&name.as_str()))
    }

    /// Parses an expression; the error is the text that Kubernetes prints after `compilation failed: `.
    pub fn parse(source: &str) -> Result<Self, String> {
        if source.len() > MAX_LENGTH || nesting(source) > MAX_NESTING || height::height(source) > MAX_HEIGHT {
            return Err(too_deep_message(source));
        }
        if source.len() <= MAX_INLINE_PARSE_LEN {
            return Self::parse_on_this_stack(source);
        }
        match on_stack(DEEP_STACK_BYTES, || Self::parse_on_this_stack(source)) {
            Ok(parsed) => parsed.unwrap_or_else(|| Err(syntax_error_message(source))),
            Err(error) => Err(thread_error_message(&error)),
        }
    }

    fn parse_on_this_stack(source: &str) -> Result<Self, String> {
        // The parser is generated third-party code: a panic in it is a parse error.
        let parsed =
            catch_unwind(AssertUnwindSafe(|| Parser::new().enable_optional_syntax(true).parse(source)));
        match parsed {
            Ok(Ok(root)) if depth(&root) > MAX_DEPTH => Err(too_deep_message(source)),
            Ok(Ok(root)) => {
                let root = rewrite::rewrite(root);
                let metered = meter::instrument(&root);
                Ok(Self {
                    source: source.into(),
                    needs_deep_stack: depth(&metered) > MAX_INLINE_DEPTH,
                    instrumented: metered,
                    root,
                })
            }
            Ok(Err(errors)) => {
                let texts = errors.errors.iter().map(|error| {
                    let (line, column) = error.pos;
                    let line = usize::try_from(line).unwrap_or(1).max(1);
                    let column = usize::try_from(column).unwrap_or(1).max(1);
                    format_error_at(source, line, column, &error.msg)
                });
                Err(texts.collect::<Vec<_>>().join("\n"))
            }
            Err(_) => Err(syntax_error_message(source)),
        }
    }

    pub fn uses_variable(&self, variable: &str) -> bool {
        self.root.references().has_variable(variable)
    }

    pub fn root(&self) -> &IdedExpr {
        &self.root
    }

    /// Evaluates with these variables. `largest` is the size of the largest list or map in them.
    pub fn evaluate(&self, variables: &Context<'_>, largest: usize) -> Result<Cel, EvaluationError> {
        if max_steps(&self.root, u64::try_from(largest.max(1)).unwrap_or(u64::MAX)) > MAX_STEPS {
            return Err(EvaluationError::TooExpensive);
        }
        let resolve = || {
            meter::with_budget(|| {
                catch_unwind(AssertUnwindSafe(|| Cel::resolve(&self.instrumented, variables)))
            })
        };
        let resolved = if self.needs_deep_stack {
            let resolved = on_stack(DEEP_STACK_BYTES, resolve)
                .map_err(|error| EvaluationError::Error(thread_error_message(&error)))?;
            resolved.flatten()
        } else {
            resolve()
        };
        match resolved.ok_or(EvaluationError::TooExpensive)? {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(EvaluationError::Error(cel_go_message(&error))),
            Err(_) => Err(EvaluationError::Error("internal error".to_owned())),
        }
    }
}

/// Runs `work` on a thread with this stack size; `None` if it panicked. An error means that the thread could not be started.
fn on_stack<T: Send>(size: usize, work: impl FnOnce() -> T + Send) -> io::Result<Option<T>> {
    std::thread::scope(|threads| {
        let builder = std::thread::Builder::new().name("cel".to_owned()).stack_size(size);
        Ok(builder.spawn_scoped(threads, work)?.join().ok())
    })
}

/// An error of the server, not of the expression.
fn thread_error_message(error: &io::Error) -> String {
    format!("internal error: the server cannot start a thread for the expression ({error}); try again later")
}

/// Why an evaluation has no result.
#[derive(Debug, PartialEq, Eq)]
pub enum EvaluationError {
    /// It would exceed the step limit.
    TooExpensive,
    Error(String),
}

/// Returns a scope above the libraries, for variables.
pub fn scope() -> Context<'static> {
    FUNCTION_LIBRARY.new_inner_scope()
}

/// Returns the text of cel-go for an error.
fn cel_go_message(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::NoSuchOverload
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::UnsupportedTargetType { .. }
        | ExecutionError::NotSupportedAsMethod { .. }
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnexpectedType { .. } => "no such overload".to_owned(),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(Cel::Int(at)) => format!("index out of bounds: {at}"),
        ExecutionError::UndeclaredReference(name) => format!("no such attribute(s): {name}"),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

fn too_deep_message(source: &str) -> String {
    format_error(source, 0, "expression recursion limit exceeded: 250")
}

fn syntax_error_message(source: &str) -> String {
    format_error(source, 0, "Syntax error: the expression cannot be parsed")
}

/// Returns the depth of a tree.
fn depth(node: &IdedExpr) -> usize {
    1 + children(node).into_iter().map(depth).max().unwrap_or_default()
}

fn children(node: &IdedExpr) -> Vec<&IdedExpr> {
    match &node.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map
            .entries
            .iter()
            .flat_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
                EntryExpr::StructField(field) => vec![&field.value],
            })
            .collect(),
        Expr::Comprehension(loops) => {
            vec![&loops.iter_range, &loops.accu_init, &loops.loop_cond, &loops.loop_step, &loops.result]
        }
        _ => Vec::new(),
    }
}

/// Returns an upper bound of the nesting of brackets and conditionals.
fn nesting(source: &str) -> usize {
    let (mut depth, mut deepest, mut conditionals) = (0usize, 0usize, 0usize);
    for c in source.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '?' => conditionals += 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest.max(conditionals / 2)
}

/// Upper bound of the steps of an evaluation in which no range is longer than `largest`.
fn max_steps(node: &IdedExpr, largest: u64) -> u64 {
    let sum = |nodes: &[&IdedExpr]| -> u64 {
        nodes.iter().fold(1u64, |total, node| total.saturating_add(max_steps(node, largest)))
    };
    let Expr::Comprehension(loops) = &node.expr else { return sum(&children(node)) };
    let once = sum(&[&loops.loop_cond, &loops.loop_step]);
    let rounds = match &loops.iter_range.expr {
        Expr::List(list) => u64::try_from(list.elements.len()).unwrap_or(u64::MAX),
        _ => largest,
    };
    sum(&[&loops.iter_range, &loops.accu_init, &loops.result]).saturating_add(once.saturating_mul(rounds))
}

/// Formats an error at a byte offset: `ERROR: <input>:1:5: ...` with the line and a caret.
pub fn format_error(source: &str, offset: usize, text: &str) -> String {
    let before = source.get(..offset).unwrap_or(source);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    format_error_at(source, line, before[start..].chars().count() + 1, text)
}

fn format_error_at(source: &str, line: usize, column: usize, text: &str) -> String {
    let snippet = source.lines().nth(line - 1).unwrap_or_default().replace('\t', " ");
    let dots = ".".repeat(column - 1);
    format!("ERROR: <input>:{line}:{column}: {text}\n | {snippet}\n | {dots}^")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(source: &str) -> Result<Cel, EvaluationError> {
        Expression::parse(source).unwrap().evaluate(&scope(), 10)
    }

    #[test]
    fn missing_functions_and_macros_are_added() {
        let table = [
            "{'a': 1, 'b': 2}.all(k, v, v > 0 && k < 'c') && !{'a': 1}.exists(k, v, v > 1)",
            "[5, 6].existsOne(i, v, i == 1 && v == 6) && [5, 6].transformList(i, v, i * v) == [0, 6]",
            "[3, 1, 2].sortBy(x, -x) == [3, 2, 1]",
            "{'a': 1}.?a.orValue(2) == 1",
            "{'a': 1}.?b.orValue(2) == 2",
            "{'a': {'b': 1}}.?a.?b.orValue(2) == 1",
            "{'a': {'b': 1}}[?'c'].?b.orValue(2) == 2",
            "optional.of(3).optMap(v, v + 1).value() == 4",
            "optional.none().optMap(v, v + 1).orValue(0) == 0",
            "dyn(1) == 1",
            "bool('true')",
            "quantity('1Gi').isGreaterThan(quantity('1M'))",
            "[1, 2].all(i, i > 0) && [1, 2].exists_one(i, i == 1)",
            "'a-b'.split('-').size() == 2",
            "'abc'.split('') == ['a', 'b', 'c'] && 'abc'.split('', 2) == ['a', 'bc'] && ''.split('') == []",
            "'a-b-c'.split('-', 2) == ['a', 'b-c'] && 'a'.split('-', 0) == [] && 'abab'.replace('b', 'c', 1) == 'acab'",
            "['a', 'b'].join('-') == 'a-b' && 'ab'.replace('', '.') == '.a.b.'",
            "isURL('https://x.y') && url('https://x.y').getHost() == 'x.y'",
        ];
        for source in table {
            assert_eq!(run(source), Ok(Cel::Bool(true)), "{source}");
        }
    }

    #[test]
    fn evaluation_errors_have_kubernetes_messages() {
        let error = |source: &str| match run(source) {
            Err(EvaluationError::Error(text)) => text,
            other => panic!("{source}: {other:?}"),
        };
        assert_eq!(error("{'a': 1}.b == 1"), "no such key: b");
        assert_eq!(error("1 / 0 == 1"), "division by zero");
        assert_eq!(error("[1][3] == 1"), "index out of bounds: 3");
    }

    #[test]
    fn invalid_and_hostile_expressions_are_rejected() {
        let error = Expression::parse("1 +").unwrap_err();
        assert!(error.starts_with("ERROR: <input>:1:4: Syntax error: "), "{error}");
        assert!(error.ends_with("\n | 1 +\n | ...^"), "{error}");
        let deep = format!("{}1{}", "(".repeat(5000), ")".repeat(5000));
        assert!(Expression::parse(&deep).is_err());
        for hostile in [
            format!("self{}", ".a".repeat(9_000)),
            format!("{}true", "!".repeat(19_000)),
            format!("{}1", "1+".repeat(9_000)),
            format!("{}1", "-".repeat(19_001)),
            format!("{}true", "true&&".repeat(3_000)),
            format!("a{}", "[0]".repeat(6_000)),
            format!("a{}", ".f()".repeat(4_900)),
            "\u{0}\u{ffff}'".to_owned(),
            "9223372036854775808 == 1".to_owned(),
            "'\\uD800' == ''".to_owned(),
        ] {
            if let Ok(expression) = Expression::parse(&hostile) {
                let _ = expression.evaluate(&scope(), 1);
            }
        }
        let product = "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d > 0))))";
        let expression = Expression::parse(product).unwrap();
        assert_eq!(expression.evaluate(&scope(), 1000), Err(EvaluationError::TooExpensive));
    }

    #[test]
    fn deepest_accepted_expressions_fit_half_of_the_stack() {
        let nested = |open: &str, close: &str, times: usize, core: &str| {
            format!("{}{core}{}{}", open.repeat(times), close.repeat(times), " ".repeat(MAX_INLINE_PARSE_LEN))
        };
        let list = format!("[{}]", ["1"; 3].join(","));
        let mut accepted = 0;
        for source in [
            nested("", ".a", 149, "self"),
            nested("", "[0]", 149, "self"),
            nested("", ".f()", 149, "self"),
            nested("", " + 1", 149, "1"),
            nested("!", "", 149, "true"),
            nested("-", "", 149, "self"),
            nested("", " in [true]", 140, "true"),
            nested("(", ")", 40, "1"),
            nested("(1 + ", ")", 40, "1"),
            nested("(1 + 1 + 1 + ", ")", 36, "1"),
            nested("[", "]", 40, "1"),
            nested("{'a': ", "}", 40, "1"),
            nested("f(", ")", 40, "1"),
            nested("", " && (true || false)", 800, "true"),
            nested("", " || true", 2_000, "true"),
            nested("true ? 1 : (", ")", 39, "1"),
            nested(&format!("{list}.map(a, "), ")", 8, "a"),
            nested(&format!("{list}.all(a, "), ")", 20, "true"),
        ] {
            println!("{}", source.chars().take(60).collect::<String>());
            let fits = on_stack(DEEP_STACK_BYTES / 2, || {
                let Ok(expression) = Expression::parse_on_this_stack(&source) else { return false };
                let _ = Cel::resolve(&expression.instrumented, &scope());
                true
            });
            accepted += usize::from(fits.unwrap().unwrap());
        }
        assert!(accepted > 8, "only {accepted} were accepted");
    }

    #[test]
    fn failed_thread_start_is_not_reported_as_a_syntax_error() {
        let error = on_stack(1 << 46, || ()).unwrap_err();
        let text = thread_error_message(&error);
        assert!(text.contains("cannot start a thread") && text.contains(&error.to_string()), "{text}");
        assert!(!text.to_lowercase().contains("syntax"), "{text}");
    }

    #[test]
    fn evaluation_is_stopped_when_values_grow() {
        let text = format!("'{}'", "a".repeat(1_000));
        let hundred = format!("[{}]", vec!["1"; 100].join(","));
        let doubled = (0..19).fold("[1]".to_owned(), |list, _| format!("[{list}].map(l, l + l)[0]"));
        for hostile in [
            format!("{text}.replace('', {text}).replace('', {text}).replace('', {text}).size() < 0"),
            format!(
                "{text}.split('').all(a, {text}.split('').all(b, {text}.split('').all(c, a + b + c != 'b')))"
            ),
            format!("{hundred}.map(a, {hundred}.map(b, {hundred}.map(c, c))).size() < 0"),
            format!("{hundred}.map(a, {hundred}.map(b, {text}.lowerAscii() + {text})).size() < 0"),
            format!("{text}.split('').join({text}).split('').join({text}).size() < 0"),
            "lists.range(1000000000).size() < 0".to_owned(),
            format!(
                "'{}'.format([{}]).size() < 0",
                "%s".repeat(500),
                vec![format!("{text}.replace('a', {text})"); 500].join(",")
            ),
            format!("{doubled}.size() < 0").chars().take(MAX_LENGTH).collect(),
        ] {
            let Ok(expression) = Expression::parse(&hostile) else { continue };
            let short: String = hostile.chars().take(80).collect();
            assert_eq!(expression.evaluate(&scope(), 1), Err(EvaluationError::TooExpensive), "{short}");
        }
    }
}
