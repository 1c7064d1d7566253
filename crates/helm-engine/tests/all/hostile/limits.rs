//! Charts at their limits: files, CRDs and values at the server's limits, templates as large as a debug build can
//! render.

use std::fmt::Write as _;

use super::{Attack, HostileCase, files};

/// A quarter of the server's template limit (`MAX_TEMPLATES_LEN` of the chart store), and its maximum of values.
const TEMPLATES: usize = 4 << 20;
const VALUES: usize = 2 << 20;

/// A template of this piece, repeated.
fn template(name: &str, said: &[&str], piece: &'static str) -> HostileCase {
    let mut all = vec!["evil/templates/a.yaml"];
    all.extend(said);
    let said: &[&str] = if said.is_empty() { &[] } else { &all };
    HostileCase::new(&format!("limits: {name}"), said, move || {
        files(&[("templates/a.yaml", &piece.repeat(TEMPLATES / piece.len()))])
    })
}

const BUDGET_ERROR: &str = "too much ";
const MEMORY_ERROR: &str = "too much memory: stopped after";

#[rustfmt::skip]
pub fn cases() -> Vec<HostileCase> {
    vec![
        template("many small actions", &[BUDGET_ERROR], "{{.a}}"),
        template("many small texts", &[BUDGET_ERROR], "{{1}} "),
        template("many commands", &[MEMORY_ERROR], "{{1|len|len|len|len|len|len|len|len|len|len|len}}"),
        template("many branches", &[BUDGET_ERROR], "{{if .}}{{end}}"),
        template("many loops", &[BUDGET_ERROR], "{{range .a}}{{end}}"),
        template("many strings", &[BUDGET_ERROR], "{{\"\"}}"),
        template("many comments", &[], "{{/**/}}"),
        HostileCase::new("limits: many small actions that do not run", &["evil/templates/_a.tpl", MEMORY_ERROR], || {
            files(&[("templates/_a.tpl", &"{{.a}}".repeat(TEMPLATES / 6)), ("templates/a.yaml", "a: b\n")])
        }),
        HostileCase::new("limits: one command with many words", &["evil/templates/_a.tpl", MEMORY_ERROR], || {
            let text = format!("{{{{list {}}}}}", "1 ".repeat(TEMPLATES / 2));
            files(&[("templates/_a.tpl", &text)])
        }),
        HostileCase::new("limits: one path of many fields", &["evil/templates/_a.tpl", BUDGET_ERROR], || {
            files(&[("templates/_a.tpl", &format!("{{{{{}}}}}", ".a".repeat(TEMPLATES / 2)))])
        }),
        HostileCase::new("limits: many names of fields", &["evil/templates/_a.tpl", MEMORY_ERROR], || {
            let names = (0..TEMPLATES / 11).fold(String::new(), |mut text, n| {
                let _ = write!(text, "{{{{.{n:06x}}}}}");
                text
            });
            files(&[("templates/_a.tpl", &names.replace("{{.", "{{.a"))])
        }),
        HostileCase::new("limits: many definitions", &["evil/templates/_a.tpl", BUDGET_ERROR], || {
            let text = (0..TEMPLATES / 24).fold(String::new(), |mut text, n| {
                let _ = write!(text, "{{{{define \"{n:06}\"}}}}{{{{end}}}}");
                text
            });
            files(&[("templates/_a.tpl", &text)])
        }),
        HostileCase::new("limits: blank definitions of one name", &[], || {
            let blank = format!("{{{{define \"a\"}}}}{}x{{{{end}}}}", " {{/**/}}".repeat(TEMPLATES / 18));
            files(&[("templates/_a.tpl", &(blank + &"{{define \"a\"}}{{end}}".repeat(TEMPLATES / 40)))])
        }),
        HostileCase::new("limits: many variables, named again and again", &["evil/templates/_a.tpl", BUDGET_ERROR], || {
            let text = (0..900).fold(String::new(), |mut text, n| {
                let _ = write!(text, "{{{{$a{n}:=1}}}}");
                text
            });
            files(&[("templates/_a.tpl", &(text + &"{{$a0}}".repeat(TEMPLATES / 8)))])
        }),
        HostileCase::new("limits: blocks as deep as they may be, again and again", &["evil/templates/_a.tpl", BUDGET_ERROR], || {
            let deep = "{{if .}}".repeat(190) + &"{{end}}".repeat(190);
            files(&[("templates/_a.tpl", &deep.repeat(TEMPLATES / deep.len()))])
        }),
        HostileCase::new("limits: parentheses as deep as they may be, again and again", &["evil/templates/_a.tpl", MEMORY_ERROR], || {
            let deep = format!("{{{{{}1{}}}}}", "(".repeat(190), ")".repeat(190));
            files(&[("templates/_a.tpl", &deep.repeat(TEMPLATES / deep.len()))])
        }),
        HostileCase::new("limits: one text", &[], || files(&[("templates/a.yaml", &"# a\n".repeat(TEMPLATES / 4))])),
        HostileCase::new("limits: one number", &["evil/templates/a.yaml"], || {
            files(&[("templates/a.yaml", &format!("{{{{{}}}}}", "1".repeat(TEMPLATES)))])
        }),
        HostileCase::new("limits: one string", &[], || {
            files(&[("templates/a.yaml", &format!("# {{{{\"{}\" | len}}}}", "\\n".repeat(TEMPLATES / 2)))])
        }),
        HostileCase::new("limits: one text in many files", &[MEMORY_ERROR], || {
            let text = "{{.a}}".repeat(10_000);
            let texts: Vec<_> = (0..60).map(|n| (format!("templates/_{n}.tpl"), format!("{text}{n}"))).collect();
            files(&texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect::<Vec<_>>())
        }),
        HostileCase::new("limits: many templates under many aliases", &["evil", BUDGET_ERROR], || {
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
        HostileCase::new("limits: a text that is parsed by `tpl`", &["evil/templates/a.yaml", BUDGET_ERROR], || {
            files(&[("templates/a.yaml", r#"{{ range until 100 }}{{ $_ := tpl (printf "%d%s" . (repeat 50000 "{{.a}}")) $ }}{{ end }}"#)])
        }),
        HostileCase::new("limits: many CRDs", &[], || {
            let names: Vec<_> = (0..20_000).map(|n| format!("crds/{n}.yaml")).collect();
            files(&names.iter().map(|name| (name.as_str(), "a: b\n")).collect::<Vec<_>>())
        }),
        HostileCase::new("limits: one CRD", &[], || files(&[("crds/a.yaml", &"- a\n".repeat(15 << 18))])),
        HostileCase::new("limits: values in their limit", &[], || values(&"0,".repeat(400_000))),
        HostileCase::new("limits: a text in values", &[], || values(&"x".repeat(VALUES))),
        HostileCase::new("limits: values of many keys", &[], || {
            let keys = (0..VALUES / 11).fold(String::new(), |mut text, n| {
                let _ = writeln!(text, "k{n:06}: 1");
                text
            });
            files(&[("values.yaml", &keys), ("templates/a.yaml", "{{ .Values | toYaml | len }}: a")])
        }),
        HostileCase::new("limits: many files", &[], || {
            let names: Vec<_> = (0..90_000).map(|n| format!("f/{n}")).collect();
            let mut all: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
            all.push(("templates/a.yaml", "a: {{ .Files.Get \"f/1\" }}"));
            files(&all)
        }),
        HostileCase::new("limits: large files, read", &[], || {
            files(&[("f", &"x".repeat(48 << 20)), ("templates/a.yaml", "a: {{ .Files.Get \"f\" | len }}")])
        }),
    ]
}

/// A list of these values.
fn values(items: &str) -> Attack {
    files(&[("values.yaml", &format!("a: [{items}]\n")), ("templates/a.yaml", "a: {{ len .Values.a }}")])
}
