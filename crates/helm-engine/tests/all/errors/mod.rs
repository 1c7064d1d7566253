//! Charts that fail, with Helm's complete error output.
//!
//! The cases are text files in this folder with the messages of both Helm versions. Where the real programs are
//! available they are run again; with `LONGSHORE_RECORD` set their output is written into the files.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use helm_template::profile::Profile;

use crate::helm_program::{self, PROFILES};
use crate::longshore;

/// `Chart.yaml` of cases without one.
const CHART: &str = "apiVersion: v2\nname: c\nversion: 1.2.3\n";

/// A chart in `c`, additional arguments, and Helm's standard error.
struct ErrorCase {
    name: String,
    arguments: Vec<String>,
    files: Vec<(String, String)>,
    expected: [String; 2],
}

#[test]
fn errors_match_helm() {
    let helms = PROFILES.map(helm_program::helm);
    let record = std::env::var_os("LONGSHORE_RECORD").is_some();
    let mut different = String::new();
    let mut count = 0;
    for path in files() {
        let mut cases = parse_cases(&fs::read_to_string(&path).unwrap());
        count += cases.len();
        for case in &mut cases {
            let folder = case.unpack();
            for (at, profile) in PROFILES.into_iter().enumerate() {
                if let Some(helm) = &helms[at] {
                    let said = helm_program::template(helm, folder.path(), &case.arguments).stderr;
                    if record {
                        case.expected[at] = said;
                    } else {
                        compare(
                            &mut different,
                            &case.name,
                            profile,
                            "recorded",
                            &case.expected[at],
                            "helm",
                            &said,
                        );
                    }
                }
                let ours = longshore::template(folder.path(), &case.arguments, profile).stderr;
                compare(&mut different, &case.name, profile, "helm", &case.expected[at], "ours", &ours);
            }
        }
        if record {
            fs::write(&path, format_cases(&cases)).unwrap();
        }
    }
    assert!(different.is_empty(), "{different}");
    assert!(count >= 60, "only {count} cases");
}

fn compare(
    out: &mut String,
    case: &str,
    profile: Profile,
    one_name: &str,
    one: &str,
    other_name: &str,
    other: &str,
) {
    if one != other {
        writeln!(out, "== {case}, {profile:?}\n-- {one_name}:\n{one}\n-- {other_name}:\n{other}").unwrap();
    }
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/errors");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "txt"));
    files.sort();
    files
}

impl ErrorCase {
    /// Writes its chart into a temporary folder.
    fn unpack(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let chart = ("c/Chart.yaml".to_owned(), CHART.to_owned());
        for (name, text) in std::iter::once(&chart).chain(&self.files) {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }
}

/// Parses `=== NAME`, an optional `$ ARGUMENTS` line (single quotes protect spaces), and per file `--- NAME` and its
/// text. The names `helm3` and `helm4` hold the expected errors.
fn parse_cases(text: &str) -> Vec<ErrorCase> {
    let mut cases: Vec<ErrorCase> = Vec::new();
    for line in text.split_inclusive('\n') {
        if let Some(name) = line.strip_prefix("=== ") {
            cases.push(ErrorCase {
                name: name.trim_end().to_owned(),
                arguments: ["x", "c"].map(str::to_owned).to_vec(),
                files: Vec::new(),
                expected: Default::default(),
            });
            continue;
        }
        let case = cases.last_mut().expect("a case begins with its name");
        if let Some(words) = line.strip_prefix("$ ") {
            // Spaces inside single quotes do not separate arguments.
            let parts = words.trim_end().split('\'').enumerate();
            for (at, part) in parts {
                match at % 2 {
                    0 => case.arguments.extend(part.split_whitespace().map(str::to_owned)),
                    _ => case.arguments.push(part.to_owned()),
                }
            }
        } else if let Some(name) = line.strip_prefix("--- ").filter(|name| name.trim_end() != "") {
            case.files.push((name.trim_end().to_owned(), String::new()));
        } else if let Some((_, text)) = case.files.last_mut() {
            text.push_str(line);
        }
    }
    for case in &mut cases {
        for (at, name) in ["helm3", "helm4"].into_iter().enumerate() {
            if let Some(place) = case.files.iter().position(|(file, _)| file == name) {
                case.expected[at] = case.files.remove(place).1;
            }
        }
    }
    cases
}

fn format_cases(cases: &[ErrorCase]) -> String {
    let mut out = String::new();
    for ErrorCase { name, arguments, files, expected: wanted } in cases {
        writeln!(out, "=== {name}").unwrap();
        if arguments.len() > 2 {
            let words = arguments[2..].iter();
            let words: Vec<_> = words
                .map(|word| if word.contains(' ') { format!("'{word}'") } else { word.clone() })
                .collect();
            writeln!(out, "$ {}", words.join(" ")).unwrap();
        }
        for (file, text) in files {
            write!(out, "--- {file}\n{text}").unwrap();
        }
        let [helm3, helm4] = wanted;
        write!(out, "--- helm3\n{helm3}--- helm4\n{helm4}").unwrap();
    }
    out
}
