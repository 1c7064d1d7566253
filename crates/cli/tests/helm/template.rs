//! `longshore template` against the recorded output of Helm 3.17.3 and 4.3.1 for the same command lines.

#![expect(clippy::unwrap_used, reason = "a test that cannot make its folder has failed")]

use std::fs;
use std::path::Path;

use clap::Parser;
use cli::{Cli, Command, helm};
use tempfile::TempDir;

const FILES: &[(&str, &str)] = &[
    ("c/Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.2.3\n"),
    ("c/values.yaml", "a: 1\n"),
    (
        "c/templates/a.yaml",
        "a: {{ .Release.Name }} {{ .Release.Namespace }} {{ .Values.a }} {{ .Release.IsUpgrade }}\n",
    ),
    (
        "c/templates/b.yaml",
        "b: {{ .Capabilities.KubeVersion }} {{ .Capabilities.APIVersions.Has \"foo/v1\" }}\n\
         ---\nkind: Job\nmetadata: {annotations: {helm.sh/hook: pre-install}}\n",
    ),
    ("c/templates/tests/t.yaml", "kind: Pod\nmetadata: {annotations: {helm.sh/hook: test}}\n"),
    ("c/crds/x.yaml", "kind: X\n"),
    ("several/Chart.yaml", "apiVersion: v2\nname: several\nversion: 0.1.0\n"),
    (
        "several/templates/a.yaml",
        "kind: A\n---\nkind: B\n---\nkind: C\nmetadata: {annotations: {helm.sh/hook: pre-install}}\n",
    ),
    ("v.yaml", "a: file\n"),
    ("broken/Chart.yaml", "apiVersion: v2\nname: broken\nversion: 0.1.0\n"),
    ("broken/templates/a.yaml", "{{ .Values.a.b }}\n"),
    ("text/Chart.yaml", "apiVersion: v2\nname: text\nversion: 0.1.0\n"),
    ("text/templates/a.yaml", "a: [\n"),
];

fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in FILES {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Output and error of a command. `DIR` is a placeholder for the folder.
fn run(folder: &Path, line: &str, helm: &str) -> (String, Option<String>) {
    let dir = folder.to_str().unwrap();
    let line = line.replace("DIR", dir);
    let words = ["longshore", "template", "--helm", helm].into_iter().chain(line.split_whitespace());
    let outcome = match Cli::try_parse_from(words) {
        Ok(Cli { command: Command::Helm(command) }) => helm::run(&command),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(helm::usage_errors::helm_message(&error).unwrap().into()),
    };
    let (output, why) = match outcome {
        Ok(output) => (output, None),
        Err(refusal) => (refusal.output, Some(refusal.message)),
    };
    (String::from_utf8(output).unwrap().replace(dir, "DIR"), why.map(|why| why.replace(dir, "DIR")))
}

const ONLY_A: &str = "-s templates/a.yaml";
const ONLY_B: &str = "-s templates/b.yaml --no-hooks";

#[test]
fn flags_reach_templates() {
    const TABLE: &[(&str, &str)] = &[
        ("DIR/c", "release-name default 1 false"),
        ("x DIR/c", "x default 1 false"),
        ("x DIR/c --set a=7", "x default 7 false"),
        ("x DIR/c -f DIR/v.yaml", "x default file false"),
        ("x DIR/c --values DIR/v.yaml --set-string a=true", "x default true false"),
        ("x DIR/c --set-json a={\"b\":1}", "x default map[b:1] false"),
        ("x DIR/c --set-literal a=b,c", "x default b,c false"),
        ("x DIR/c -n foo", "x foo 1 false"),
        ("x DIR/c --namespace=foo --is-upgrade", "x foo 1 true"),
        ("x DIR/c --is-upgrade=false", "x default 1 false"),
        ("DIR/c --name-template n-{{1}}", "n-1 default 1 false"),
    ];
    let folder = folder();
    for (line, want) in TABLE {
        let line = format!("{line} {ONLY_A}");
        let want = format!("---\n# Source: c/templates/a.yaml\na: {want}\n");
        assert_eq!(run(folder.path(), &line, "3"), (want.clone(), None), "{line}");
        // Helm 4 keeps trailing white space of each document.
        assert_eq!(run(folder.path(), &line, "4"), (want + "\n\n", None), "{line}");
    }
}

#[test]
fn capabilities_follow_flags() {
    const TABLE: &[(&str, &str, &str)] = &[
        ("x DIR/c", "v1.32.0 false", "v1.37.0 false"),
        ("x DIR/c --kube-version 1.20", "v1.20.0 false", "v1.20 false"),
        ("x DIR/c --kube-version v1.30.2-gke.1", "v1.30.2-gke.1 false", "v1.30.2 false"),
        ("x DIR/c -a bar/v1,foo/v1", "v1.32.0 true", "v1.37.0 true"),
    ];
    let folder = folder();
    for (line, three, four) in TABLE {
        let line = format!("{line} {ONLY_B}");
        let text = |b: &str, end: &str| format!("---\n# Source: c/templates/b.yaml\nb: {b}\n{end}");
        assert_eq!(run(folder.path(), &line, "3"), (text(three, ""), None), "{line}");
        assert_eq!(run(folder.path(), &line, "4"), (text(four, "\n"), None), "{line}");
    }
}

#[test]
fn output_flags_select_printed_parts() {
    let crd = "---\n# Source: c/crds/x.yaml\nkind: X\n\n";
    let manifests = |version: &str, end: &str| {
        format!(
            "---\n# Source: c/templates/a.yaml\na: x default 1 false\n{end}---\n# Source: c/templates/b.yaml\nb: \
             {version} false\n"
        )
    };
    let hook = |source: &str, kind: &str, event: &str, end: &str| {
        let metadata = format!("metadata: {{annotations: {{helm.sh/hook: {event}}}}}");
        format!("---\n# Source: c/templates/{source}\nkind: {kind}\n{metadata}\n{end}")
    };
    let folder = folder();
    for (helm, version, end) in [("3", "v1.32.0", ""), ("4", "v1.37.0", "\n")] {
        let manifests = manifests(version, end);
        let test = hook("tests/t.yaml", "Pod", "test", end);
        let job = hook("b.yaml", "Job", "pre-install", end);
        for (flags, want) in [
            ("", format!("{manifests}{test}{job}")),
            ("--skip-tests", format!("{manifests}{job}")),
            ("--no-hooks", manifests.clone()),
            ("--include-crds --no-hooks", format!("{crd}{manifests}")),
        ] {
            assert_eq!(run(folder.path(), &format!("x DIR/c {flags}"), helm), (want, None), "{flags} {helm}");
        }
    }
}

/// Command lines that both versions refuse, with the message.
const REFUSED: &[(&str, &str)] = &[
    ("", "\"helm template\" requires at least 1 argument\n\nUsage:  helm template [NAME] [CHART] [flags]"),
    ("a b c", "expected at most two arguments, unexpected arguments: c"),
    ("x DIR/none", "path \"DIR/none\" not found"),
    ("x DIR/c --foo", "unknown flag: --foo"),
    (
        "x DIR/c --include-crds=foo",
        "invalid argument \"foo\" for \"--include-crds\" flag: strconv.ParseBool: parsing \"foo\": invalid syntax",
    ),
    ("x DIR/c -s nope", "could not find template nope in chart"),
    ("x DIR/c --generate-name", "cannot set --generate-name and also specify a name"),
    ("DIR/c --name-template {{foo}}", "template: name-template:1: function \"foo\" not defined"),
    ("x DIR/c --set a", "failed parsing --set data: key \"a\" has no value"),
    ("x DIR/c -f DIR/none.yaml", "open DIR/none.yaml: no such file or directory"),
    (
        "x DIR/c --set-file a=DIR/none",
        "failed parsing --set-file data: open DIR/none: no such file or directory",
    ),
    (
        "x DIR/c --set-file a=DIR/v.yaml",
        "YAML parse error on c/templates/a.yaml: error converting YAML to JSON: yaml: mapping values are not allowed \
         in this context\n\nUse --debug flag to render out invalid YAML",
    ),
    (
        "x DIR/text",
        "YAML parse error on text/templates/a.yaml: error converting YAML to JSON: yaml: line 1: did not find expected \
         node content\n\nUse --debug flag to render out invalid YAML",
    ),
];

#[test]
fn errors_match_helm() {
    let folder = folder();
    for (line, why) in REFUSED {
        for helm in ["3", "4"] {
            let refused = (String::new(), Some((*why).to_owned()));
            assert_eq!(run(folder.path(), line, helm), refused, "{line} {helm}");
        }
    }
}

#[test]
fn errors_that_differ_between_helm_versions() {
    const NAME: &str = "release name \"X\": invalid release name, must match regex \
        ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ and the length must not be longer than 53";
    const DEBUG: &str = "\n\nUse --debug flag to render out invalid YAML";
    let at = "broken/templates/a.yaml:1:10";
    let nil = "nil pointer evaluating interface {}.b";
    let place = "executing \"broken/templates/a.yaml\" at <.Values.a.b>:";
    let folder = folder();
    for (line, three, four) in [
        ("X DIR/c", NAME.to_owned(), format!("release name check failed: {NAME}")),
        (
            "x DIR/c --kube-version z",
            "invalid kube version 'z': Invalid Semantic Version".into(),
            "invalid kube version 'z': could not parse \"z\" as version".into(),
        ),
        (
            "x DIR/broken",
            format!("template: {at}: {place} {nil}{DEBUG}"),
            format!("{at}\n  {place}\n    {nil}{DEBUG}"),
        ),
    ] {
        assert_eq!(run(folder.path(), line, "3"), (String::new(), Some(three)), "{line}");
        assert_eq!(run(folder.path(), line, "4"), (String::new(), Some(four)), "{line}");
    }
}

#[test]
fn debug_prints_invalid_yaml() {
    let (output, why) = run(folder().path(), "x DIR/text --debug", "4");
    assert_eq!(output, "---\n# Source: text/templates/a.yaml\na: [\n");
    let want = "YAML parse error on text/templates/a.yaml: error converting YAML to JSON: yaml: line 1: did not find \
        expected node content";
    assert_eq!(why.as_deref(), Some(want));
}

#[test]
fn output_dir_writes_files() {
    let folder = folder();
    for helm in ["3", "4"] {
        let (output, why) =
            run(folder.path(), &format!("x DIR/c --output-dir DIR/out{helm} --skip-tests --set a=2"), helm);
        assert_eq!(why, None);
        assert!(output.contains(&format!("wrote DIR/out{helm}/c/templates/a.yaml\n")), "{output}");
        let written =
            fs::read_to_string(folder.path().join(format!("out{helm}/c/templates/a.yaml"))).unwrap();
        assert!(
            written.starts_with("---\n# Source: c/templates/a.yaml\na: x default 2 false\n"),
            "{written}"
        );
    }
}

#[test]
fn output_dir_replaces_previous_files() {
    let folder = folder();
    for (helm, end) in [("3", ""), ("4", "\n")] {
        let line = format!("x DIR/several --output-dir DIR/out{helm}");
        let wrote = format!("wrote DIR/out{helm}/several/templates/a.yaml\n").repeat(3) + "\n";
        for _ in 0..2 {
            assert_eq!(run(folder.path(), &line, helm), (wrote.clone(), None));
        }
        let written = fs::read_to_string(folder.path().join(format!("out{helm}/several/templates/a.yaml")));
        let source = "---\n# Source: several/templates/a.yaml\n";
        let hook = "kind: C\nmetadata: {annotations: {helm.sh/hook: pre-install}}\n";
        let wanted = format!("{source}kind: A\n{end}{source}kind: B\n{end}{source}{hook}{end}");
        assert_eq!(written.unwrap(), wanted);
    }
}
