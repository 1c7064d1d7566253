//! Various commands on generated charts.

use std::fs;
use std::path::Path;

use crate::program::{Printed, ours, text, write};

const APP: &[(&str, &str)] = &[
    (
        "app/Chart.yaml",
        "apiVersion: v2\nname: app\nversion: 0.1.0\ndependencies:\n- name: lib\n  version: ^1\n  repository: file://../lib\n",
    ),
    ("app/values.yaml", "# As it is.\nreplicas: 1\nglobal: {zone: a}\nlib: {color: red}\n"),
    ("app/README.md", "Read me.\n"),
    ("app/crds/a.yaml", "kind: CustomResourceDefinition\n"),
    ("lib/Chart.yaml", "apiVersion: v2\nname: lib\nversion: 1.2.0\n"),
    ("lib/values.yaml", "color: blue\nsize: 3\n"),
];

fn said(output: &str) -> Printed {
    Printed { output: output.into(), error: None }
}

fn refused(why: &str) -> Printed {
    Printed { output: String::new(), error: Some(why.into()) }
}

fn app() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a folder");
    write(home.path(), APP);
    home
}

#[test]
fn show_prints_the_parts_of_a_chart() {
    let home = app();
    let chart = home.path().join("app");
    let chart = text(&chart);
    let values = "# As it is.\nreplicas: 1\nglobal: {zone: a}\nlib: {color: red}\n\n";
    let metadata = "apiVersion: v2\ndependencies:\n- name: lib\n  repository: file://../lib\n  version: ^1\nname: app\n\
                    version: 0.1.0\n\n";
    let crds = "---\nkind: CustomResourceDefinition\n\n";
    assert_eq!(ours(&["show", "values", chart]), said(values));
    assert_eq!(ours(&["show", "chart", chart]), said(metadata));
    assert_eq!(ours(&["show", "readme", chart]), said("Read me.\n\n"));
    assert_eq!(ours(&["inspect", "crds", chart]), said(crds));
    assert_eq!(ours(&["show", "crds", chart, "--helm", "3"]), said(crds.trim_start_matches("---\n")));
    let all = format!("{metadata}---\n{values}---\nRead me.\n\n{crds}");
    assert_eq!(ours(&["show", "all", chart]), said(&all));
    assert_eq!(ours(&["show", "all", "/nowhere"]), refused("path \"/nowhere\" not found"));
}

#[test]
fn dependencies_are_built_from_folders_and_locked() {
    let home = app();
    let chart = home.path().join("app");
    let list = |status: &str| {
        said(&format!("NAME\tVERSION\tREPOSITORY   \tSTATUS \nlib \t^1     \tfile://../lib\t{status:7}\n\n"))
    };
    let of = |verb| ours(&["dependency", verb, text(&chart)]);
    assert_eq!(of("list"), list("missing"));
    assert_eq!(of("build"), said("Saving 1 charts\nDeleting outdated charts\n"));
    let row = "lib \t^1     \tfile://../lib\tok    \n";
    assert_eq!(of("list"), said(&format!("NAME\tVERSION\tREPOSITORY   \tSTATUS\n{row}\n")));
    let lock = fs::read_to_string(chart.join("Chart.lock")).expect("a lock");
    // Copied from the lock file that Helm 4.3.1 writes for the same charts.
    assert!(
        lock.starts_with("dependencies:\n- name: lib\n  repository: file://../lib\n  version: 1.2.0\n"),
        "{lock}"
    );
    assert!(
        lock.contains("digest: sha256:d26e11a940be0a470ce9ebc5613e45a20ff00f1f69c76fda48214623d3c28b4c"),
        "{lock}"
    );
    // Now from the lock file. Archives that it does not name are deleted.
    fs::rename(chart.join("charts/lib-1.2.0.tgz"), chart.join("charts/old-0.0.1.tgz"))
        .expect("a chart to rename");
    assert_eq!(of("build"), said("Saving 1 charts\nDeleting outdated charts\n"));
    let names: Vec<_> = fs::read_dir(chart.join("charts"))
        .expect("charts")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["lib-1.2.0.tgz"]);
    write(&chart, &[("Chart.yaml", &APP[0].1.replace("^1", "1.x"))]);
    assert_eq!(
        of("build"),
        refused(
            "the lock file (Chart.lock) is out of sync with the dependencies file (Chart.yaml). Please update the \
             dependencies with 'helm dependency update'"
        )
    );
}

