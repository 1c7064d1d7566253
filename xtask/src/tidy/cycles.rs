//! Import cycles between the modules of a crate.
//!
//! A module is a file or folder in `src`, and `lib.rs` with `main.rs` is the module `lib`. A module imports another one
//! if a path with `crate::`, `super::` or `self::` in it, in a `use` or elsewhere, leads there. Re-exports of `lib.rs`
//! lead to the module that they name and are no imports themselves. Tests are not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::sources::Source;

/// Crates with import cycles, each with the number of modules in them. Every other crate has none. The numbers may only
/// shrink.
const MODULES_IN_CYCLES: &[(&str, usize)] = &[
    ("api", 19),
    ("chart-store", 2),
    ("cli", 5),
    ("governor", 4),
    ("helm-chart", 4),
    ("helm-engine", 2),
    ("helm-template", 5),
    ("kube-apply", 14),
    ("kube-embedded", 21),
    ("outbound", 2),
    ("releases", 7),
    ("tenancy", 21),
];

/// The module of `lib.rs` and `main.rs`.
const ROOT: &str = "lib";

/// Returns the complaints about all crates.
pub fn check(sources: &[Source]) -> Vec<String> {
    check_against(sources, MODULES_IN_CYCLES)
}

fn check_against(sources: &[Source], recorded: &[(&str, usize)]) -> Vec<String> {
    let mut crates = BTreeMap::<&str, Vec<(Vec<String>, &Source)>>::new();
    for source in sources {
        let Some((krate, file)) =
            source.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        let mut module: Vec<String> = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if module.last().is_some_and(|name| name == "mod") {
            module.pop();
        }
        if module == ["lib"] || module == ["main"] {
            module.clear();
        }
        crates.entry(krate).or_default().push((module, source));
    }
    let mut complaints = Vec::new();
    for (krate, files) in &crates {
        let imports = imports(files);
        let cycles = cycles(&imports);
        let count: usize = cycles.iter().map(BTreeSet::len).sum();
        let most = recorded.iter().find(|(name, _)| name == krate).map_or(0, |(_, most)| *most);
        if count < most {
            complaints.push(format!(
                "{krate}: {count} modules are in import cycles; lower its number in xtask/src/tidy/cycles.rs from {most}"
            ));
        }
        if count > most {
            complaints.push(format!("{krate}: {count} modules are in import cycles, at most {most} may be"));
            let is_inside = |(from, to): &&(String, String)| {
                cycles.iter().any(|cycle| cycle.contains(from) && cycle.contains(to))
            };
            for (from, to) in imports.keys().filter(is_inside) {
                let places =
                    imports[&(from.clone(), to.clone())].iter().cloned().collect::<Vec<_>>().join(", ");
                complaints.push(format!("{krate}: `{from}` imports `{to}`: {places}"));
            }
        }
    }
    complaints
}

/// Which module imports which, with the places.
type Imports = BTreeMap<(String, String), BTreeSet<String>>;

fn imports(files: &[(Vec<String>, &Source)]) -> Imports {
    let lexed: Vec<(&Vec<String>, &Source, Vec<TokenTree>)> = files
        .iter()
        .filter_map(|(module, source)| {
            // The compiler complains about a file that cannot be lexed.
            let stream = TokenStream::from_str(&source.text).ok()?;
            Some((module, *source, stream.into_iter().collect()))
        })
        .collect();
    let mut root = Root {
        modules: files.iter().filter_map(|(module, _)| module.first()).cloned().collect(),
        ..Root::default()
    };
    let mut tests = BTreeSet::new();
    for (module, _, trees) in &lexed {
        if module.is_empty() {
            root.read_exports(trees);
        }
        for name in test_modules(trees) {
            tests.insert([module.as_slice(), &[name]].concat());
        }
    }
    let is_test = |module: &[String]| {
        module.last().is_some_and(|name| name == "tests")
            || (1..=module.len()).any(|len| tests.contains(&module[..len]))
    };
    let mut imports = Imports::new();
    for (module, source, trees) in &lexed {
        let from = module.first().map_or(ROOT, String::as_str);
        if is_test(module) || from == "bin" {
            continue;
        }
        let mut paths = Vec::new();
        collect_paths(trees, module.len(), &mut paths);
        for Path { name, line } in paths {
            let to = root.module_of(&name);
            if to != from && !is_test(&[to.to_owned()]) {
                let place = format!("{}:{line} (`{name}`)", source.path);
                imports.entry((from.to_owned(), to.to_owned())).or_default().insert(place);
            }
        }
    }
    imports
}

