//! Templates that succeed and templates that fail. Every expectation was compared with Go's own `text/template`.

use std::sync::Arc;

use super::*;
use crate::budget::Unlimited;
use crate::parse::parse;
use crate::value::{List, Map};

fn data() -> Value {
    let map = |entries: Vec<(&str, Value)>| {
        Value::from(Map::from_entries(entries.into_iter().map(|(key, value)| (key.into(), value))))
    };
    map(vec![
        ("name", "x".into()),
        ("none", Value::Nil),
        ("zero", Value::Float(0.0)),
        ("big", Value::Float(12_345_678.0)),
        ("list", List::any([Value::Float(1.0), "two".into(), Value::Nil]).into()),
        ("words", List::strings(["a", "b"]).into()),
        (
            "map",
            map(vec![
                ("b", Value::Float(2.0)),
                ("a", Value::Float(1.0)),
                ("deep", map(vec![("er", "yes".into())])),
            ]),
        ),
        ("empty", Map::new().into()),
    ])
}

fn run(text: &str) -> String {
    let functions = Functions::builtin();
    let templates = match parse("t", text, &functions) {
        Ok(templates) => templates,
        Err(why) => return why.to_string(),
    };
    let set = Templates::default().with(templates.into_iter().map(Arc::new));
    let limits = RenderLimits { steps: 100_000, memory: 10_000, depth: 50 };
    let budget = Budget::new(limits, &Unlimited);
    match Machine::new(set, &functions, RenderEnv::NULL, &budget).run("t", data()) {
        Ok(out) => String::from_utf8(out).unwrap(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn templates_render_like_go() {
    let table = [
        (
            "{{.name}} {{.big}} {{.zero}} {{.list}} {{.map}}",
            "x 1.2345678e+07 0 [1 two <nil>] map[a:1 b:2 deep:map[er:yes]]",
        ),
        ("{{$m := 1}}{{$m := print $m 2}}{{$m}}", "1 2"),
        ("{{$m := .words}}{{range $i, $m := $m}}{{$i}}{{$m}}{{end}}{{$m}}", "0a1b[a b]"),
        ("{{$m := 1}}{{with $m := print $m ($m := 5)}}{{$m}}{{end}}{{$m}}", "1 51"),
        ("{{.missing}} {{.none}}", "<no value> <no value>"),
        ("{{.map.deep.er}} {{(.missing).a.b}}", "yes <no value>"),
        (
            "{{1000000.0}} {{0x1p20}} {{'a'}} {{1_000}} {{true}} {{\"q\"}} {{`r`}}",
            "1e+06 1.048576e+06 97 1000 true q r",
        ),
        ("{{if .zero}}a{{else if .name}}b{{else}}c{{end}}", "b"),
        ("{{with .map}}{{.a}}{{$.name}}{{else}}no{{end}}{{with .empty}}a{{else}}e{{end}}", "1xe"),
        (
            "{{range $i, $e := .words}}{{$i}}={{$e}};{{end}}{{range .map}}{{.}},{{end}}",
            "0=a;1=b;1,2,map[er:yes],",
        ),
        ("{{range .list}}{{.}}|{{end}}{{range .empty}}{{else}}none{{end}}", "1|two|<no value>|none"),
        ("{{range $k, $v := .map}}{{if eq $k \"b\"}}{{break}}{{end}}{{$k}}{{end}}", "a"),
        ("{{range .words}}{{if eq . \"a\"}}{{continue}}{{end}}{{.}}{{end}}", "b"),
        ("{{$x := 1}}{{if true}}{{$x = 2}}{{$y := 3}}{{$x}}{{$y}}{{end}}{{$x}}", "232"),
        ("{{define \"t1\"}}[{{.}}]{{end}}{{template \"t1\" .name}}{{template \"t1\"}}", "[x][<no value>]"),
        ("{{block \"b\" .name}}<{{.}}>{{end}}", "<x>"),
        ("{{and 1 0 2}} {{or 0 \"\" \"z\"}} {{not .name}} {{and .name .missing}}", "0 z false <no value>"),
        (
            "{{len .list}} {{len \"héllo\"}} {{index .map \"b\"}} {{index .list 1}} {{slice \"hello\" 1 3}}",
            "3 6 2 two el",
        ),
        (
            "{{eq .name \"x\"}} {{eq 1 2 1}} {{ne 1.5 1.5}} {{lt 1 2}} {{ge \"b\" \"a\"}} {{eq .none nil}}",
            "true true false true true true",
        ),
        (
            "{{printf \"%d-%s-%v\" 1 .name .list}} {{print 1 2 \"a\" 3}} {{\"a b&c\" | urlquery}} {{html \"<a>\"}}",
            "1-x-[1 two <nil>] 1 2a3 a+b%26c &lt;a&gt;",
        ),
        ("{{range 3}}{{.}}{{end}} {{range $i := 2}}{{$i}}{{end}}", "012 01"),
        ("{{\"a\" | printf \"%s%s\" \"b\"}} {{(index .list 1) | len}}", "ba 3"),
        ("{{ $d := .map }}{{ $d.deep.er }}{{ with $d }}{{ .deep.er }}{{ end }}", "yesyes"),
    ];
    for (text, expected) in table {
        assert_eq!(run(text), expected, "{text}");
    }
}

#[test]
fn errors_match_go() {
    let table = [
        (
            "{{.missing.sub}}",
            "template: t:1:10: executing \"t\" at <.missing.sub>: nil pointer evaluating interface {}.sub",
        ),
        (
            "a\n {{.name.sub}}",
            "template: t:2:8: executing \"t\" at <.name.sub>: can't evaluate field sub in type interface {}",
        ),
        (
            "{{$x := .name}}{{$x.sub}}",
            "template: t:1:19: executing \"t\" at <$x.sub>: can't evaluate field sub in type string",
        ),
        (
            "{{range .list}}{{.foo}}{{end}}",
            "template: t:1:17: executing \"t\" at <.foo>: can't evaluate field foo in type interface {}",
        ),
        ("{{len 3}}", "template: t:1:2: executing \"t\" at <len 3>: error calling len: len of type int"),
        (
            "{{index .list 9}}",
            "template: t:1:2: executing \"t\" at <index .list 9>: error calling index: index out of range: 9",
        ),
        (
            "{{index .list 3}}",
            "template: t:1:2: executing \"t\" at <index .list 3>: error calling index: reflect: slice index out of range",
        ),
        (
            "{{index .name 1}}",
            "template: t:1:2: executing \"t\" at <index .name 1>: error calling index: reflect: string index out of range",
        ),
        (
            "{{eq 1 \"a\"}}",
            "template: t:1:2: executing \"t\" at <eq 1 \"a\">: error calling eq: incompatible types for comparison: int and string",
        ),
        (
            "{{eq .zero 0}}",
            "template: t:1:2: executing \"t\" at <eq .zero 0>: error calling eq: incompatible types for comparison: float64 and int",
        ),
        (
            "{{lt .map 1}}",
            "template: t:1:2: executing \"t\" at <lt .map 1>: error calling lt: invalid type for comparison",
        ),
        ("{{printf 3}}", "template: t:1:9: executing \"t\" at <3>: expected string; found 3"),
        (
            "{{printf .zero}}",
            "template: t:1:9: executing \"t\" at <.zero>: wrong type for value; expected string; got float64",
        ),
        (
            "{{printf .missing}}",
            "template: t:1:9: executing \"t\" at <.missing>: wrong type for value; expected string; got interface {}",
        ),
        (
            "{{.missing | printf}}",
            "template: t:1:13: executing \"t\" at <printf>: invalid value; expected string",
        ),
        (
            "{{not 1 2}}",
            "template: t:1:2: executing \"t\" at <not>: wrong number of args for not: want 1 got 2",
        ),
        (
            "{{printf}}",
            "template: t:1:2: executing \"t\" at <printf>: wrong number of args for printf: want at least 1 got 0",
        ),
        (
            "{{.name 1}}",
            "template: t:1:2: executing \"t\" at <.name>: name is not a method but has arguments",
        ),
        ("{{3 4}}", "template: t:1:2: executing \"t\" at <3>: can't give argument to non-function 3"),
        ("{{nil}}", "template: t:1:2: executing \"t\" at <nil>: nil is not a command"),
        (
            "{{template \"no\"}}",
            "template: t:1:11: executing \"t\" at <{{template \"no\"}}>: template \"no\" not defined",
        ),
        ("{{range .name}}{{end}}", "template: t:1:8: executing \"t\" at <.name>: range can't iterate over x"),
        ("{{$y = 1}}", "template: t:1:7: executing \"t\" at <1>: undefined variable: $y"),
        (
            "{{18446744073709551615}}",
            "template: t:1:2: executing \"t\" at <18446744073709551615>: 18446744073709551615 overflows int",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(run(text), expected, "{text}");
    }
}

#[test]
fn endless_templates_are_stopped() {
    let deep = run("{{define \"r\"}}{{template \"r\"}}{{end}}{{template \"r\"}}");
    assert!(deep.ends_with("exceeded maximum template depth (50)"), "{deep}");
    let long = run("{{range 1000000000}}{{end}}");
    assert!(long.ends_with("too much work: stopped after 100000 steps"), "{long}");
    let wide = run("{{range 1000}}abcdefghijklmnopqrstuvwxyz{{end}}");
    assert!(wide.ends_with("too much memory: stopped after 10000 bytes"), "{wide}");
}