#[test]
fn what_would_have_to_be_fetched_is_refused() {
    let home = app();
    let chart = home.path().join("app");
    write(&chart, &[("Chart.yaml", &APP[0].1.replace("file://../lib", "https://charts.example.com"))]);
    let why = "dependency lib would have to be fetched from https://charts.example.com: put it into charts/, or name a \
               folder with file://";
    assert_eq!(ours(&["dependency", "build", text(&chart)]), refused(why));
    assert_eq!(ours(&["package", "-u", text(&chart)]), refused(why));
    assert!(!chart.join("charts").exists(), "nothing is touched");
}

#[test]
fn charts_are_packed_with_other_versions_on_request() {
    let home = app();
    let (chart, out) = (home.path().join("app"), home.path().join("out"));
    let pack = |more: &[&str]| ours(&[&["package", text(&chart), "-d", text(&out)], more].concat());
    assert_eq!(pack(&[]), refused("found in Chart.yaml, but missing in charts/ directory: lib"));
    let archive = |version: &str| out.join(format!("app-{version}.tgz"));
    let saved = |version: &str| {
        said(&format!("Successfully packaged chart and saved it to: {}\n", archive(version).display()))
    };
    assert_eq!(pack(&["-u"]), saved("0.1.0"));
    assert_eq!(pack(&["--version", "7.0.0", "--app-version", "x"]), saved("7.0.0"));
    assert_eq!(pack(&["--version", "x"]), refused("invalid semantic version"));
    let shown = ours(&["show", "chart", text(&archive("7.0.0"))]).output;
    assert!(shown.contains("appVersion: x\n") && shown.contains("version: 7.0.0\n"), "{shown}");
    assert_eq!(ours(&["package"]), refused("need at least one argument, the path to the chart"));
    assert_eq!(ours(&["package", "/nowhere"]), refused("stat /nowhere: no such file or directory"));
}

#[test]
fn an_index_takes_over_what_another_has() {
    let home = app();
    let folder = home.path().join("repo");
    let chart = home.path().join("lib");
    ours(&["package", text(&chart), "-d", text(&folder)]);
    write(
        home.path(),
        &[(
            "old.yaml",
            "apiVersion: v1\nentries:\n  lib:\n  - {name: lib, version: 0.9.0, urls: [a.tgz], created: '2020-01-01T00:00:00Z'}\ngenerated: '2020-01-01T00:00:00Z'\n",
        )],
    );
    let old = home.path().join("old.yaml");
    assert_eq!(
        ours(&["repo", "index", text(&folder), "--url", "http://x.y/z", "--merge", text(&old)]),
        said("")
    );
    let index = fs::read_to_string(folder.join("index.yaml")).expect("an index");
    let at = |text: &str| index.find(text).unwrap_or_else(|| panic!("no {text} in {index}"));
    assert!(at("- http://x.y/z/lib-1.2.0.tgz\n    version: 1.2.0\n") < at("- a.tgz\n    version: 0.9.0\n"));
}

#[test]
fn every_value_says_where_it_comes_from() {
    let home = app();
    let chart = home.path().join("app");
    ours(&["dependency", "build", text(&chart)]);
    write(home.path(), &[("prod.yaml", "replicas: 2\nhosts: [a, b]\nnote: |\n  one\n  two\n")]);
    let file = home.path().join("prod.yaml");
    let arguments = ["values", text(&chart), "-f", text(&file), "--set", "lib.size=4"];
    let shown = ours(&arguments).output.replace(text(&file), "prod.yaml");
    let expected = "\
global:
  zone: a                                 # chart
hosts:                                    # prod.yaml
- a
- b
lib:
  color: red                              # chart
  global:
    zone: a                               # global, from chart
  size: 4                                 # --set lib.size
note: |                                   # prod.yaml
  one
  two
replicas: 2                               # prod.yaml
";
    assert_eq!(shown, expected);
    let table = ours(&[&arguments[..], &["-o", "table"]].concat()).output;
    assert!(table.contains("lib.size       \t4           \t--set lib.size"), "{table}");
    let json = ours(&[&arguments[..], &["-o", "json"]].concat()).output;
    assert!(json.contains("\"layer\": \"global\""), "{json}");
}

/// Output with comments parses as YAML with the same values.
#[test]
fn explained_values_can_be_read_again() {
    let home = app();
    let long = "word ".repeat(40);
    write(
        home.path(),
        &[(
            "lib/values.yaml",
            &format!("a:\n  b: {long}\n  'c d': \"#x: y\"\n  e: ''\n  f: |+\n    x\n\n  g: {{}}\n"),
        )],
    );
    let chart = home.path().join("lib");
    let shown = ours(&["values", text(&chart)]).output;
    let read = helm_template::yaml::parse(shown.as_bytes()).expect("YAML");
    let own = fs::read(Path::new(&chart).join("values.yaml")).expect("values");
    assert_eq!(read, helm_template::yaml::parse(&own).expect("YAML"), "{shown}");
}
