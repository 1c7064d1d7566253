//! Valid templates, and invalid ones with Go's messages.

use super::*;
use crate::budget::{RenderLimits, Unlimited};

struct KnownFunctions;

impl FunctionResolver for KnownFunctions {
    fn find(&self, name: &str) -> Option<(u32, &'static str)> {
        (0..).zip(["printf", "len", "f"]).find(|(_, known)| *known == name)
    }
}

/// Prints nodes as Go does.
fn print_nodes(nodes: &[Node], text: &str) -> String {
    let branch = |name: &str, b: &Branch| {
        let otherwise = if b.else_body.is_empty() {
            String::new()
        } else {
            format!("{{{{else}}}}{}", print_nodes(&b.else_body, text))
        };
        format!("{{{{{name} {}}}}}{}{otherwise}{{{{end}}}}", b.pipe, print_nodes(&b.body, text))
    };
    let one = |node: &Node| match node {
        Node::Text { from, to } => quote(&text[*from as usize..*to as usize]),
        Node::Action(pipe) => format!("{{{{{pipe}}}}}"),
        Node::If(b) => branch("if", b),
        Node::With(b) => branch("with", b),
        Node::Range(b) => branch("range", b),
        Node::Template { name, argument, .. } => invocation(name, argument.as_deref()),
        Node::Break => "{{break}}".to_owned(),
        Node::Continue => "{{continue}}".to_owned(),
    };
    nodes.iter().map(one).collect()
}

fn parse_and_print(text: &str) -> String {
    match parse("t", text, &KnownFunctions) {
        Ok(templates) => print_nodes(&templates.last().unwrap().body, text),
        Err(why) => why.to_string(),
    }
}

#[test]
fn parsed_templates_print_like_go() {
    let table = [
        ("", ""),
        ("{{/* c */}}", ""),
        ("some text", "\"some text\""),
        ("{{printf `%d` 23}}", "{{printf `%d` 23}}"),
        ("{{.X.Y | f | printf \"a\" (1 | f).Z}}", "{{.X.Y | f | printf \"a\" (1 | f).Z}}"),
        ("{{$x := 1}}{{$x = 2}}{{$x}}", "{{$x := 1}}{{$x = 2}}{{$x}}"),
        (
            "{{range $i, $e := .A}}{{$e.F}}{{break}}{{continue}}{{end}}",
            "{{range $i, $e := .A}}{{$e.F}}{{break}}{{continue}}{{end}}",
        ),
        (
            "{{if .A}}a{{else if .B}}b{{else}}c{{end}}",
            "{{if .A}}\"a\"{{else}}{{if .B}}\"b\"{{else}}\"c\"{{end}}{{end}}",
        ),
        ("{{with .A}}a{{else with .B}}b{{end}}", "{{with .A}}\"a\"{{else}}{{with .B}}\"b\"{{end}}{{end}}"),
        ("{{template \"x\" .Y}}{{template `z`}}", "{{template \"x\" .Y}}{{template \"z\"}}"),
        ("{{block \"b\" .}}in{{end}}", "{{template \"b\" .}}"),
        ("{{ .a | }}", "t:1"),
        ("x {{- 1 -}} y", "\"x\"{{1}}\"y\""),
    ];
    for (text, expected) in table {
        let got = parse_and_print(text);
        if expected == "t:1" {
            // Go accepts a trailing pipe and drops it.
            assert_eq!(got, "{{.a}}", "{text}");
        } else {
            assert_eq!(got, expected, "{text}");
        }
    }
}

#[test]
fn parse_errors_match_go() {
    let table = [
        ("hello{{range", "template: t:1: unclosed action"),
        ("{{range .x}}", "template: t:1: unexpected EOF"),
        ("{{range .x 3}}{{end}}{{end}}", "template: t:1: unexpected {{end}}"),
        ("{{if .x}}{{else}}{{else}}{{end}}", "template: t:1: expected end; found {{else}}"),
        ("hello{{undefined}}", "template: t:1: function \"undefined\" not defined"),
        ("{{$x}}", "template: t:1: undefined variable \"$x\""),
        ("{{with $x := 4}}{{end}}{{$x}}", "template: t:1: undefined variable \"$x\""),
        ("{{template $v}}", "template: t:1: unexpected \"$v\" in template clause"),
        ("{{true.any}}", "template: t:1: unexpected . after term \"true\""),
        ("{{break}}", "template: t:1: {{break}} outside {{range}}"),
        ("{{range $u, $v, $w := 3}}{{end}}", "template: t:1: too many declarations in range"),
        ("{{range $k, .}}{{end}}", "template: t:1: range can only initialize variables"),
        ("{{f | 3}}", "template: t:1: non executable command in pipeline stage 2"),
        ("{{}}", "template: t:1: missing value for command"),
        ("\n{{f .a\n\"x}}", "template: t:3: unterminated quoted string in action started at t:2"),
        (
            "{{define \"a\"}}1{{end}}{{define \"a\"}}2{{end}}",
            "template: t:1: template: multiple definition of template \"a\"",
        ),
        ("{{define \"a\"}}{{else}}{{end}}", "template: t:1: unexpected {{else}} in define clause"),
        ("{{.x, }}", "template: t:1: unexpected \",\" in operand"),
        ("{{1 .a}}{{if}}{{end}}", "template: t:1: missing value for if"),
        ("{{99999999999999999999}}", "template: t:1: integer overflow: \"99999999999999999999\""),
    ];
    for (text, expected) in table {
        assert_eq!(parse_and_print(text), expected, "{text}");
    }
}

