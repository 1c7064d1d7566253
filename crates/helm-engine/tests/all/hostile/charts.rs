//! Attacks by `Chart.yaml` and schemas.

use std::fmt::Write;

use helm_template::profile::Profile;

use super::{Attack, CHART_YAML, HostileCase, files};

fn chart_yaml(text: &'static str) -> Attack {
    files(&[("Chart.yaml", text)])
}

fn schema(text: &str) -> Attack {
    files(&[
        ("values.schema.json", text),
        ("values.yaml", "a: 1\nlist: [1, 2]\ntext: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\n"),
    ])
}

/// Nested charts, each of which declares the next one under this many aliases.
fn aliases(depth: usize, names: usize) -> Attack {
    let mut all = Vec::new();
    let mut folder = String::new();
    for level in 0..=depth {
        let mut text = format!("apiVersion: v2\nname: c{level}\nversion: 1.0.0\n");
        if level < depth {
            text += "dependencies:\n";
            for n in 0..names {
                let _ = writeln!(text, "- {{name: c{}, version: 1.0.0, alias: a{n}}}", level + 1);
            }
        }
        all.push((format!("{folder}Chart.yaml"), text));
        let _ = write!(folder, "charts/c{}/", level + 1);
    }
    let all: Vec<_> = all.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    files(&all)
}

const SUB: &str = "apiVersion: v2\nname: sub\nversion: 1.0.0\n";

/// A chart that imports one table of this many keys of its subchart three thousand times.
fn imports(keys: usize, parent: impl Fn(usize) -> String) -> Attack {
    let table: String = (0..keys).map(|n| format!("  k{n}: 1\n")).collect();
    import_attack(&format!("x:\n{table}"), (0..3_000).map(|n| format!("{{child: x, {}}}", parent(n))))
}

/// A chart that imports from a subchart with these values.
fn import_attack(values: &str, imports: impl Iterator<Item = String>) -> Attack {
    let imports: Vec<_> = imports.collect();
    let chart = format!(
        "{CHART_YAML}dependencies:\n- name: sub\n  version: 1.0.0\n  import-values: [{}]\n",
        imports.join(", ")
    );
    files(&[("Chart.yaml", &chart), ("charts/sub/Chart.yaml", SUB), ("charts/sub/values.yaml", values)])
}

