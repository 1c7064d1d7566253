//! Macros that the parser does not know, spelled out in terms of what the interpreter can do.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, ListExpr, MapEntryExpr,
    SelectExpr, operators,
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

fn rewrite_call(call: CallExpr) -> Expr {
    let mut target = call.target.map(|target| boxed(*target));
    let mut args: Vec<IdedExpr> = call.args.into_iter().map(rewrite).collect();
    let on_cel = matches!(target.as_ref().map(|t| &t.expr), Some(Expr::Ident(name)) if name == "cel");
    match call.func_name.as_str() {
        // The interpreter's own `a.?b` fails where `a[?'b']` gives none.
        operators::OPT_SELECT => {
            return Expr::Call(CallExpr { func_name: operators::OPT_INDEX.to_owned(), target, args });
        }
        // cel.bind(x, init, body)
        "bind" if on_cel && args.len() == 3 => {
            if let Expr::Ident(name) = &args[0].expr {
                let name = name.clone();
                let body = args.pop().expect("three arguments");
                let init = args.pop().expect("three arguments");
                return bind(name, init, body);
            }
        }
        // o.optMap(x, body): o.hasValue() ? optional.of(body with x = o.value()) : optional.none()
        "optMap" | "optFlatMap" if target.is_some() && args.len() == 2 => {
            if let Expr::Ident(name) = &args[0].expr {
                let name = name.clone();
                let body = args.pop().expect("two arguments");
                let optional = *target.take().expect("checked above");
                let value = method(optional.clone(), "value", Vec::new());
                let bound = node(bind(name, value, body));
                let some = if call.func_name == "optMap" { function("of", vec![bound]) } else { bound };
                return Expr::Call(CallExpr {
                    func_name: operators::CONDITIONAL.to_owned(),
                    target: None,
                    args: vec![method(optional, "hasValue", Vec::new()), some, function("none", Vec::new())],
                });
            }
        }
        _ => {}
    }
    Expr::Call(CallExpr { func_name: call.func_name, target, args })
}

fn node(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

/// `optional.of(...)`
fn function(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    method(node(Expr::Ident("optional".to_owned())), name, args)
}

fn method(target: IdedExpr, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    node(Expr::Call(CallExpr { func_name: name.to_owned(), target: Some(Box::new(target)), args }))
}

/// A loop over nothing, whose accumulator is the variable.
fn bind(name: String, init: IdedExpr, body: IdedExpr) -> Expr {
    Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: node(Expr::List(ListExpr::default())),
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        loop_step: node(Expr::Ident(name.clone())),
        accu_var: name,
        accu_init: init,
        loop_cond: node(Expr::Literal(kube_cel::cel::common::ast::LiteralValue::Boolean(false.into()))),
        result: body,
    }))
}