#[test]
fn renamed_file_equals_parsed_file() {
    for (text, shares) in [
        ("a {{.x}}", true),
        ("{{define \"a\"}}{{$x := 1}}{{f $x}}{{end}}b", true),
        ("{{define \"one\"}} {{end}}b", false),
        ("{{define \"two\"}}a{{end}} ", false),
        ("{{define \"\\x74wo\"}}a{{end}} ", false),
    ] {
        let data = Bytes::from_static(text.as_bytes());
        let budget = Budget::default();
        let one = TemplateFile::parse("one", &data, &KnownFunctions, &budget).unwrap();
        let (renamed, two) =
            (one.renamed("two"), TemplateFile::parse("two", &data, &KnownFunctions, &budget).unwrap());
        assert_eq!(renamed.is_some(), shares, "{text}");
        if let Some(renamed) = renamed {
            assert_eq!(format!("{:?}", renamed.templates), format!("{:?}", two.templates), "{text}");
        }
    }
}

#[test]
fn parse_returns_defined_templates_in_order() {
    let text = "{{define \"a\"}}1{{end}}\n{{define \"a\"}} {{end}}{{block \"b\" .}}2{{end}}";
    let names: Vec<_> =
        parse("t", text, &KnownFunctions).unwrap().iter().map(|t| t.name.to_string()).collect();
    assert_eq!(names, ["a", "b", "t"]);
    let deep = "{{(".to_owned() + &"(".repeat(100_000);
    assert!(parse("t", &deep, &KnownFunctions).unwrap_err().contains("max expression depth exceeded"));
    let deep = "{{if 1}}".repeat(100_000);
    assert!(parse("t", &deep, &KnownFunctions).unwrap_err().contains("max expression depth exceeded"));
}

/// Parses a text and returns the result, the charged steps and the charged memory.
fn parse_and_measure(text: &str, limits: RenderLimits) -> (Result<TemplateFile, ParseError>, u64, usize) {
    let budget = Budget::new(limits, &Unlimited);
    let file = TemplateFile::parse("t", &Bytes::copy_from_slice(text.as_bytes()), &KnownFunctions, &budget);
    (file, budget.used_steps(), budget.used_memory())
}

#[test]
fn parse_charge_grows_with_nodes() {
    let limits = RenderLimits::default();
    let pieces =
        ["{{.a}}", "{{1}} ", "{{if 1}}{{end}}", "{{f 1 2 3}}", "{{\"x\"}}", "{{define \"N\"}}{{end}}"];
    for piece in pieces {
        let text = |count: usize| (0..count).map(|n| piece.replace('N', &n.to_string())).collect::<String>();
        let (few, many) = (parse_and_measure(&text(100), limits), parse_and_measure(&text(10_000), limits));
        assert!(many.2 > 60 * few.2 && many.2 < 140 * few.2, "{piece}: {} and {} bytes", few.2, many.2);
        assert!(many.1 > 60 * few.1 && many.1 < 140 * few.1, "{piece}: {} and {} steps", few.1, many.1);
        let file = many.0.unwrap();
        assert_eq!((file.cost().steps, file.cost().bytes), (many.1, many.2), "{piece}");
        assert!(file.cost().tree_bytes >= 10_000 * size_of::<Node>(), "{piece}");
        // A cached file is charged the same.
        let budget = Budget::default();
        file.cost().charge(&budget).unwrap();
        assert_eq!((budget.used_steps(), budget.used_memory()), (many.1, many.2), "{piece}");
    }
    let (large, ..) = (parse_and_measure(&"a".repeat(1 << 20), limits), ());
    assert!(large.2 < 10_000 && large.1 >= 1 << 16, "{} bytes, {} steps", large.2, large.1);
}

#[test]
fn parse_stops_at_budget_limits() {
    let memory = RenderLimits { memory: 1 << 20, ..RenderLimits::default() };
    let steps = RenderLimits { steps: 10_000, ..RenderLimits::default() };
    for (limits, why) in [
        (memory, "too much memory: stopped after 1048576 bytes"),
        (steps, "too much work: stopped after 10000 steps"),
    ] {
        let (refused, ..) = parse_and_measure(&"{{.a}}".repeat(100_000), limits);
        assert_eq!(refused.err(), Some(ParseError::Budget(why.into())));
    }
    // Each use of a variable searches all other variables.
    let declarations: Vec<String> = (0..900).map(|n| format!("{{{{$a{n} := 1}}}}")).collect();
    let variables = declarations.concat();
    let (few, declared, _) = parse_and_measure(&variables, RenderLimits::default());
    let (many, named, _) =
        parse_and_measure(&(variables + &"{{$a0}}".repeat(1_000)), RenderLimits::default());
    assert!(few.is_ok() && many.is_ok());
    assert!(named - declared > 200_000, "{declared} and {named}");
}

/// 100,000 definitions took minutes when each was compared with all previous ones.
#[test]
fn definitions_parse_in_linear_time() {
    let began = std::time::Instant::now();
    let definitions: Vec<String> =
        (0..100_000).map(|n| format!("{{{{define \"{n:06}\"}}}}{{{{end}}}}")).collect();
    let text = definitions.concat();
    assert_eq!(parse("t", &text, &KnownFunctions).unwrap().len(), 100_001);
    let blank = format!("{{{{define \"a\"}}}}{}x{{{{end}}}}", " {{/**/}}".repeat(100_000));
    let text = blank + &"{{define \"a\"}}{{end}}".repeat(100_000);
    assert_eq!(parse("t", &text, &KnownFunctions).unwrap().len(), 2);
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
}
