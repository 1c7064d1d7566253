//! Various commands on generated charts.

use std::fs;
use std::path::Path;

use crate::program::{Printed, run_longshore, text, write};

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

fn success(output: &str) -> Printed {
    Printed { output: output.into(), error: None }
}

fn failure(why: &str) -> Printed {
    Printed { output: String::new(), error: Some(why.into()) }
}

fn app_chart() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a folder");
    write(home.path(), APP);
    home
}

#[test]
fn show_prints_parts_of_chart() {
    let home = app_chart();
    let chart = home.path().join("app");
    let chart = text(&chart);
    let values = "# As it is.\nreplicas: 1\nglobal: {zone: a}\nlib: {color: red}\n\n";
    let metadata = "apiVersion: v2\ndependencies:\n- name: lib\n  repository: file://../lib\n  version: ^1\nname: app\n\
                    version: 0.1.0\n\n";
    let crds = "---\nkind: CustomResourceDefinition\n\n";
    assert_eq!(run_longshore(&["show", "values", chart]), success(values));
    assert_eq!(run_longshore(&["show", "chart", chart]), success(metadata));
    assert_eq!(run_longshore(&["show", "readme", chart]), success("Read me.\n\n"));
    assert_eq!(run_longshore(&["inspect", "crds", chart]), success(crds));
    assert_eq!(
        run_longshore(&["show", "crds", chart, "--helm", "3"]),
        success(crds.trim_start_matches("---\n"))
    );
    let all = format!("{metadata}---\n{values}---\nRead me.\n\n{crds}");
    assert_eq!(run_longshore(&["show", "all", chart]), success(&all));
    assert_eq!(run_longshore(&["show", "all", "/nowhere"]), failure("path \"/nowhere\" not found"));
}

#[test]
fn dependency_build_packs_local_charts_and_writes_lock() {
    let home = app_chart();
    let chart = home.path().join("app");
    let list = |status: &str| {
        success(&format!(
            "NAME\tVERSION\tREPOSITORY   \tSTATUS \nlib \t^1     \tfile://../lib\t{status:7}\n\n"
        ))
    };
    let of = |verb| run_longshore(&["dependency", verb, text(&chart)]);
    assert_eq!(of("list"), list("missing"));
    assert_eq!(of("build"), success("Saving 1 charts\nDeleting outdated charts\n"));
    let row = "lib \t^1     \tfile://../lib\tok    \n";
    assert_eq!(of("list"), success(&format!("NAME\tVERSION\tREPOSITORY   \tSTATUS\n{row}\n")));
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
    assert_eq!(of("build"), success("Saving 1 charts\nDeleting outdated charts\n"));
    let names: Vec<_> = fs::read_dir(chart.join("charts"))
        .expect("charts")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["lib-1.2.0.tgz"]);
    write(&chart, &[("Chart.yaml", &APP[0].1.replace("^1", "1.x"))]);
    assert_eq!(
        of("build"),
        failure(
            "the lock file (Chart.lock) is out of sync with the dependencies file (Chart.yaml). Please update the \
             dependencies with 'helm dependency update'"
        )
    );
}

#[test]
fn dependency_build_rejects_remote_repositories() {
    let home = app_chart();
    let chart = home.path().join("app");
    write(&chart, &[("Chart.yaml", &APP[0].1.replace("file://../lib", "https://charts.example.com"))]);
    let why = "dependency lib cannot be fetched from https://charts.example.com: put it into charts/, or use a \
               file:// repository";
    assert_eq!(run_longshore(&["dependency", "build", text(&chart)]), failure(why));
    assert_eq!(run_longshore(&["package", "-u", text(&chart)]), failure(why));
    assert!(!chart.join("charts").exists(), "nothing is touched");
}

