//! `cargo xtask same-code BASE`: checks that a commit only renames identifiers, or only changes text.
//!
//! Rust files of `BASE` and of `HEAD` are paired by git's rename detection and lexed. Without `--prose`, two files are
//! the same code if one injective renaming of identifiers maps the old tokens to the new ones. With `--prose`, only
//! string literals may differ, and each changed literal is listed. Imports, `mod` declarations, comments and rustfmt's
//! own changes (trailing commas, braces around one expression) are ignored: the compiler checks imports, and comments
//! are not code.
//!
//! Limits: a renaming is per file, so a file that swaps two functions of the standard library everywhere passes. The
//! printed table of renamings is for a reviewer.
//!
//! Modules: [`tokens`] lexes a file, [`compare`] compares two.

mod compare;
mod tokens;

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::project::{Project, output};
use compare::TextChanges;

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
}

/// A Rust file before and after the change.
#[derive(Debug, PartialEq, Eq)]
struct FilePair {
    old: String,
    new: String,
}

pub fn same_code(project: &Project, args: &SameCodeArgs) -> Result<()> {
    let SameCodeArgs { base, head, prose } = args;
    // A low threshold keeps half-renamed files paired. Without -l0 git stops detecting renames in large changes.
    let diff = ["diff", "--name-status", "-z", "--find-renames=30%", "-l0", base, head, "--", "*.rs"];
    let (pairs, mut failures) = parse_pairs(&output(&mut project.command("git", diff))?)?;
    let mut renamed = BTreeMap::<(String, String), usize>::new();
    for FilePair { old, new } in &pairs {
        let show = |revision: &str, path: &str| {
            let text = output(&mut project.command("git", ["show", &format!("{revision}:{path}")]))?;
            tokens::tokenize(&text).with_context(|| format!("{revision}:{path}"))
        };
        let (before, after) = (show(base, old)?, show(head, new)?);
        let compared = if *prose {
            compare::compare_prose(&before, &after)
        } else {
            compare::compare_renaming(&before, &after)
        };
        match compared {
            Err(difference) => failures.push(format!("{new}:{difference}")),
            Ok(TextChanges::Literals(literals)) => {
                for (line, before, after) in literals {
                    println!("{new}:{line}: {before} -> {after}");
                }
            }
            Ok(TextChanges::Renamed(names)) => {
                for pair in names {
                    *renamed.entry(pair).or_default() += 1;
                }
            }
        }
    }
    for ((old, new), files) in &renamed {
        println!("{old} -> {new} ({files} files)");
    }
    println!("same-code: {} files compared, {} names changed", pairs.len(), renamed.len());
    if failures.is_empty() {
        return Ok(());
    }
    for failure in &failures {
        println!("{failure}");
    }
    bail!(
        "same-code: {} files differ in more than {}",
        failures.len(),
        if *prose { "prose" } else { "names" }
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_pairs_fails_for_unpaired_files() {
        let (pairs, failures) = parse_pairs("M\0a.rs\0R087\0b.rs\0c.rs\0A\0d.rs\0").unwrap();
        let pair = |old: &str, new: &str| FilePair { old: old.into(), new: new.into() };
        assert_eq!(pairs, [pair("a.rs", "a.rs"), pair("b.rs", "c.rs")]);
        assert_eq!(failures, ["d.rs: A: has no counterpart"]);
    }
}
