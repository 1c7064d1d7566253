//! Tests of the rules of `same-code`: what a renaming may change, and what it may not.

use super::*;

const CRATES: [&str; 2] = ["std", "tokio"];

/// Compares files given as old and new text.
fn differences(files: &[(&str, &str)]) -> Vec<String> {
    let crates = CRATES.map(str::to_owned);
    let text =
        |(at, (old, new)): (usize, &(&str, &str))| (format!("{at}.rs"), (*old).to_owned(), (*new).to_owned());
    let texts: Vec<_> = files.iter().enumerate().map(text).collect();
    let mut differences = Vec::new();
    compare_renaming(&texts, &crates, &mut Definitions::default(), &mut differences).unwrap();
    differences
}

#[track_caller]
fn assert_same(old: &str, new: &str) {
    assert_eq!(differences(&[(old, new)]), [""; 0], "\n{old}\n{new}");
}

#[track_caller]
fn assert_differs(old: &str, new: &str, expected: &str) {
    let found = differences(&[(old, new)]);
    assert!(found.iter().any(|difference| difference.contains(expected)), "{found:?}\n{old}\n{new}");
}

#[test]
fn parse_pairs_fails_for_unpaired_files() {
    let (pairs, failures) = parse_pairs("M\0a.rs\0R087\0b.rs\0c.rs\0A\0d.rs\0").unwrap();
    let pair = |old: &str, new: &str| FilePair { old: old.into(), new: new.into() };
    assert_eq!(pairs, [pair("a.rs", "a.rs"), pair("b.rs", "c.rs")]);
    assert_eq!(failures, ["d.rs: A: has no counterpart"]);
}

#[test]
fn comments_imports_and_layout_are_ignored() {
    assert_same(
        "//! Old.\n#[cfg(test)]\nuse a::{b, wish};\nmod told;\n/// Old.\nfn f(a: A, b: B,) -> Map<A, B,> { g(a, |c| c + b,) }",
        "use a::{desired, b};\nmod told;\nfn f(a: A, b: B) -> Map<A, B> {\n // New.\n g(a, |c| { c + b }) }",
    );
    assert_same(
        "fn f() { match a { 0 => b(), 1 => return c, _ => { d(); } } }",
        "fn f() { match a { 0 => { b(); } 1 => { return c; } _ => { d(); }, } }",
    );
    assert_same(
        "fn f() { let Some(a) = b else { return c }; loop { break } }",
        "fn f() { let Some(a) = b else {\n return c;\n };\n loop { break; } }",
    );
}

#[test]
fn imports_of_other_crates_are_unchanged() {
    assert_same(
        "use std::sync::{self, Arc};\nuse crate::told;",
        "use crate::seen;\nuse std::{sync, sync::Arc};",
    );
    assert_same("mod std;\nuse std::told;", "mod std;\nuse std::seen;");
    assert_same("use std::sync::Arc as Told;", "use std::sync::Arc as Shared;");
    assert_differs(
        "use std::sync::Mutex;",
        "use tokio::sync::Mutex;",
        "imports `std::sync::Mutex` no longer",
    );
}

#[test]
fn one_word_may_become_different_words_in_different_scopes() {
    assert_same(
        "fn f(told: u8) -> u8 { told }\nfn g() { let told = 1; h(told) }\nstruct A { told: u8 }",
        "fn f(seen: u8) -> u8 { seen }\nfn g() { let count = 1; h(count) }\nstruct A { reported: u8 }",
    );
}