#[test]
fn package_overrides_versions() {
    let home = app_chart();
    let (chart, out) = (home.path().join("app"), home.path().join("out"));
    let pack = |more: &[&str]| run_longshore(&[&["package", text(&chart), "-d", text(&out)], more].concat());
    assert_eq!(pack(&[]), failure("found in Chart.yaml, but missing in charts/ directory: lib"));
    let archive = |version: &str| out.join(format!("app-{version}.tgz"));
    let saved = |version: &str| {
        success(&format!("Successfully packaged chart and saved it to: {}\n", archive(version).display()))
    };
    assert_eq!(pack(&["-u"]), saved("0.1.0"));
    assert_eq!(pack(&["--version", "7.0.0", "--app-version", "x"]), saved("7.0.0"));
    assert_eq!(pack(&["--version", "x"]), failure("invalid semantic version"));
    let shown = run_longshore(&["show", "chart", text(&archive("7.0.0"))]).output;
    assert!(shown.contains("appVersion: x\n") && shown.contains("version: 7.0.0\n"), "{shown}");
    assert_eq!(run_longshore(&["package"]), failure("need at least one argument, the path to the chart"));
    assert_eq!(run_longshore(&["package", "/nowhere"]), failure("stat /nowhere: no such file or directory"));
}

#[test]
fn repo_index_merges_existing_index() {
    let home = app_chart();
    let folder = home.path().join("repo");
    let chart = home.path().join("lib");
    run_longshore(&["package", text(&chart), "-d", text(&folder)]);
    write(
        home.path(),
        &[(
            "old.yaml",
            "apiVersion: v1\nentries:\n  lib:\n  - {name: lib, version: 0.9.0, urls: [a.tgz], created: '2020-01-01T00:00:00Z'}\ngenerated: '2020-01-01T00:00:00Z'\n",
        )],
    );
    let old = home.path().join("old.yaml");
    assert_eq!(
        run_longshore(&["repo", "index", text(&folder), "--url", "http://x.y/z", "--merge", text(&old)]),
        success("")
    );
    let index = fs::read_to_string(folder.join("index.yaml")).expect("an index");
    let at = |text: &str| index.find(text).unwrap_or_else(|| panic!("no {text} in {index}"));
    assert!(at("- http://x.y/z/lib-1.2.0.tgz\n    version: 1.2.0\n") < at("- a.tgz\n    version: 0.9.0\n"));
}

#[test]
fn values_prints_origin_of_each_value() {
    let home = app_chart();
    let chart = home.path().join("app");
    run_longshore(&["dependency", "build", text(&chart)]);
    write(home.path(), &[("prod.yaml", "replicas: 2\nhosts: [a, b]\nnote: |\n  one\n  two\n")]);
    let file = home.path().join("prod.yaml");
    let arguments = ["values", text(&chart), "-f", text(&file), "--set", "lib.size=4"];
    let shown = run_longshore(&arguments).output.replace(text(&file), "prod.yaml");
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
    let table = run_longshore(&[&arguments[..], &["-o", "table"]].concat()).output;
    assert!(table.contains("lib.size       \t4           \t--set lib.size"), "{table}");
    let json = run_longshore(&[&arguments[..], &["-o", "json"]].concat()).output;
    assert!(json.contains("\"layer\": \"global\""), "{json}");
}

/// Output with comments parses as YAML with the same values.
#[test]
fn values_output_parses_as_yaml() {
    let home = app_chart();
    let long = "word ".repeat(40);
    write(
        home.path(),
        &[(
            "lib/values.yaml",
            &format!("a:\n  b: {long}\n  'c d': \"#x: y\"\n  e: ''\n  f: |+\n    x\n\n  g: {{}}\n"),
        )],
    );
    let chart = home.path().join("lib");
    let shown = run_longshore(&["values", text(&chart)]).output;
    let read = helm_template::yaml::parse(shown.as_bytes()).expect("YAML");
    let own = fs::read(Path::new(&chart).join("values.yaml")).expect("values");
    assert_eq!(read, helm_template::yaml::parse(&own).expect("YAML"), "{shown}");
}
