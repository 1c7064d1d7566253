//! Splitting of a text into YAML documents as Helm does: at lines that start with `---`, without parsing YAML.

use bytes::Bytes;
use helm_template::profile::Profile;

/// The non-blank documents of a text.
pub fn split(text: &Bytes, profile: Profile) -> Vec<Bytes> {
    match profile {
        Profile::Helm3 => split3(text),
        Profile::Helm4 => split4(text),
    }
}

/// Helm 3: a separator includes the surrounding white space, and documents are trimmed at both ends.
fn split3(text: &Bytes) -> Vec<Bytes> {
    let whole = trim(text);
    let mut documents = Vec::new();
    // The start of the current document, and the first offset at which the next separator may start.
    let mut from = 0;
    let mut add = |part: &[u8]| {
        if !part.is_empty() {
            documents.push(text.slice_ref(trim(part)));
        }
    };
    for at in memchr::memmem::find_iter(whole, b"---") {
        if at < from {
            continue;
        }
        let before = &whole[from..at];
        if at > 0 && before.last() != Some(&b'\n') {
            continue;
        }
        let end = before.iter().rposition(|byte| !is_space(*byte)).map_or(0, |last| last + 1);
        add(&before[..end]);
        let after = &whole[at + 3..];
        from = at + 3 + after.iter().position(|byte| !is_space(*byte)).unwrap_or(after.len());
    }
    add(&whole[from..]);
    documents
}

/// Helm 4: a separator includes the blanks after it on its line, and documents are trimmed at the start only.
fn split4(text: &Bytes) -> Vec<Bytes> {
    let whole = trim_start(text);
    let mut documents = Vec::new();
    let mut from = 0;
    let mut add = |part: &[u8]| {
        if !trim(part).is_empty() {
            documents.push(text.slice_ref(trim_start(part)));
        }
    };
    for at in memchr::memmem::find_iter(whole, b"---") {
        if at < from || (at > 0 && whole[at - 1] != b'\n') {
            continue;
        }
        add(&whole[from..at]);
        let after = &whole[at + 3..];
        from = at + 3 + after.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(after.len());
    }
    add(&whole[from..]);
    documents
}

/// White space as in Go's regular expressions (`\s`).
fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | 0x0c | b'\r' | b' ')
}

/// Trims Unicode white space at both ends.
pub fn trim(text: &[u8]) -> &[u8] {
    let mut text = trim_start(text);
    while let Some(space) = (1..=3).find(|n| text.len() >= *n && is_blank(&text[text.len() - n..])) {
        text = &text[..text.len() - space];
    }
    text
}

fn trim_start(mut text: &[u8]) -> &[u8] {
    while let Some(space) = (1..=3).find(|n| text.len() >= *n && is_blank(&text[..*n])) {
        text = &text[space..];
    }
    text
}

/// Whether the bytes are Unicode white space, which is at most three bytes per character.
fn is_blank(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_matches_helm() {
        let table: &[(&str, &[&str], &[&str])] = &[
            ("", &[], &[]),
            (" \n\u{a0}\n", &[], &[]),
            ("a: 1\n", &["a: 1"], &["a: 1\n"]),
            ("---\na: 1\n---\nb: 2\n", &["a: 1", "b: 2"], &["a: 1\n", "b: 2\n"]),
            ("a\n\n---  \n\nb  \n", &["a", "b"], &["a\n\n", "b  \n"]),
            ("a\n---b: 1", &["a", "b: 1"], &["a\n", "b: 1"]),
            ("a\n---\n---\nb", &["a", "---\nb"], &["a\n", "b"]),
            ("a\n ---\nb", &["a\n ---\nb"], &["a\n ---\nb"]),
            ("a ---\nb", &["a ---\nb"], &["a ---\nb"]),
            ("----\na", &["-\na"], &["-\na"]),
            ("a\r\n---\r\nb", &["a", "b"], &["a\r\n", "b"]),
            ("--- # comment\na", &["# comment\na"], &["# comment\na"]),
            ("a\n---", &["a"], &["a\n"]),
        ];
        for (text, three, four) in table {
            let text = Bytes::from(*text);
            assert_eq!(split(&text, Profile::Helm3), *three, "{text:?}");
            assert_eq!(split(&text, Profile::Helm4), *four, "{text:?}");
        }
    }
}
