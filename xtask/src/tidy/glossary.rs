//! The glossary names the defining item of each term; the item must exist at that path.

use super::sources::Source;

/// Keywords before the name of an item. Some enums are defined in a macro call, by their name and a brace.
const ITEM_KEYWORDS: [&str; 8] = ["struct", "enum", "trait", "type", "fn", "const", "static", "mod"];

/// Returns a complaint for each row of `glossary` whose last column is not the path of an item in `sources`.
pub fn check(glossary: &str, sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (index, line) in glossary.lines().enumerate() {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, _, item, _] = columns[..] else { continue };
        let Some(path) = item.strip_prefix('`').and_then(|item| item.strip_suffix('`')) else { continue };
        if !is_defined(path, sources) {
            complaints.push(format!("docs/glossary.md:{}: there is no item `{path}`", index + 1));
        }
    }
    complaints
}

fn is_defined(path: &str, sources: &[Source]) -> bool {
    let segments: Vec<&str> = path.split("::").collect();
    let [krate, inner @ ..] = &segments[..] else { return false };
    let folder = format!("crates/{}/src", krate.replace('_', "-"));
    // The longest prefix that is a module; the rest is an item, or a type and its method.
    (inner.len().saturating_sub(2)..inner.len()).rev().any(|modules| {
        let (modules, items) = inner.split_at(modules);
        let module = [&[folder.as_str()], modules].concat().join("/");
        let own_files = match modules {
            [] => vec![format!("{module}/lib.rs")],
            _ => vec![format!("{module}.rs"), format!("{module}/mod.rs")],
        };
        let is_own = |source: &&Source| own_files.contains(&source.path);
        let is_below = |source: &&Source| is_own(source) || source.path.starts_with(&format!("{module}/"));
        match items {
            [item] => sources.iter().filter(is_own).any(|source| defines(&source.text, item)),
            [owner, method] => {
                sources.iter().filter(is_own).any(|source| defines(&source.text, owner))
                    && sources.iter().filter(is_below).any(|source| defines(&source.text, method))
            }
            _ => false,
        }
    })
}

fn defines(text: &str, name: &str) -> bool {
    text.lines().any(|line| {
        let mut words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').peekable();
        let mut is_definition = line.trim_start().starts_with(&format!("{name} {{"));
        while let Some(word) = words.next() {
            is_definition |= ITEM_KEYWORDS.contains(&word) && words.peek() == Some(&name);
        }
        is_definition && !line.trim_start().starts_with("//")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defining_items_must_exist_at_their_path() {
        let source =
            |path: &str, text: &str| Source { path: path.to_owned(), text: format!("//! M.\n{text}") };
        let sources = [
            source("crates/kube-access/src/lib.rs", "pub struct Top;"),
            source("crates/kube-access/src/lease.rs", "pub struct Lease<'a> {}\n// struct Gone;"),
            source("crates/kube-access/src/lease/scoped.rs", "impl Lease<'_> { pub async fn run() {} }"),
            source("crates/kube-access/src/cache/mod.rs", "roles! {\n    Role {\n"),
        ];
        let glossary =
            |path: &str| format!("# Glossary\n\n| term | item |\n|---|---|\n| a | b | `{path}` |\n");
        for path in [
            "kube_access::Top",
            "kube_access::lease::Lease",
            "kube_access::lease::Lease::run",
            "kube_access::cache::Role",
        ] {
            assert!(check(&glossary(path), &sources).is_empty(), "{path}");
        }
        for path in [
            "kube_access::lease::Gone",
            "kube_access::Lease",
            "kube_access::lease::Lease::stop",
            "lease::Lease",
        ] {
            let complaint = format!("docs/glossary.md:5: there is no item `{path}`");
            assert_eq!(check(&glossary(path), &sources), [complaint]);
        }
    }
}
