//! Functions that run templates or query the environment: `include`, `tpl`, `lookup`, `getHostByName`.

use crate::exec::{ExecError, FunctionBody, FunctionRow, Machine};
use crate::value::{Str, Type, Value};

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    ("include",       &[Type::String, Type::Any], false, FunctionBody::Template(include)),
    ("tpl",           &[Type::String, Type::Any], false, FunctionBody::Template(tpl)),
    ("lookup",        &[Type::String; 4],         false, FunctionBody::Machine(lookup)),
    ("getHostByName", &[Type::String],            false, FunctionBody::Machine(get_host_by_name)),
];

fn text(values: &[Value], at: usize) -> Str {
    match values.get(at) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.text().unwrap_or_default().into(),
        None => "".into(),
    }
}

/// The second argument, passed on with its concrete type.
fn data(values: &[Value]) -> Value {
    values.get(1).cloned().unwrap_or_default().unboxed()
}

fn include(machine: &mut Machine<'_>, values: &[Value]) -> Result<Value, ExecError> {
    machine.include(&text(values, 0), data(values))
}

fn tpl(machine: &mut Machine<'_>, values: &[Value]) -> Result<Value, ExecError> {
    machine.execute_text(&text(values, 0), data(values))
}

fn lookup(machine: &mut Machine<'_>, values: &[Value]) -> Result<Value, Str> {
    let [version, kind, namespace, name] = [0, 1, 2, 3].map(|at| text(values, at));
    machine.env.cluster.lookup(&version, &kind, &namespace, &name).map(|found| Value::from(&found))
}

fn get_host_by_name(machine: &mut Machine<'_>, values: &[Value]) -> Result<Value, Str> {
    Ok(machine.env.resolver.resolve(&text(values, 0)).into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::budget::{Budget, RenderLimits, Unlimited};
    use crate::env::RenderEnv;
    use crate::exec::{Machine, Templates};
    use crate::functions::table;
    use crate::parse::parse;
    use crate::profile::Profile;
    use crate::value::Value;

    fn run(text: &str) -> String {
        let functions = table(Profile::Helm4);
        // Without optimisation, this many nested templates need a large stack.
        let limits = RenderLimits { depth: 10_000, ..RenderLimits::default() };
        let budget = Budget::new(limits, &Unlimited);
        let parsed = parse("t", text, &functions).unwrap();
        let set = Templates::default().with(parsed.into_iter().map(Arc::new));
        let mut machine = Machine::new(set, &functions, RenderEnv::NULL, &budget);
        match machine.run("t", Value::string("x")) {
            Ok(out) => String::from_utf8(out).unwrap(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn include_and_tpl_render_nested_templates() {
        let table = [
            (r#"{{define "a"}}<{{.}}>{{end}}{{include "a" 1}}{{include "a" .}}"#, "<1><x>"),
            (r#"{{tpl "{{.}}{{.}}" 2}} {{tpl "plain" .}} {{tpl "a<no value>b" nil}}"#, "22 plain ab"),
            (r#"{{tpl "{{define \"b\"}}B{{end}}{{include \"b\" .}}" .}}"#, "B"),
            (
                r#"{{define "b"}}1{{end}}{{tpl "{{define \"b\"}}2{{end}}{{include \"b\" .}}" .}}{{include "b" .}}"#,
                "21",
            ),
            (r#"{{lookup "v1" "Secret" "" ""}}{{getHostByName "localhost"}}"#, "map[]"),
            (
                r#"{{include "none" .}}"#,
                r#"template: t:1:2: executing "t" at <include "none" .>: error calling include: template: no template "none" associated with template "gotpl""#,
            ),
            (
                r#"{{tpl "{{" .}}"#,
                r#"template: t:1:2: executing "t" at <tpl "{{" .>: error calling tpl: cannot parse template "{{": template: gotpl:1: unclosed action"#,
            ),
            (
                r#"{{tpl "{{.a}}" "x"}}"#,
                r#"template: t:1:2: executing "t" at <tpl "{{.a}}" "x">: error calling tpl: error during tpl function execution for "{{.a}}": template: gotpl:1:2: executing "gotpl" at <.a>: can't evaluate field a in type string"#,
            ),
        ];
        for (text, wanted) in table {
            assert_eq!(run(text), wanted, "{text}");
        }
    }

    /// Deep recursion with many parentheses at each level, on the small stack of a test thread.
    #[test]
    fn endless_recursion_is_stopped() {
        let (open, close) = ("(print ".repeat(50), ")".repeat(50));
        let text = format!(
            r#"{{{{define "a"}}}}{{{{{open}(include "a" .){close}}}}}{{{{end}}}}{{{{include "a" .}}}}"#
        );
        let why = "rendering template has a nested reference name: a: unable to execute template";
        let said = run(&text);
        assert!(said.ends_with(why), "…{}", &said[said.len().saturating_sub(120)..]);
        let why = run(
            r#"{{define "a"}}{{tpl "{{include \"b\" .}}" .}}{{end}}{{define "b"}}{{template "a" .}}{{end}}{{template "a" .}}"#,
        );
        assert!(why.ends_with("unable to execute template"), "{why}");
        let why = run(r#"{{define "a"}}{{template "a" .}}{{end}}{{template "a" .}}"#);
        assert!(why.contains("exceeded maximum template depth ("), "{why}");
        let why = run(r#"{{define "a"}}{{tpl "{{template \"a\" .}}" .}}{{end}}{{template "a" .}}"#);
        assert!(why.contains("exceeded maximum template depth ("), "{why}");
    }
}
