//! Charts at their limits: files, CRDs and values at the server's limits, templates as large as a debug build can
//! render.

use std::fmt::Write as _;

use super::{Attack, Case, files};

/// A quarter of the server's template limit (`LARGEST_TEMPLATES` of the chart store), and its maximum of values.
const TEMPLATES: usize = 4 << 20;
const VALUES: usize = 2 << 20;

/// A template of this piece, repeated.
fn template(name: &str, said: &[&str], piece: &'static str) -> Case {
    let mut all = vec!["evil/templates/a.yaml"];
    all.extend(said);
    let said: &[&str] = if said.is_empty() { &[] } else { &all };
    Case::new(&format!("limits: {name}"), said, move || {
        files(&[("templates/a.yaml", &piece.repeat(TEMPLATES / piece.len()))])
    })
}

const TOO_MUCH: &str = "too much ";
const MEMORY: &str = "too much memory: stopped after";

#[rustfmt::skip]
pub fn cases() -> Vec<Case> {
    vec![
        template("many small actions", &[TOO_MUCH], "{{.a}}"),
        template("many small texts", &[TOO_MUCH], "{{1}} "),
        template("many commands", &[MEMORY], "{{1|len|len|len|len|len|len|len|len|len|len|len}}"),
        template("many branches", &[TOO_MUCH], "{{if .}}{{end}}"),
        template("many loops", &[TOO_MUCH], "{{range .a}}{{end}}"),
        template("many strings", &[TOO_MUCH], "{{\"\"}}"),
        template("many comments", &[], "{{/**/}}"),
        Case::new("limits: many small actions that do not run", &["evil/templates/_a.tpl", MEMORY], || {
            files(&[("templates/_a.tpl", &"{{.a}}".repeat(TEMPLATES / 6)), ("templates/a.yaml", "a: b\n")])
        }),
        Case::new("limits: one command with many words", &["evil/templates/_a.tpl", MEMORY], || {
            let text = format!("{{{{list {}}}}}", "1 ".repeat(TEMPLATES / 2));
            files(&[("templates/_a.tpl", &text)])
        }),
        Case::new("limits: one path of many fields", &["evil/templates/_a.tpl", TOO_MUCH], || {
            files(&[("templates/_a.tpl", &format!("{{{{{}}}}}", ".a".repeat(TEMPLATES / 2)))])
        }),
        Case::new("limits: many names of fields", &["evil/templates/_a.tpl", MEMORY], || {
            let names = (0..TEMPLATES / 11).fold(String::new(), |mut text, n| {
                let _ = write!(text, "{{{{.{n:06x}}}}}");
                text
            });
            files(&[("templates/_a.tpl", &names.replace("{{.", "{{.a"))])
        }),
        Case::new("limits: many definitions", &["evil/templates/_a.tpl", TOO_MUCH], || {
            let text = (0..TEMPLATES / 24).fold(String::new(), |mut text, n| {
                let _ = write!(text, "{{{{define \"{n:06}\"}}}}{{{{end}}}}");
                text
            });
            files(&[("templates/_a.tpl", &text)])
        }),
        Case::new("limits: blank definitions of one name", &[], || {
            let blank = format!("{{{{define \"a\"}}}}{}x{{{{end}}}}", " {{/**/}}".repeat(TEMPLATES / 18));
            files(&[("templates/_a.tpl", &(blank + &"{{define \"a\"}}{{end}}".repeat(TEMPLATES / 40)))])
        }),
        Case::new("limits: many variables, named again and again", &["evil/templates/_a.tpl", TOO_MUCH], || {
            let text = (0..900).fold(String::new(), |mut text, n| {
                let _ = write!(text, "{{{{$a{n}:=1}}}}");
                text
            });
            files(&[("templates/_a.tpl", &(text + &"{{$a0}}".repeat(TEMPLATES / 8)))])
        }),
        Case::new("limits: blocks as deep as they may be, again and again", &["evil/templates/_a.tpl", TOO_MUCH], || {
            let deep = "{{if .}}".repeat(190) + &"{{end}}".repeat(190);
            files(&[("templates/_a.tpl", &deep.repeat(TEMPLATES / deep.len()))])
        }),
        Case::new("limits: parentheses as deep as they may be, again and again", &["evil/templates/_a.tpl", MEMORY], || {
            let deep = format!("{{{{{}1{}}}}}", "(".repeat(190), ")".repeat(190));
            files(&[("templates/_a.tpl", &deep.repeat(TEMPLATES / deep.len()))])
        }),
        Case::new("limits: one text", &[], || files(&[("templates/a.yaml", &"# a\n".repeat(TEMPLATES / 4))])),
        Case::new("limits: one number", &["evil/templates/a.yaml"], || {
            files(&[("templates/a.yaml", &format!("{{{{{}}}}}", "1".repeat(TEMPLATES)))])
        }),
        Case::new("limits: one string", &[], || {
            files(&[("templates/a.yaml", &format!("# {{{{\"{}\" | len}}}}", "\\n".repeat(TEMPLATES / 2)))])
        }),
        Case::new("limits: one text in many files", &[MEMORY], || {
            let text = "{{.a}}".repeat(10_000);
            let texts: Vec<_> = (0..60).map(|n| (format!("templates/_{n}.tpl"), format!("{text}{n}"))).collect();
            files(&texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect::<Vec<_>>())
        }),
        Case::new("limits: many templates under many aliases", &["evil", TOO_MUCH], || {
            let mut chart = super::CHART_YAML.to_owned() + "dependencies:\n";
            for n in 0..9_000 {
                let _ = writeln!(chart, "- {{name: sub, version: 1.0.0, alias: a{n}}}");
            }
            let templates: Vec<_> = (0..1_000).map(|n| format!("charts/sub/templates/_{n}.tpl")).collect();
            let sub = "apiVersion: v2\nname: sub\nversion: 1.0.0\n";
            let mut all = vec![("Chart.yaml", chart.as_str()), ("charts/sub/Chart.yaml", sub)];
            all.extend(templates.iter().map(|name| (name.as_str(), "{{.a}}")));
            files(&all)
        }),
        Case::new("limits: a text that is parsed by `tpl`", &["evil/templates/a.yaml", TOO_MUCH], || {
            files(&[("templates/a.yaml", r#"{{ range until 100 }}{{ $_ := tpl (printf "%d%s" . (repeat 50000 "{{.a}}")) $ }}{{ end }}"#)])
        }),
        Case::new("limits: many CRDs", &[], || {
            let names: Vec<_> = (0..20_000).map(|n| format!("crds/{n}.yaml")).collect();
            files(&names.iter().map(|name| (name.as_str(), "a: b\n")).collect::<Vec<_>>())
        }),
        Case::new("limits: one CRD", &[], || files(&[("crds/a.yaml", &"- a\n".repeat(15 << 18))])),
        Case::new("limits: values in their limit", &[], || values(&"0,".repeat(400_000))),
        Case::new("limits: a text in values", &[], || values(&"x".repeat(VALUES))),
        Case::new("limits: values of many keys", &[], || {
            let keys = (0..VALUES / 11).fold(String::new(), |mut text, n| {
                let _ = writeln!(text, "k{n:06}: 1");
                text
            });
            files(&[("values.yaml", &keys), ("templates/a.yaml", "{{ .Values | toYaml | len }}: a")])
        }),
        Case::new("limits: many files", &[], || {
            let names: Vec<_> = (0..90_000).map(|n| format!("f/{n}")).collect();
            let mut all: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
            all.push(("templates/a.yaml", "a: {{ .Files.Get \"f/1\" }}"));
            files(&all)
        }),
        Case::new("limits: large files, read", &[], || {
            files(&[("f", &"x".repeat(48 << 20)), ("templates/a.yaml", "a: {{ .Files.Get \"f\" | len }}")])
        }),
    ]
}

/// A list of these values.
fn values(items: &str) -> Attack {
    files(&[("values.yaml", &format!("a: [{items}]\n")), ("templates/a.yaml", "a: {{ len .Values.a }}")])
}
