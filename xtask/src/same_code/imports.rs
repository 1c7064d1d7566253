//! Imports from other crates, which a renaming does not change.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Result, anyhow};
use proc_macro2::{TokenStream, TokenTree};

/// The names of crates in `Cargo.lock` that are no members of the workspace, and those of the standard library.
pub fn other_crates(lock: &str) -> Vec<String> {
    let mut crates: Vec<String> = ["std", "core", "alloc"].map(str::to_owned).to_vec();
    for package in lock.split("[[package]]").filter(|package| package.contains("\nsource = ")) {
        let name = package.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        crates.extend(name.map(|name| name.replace('-', "_")));
    }
    crates
}

/// Describes imports from `crates` that only one version has.
pub fn changed(old: &str, new: &str, crates: &[String]) -> Result<Vec<String>> {
    let mut counts = BTreeMap::<String, isize>::new();
    for (text, step) in [(old, -1), (new, 1)] {
        // A module may be called as a crate.
        let is_module =
            |root: &str| text.contains(&format!("mod {root};")) || text.contains(&format!("mod {root} {{"));
        for path in imported(text)? {
            let root = path.split("::").next().unwrap_or_default();
            if crates.iter().any(|name| name == root) && !is_module(root) {
                // Aliases are names of the file.
                let path = path.split(" as ").next().unwrap_or_default();
                *counts.entry(path.to_owned()).or_default() += step;
            }
        }
    }
    let describe = |(path, count): (String, isize)| match count {
        0 => None,
        1.. => Some(format!("imports `{path}`, as it did not before")),
        _ => Some(format!("imports `{path}` no longer")),
    };
    Ok(counts.into_iter().filter_map(describe).collect())
}

fn imported(source: &str) -> Result<Vec<String>> {
    let stream = TokenStream::from_str(source).map_err(|error| anyhow!("cannot be lexed: {error}"))?;
    let mut paths = Vec::new();
    collect(&stream.into_iter().collect::<Vec<_>>(), &mut paths);
    Ok(paths)
}

fn collect(trees: &[TokenTree], paths: &mut Vec<String>) {
    let mut at = 0;
    while at < trees.len() {
        match &trees[at] {
            // `use` is also the syntax of precise captures, `impl Sized + use<'a>`.
            TokenTree::Ident(ident)
                if ident == "use" && !trees.get(at + 1).is_some_and(|next| is_mark(next, '<')) =>
            {
                let end = trees[at..]
                    .iter()
                    .position(|tree| is_mark(tree, ';'))
                    .map_or(trees.len(), |len| at + len);
                expand(&trees[at + 1..end], "", paths);
                at = end;
            }
            TokenTree::Group(group) => collect(&group.stream().into_iter().collect::<Vec<_>>(), paths),
            _ => {}
        }
        at += 1;
    }
}

/// Expands `a::{b, c::d}` to `a::b` and `a::c::d`.
fn expand(trees: &[TokenTree], prefix: &str, paths: &mut Vec<String>) {
    for import in trees.split(|tree| is_mark(tree, ',')).filter(|import| !import.is_empty()) {
        let mut path = prefix.to_owned();
        for tree in import {
            match tree {
                TokenTree::Group(group) => {
                    expand(&group.stream().into_iter().collect::<Vec<_>>(), &path, paths);
                    path.clear();
                }
                TokenTree::Ident(ident) if ident == "as" => path.push_str(" as "),
                tree => path.push_str(&tree.to_string()),
            }
        }
        if !path.is_empty() {
            // `a::{self}` imports `a`.
            paths.push(path.trim_end_matches("::self").to_owned());
        }
    }
}

fn is_mark(tree: &TokenTree, mark: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == mark)
}
