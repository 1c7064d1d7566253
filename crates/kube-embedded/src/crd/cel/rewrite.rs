//! Expands macros that the parser does not support into expressions that the interpreter does.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, ListExpr, LiteralValue,
    MapEntryExpr, SelectExpr, operators,
};

/// Rewrites the whole tree, innermost first.
pub fn rewrite(mut node: IdedExpr) -> IdedExpr {
    node.expr = match node.expr {
        Expr::Call(call) => rewrite_call(call),
        Expr::Select(select) => Expr::Select(SelectExpr { operand: boxed(*select.operand), ..select }),
        Expr::List(list) => {
            Expr::List(ListExpr { elements: list.elements.into_iter().map(rewrite).collect(), ..list })
        }
        Expr::Map(mut map) => {
            map.entries = map.entries.into_iter().map(rewrite_entry).collect();
            Expr::Map(map)
        }
        Expr::Comprehension(loops) => {
            let loops = *loops;
            Expr::Comprehension(Box::new(ComprehensionExpr {
                iter_range: rewrite(loops.iter_range),
                accu_init: rewrite(loops.accu_init),
                loop_cond: rewrite(loops.loop_cond),
                loop_step: rewrite(loops.loop_step),
                result: rewrite(loops.result),
                ..loops
            }))
        }
        other => other,
    };
    node
}

fn rewrite_entry(entry: IdedEntryExpr) -> IdedEntryExpr {
    let expr = match entry.expr {
        EntryExpr::MapEntry(map) => {
            EntryExpr::MapEntry(MapEntryExpr { key: rewrite(map.key), value: rewrite(map.value), ..map })
        }
        field @ EntryExpr::StructField(_) => field,
    };
    IdedEntryExpr { expr, ..entry }
}

fn boxed(node: IdedExpr) -> Box<IdedExpr> {
    Box::new(rewrite(node))
}

fn rewrite_call(written: CallExpr) -> Expr {
    let mut target = written.target.map(|target| boxed(*target));
    let mut args: Vec<IdedExpr> = written.args.into_iter().map(rewrite).collect();
    let call_name = written.func_name;
    match call_name.as_str() {
        // The interpreter's `a.?b` fails where `a[?'b']` returns none.
        operators::OPT_SELECT => {
            return Expr::Call(CallExpr { func_name: operators::OPT_INDEX.to_owned(), target, args });
        }
        // `l.sortBy(x, key)`
        "sortBy" if target.is_some() && args.len() == 2 => {
            if let Expr::Ident(name) = &args[0].expr {
                let name = name.clone();
                let key = args.pop().expect("two arguments");
                let list = *target.take().expect("checked above");
                let keys = node(expand_collect(name, list.clone(), key, None));
                return call("@sortBy", vec![list, keys]);
            }
        }
        // `m.all(k, v, p)`: over the pairs of a map or list
        "all" | "exists" | "existsOne" | "exists_one" | "transformList"
            if target.is_some() && (args.len() == 3 || args.len() == 4) =>
        {
            if let (Expr::Ident(key), Expr::Ident(value)) = (&args[0].expr, &args[1].expr) {
                let (key, value) = (key.clone(), value.clone());
                let part = |at: i64| node(call(operators::INDEX, vec![ident("#pair"), integer(at)]));
                let with = |body: IdedExpr| {
                    node(expand_bind(key.clone(), part(0), node(expand_bind(value.clone(), part(1), body))))
                };
                let pairs = node(call("@pairs", vec![*target.take().expect("checked above")]));
                let body = with(args.pop().expect("at least three arguments"));
                let filter = (args.len() == 3).then(|| with(args.pop().expect("three are left")));
                return match call_name.as_str() {
                    "transformList" => expand_collect("#pair".to_owned(), pairs, body, filter),
                    name => expand_quantifier(name, pairs, body),
                };
            }
        }
        // `o.optMap(x, body)`: `o.hasValue() ? optional.of(body with x = o.value()) : optional.none()`
        "optMap" | "optFlatMap" if target.is_some() && args.len() == 2 => {
            if let Expr::Ident(name) = &args[0].expr {
                let name = name.clone();
                let body = args.pop().expect("two arguments");
                let optional = *target.take().expect("checked above");
                let value = method(optional.clone(), "value", Vec::new());
                let bound = node(expand_bind(name, value, body));
                let some = if call_name == "optMap" { optional_call("of", vec![bound]) } else { bound };
                return Expr::Call(CallExpr {
                    func_name: operators::CONDITIONAL.to_owned(),
                    target: None,
                    args: vec![
                        method(optional, "hasValue", Vec::new()),
                        some,
                        optional_call("none", Vec::new()),
                    ],
                });
            }
        }
        _ => {}
    }
    Expr::Call(CallExpr { func_name: call_name, target, args })
}