#[test]
fn variables_are_renamed_with_their_binding() {
    for (old, new) in [
        ("fn f(a: A, b: B) { g(a, b) }", "fn f(c: A, d: B) { g(c, d) }"),
        ("fn f(a: A) { let a = g(a); a }", "fn f(a: A) { let b = g(a); b }"),
        (
            "fn f(a: A) { if let Some(a) = a { a } else { a } }",
            "fn f(a: A) { if let Some(b) = a { b } else { a } }",
        ),
        (
            "fn f(a: A) { match a { X(a) if a => a, Y(b) | Z(b) => b } }",
            "fn f(s: A) { match s { X(a) if a => a, Y(a) | Z(a) => a } }",
        ),
        ("fn f(a: A) { for a in a { a } }", "fn f(list: A) { for a in list { a } }"),
        (
            "fn f(a: A) { a.map(|a| a.b).c(|a, b: Map<A, B>| a + b); a }",
            "fn f(x: A) { x.map(|y| y.b).c(|z, w: Map<A, B>| z + w); x }",
        ),
        ("fn f() { for Foo { a, b } in c { g(a, b) } }", "fn f() { for Foo { a: x, b } in c { g(x, b) } }"),
        (
            "fn f() { if let Some(a) = { let a = 1; a } { a } }",
            "fn f() { if let Some(b) = { let a = 1; a } { b } }",
        ),
        ("fn f() { g(\"-\", |a| a.b) }", "fn f() { g(\"-\", |c| c.b) }"),
        ("fn f(a: A) { matches!(a, Some(a) if a > 1) }", "fn f(b: A) { matches!(b, Some(c) if c > 1) }"),
        (
            "fn f(a: A) { select! { a = a.b() => a, _ = c => a } }",
            "fn f(x: A) { select! { y = x.b() => y, _ = c => x } }",
        ),
        (
            "fn f() { if let Some(a) = b() && let c = a { c } }",
            "fn f() { if let Some(d) = b() && let a = d { a } }",
        ),
    ] {
        assert_same(old, new);
    }
}

#[test]
fn uses_of_variables_must_keep_their_binding() {
    for (old, new, expected) in [
        ("fn f(a: A, b: B) { g(a, b) }", "fn f(a: A, b: B) { g(b, a) }", "another variable"),
        ("fn f(a: A, b: B) { g(a, b) }", "fn f(c: A, d: B) { g(d, c) }", "another variable"),
        ("fn f(a: A) { let b = a; g(a, b) }", "fn f(a: A) { let a = a; g(a, a) }", "another variable"),
        ("fn f(a: A) { let b = a; g(a) }", "fn f(a: A) { let a = a; g(a) }", "another variable"),
        ("fn f(a: A) { for b in a { g(a) } }", "fn f(a: A) { for a in a { g(a) } }", "another variable"),
        ("fn f(a: A) { h(|b| g(a)) }", "fn f(a: A) { h(|a| g(a)) }", "another variable"),
        ("fn f(a: A) { match a { b => g(a) } }", "fn f(a: A) { match a { a => g(a) } }", "another variable"),
        ("fn f(a: A) { g(b) }", "fn f(b: A) { g(b) }", "one is a variable"),
        (
            "fn f(a: A, b: B) { format!(\"{a} {b}\") }",
            "fn f(a: A, b: B) { format!(\"{b} {a}\") }",
            "another variable",
        ),
    ] {
        assert_differs(old, new, expected);
    }
}

#[test]
fn captures_of_format_strings_are_variables() {
    assert_same(
        "fn f(told: A) { format!(\"{told:>3}{{told}}{}\", told); bail!(\"{told}\") }",
        "fn f(name: A) { format!(\"{name:>3}{{told}}{}\", name); bail!(\"{name}\") }",
    );
    assert_same(
        "fn f(told: A) { format!(\"{a}\", a = told) }",
        "fn f(name: A) { format!(\"{b}\", b = name) }",
    );
    assert_same(
        "#[error(\"no {told}\")]\nstruct E { told: A }",
        "#[error(\"no {name}\")]\nstruct E { name: A }",
    );
    assert_differs(
        "#[error(\"no {told}\")]\nstruct E { told: A, b: B }",
        "#[error(\"no {b}\")]\nstruct E { told: A, b: B }",
        "no definition",
    );
    assert_same(
        "const TOLD: u8 = 1;\n#[error(\"{TOLD}\")]\nstruct E;",
        "const LIMIT: u8 = 1;\n#[error(\"{LIMIT}\")]\nstruct E;",
    );
    // Other functions take the text as it is.
    assert_differs("fn f(told: A) { g(\"{told}\") }", "fn f(name: A) { g(\"{name}\") }", "became");
}

