//! Rules for every Rust file: a header, a maximum length, no unfinished code.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::masking::mask_comments_and_literals;

/// Maximum number of lines. Longer files have more than one subject, unless they are tables.
const MAX_LINES: usize = 800;
/// Marks a file in its header as a long table.
const TABLE_MARKER: &str = "A table:";
/// Paths that may print: commands, and the server's start lines.
const PRINTING_PATHS: [&str; 3] = ["crates/cli/", "crates/longshore/src/main.rs", "xtask/"];

/// A Rust file with its path in the project.
pub struct Source {
    pub path: String,
    pub text: String,
}

/// Reads every Rust file of the workspace, sorted by path.
pub fn read(root: &Path) -> Result<Vec<Source>> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask"] {
        walk(root, &root.join(folder), &mut files)?;
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<Source>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            walk(root, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let path = path.strip_prefix(root).expect("it is below the root").to_string_lossy().into_owned();
            files.push(Source { path, text });
        }
    }
    Ok(())
}

/// Returns the complaints about one file.
pub fn check(source: &Source) -> Vec<String> {
    let Source { path, text } = source;
    let mut complaints = Vec::new();
    let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
    if header.is_empty() {
        complaints.push(format!("{path}:1: begins with no `//!` header that says what this is"));
    }
    let lines = text.lines().count();
    if lines > MAX_LINES && !header.iter().any(|line| line.contains(TABLE_MARKER)) {
        complaints.push(format!(
            "{path}: {lines} lines; above {MAX_LINES} the header says `{TABLE_MARKER}` or the file has two subjects"
        ));
    }
    let mut in_tests = path.contains("/tests/") || path.ends_with("/tests.rs");
    let may_print = PRINTING_PATHS.iter().any(|place| path.starts_with(place));
    for (number, line) in (1..).zip(mask_comments_and_literals(text).lines()) {
        in_tests |= line.contains("#[cfg(test)]");
        let mut complain = |what: &str| complaints.push(format!("{path}:{number}: {what}"));
        for name in ["todo", "unimplemented", "dbg"] {
            if calls_macro(line, name) {
                complain(&format!("`{name}!` is left"));
            }
        }
        // A test may print that it was skipped, or print to its parent process.
        if (calls_macro(line, "println") || calls_macro(line, "print")) && !may_print && !in_tests {
            complain("prints to standard output, which belongs to the commands");
        }
        if line.contains("#[ignore]") {
            complain("`#[ignore]` gives no reason");
        }
    }
    complaints
}

/// Whether the macro `name!` is called in this line.
fn calls_macro(line: &str, name: &str) -> bool {
    line.match_indices(&format!("{name}!"))
        .any(|(at, _)| !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check(&Source { path: path.to_owned(), text: text.to_owned() })
    }

    #[test]
    fn check_reports_each_rule_once() {
        let table = [
            ("use x;\n", "crates/a/src/b.rs:1: begins with no `//!` header that says what this is"),
            ("//! B.\nfn f() { todo!() }", "crates/a/src/b.rs:2: `todo!` is left"),
            ("//! B.\n\nfn f() { unimplemented!() }", "crates/a/src/b.rs:3: `unimplemented!` is left"),
            ("//! B.\nfn f() { dbg!(1); }", "crates/a/src/b.rs:2: `dbg!` is left"),
            (
                "//! B.\nfn f() { println!() }",
                "crates/a/src/b.rs:2: prints to standard output, which belongs to the commands",
            ),
            (
                "//! B.\nfn f() { print!(\"\") }",
                "crates/a/src/b.rs:2: prints to standard output, which belongs to the commands",
            ),
            ("//! B.\n#[ignore]\nfn f() {}", "crates/a/src/b.rs:2: `#[ignore]` gives no reason"),
        ];
        for (text, complaint) in table {
            assert_eq!(complaints("crates/a/src/b.rs", text), [complaint]);
        }
    }

    #[test]
    fn long_file_must_be_table() {
        let long = "x\n".repeat(MAX_LINES);
        let told = complaints("crates/a/src/b.rs", &format!("//! B.\n{long}"));
        assert_eq!(
            told,
            [
                "crates/a/src/b.rs: 801 lines; above 800 the header says `A table:` or the file has two subjects"
            ]
        );
        assert!(complaints("crates/a/src/b.rs", &format!("//! A table: everything.\n{long}")).is_empty());
    }

    #[test]
    fn check_accepts_allowed_code() {
        let table = [
            ("crates/a/src/b.rs", "//! B.\n#[ignore = \"takes an hour\"]\nfn f() {}"),
            ("crates/a/src/b.rs", "//! B: no todo! here.\nfn f() { g(\"println!\"); eprintln!(); }"),
            ("crates/a/src/b.rs", "//! B.\n#[cfg(test)]\nmod tests { fn f() { println!() } }"),
            ("crates/a/src/b/tests.rs", "//! B's tests.\nfn f() { println!() }"),
            ("crates/a/tests/e2e/main.rs", "//! B.\nfn f() { println!() }"),
            ("crates/cli/src/b.rs", "//! B.\nfn f() { println!() }"),
            ("crates/longshore/src/main.rs", "//! B.\nfn f() { println!() }"),
        ];
        for (path, text) in table {
            assert!(complaints(path, text).is_empty(), "{path}: {text}");
        }
    }
}