fn node(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

fn ident(name: &str) -> IdedExpr {
    node(Expr::Ident(name.to_owned()))
}

fn literal(value: LiteralValue) -> IdedExpr {
    node(Expr::Literal(value))
}

fn integer(value: i64) -> IdedExpr {
    literal(LiteralValue::Int(value.into()))
}

fn call(name: &str, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args })
}

fn accumulate(
    variable: String,
    range: IdedExpr,
    init: IdedExpr,
    cond: IdedExpr,
    step: Expr,
    result: Expr,
) -> Expr {
    Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: range,
        iter_var: variable,
        iter_var2: None,
        accu_var: "@result".to_owned(),
        accu_init: init,
        loop_cond: cond,
        loop_step: node(step),
        result: node(result),
    }))
}

/// Expands `all`, `exists` and `existsOne` over pairs.
fn expand_quantifier(name: &str, pairs: IdedExpr, body: IdedExpr) -> Expr {
    let so_far = || ident("@result");
    let boolean = |value: bool| literal(LiteralValue::Boolean(value.into()));
    let going = |node_: IdedExpr| node(call(operators::NOT_STRICTLY_FALSE, vec![node_]));
    let result = Expr::Ident("@result".to_owned());
    let variable = "#pair".to_owned();
    match name {
        "all" => {
            let step = call(operators::LOGICAL_AND, vec![so_far(), body]);
            accumulate(variable, pairs, boolean(true), going(so_far()), step, result)
        }
        "exists" => {
            let not_yet = node(call(operators::LOGICAL_NOT, vec![so_far()]));
            let step = call(operators::LOGICAL_OR, vec![so_far(), body]);
            accumulate(variable, pairs, boolean(false), going(not_yet), step, result)
        }
        _ => {
            let more = node(call(operators::ADD, vec![so_far(), integer(1)]));
            let step = call(operators::CONDITIONAL, vec![body, more, so_far()]);
            let result = call(operators::EQUALS, vec![so_far(), integer(1)]);
            accumulate(variable, pairs, integer(0), boolean(true), step, result)
        }
    }
}

/// Expands to a list of `body` for every element that passes the filter.
fn expand_collect(variable: String, range: IdedExpr, body: IdedExpr, filter: Option<IdedExpr>) -> Expr {
    let one = node(Expr::List(ListExpr::new(vec![body])));
    let mut step = call(operators::ADD, vec![ident("@result"), one]);
    if let Some(filter) = filter {
        step = call(operators::CONDITIONAL, vec![filter, node(step), ident("@result")]);
    }
    let result = Expr::Ident("@result".to_owned());
    let always = literal(LiteralValue::Boolean(true.into()));
    accumulate(variable, range, node(Expr::List(ListExpr::default())), always, step, result)
}

/// Calls a function of the library `optional`.
fn optional_call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    method(node(Expr::Ident("optional".to_owned())), name, args)
}

fn method(target: IdedExpr, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    node(Expr::Call(CallExpr { func_name: name.to_owned(), target: Some(Box::new(target)), args }))
}

/// Binds a variable: a loop over an empty list, whose accumulator is the variable.
fn expand_bind(name: String, init: IdedExpr, body: IdedExpr) -> Expr {
    Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: node(Expr::List(ListExpr::default())),
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        loop_step: node(Expr::Ident(name.clone())),
        accu_var: name,
        accu_init: init,
        loop_cond: node(Expr::Literal(LiteralValue::Boolean(false.into()))),
        result: body,
    }))
}
