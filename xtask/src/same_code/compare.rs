//! Compares two files token by token.

use std::collections::BTreeMap;

use super::tokens::{Token, TokenKind};

/// Changes between two versions of a file with the same code.
#[derive(Debug, PartialEq, Eq)]
pub enum TextChanges {
    /// Identifiers, old and new.
    Renamed(Vec<(String, String)>),
    /// String literals: the line in the new file, old, new.
    Literals(Vec<(usize, String, String)>),
}

/// Checks whether one injective renaming of identifiers maps `old` to `new`. The error names the line in the new file
/// and the first difference.
pub fn compare_renaming(old: &[Token], new: &[Token]) -> Result<TextChanges, String> {
    let mut names = Renaming::default();
    for (before, after) in align_tokens(old, new)? {
        let line = after.line;
        match (&before.kind, &after.kind) {
            (TokenKind::Ident(old), TokenKind::Ident(new)) => {
                names.insert(old, new).map_err(|reason| format!("{line}: {reason}"))?;
            }
            (TokenKind::Text(old), TokenKind::Text(new)) if old == new => {}
            (TokenKind::Text(old), TokenKind::Text(new)) => {
                insert_captures(old, new, &mut names).map_err(|reason| format!("{line}: {reason}"))?;
            }
            (old, new) if old == new => {}
            (old, new) => return Err(format!("{line}: {old:?} became {new:?}")),
        }
    }
    Ok(TextChanges::Renamed(names.forward.into_iter().filter(|(old, new)| old != new).collect()))
}

/// Checks that only string literals differ.
pub fn compare_prose(old: &[Token], new: &[Token]) -> Result<TextChanges, String> {
    let mut literals = Vec::new();
    for (before, after) in align_tokens(old, new)? {
        match (&before.kind, &after.kind) {
            (old, new) if old == new => {}
            (TokenKind::Text(old), TokenKind::Text(new)) => {
                literals.push((after.line, old.clone(), new.clone()));
            }
            (old, new) => return Err(format!("{}: {old:?} became {new:?}", after.line)),
        }
    }
    Ok(TextChanges::Literals(literals))
}

fn align_tokens<'a>(
    old: &'a [Token],
    new: &'a [Token],
) -> Result<impl Iterator<Item = (&'a Token, &'a Token)>, String> {
    let is_same_kind = |(before, after): &(&Token, &Token)| match (&before.kind, &after.kind) {
        (TokenKind::Other(old), TokenKind::Other(new)) => old == new,
        (old, new) => std::mem::discriminant(old) == std::mem::discriminant(new),
    };
    if old.len() != new.len() {
        let same = old.iter().zip(new).take_while(is_same_kind).count();
        let line = new.get(same).or(new.last()).map_or(0, |token| token.line);
        return Err(format!("{line}: {} tokens became {}, from here on", old.len(), new.len()));
    }
    Ok(old.iter().zip(new))
}

/// One-to-one map of identifiers. It includes unchanged ones, so that no other identifier can take their name.
#[derive(Default)]
struct Renaming {
    forward: BTreeMap<String, String>,
    backward: BTreeMap<String, String>,
}

impl Renaming {
    fn insert(&mut self, old: &str, new: &str) -> Result<(), String> {
        let forward = self.forward.entry(old.to_owned()).or_insert_with(|| new.to_owned());
        if forward != new {
            return Err(format!("`{old}` became `{forward}` before, and `{new}` here"));
        }
        let backward = self.backward.entry(new.to_owned()).or_insert_with(|| old.to_owned());
        if backward != old {
            return Err(format!("both `{backward}` and `{old}` became `{new}`"));
        }
        Ok(())
    }
}

/// Checks that two format strings differ only in the names of captured variables.
fn insert_captures(old: &str, new: &str, names: &mut Renaming) -> Result<(), String> {
    let (old_parts, new_parts) = (split_captures(old), split_captures(new));
    let differ = || format!("the text {old} became {new}");
    if old_parts.len() != new_parts.len() {
        return Err(differ());
    }
    for (position, (old, new)) in old_parts.iter().zip(&new_parts).enumerate() {
        match position % 2 {
            0 if old != new => return Err(differ()),
            0 => {}
            _ => names.insert(old, new)?,
        }
    }
    Ok(())
}

/// Splits a format string into text, captured name, text, and so on.
fn split_captures(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    let mut begin = 0;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let is_capture = bytes[at] == b'{'
            && bytes.get(at + 1).is_some_and(|next| next.is_ascii_alphabetic() || *next == b'_');
        if is_capture {
            let end = at + 1 + bytes[at + 1..].iter().take_while(|byte| is_name(**byte)).count();
            parts.push(&rest[..at + 1 - begin]);
            parts.push(&text[at + 1..end]);
            rest = &text[end..];
            begin = end;
            at = end;
        } else {
            at += if bytes[at] == b'{' && bytes.get(at + 1) == Some(&b'{') { 2 } else { 1 };
        }
    }
    parts.push(rest);
    parts
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokenize;
    use super::*;

    fn renamed(old: &str, new: &str) -> Result<Vec<(String, String)>, String> {
        match compare_renaming(&tokenize(old).unwrap(), &tokenize(new).unwrap())? {
            TextChanges::Renamed(names) => Ok(names),
            other @ TextChanges::Literals(_) => panic!("{other:?}"),
        }
    }

    #[test]
    fn renaming_accepts_identifiers_captures_comments_imports_and_layout() {
        let old = "//! Old.\nuse a::{b, wish};\nmod told;\n/// Old.\nfn told(wish: u8) -> String { match wish { 0 => format!(\"{wish:>3}{{wish}}\"), _ => x(|y| y + wish,) } }";
        let new = "use a::{desired, b};\nmod expectations;\nfn expectations(desired: u8) -> String {\n match desired { 0 => { format!(\"{desired:>3}{{wish}}\") } _ => x(|y| { y + desired }) } }";
        let names = renamed(old, new).unwrap();
        assert_eq!(names, [("told".into(), "expectations".into()), ("wish".into(), "desired".into())]);
    }

    #[test]
    fn renaming_refuses_changed_code() {
        for (old, new) in [
            ("fn f() { a(1) }", "fn f() { a(2) }"),
            ("fn f() { a(); b() }", "fn f() { b(); a(); a() }"),
            ("fn f() { a + b }", "fn f() { a - b }"),
            ("fn f() { a + b }", "fn f() { a + a }"),
            ("fn f() { a + a }", "fn f() { a + b }"),
            ("fn f() { g(\"x\") }", "fn f() { g(\"y\") }"),
            ("fn f() { if a { b(); } c() }", "fn f() { if a { b(); c() } }"),
        ] {
            assert!(renamed(old, new).is_err(), "{old} / {new}");
        }
    }

    #[test]
    fn prose_lists_literals_and_refuses_renamings() {
        let compare = |old: &str, new: &str| compare_prose(&tokenize(old).unwrap(), &tokenize(new).unwrap());
        let listed = compare("fn f() { g(\"x\") }", "/// Doc.\nfn f() {\n g(\"y\") }").unwrap();
        assert_eq!(listed, TextChanges::Literals(vec![(3, "\"x\"".into(), "\"y\"".into())]));
        assert!(compare("fn f() { g(\"x\") }", "fn f() { h(\"x\") }").is_err());
        assert!(compare("fn f() { g(1) }", "fn f() { g(2) }").is_err());
    }
}
