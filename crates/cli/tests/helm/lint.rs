//! `lint` on generated charts. `lint.txt` has the real Helm's output; `LONGSHORE_RECORD=1` records it again.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::lint_cases::{CASES, Case, GOOD};
use crate::program::{HELMS, Printed, helm_program, run_helm, run_longshore_as, text, write};

const RECORDED: &str = include_str!("lint.txt");

/// Writes the chart of a case and returns the arguments of `lint`.
fn write_case<'c>(case: &Case, folder: &'c Path) -> Vec<&'c str>
where
    'static: 'c,
{
    let (_, files, arguments) = case;
    let is_other = |name: &str| files.iter().any(|(other, _)| *other == name);
    let good: Vec<_> = GOOD.iter().copied().filter(|(name, _)| !is_other(name)).collect();
    write(folder, &good);
    let other: Vec<_> = files.iter().filter_map(|(name, text)| Some((*name, (*text)?))).collect();
    write(folder, &other);
    [&["lint", text(folder)], *arguments].concat()
}

/// Recorded form: the folder, which differs between runs, is replaced by `@`.
fn recorded_form(name: &str, helm: &str, printed: &Printed, folder: &Path) -> String {
    let mut spelt = format!("## {name} {helm}\n{}", printed.output);
    if let Some(error) = &printed.error {
        let _ = writeln!(spelt, "Error: {error}");
    }
    spelt.replace(text(folder), "@")
}

fn for_each_case(mut visit: impl FnMut(&Case, &str, &Path, &[&str])) {
    for case in CASES {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("a");
        let arguments = write_case(case, &folder);
        for helm in HELMS {
            visit(case, helm, &folder, &arguments);
        }
    }
}

#[test]
fn lint_output_matches_recorded_helm() {
    if std::env::var_os("LONGSHORE_RECORD").is_some() {
        record();
        return;
    }
    let mut recorded = RECORDED.split_inclusive("\n## ").map(|part| part.trim_end_matches("\n## "));
    for_each_case(|case, helm, folder, arguments| {
        let expected = recorded.next().expect("every case is recorded").trim_start_matches("## ");
        let spelt = recorded_form(case.0, helm, &run_longshore_as(helm, arguments), folder);
        assert_eq!(
            spelt.trim_start_matches("## ").trim_end(),
            expected.trim_end(),
            "{} as Helm {helm}",
            case.0
        );
    });
}

#[test]
fn recorded_lint_output_matches_real_helm() {
    let programs = HELMS.map(helm_program);
    for_each_case(|case, helm, folder, arguments| {
        let place = HELMS.iter().position(|known| known == &helm).unwrap_or_default();
        if let Some(program) = &programs[place] {
            let printed = run_helm(program, folder.parent().expect("a home"), arguments);
            assert_eq!(run_longshore_as(helm, arguments), printed, "{} as Helm {helm}", case.0);
        }
    });
}

fn record() {
    let programs = HELMS.map(|helm| helm_program(helm).expect("a real Helm to record"));
    let mut recorded = String::new();
    for_each_case(|case, helm, folder, arguments| {
        let place = HELMS.iter().position(|known| known == &helm).unwrap_or_default();
        let printed = run_helm(&programs[place], folder.parent().expect("a home"), arguments);
        recorded.push_str(&recorded_form(case.0, helm, &printed, folder));
    });
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/helm/lint.txt");
    fs::write(file, recorded).expect("the recording can be written");
}