/// The modules that a file declares for tests only.
fn test_modules(trees: &[TokenTree]) -> Vec<String> {
    let declared =
        trees.iter().enumerate().filter(|(at, tree)| is_ident(tree, "mod") && is_for_tests(&trees[..*at]));
    declared.filter_map(|(at, _)| trees.get(at + 1)).map(ToString::to_string).collect()
}

/// What `lib.rs` declares.
#[derive(Default)]
struct Root {
    modules: BTreeSet<String>,
    /// Re-exported names with their modules.
    exports: BTreeMap<String, String>,
}

impl Root {
    /// The module that a name in the crate's root leads to.
    fn module_of<'a>(&'a self, name: &'a str) -> &'a str {
        if self.modules.contains(name) {
            return name;
        }
        self.exports.get(name).map_or(ROOT, String::as_str)
    }

    fn read_exports(&mut self, trees: &[TokenTree]) {
        for at in 0..trees.len() {
            if !is_ident(&trees[at], "use") || !is_public(&trees[..at]) {
                continue;
            }
            let mut begin = at + 1;
            // `crate::` and `self::` are the root itself.
            if trees.get(begin).is_some_and(|first| is_ident(first, "crate") || is_ident(first, "self")) {
                begin += 3;
            }
            let Some(TokenTree::Ident(module)) = trees.get(begin) else { continue };
            let module = module.to_string();
            if self.modules.contains(&module) {
                for name in exported_names(statement(&trees[begin + 1..])) {
                    self.exports.insert(name, module.clone());
                }
            }
        }
    }
}

/// The trees up to the next semicolon.
fn statement(trees: &[TokenTree]) -> &[TokenTree] {
    let end = trees.iter().position(|tree| is_mark(tree, ';')).unwrap_or(trees.len());
    &trees[..end]
}

/// The last segments of an import.
fn exported_names(trees: &[TokenTree]) -> Vec<String> {
    let mut names = Vec::new();
    for import in trees.split(|tree| is_mark(tree, ',')) {
        match import.last() {
            Some(TokenTree::Ident(name)) => names.push(name.to_string()),
            Some(TokenTree::Group(group)) => {
                names.extend(exported_names(&group.stream().into_iter().collect::<Vec<_>>()));
            }
            _ => {}
        }
    }
    names
}

/// A name in the crate's root that a path leads through, and the line of the path.
struct Path {
    name: String,
    line: usize,
}

/// Collects paths into the crate's root from code that is `depth` modules below it.
fn collect_paths(trees: &[TokenTree], depth: usize, paths: &mut Vec<Path>) {
    let mut at = 0;
    while at < trees.len() {
        match &trees[at] {
            TokenTree::Punct(_) if is_test_attribute(&trees[at..]) => {
                at += item_len(&trees[at..]);
                continue;
            }
            // Re-exports of the root.
            TokenTree::Ident(keyword) if keyword == "use" && depth == 0 && is_public(&trees[..at]) => {
                at += statement(&trees[at..]).len();
            }
            TokenTree::Ident(_) if !follows_path(&trees[..at]) => {
                leads_to(&trees[at..], depth, Start::Module, paths);
            }
            TokenTree::Group(group) => {
                let is_module =
                    group.delimiter() == Delimiter::Brace && at >= 2 && is_ident(&trees[at - 2], "mod");
                let inner: Vec<_> = group.stream().into_iter().collect();
                collect_paths(&inner, depth + usize::from(is_module), paths);
            }
            _ => {}
        }
        at += 1;
    }
}

/// Where a path stands when its next segment is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// At its begin.
    Module,
    /// After `super::` or `self::`, this far below the root.
    Above,
}

