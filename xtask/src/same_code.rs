//! `cargo xtask same-code BASE`: checks that a commit only renames identifiers, or only changes text.
//!
//! Rust files of `BASE` and of `HEAD` are paired by git's rename detection and lexed. Without `--prose`, the renaming
//! must be one that keeps the meaning; [`compare`] has the rules. With `--prose`, only string literals may differ, and
//! each changed literal is listed. Comments are ignored, and so are rustfmt's own changes: trailing commas, braces around
//! the only expression of a closure or match arm with a semicolon after it, and the semicolon after a final `return`.
//!
//! Limits: types are not inferred. Where two definitions of one name were renamed differently, a use may have either
//! new name, and the compiler is the witness; such uses are counted. Imports are left to the compiler, except that
//! imports from other crates must be unchanged.
//!
//! Modules:
//! - [`tokens`], [`format_string`]: lexing
//! - [`imports`]: imports from other crates
//! - [`resolve`]: variables and names
//! - [`compare`]: the rules

mod compare;
mod format_string;
mod imports;
mod resolve;
#[cfg(test)]
mod tests;
mod tokens;

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::project::{Project, output};
use compare::{Definitions, RenamedFile};
use resolve::Class;
use tokens::Captures;

#[derive(Args)]
pub struct SameCodeArgs {
    /// The revision before the change
    base: String,
    /// The revision after the change
    #[arg(default_value = "HEAD")]
    head: String,
    /// Allow changed string literals and list them; identifiers must be equal
    #[arg(long)]
    prose: bool,
    /// List renamed definitions
    #[arg(long)]
    names: bool,
}

/// A Rust file before and after the change.
#[derive(Debug, PartialEq, Eq)]
struct FilePair {
    old: String,
    new: String,
}

pub fn same_code(project: &Project, args: &SameCodeArgs) -> Result<()> {
    let SameCodeArgs { base, head, prose, names } = args;
    // A low threshold keeps half-renamed files paired. Without -l0 git stops detecting renames in large changes.
    let diff = ["diff", "--name-status", "-z", "--find-renames=10%", "-l0", base, head, "--", "*.rs"];
    let (pairs, mut differences) = parse_pairs(&output(&mut project.command("git", diff))?)?;
    let show = |revision: &str, path: &str| {
        output(&mut project.command("git", ["show", &format!("{revision}:{path}")]))
    };
    let mut texts = Vec::new();
    for FilePair { old, new } in &pairs {
        texts.push((new.clone(), show(base, old)?, show(head, new)?));
    }
    let summary = if *prose {
        compare_prose(&texts, &mut differences)?
    } else {
        let crates = imports::other_crates(&show(base, "Cargo.lock")?);
        let mut definitions = Definitions::default();
        for pair in &pairs {
            insert_modules(pair, &mut definitions);
        }
        let summary = compare_renaming(&texts, &crates, &mut definitions, &mut differences)?;
        for (old, new) in definitions.renamed().filter(|_| *names) {
            println!("{old} -> {new}");
        }
        summary
    };
    println!("same-code: {} files compared, {summary}", pairs.len());
    if differences.is_empty() {
        return Ok(());
    }
    for difference in &differences {
        println!("{difference}");
    }
    bail!(
        "same-code: {} differences in more than {}",
        differences.len(),
        if *prose { "prose" } else { "names" }
    )
}

/// Compares files given by path, old text and new text.
fn compare_renaming(
    texts: &[(String, String, String)],
    other_crates: &[String],
    definitions: &mut Definitions,
    differences: &mut Vec<String>,
) -> Result<String> {
    let mut files: Vec<(&String, RenamedFile)> = Vec::new();
    for (path, old, new) in texts {
        let context = || path.clone();
        let (before, after) = (
            tokens::tokenize(old, Captures::Split).with_context(context)?,
            tokens::tokenize(new, Captures::Split).with_context(context)?,
        );
        let file = compare::compare_tokens(&before, &after, definitions);
        for import in imports::changed(old, new, other_crates).with_context(context)? {
            differences.push(format!("{path}: {import}"));
        }
        files.push((path, file));
    }
    let (mut variables, mut ambiguous) = (0, 0);
    for (path, file) in &mut files {
        ambiguous += compare::check_names(file, definitions);
        variables += file.variables;
        differences
            .extend(file.differences.iter().map(|(line, difference)| format!("{path}:{line}: {difference}")));
    }
    let renamed = definitions.renamed().count();
    Ok(format!(
        "{renamed} definitions and {variables} variables renamed, {ambiguous} uses of names with several new names"
    ))
}

fn compare_prose(texts: &[(String, String, String)], differences: &mut Vec<String>) -> Result<String> {
    let mut changed = 0;
    let mut list = String::new();
    for (path, old, new) in texts {
        let context = || path.clone();
        let (before, after) = (
            tokens::tokenize(old, Captures::Keep).with_context(context)?,
            tokens::tokenize(new, Captures::Keep).with_context(context)?,
        );
        match compare::compare_prose(&before, &after) {
            Err((line, difference)) => differences.push(format!("{path}:{line}: {difference}")),
            Ok(literals) => {
                changed += literals.len();
                for (line, before, after) in literals {
                    writeln!(list, "{path}:{line}: {before} -> {after}").expect("a string accepts all text");
                }
            }
        }
    }
    print!("{list}");
    Ok(format!("{changed} string literals changed"))
}

/// A renamed file or folder renames the module.
fn insert_modules(pair: &FilePair, definitions: &mut Definitions) {
    let modules = |path: &str| -> Vec<String> {
        let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
        path.rsplit('/').map(str::to_owned).collect()
    };
    for (old, new) in modules(&pair.old).iter().zip(&modules(&pair.new)) {
        definitions.insert(Class::Item, old, new);
    }
}

/// Parses `git diff --name-status -z` into pairs, with a failure for each file without a counterpart.
fn parse_pairs(diff: &str) -> Result<(Vec<FilePair>, Vec<String>)> {
    let (mut pairs, mut failures) = (Vec::new(), Vec::new());
    let mut fields = diff.split_terminator('\0');
    while let Some(status) = fields.next() {
        let mut path = || fields.next().map(str::to_owned).context("git diff ended within a record");
        let old = path()?;
        match status.as_bytes().first() {
            Some(b'M') => pairs.push(FilePair { new: old.clone(), old }),
            Some(b'R') => pairs.push(FilePair { old, new: path()? }),
            _ => failures.push(format!("{old}: {status}: has no counterpart")),
        }
    }
    Ok((pairs, failures))
}