#[rustfmt::skip]
pub fn cases() -> Vec<HostileCase> {
    vec![
        HostileCase::new("chart: without a name", &["chart.metadata.name is required"], || chart_yaml("apiVersion: v2\nversion: 1.0.0\n")),
        HostileCase::new("chart: a name that leads up", &["../evil"], || chart_yaml("apiVersion: v2\nname: ../evil\nversion: 1.0.0\n")),
        HostileCase::new("chart: a version that is none", &["is invalid"], || chart_yaml("apiVersion: v2\nname: evil\nversion: one\n")),
        HostileCase::new("chart: a dependency that leads up", &["../evil"], || chart_yaml("apiVersion: v2\nname: evil\nversion: 1.0.0\ndependencies: [{name: ../evil, version: 1.0.0}]\n")),
        HostileCase::new("chart: an alias that leads up", &["disallowed characters in the alias"], || chart_yaml("apiVersion: v2\nname: evil\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0, alias: ../evil}]\n")),
        HostileCase::new("chart: no YAML", &["cannot load Chart.yaml"], || chart_yaml("{{{{[[[[")),
        HostileCase::new("chart: a thousand names, three deep", &["chart c0", "dependencies"], || aliases(3, 1_000)),
        HostileCase::new("chart: two names, sixty deep", &["charts"], || aliases(60, 2)),
        HostileCase::new("chart: forty charts in each other", &["deep"], || aliases(40, 1)),
        HostileCase::new("chart: imported to a long path", &["import-values", "more than 100 dots"], || {
            let path = "a.".repeat(100_000) + "a";
            files(&[
                ("Chart.yaml", &format!("apiVersion: v2\nname: evil\nversion: 1.0.0\ndependencies:\n- name: sub\n  version: 1.0.0\n  import-values: [{{child: x, parent: {path}}}]\n")),
                ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
                ("charts/sub/values.yaml", "x: {y: 1}\n"),
            ])
        }),
        HostileCase::new("chart: a long constraint", &[], || {
            let constraint = ">=1.0.0 || ".repeat(100_000) + "1.0.0";
            files(&[
                ("Chart.yaml", &format!("apiVersion: v2\nname: evil\nversion: 1.0.0\ndependencies:\n- {{name: sub, version: '{constraint}'}}\n")),
                ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
            ])
        }),
        HostileCase::new("schema: remote", &["evil", "http"], || schema(r#"{"$ref": "http://127.0.0.1:1/schema.json"}"#)),
        HostileCase::new("schema: a device", &["evil", "dev/zero"], || schema(r#"{"$ref": "file:///dev/zero"}"#)),
        HostileCase::new("schema: that is itself", &["evil"], || schema(r##"{"$ref": "#"}"##)),
        HostileCase::new("schema: two in a circle", &["evil"], || {
            schema(r##"{"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}}}"##)
        }),
        HostileCase::new("schema: ten thousand references", &["evil", "deep"], || {
            let links: Vec<_> = (0..10_000).map(|n| format!(r##""d{n}": {{"$ref": "#/definitions/d{}"}}"##, n + 1)).collect();
            schema(&format!(r##"{{"$ref": "#/definitions/d0", "definitions": {{{}, "d10000": {{"type": "string"}}}}}}"##, links.join(",")))
        }),
        HostileCase::new("schema: ten thousand deep", &["evil"], || {
            schema(&(r#"{"properties": {"a": "#.repeat(10_000) + "{}" + &"}}".repeat(10_000)))
        }),
        HostileCase::new("schema: doubling", &["evil", "too much work"], || {
            let links: Vec<_> = (0..60).map(|n| format!(r##""d{n}": {{"allOf": [{{"$ref": "#/definitions/d{}"}}, {{"$ref": "#/definitions/d{}"}}]}}"##, n + 1, n + 1)).collect();
            schema(&format!(r##"{{"$ref": "#/definitions/d0", "definitions": {{{}, "d60": {{}}}}}}"##, links.join(",")))
        }),
        HostileCase::new("schema: an expression", &["evil", "text"], || schema(r#"{"properties": {"text": {"pattern": "^(a+)+$"}}}"#)),
        HostileCase::new("dependencies: one large table imported to three thousand places", &["chart evil", "too much"], || {
            imports(20_000, |n| format!("parent: p{n}"))
        }),
        HostileCase::new("dependencies: one large table imported three thousand times to one place", &["chart evil", "too much"], || {
            imports(20_000, |_| "parent: p".to_owned())
        }),
        HostileCase::new("dependencies: thousands of aliases of one large subchart", &["too much"], || {
            let mut chart = CHART_YAML.to_owned() + "dependencies:\n";
            for n in 0..5_000 {
                let _ = writeln!(chart, "- {{name: sub, version: 1.0.0, alias: a{n}}}");
            }
            let values: String = (0..20_000).map(|n| format!("k{n}: 1\n")).collect();
            files(&[("Chart.yaml", &chart), ("charts/sub/Chart.yaml", SUB), ("charts/sub/values.yaml", &values)])
        }),
        HostileCase::new("dependencies: globals for thousands of subcharts", &["chart evil", "too much"], || {
            let mut chart = CHART_YAML.to_owned() + "dependencies:\n";
            for n in 0..5_000 {
                let _ = writeln!(chart, "- {{name: sub, version: 1.0.0, alias: a{n}}}");
            }
            let values: String = (0..20_000).map(|n| format!("    k{n}: 1\n")).collect();
            let values = format!("global:\n  table:\n{values}");
            files(&[("Chart.yaml", &chart), ("values.yaml", &values), ("charts/sub/Chart.yaml", SUB)])
        }),
        HostileCase::new("values: two hundred thousand keys", &[], || {
            let values: String = (0..200_000).map(|n| format!("k{n}: 1\n")).collect();
            files(&[("values.yaml", &values), ("templates/a.yaml", "a: {{ len .Values }}\n")])
        }),
        HostileCase::new("schema: thirty thousand values against a long enum", &["evil", "too much"], || {
            let choices: Vec<_> = (0..10_000).map(|n| n.to_string()).collect();
            let values = vec!["x"; 30_000].join(",");
            files(&[
                ("values.yaml", &format!("list: [{values}]\n")),
                ("values.schema.json", &format!(r#"{{"properties": {{"list": {{"items": {{"enum": [{}]}}}}}}}}"#, choices.join(","))),
            ])
        }),
        HostileCase::new("schema: thirty thousand values against a long enum, as Helm 3", &["evil", "too much"], || {
            let choices: Vec<_> = (0..10_000).map(|n| n.to_string()).collect();
            let values = vec!["x"; 30_000].join(",");
            let attack = files(&[
                ("values.yaml", &format!("list: [{values}]\n")),
                ("values.schema.json", &format!(r#"{{"properties": {{"list": {{"items": {{"enum": [{}]}}}}}}}}"#, choices.join(","))),
            ]);
            Attack { profile: Profile::Helm3, ..attack }
        }),
        HostileCase::new("schema: failures of many members under a long key", &["evil", "too much"], || {
            let key = "k".repeat(100_000);
            let members: String = (0..20_000).map(|n| format!("  m{n}: 1\n")).collect();
            files(&[
                ("values.yaml", &format!("? {key}\n:\n{members}")),
                ("values.schema.json", r#"{"additionalProperties": {"additionalProperties": {"type": "string"}}}"#),
            ])
        }),
        HostileCase::new("schema: many schemas under a long key", &["evil", "too much"], || {
            let members: Vec<_> = (0..20_000).map(|n| format!(r#""m{n}": {{}}"#)).collect();
            schema(&format!(r#"{{"properties": {{"{}": {{"properties": {{{}}}}}}}}}"#, "k".repeat(100_000), members.join(",")))
        }),
        HostileCase::new("schema: an anyOf that contains itself", &["evil"], || {
            let branches = vec![r##"{"properties": {"a": {"$ref": "#"}}}"##; 20].join(",");
            let values = "a: {".to_owned() + &"a: {".repeat(30) + &"}".repeat(31) + "\n";
            files(&[
                ("values.yaml", &values),
                ("values.schema.json", &format!(r#"{{"anyOf": [{branches}], "required": ["b"]}}"#)),
            ])
        }),
        HostileCase::new("schema: many patterns for many members", &["evil", "too much"], || {
            let patterns: Vec<_> = (0..2_000).map(|n| format!(r#""^(a|b)*{n}$": {{}}"#)).collect();
            let values: String = (0..20_000).map(|n| format!("{}{n}: 1\n", "ab".repeat(20))).collect();
            files(&[("values.yaml", &values), ("values.schema.json", &format!(r#"{{"patternProperties": {{{}}}}}"#, patterns.join(",")))])
        }),
        HostileCase::new("schema: a hundred thousand required members", &["evil"], || {
            let names: Vec<_> = (0..100_000).map(|n| format!("\"n{n}\"")).collect();
            schema(&format!(r#"{{"required": [{}]}}"#, names.join(",")))
        }),
        HostileCase::new("schema: no repetitions among many", &["evil", "too much"], || {
            let list: Vec<_> = (0..100_000).map(|n| n.to_string()).collect();
            files(&[("values.yaml", &format!("list: [{}]\n", list.join(","))), ("values.schema.json", r#"{"properties": {"list": {"uniqueItems": true}}}"#)])
        }),
        HostileCase::new("schema: thirty thousand values against a long constant, as Helm 3", &["evil", "too much"], || {
            items_attack(&"x,".repeat(30_000), &format!(r#"{{"const": "{}"}}"#, "c".repeat(1_000_000)), Profile::Helm3)
        }),
        HostileCase::new("schema: thirty thousand values against one long choice, as Helm 3", &["evil", "too much"], || {
            items_attack(&"x,".repeat(30_000), &format!(r#"{{"enum": ["{}"]}}"#, "c".repeat(1_000_000)), Profile::Helm3)
        }),
        HostileCase::new("schema: a hundred thousand choices, as Helm 3", &[], || {
            let choices: Vec<_> = (0..100_000).map(|n| n.to_string()).collect();
            items_attack("1,", &format!(r#"{{"enum": [{}]}}"#, choices.join(",")), Profile::Helm3)
        }),
        HostileCase::new("schema: a hundred thousand required members, as Helm 3", &["evil"], || {
            let names: Vec<_> = (0..100_000).map(|n| format!("\"n{n}\"")).collect();
            Attack { profile: Profile::Helm3, ..schema(&format!(r#"{{"required": [{}]}}"#, names.join(","))) }
        }),
        HostileCase::new("schema: a list that many schemas want without repetitions, as Helm 3", &["evil", "too much work"], || {
            let unique = vec![r#"{"uniqueItems": true}"#; 5_000].join(",");
            let list: String = (0..30_000).map(|n| format!("{n},")).collect();
            list_attack(&list, &format!(r#"{{"allOf": [{unique}]}}"#), Profile::Helm3)
        }),
        HostileCase::new("schema: a long list that many schemas compare with another", &["evil", "too much "], || {
            let zeros = vec!["0"; 60_000].join(",");
            let constants = vec![r##"{"$ref": "#/$defs/d"}"##; 5_000].join(",");
            files(&[
                ("values.yaml", &format!("list: [{zeros}]\n")),
                ("values.schema.json", &format!(r#"{{"properties": {{"list": {{"allOf": [{constants}]}}}}, "$defs": {{"d": {{"const": [{zeros}]}}}}}}"#)),
            ])
        }),
        dependencies_of_empty_members(Profile::Helm3),
        dependencies_of_empty_members(Profile::Helm4),
    ]
}

/// Members without any of fifty thousand names that have dependencies.
fn dependencies_of_empty_members(profile: Profile) -> HostileCase {
    HostileCase::new(
        &format!("schema: dependencies of what is not there, as {profile:?}"),
        &["evil", "too much"],
        move || {
            let named: Vec<_> = (0..50_000).map(|n| format!(r#""{n}": ["a"]"#)).collect();
            items_attack(
                &"{},".repeat(50_000),
                &format!(r#"{{"dependencies": {{{}}}}}"#, named.join(",")),
                profile,
            )
        },
    )
}

/// A list of these items and its schema.
fn list_attack(items: &str, schema: &str, profile: Profile) -> Attack {
    let attack = files(&[
        ("values.yaml", &format!("list: [{items}]\n")),
        ("values.schema.json", &format!(r#"{{"properties": {{"list": {schema}}}}}"#)),
    ]);
    Attack { profile, ..attack }
}

/// A list of these items and the schema of each item.
fn items_attack(items: &str, schema: &str, profile: Profile) -> Attack {
    list_attack(items, &format!(r#"{{"items": {schema}}}"#), profile)
}

/// A link to a parent folder is followed, as in Helm, but not endlessly.
#[cfg(unix)]
#[test]
fn recursive_symlink_is_not_followed_endlessly() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Chart.yaml"), super::CHART_YAML).unwrap();
    for name in ["a", "b"] {
        std::os::unix::fs::symlink(".", folder.path().join(name)).unwrap();
    }
    for profile in [Profile::Helm3, Profile::Helm4] {
        let refused = helm_host::load(folder.path(), profile).err().map(|error| error.to_string());
        assert!(refused.as_ref().is_some_and(|why| why.contains("a/a/a/a")), "{refused:?}");
    }
}