/// Adds the names in the root that the path at the begin of `trees` leads through.
fn leads_to(trees: &[TokenTree], depth: usize, start: Start, paths: &mut Vec<Path>) {
    let Some(first) = trees.first() else { return };
    let line = first.span().start().line;
    let continues = trees.len() > 2 && is_mark(&trees[1], ':') && is_mark(&trees[2], ':');
    match first {
        TokenTree::Group(group) if start == Start::Above && group.delimiter() == Delimiter::Brace => {
            let inner: Vec<_> = group.stream().into_iter().collect();
            for import in inner.split(|tree| is_mark(tree, ',')) {
                leads_to(import, depth, Start::Above, paths);
            }
        }
        TokenTree::Ident(name) if name == "crate" && continues => {
            leads_to(&trees[3..], 0, Start::Above, paths);
        }
        TokenTree::Ident(name) if name == "self" && continues => {
            leads_to(&trees[3..], depth, Start::Above, paths);
        }
        TokenTree::Ident(name) if name == "super" && continues => {
            leads_to(&trees[3..], depth.saturating_sub(1), Start::Above, paths);
        }
        TokenTree::Ident(name) if depth == 0 && (start == Start::Above || continues) => {
            paths.push(Path { name: name.to_string(), line });
        }
        _ => {}
    }
}

/// Modules that import each other, directly or not.
fn cycles(imports: &Imports) -> Vec<BTreeSet<String>> {
    let reachable = |from: &String| {
        let mut found = BTreeSet::new();
        let mut open = vec![from];
        while let Some(from) = open.pop() {
            open.extend(
                imports
                    .keys()
                    .filter(|(other, _)| other == from)
                    .map(|(_, to)| to)
                    .filter(|to| found.insert((*to).clone())),
            );
        }
        found
    };
    let modules: BTreeSet<&String> = imports.keys().map(|(from, _)| from).collect();
    let reachable: BTreeMap<&String, BTreeSet<String>> =
        modules.into_iter().map(|module| (module, reachable(module))).collect();
    let mut cycles = BTreeSet::new();
    for (module, others) in &reachable {
        if others.contains(*module) {
            let comes_back =
                |other: &&String| reachable.get(other).is_some_and(|back| back.contains(*module));
            cycles.insert(others.iter().filter(comes_back).cloned().collect::<BTreeSet<_>>());
        }
    }
    cycles.into_iter().collect()
}

/// Whether `#[cfg(test)]` or another condition with `test` begins here.
fn is_test_attribute(trees: &[TokenTree]) -> bool {
    let [hash, TokenTree::Group(group), ..] = trees else { return false };
    let inner: Vec<_> = group.stream().into_iter().collect();
    let [name, TokenTree::Group(condition)] = &inner[..] else { return false };
    let condition: Vec<_> = condition.stream().into_iter().collect();
    is_mark(hash, '#')
        && is_ident(name, "cfg")
        && !condition.first().is_some_and(|first| is_ident(first, "not"))
        && flatten(&condition).iter().any(|name| name == "test")
}

fn flatten(trees: &[TokenTree]) -> Vec<String> {
    let mut names = Vec::new();
    for tree in trees {
        match tree {
            TokenTree::Ident(name) => names.push(name.to_string()),
            TokenTree::Group(group) => names.extend(flatten(&group.stream().into_iter().collect::<Vec<_>>())),
            _ => {}
        }
    }
    names
}

/// Whether an item after these trees is declared for tests.
fn is_for_tests(before: &[TokenTree]) -> bool {
    let end = before.iter().rposition(|tree| is_mark(tree, ';')).map_or(0, |last| last + 1);
    (end..before.len()).any(|at| is_test_attribute(&before[at..]))
}

/// The number of trees of an item with its attributes: up to a semicolon or a block.
fn item_len(trees: &[TokenTree]) -> usize {
    let is_end = |tree: &TokenTree| {
        is_mark(tree, ';')
            || is_mark(tree, ',')
            || matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
    };
    // `use a::{b, c};` ends with its semicolon.
    let is_import = trees.iter().take_while(|tree| !is_end(tree)).any(|tree| is_ident(tree, "use"));
    let end = if is_import {
        trees.iter().position(|tree| is_mark(tree, ';'))
    } else {
        trees.iter().position(is_end)
    };
    end.map_or(trees.len(), |last| last + 1)
}