#[test]
fn fields_may_be_abbreviated() {
    assert_same(
        "struct Foo { told: u8 }\nfn f(told: u8) { let Foo { told } = Foo { told }; told }",
        "struct Foo { count: u8 }\nfn f(told: u8) { let Foo { count: seen } = Foo { count: told }; seen }",
    );
    assert_same(
        "struct Foo { a: u8 }\nfn f(a: u8) -> Foo { Foo { a, b } }",
        "struct Foo { a: u8 }\nfn f(c: u8) -> Foo { Foo { a: c, b } }",
    );
    assert_same(
        "fn f(a: u8) { let Foo { ref mut a, .. } = b; a }",
        "fn f(a: u8) { let Foo { a: ref mut c, .. } = b; c }",
    );
    assert_differs(
        "struct Foo { a: u8, b: u8 }\nfn f(a: u8, b: u8) { Foo { a, b } }",
        "struct Foo { a: u8, b: u8 }\nfn f(a: u8, b: u8) { Foo { a: b, b: a } }",
        "another variable",
    );
    assert_differs(
        "struct Foo { a: u8, b: u8 }\nfn f(a: u8) { Foo { a, b: 0 } }",
        "struct Foo { a: u8, b: u8 }\nfn f(a: u8) { Foo { b: a, b: 0 } }",
        "no definition",
    );
}

#[test]
fn names_change_as_their_definitions_did() {
    let definitions = ("pub struct Told;\npub fn of() {}", "pub struct Seen;\npub fn from() {}");
    assert_eq!(
        differences(&[definitions, ("fn f(a: Told) { of(a) }", "fn f(a: Seen) { from(a) }")]),
        [""; 0]
    );
    assert_eq!(
        differences(&[definitions, ("fn f(a: Told) { g(a) }", "fn f(a: Kept) { g(a) }")]),
        ["1.rs:1: `Told` became `Kept`, but no definition did"]
    );
    assert_differs("fn f() { a() }", "fn f() { b() }", "`a` became `b`, but no definition did");
    assert_differs("fn f() { x.a() }", "fn f() { x.b() }", "`a` became `b`, but no definition did");
    assert_differs(
        "struct A { a: u8 }\nfn f(x: A) { x.a }",
        "struct A { a: u8 }\nfn f(x: A) { x.b }",
        "no definition",
    );
    // A field is neither an item nor a method.
    assert_differs(
        "struct A { a: u8 }\nfn f(x: A) { x.a() }",
        "struct A { b: u8 }\nfn f(x: A) { x.b() }",
        "no definition",
    );
    assert_differs(
        "struct A { a: u8 }\nfn f() { a() }",
        "struct A { b: u8 }\nfn f() { b() }",
        "no definition",
    );
}

#[test]
fn names_with_several_definitions_differ_by_qualifier() {
    let definitions = (
        "struct A { told: u8 }\nstruct B { told: u8 }\nimpl A { fn of() {} }\nimpl B { fn of() {} }",
        "struct A { seen: u8 }\nstruct B { kept: u8 }\nimpl A { fn parse() {} }\nimpl B { fn load() {} }",
    );
    let found = |old: &str, new: &str| differences(&[definitions, (old, new)]);
    assert_eq!(
        found("fn f(a: A, b: B) { a.told + b.told }", "fn f(a: A, b: B) { a.seen + b.kept }"),
        [""; 0]
    );
    assert_eq!(found("fn f() { A::of(); B::of() }", "fn f() { A::parse(); B::load() }"), [""; 0]);
    assert_eq!(
        found("fn f() { g(A { told: 1 }, B { told: 1 }) }", "fn f() { g(A { seen: 1 }, B { kept: 1 }) }"),
        [""; 0]
    );
    // A method that calls a function of its own name.
    assert_same("impl A { fn of() { of() } }\nfn of() {}", "impl A { fn parse() { of() } }\nfn of() {}");
    assert_eq!(
        found("fn f(a: A) { a.told + a.told }", "fn f(a: A) { a.seen + a.kept }"),
        ["1.rs:1: `told` became `seen` before, and `kept` here"]
    );
    assert_eq!(
        found("fn f() { A::of(); A::of() }", "fn f() { A::parse(); A::load() }"),
        ["1.rs:1: `of` became `parse` before, and `load` here"]
    );
}