/// Whether `pub` or `pub(..)` is before the item.
fn is_public(before: &[TokenTree]) -> bool {
    matches!(before, [.., visibility, TokenTree::Group(_)] | [.., visibility] if is_ident(visibility, "pub"))
}

fn follows_path(before: &[TokenTree]) -> bool {
    before.last().is_some_and(|tree| is_mark(tree, ':'))
        && before.len() > 1
        && is_mark(&before[before.len() - 2], ':')
}

fn is_ident(tree: &TokenTree, name: &str) -> bool {
    matches!(tree, TokenTree::Ident(ident) if ident == name)
}

fn is_mark(tree: &TokenTree, mark: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(files: &[(&str, &str)], recorded: &[(&str, usize)]) -> Vec<String> {
        let source = |(path, text): &(&str, &str)| Source {
            path: format!("crates/x/src/{path}"),
            text: (*text).to_owned(),
        };
        check_against(&files.iter().map(source).collect::<Vec<_>>(), recorded)
    }

    #[test]
    fn modules_may_not_import_each_other() {
        for b in [
            "use crate::a::A;",
            "use crate::{a::A, c};",
            "use super::a::A;",
            "use super::{c, a};",
            "use crate::A;",
            "fn f() { crate::a::f() }",
            "mod inner { use super::super::a::A; }",
            "pub use crate::c::C;",
        ] {
            let files = [
                ("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;"),
                ("a.rs", "use crate::b::B;\npub struct A;"),
                ("b.rs", b),
                ("c.rs", "use crate::a::A;\nuse crate::b;"),
            ];
            assert!(
                complaints(&files, &[("x", 3)]).iter().all(|complaint| complaint.contains("lower")),
                "{b}"
            );
            let found = complaints(&files, &[]);
            assert!(found[0].ends_with("modules are in import cycles, at most 0 may be"), "{b}: {found:?}");
            assert!(
                found
                    .iter()
                    .any(|complaint| complaint.starts_with("x: `a` imports `b`: crates/x/src/a.rs:1")),
                "{b}: {found:?}"
            );
        }
    }

    #[test]
    fn items_of_the_root_are_a_module() {
        let files =
            [("lib.rs", "mod a;\nuse a::A;\npub struct B(A);"), ("a.rs", "use crate::B;\npub struct A;")];
        assert_eq!(
            complaints(&files, &[]),
            [
                "x: 2 modules are in import cycles, at most 0 may be",
                "x: `a` imports `lib`: crates/x/src/a.rs:1 (`B`)",
                "x: `lib` imports `a`: crates/x/src/lib.rs:2 (`a`)",
            ]
        );
    }

    #[test]
    fn imports_in_one_direction_tests_and_submodules_are_no_cycles() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod testing;\npub use a::A;\npub use b::*;"),
            ("a/mod.rs", "mod inner;\nuse self::inner::C;\nuse crate::b::B;\n#[cfg(test)]\nmod tests;"),
            ("a/inner.rs", "use super::A;\nuse std::a::B;"),
            ("a/tests.rs", "use crate::testing;"),
            ("b/chaos.rs", "use crate::a::A;"),
            (
                "b.rs",
                "#[cfg(test)]\nmod chaos;\n#[cfg(test)]\nuse crate::{a::A, testing};\nfn f() { std::crate_a::b() }\n#[cfg(test)]\nmod tests { use crate::a::A; }",
            ),
            ("testing.rs", "use crate::{a, b};"),
        ];
        assert_eq!(complaints(&files, &[]), [""; 0]);
    }

    #[test]
    fn recorded_numbers_may_only_shrink() {
        let files = [("lib.rs", "mod a;\nmod b;"), ("a.rs", "use crate::b;"), ("b.rs", "use crate::a;")];
        assert_eq!(complaints(&files, &[("x", 2)]), [""; 0]);
        assert_eq!(complaints(&files, &[("x", 1)])[0], "x: 2 modules are in import cycles, at most 1 may be");
        assert_eq!(
            complaints(&files, &[("x", 3)]),
            ["x: 2 modules are in import cycles; lower its number in xtask/src/tidy/cycles.rs from 3"]
        );
    }
}