#[test]
fn two_names_of_a_scope_do_not_become_one() {
    let definitions = ("struct A { told: u8, seen: u8 }", "struct A { told: u8, told: u8 }");
    assert_eq!(
        differences(&[definitions, ("fn f(a: A) { a.told + a.seen }", "fn f(a: A) { a.told + a.told }")]),
        ["0.rs:1: both `told` and `seen` became `told`", "1.rs:1: both `told` and `seen` became `told`"]
    );
    assert_differs(
        "fn a() {}\nfn b() {}\nfn f() { a(b) }",
        "fn c() {}\nfn c() {}\nfn f() { c(c) }",
        "both `a` and `b` became `c`",
    );
}

#[test]
fn lifetimes_are_renamed_within_an_item() {
    assert_same("fn f<'a, 'b>(x: &'a X, y: &'b Y) {}", "fn f<'x, 'y>(x: &'x X, y: &'y Y) {}");
    assert_differs(
        "fn f<'a, 'b>(x: &'a X, y: &'b Y) {}",
        "fn f<'a, 'b>(x: &'a X, y: &'a Y) {}",
        "became `a`",
    );
}

#[test]
fn strings_of_attributes_may_name_functions() {
    assert_same(
        "#[serde(default = \"told\")]\nstruct A { a: u8 }\nfn told() {}",
        "#[serde(default = \"seen\")]\nstruct A { a: u8 }\nfn seen() {}",
    );
    assert_differs(
        "#[serde(rename = \"told\")]\nstruct A { a: u8 }\nfn told() {}",
        "#[serde(rename = \"seen\")]\nstruct A { a: u8 }\nfn seen() {}",
        "became",
    );
}

#[test]
fn other_tokens_are_equal() {
    for (old, new) in [
        ("fn f() { a(1) }", "fn f() { a(2) }"),
        ("fn f() { a('x') }", "fn f() { a('y') }"),
        ("fn f() { a(\"x\") }", "fn f() { a(\"y\") }"),
        ("fn f() { format!(\"x {a}\") }", "fn f() { format!(\"y {a}\") }"),
        ("fn f() { a(); b() }", "fn f() { b(); a(); a() }"),
        ("fn f() { a + b }", "fn f() { a - b }"),
        ("fn f() { a & &b }", "fn f() { a && b }"),
        ("fn f() { (a,) }", "fn f() { (a) }"),
        ("fn f() { a; }", "fn f() { a }"),
        ("fn f(a: &mut A) {}", "fn f(a: &A) {}"),
        ("pub fn f() {}", "fn f() {}"),
        ("fn f() { if a { b(); } c() }", "fn f() { if a { b(); c() } }"),
        ("fn f() { self.a }", "fn f() { b.a }"),
        ("#[cfg(a)]\nfn f() {}", "fn f() {}"),
    ] {
        assert_ne!(differences(&[(old, new)]), [""; 0], "{old} / {new}");
    }
}

#[test]
fn prose_changes_string_literals_only() {
    let compare = |old: &str, new: &str| {
        let tokens = |text: &str| tokens::tokenize(text, Captures::Keep).unwrap();
        compare::compare_prose(&tokens(old), &tokens(new))
    };
    let listed = compare("fn f() { g(\"x {a}\") }", "/// Doc.\nfn f() {\n g(\"y {a}\") }").unwrap();
    assert_eq!(listed, [(3, "\"x {a}\"".to_owned(), "\"y {a}\"".to_owned())]);
    assert!(compare("fn f() { g(\"x\") }", "fn f() { h(\"x\") }").is_err());
    assert!(compare("fn f() { g(1) }", "fn f() { g(2) }").is_err());
    assert!(compare("fn f() { g(1); }", "fn f() { g(1); g(1); }").is_err());
}
