//! File names as Go's `path` and `filepath` packages treat them.

/// Shortest equivalent path: no empty segments, no `.`, and no `..` that cancels a preceding segment.
pub(crate) fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

/// File extension including the dot; empty if there is none.
pub(crate) fn extension(path: &str) -> &str {
    let base = path.rsplit('/').next().unwrap_or_default();
    base.rfind('.').map_or("", |dot| &base[dot..])
}

/// An invalid pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("syntax error in pattern")]
pub struct InvalidPattern;

/// Go's `filepath.Match`: `*` and `?` match anything but a slash, `[a-c]` one of these characters.
pub(crate) fn matches(pattern: &str, name: &str) -> Result<bool, InvalidPattern> {
    let (mut pattern, mut name) = (pattern, name);
    while !pattern.is_empty() {
        let (star, chunk, after) = scan_chunk(pattern);
        pattern = after;
        if star && chunk.is_empty() {
            return Ok(!name.contains('/'));
        }
        // At the end of the pattern the chunk must reach the end of the name.
        let fits = |rest: &str| rest.is_empty() || !pattern.is_empty();
        let mut found = match_chunk(chunk, name)?.filter(|rest| fits(rest));
        if found.is_none() && star {
            for (index, c) in name.char_indices().take_while(|(_, c)| *c != '/') {
                found = match_chunk(chunk, &name[index + c.len_utf8()..])?.filter(|rest| fits(rest));
                if found.is_some() {
                    break;
                }
            }
        }
        let Some(rest) = found else { return Ok(false) };
        name = rest;
    }
    Ok(name.is_empty())
}

/// Splits off leading stars and the chunk up to the next star: whether there were stars, the chunk, the rest.
fn scan_chunk(pattern: &str) -> (bool, &str, &str) {
    let body = pattern.trim_start_matches('*');
    let (mut in_range, mut escaped) = (false, false);
    let end = body.bytes().position(|b| {
        if std::mem::take(&mut escaped) {
            return false;
        }
        match b {
            b'\\' => escaped = true,
            b'[' => in_range = true,
            b']' => in_range = false,
            b'*' => return !in_range,
            _ => {}
        }
        false
    });
    let (chunk, rest) = body.split_at(end.unwrap_or(body.len()));
    (body.len() < pattern.len(), chunk, rest)
}

/// The rest of a text after a chunk without stars; `None` if the chunk does not match. The whole chunk is always
/// parsed, to detect invalid patterns.
fn match_chunk<'a>(chunk: &str, text: &'a str) -> Result<Option<&'a str>, InvalidPattern> {
    let mut rest = Some(text);
    let mut pattern = chunk.chars();
    while let Some(c) = pattern.next() {
        let head = rest.and_then(|rest| rest.chars().next());
        let fits = match c {
            '[' => match_range(&mut pattern, head)?,
            '?' => head.is_some_and(|head| head != '/'),
            '\\' => head == Some(pattern.next().ok_or(InvalidPattern)?),
            c => head == Some(c),
        };
        rest = match (rest, head) {
            (Some(rest), Some(head)) if fits => Some(&rest[head.len_utf8()..]),
            _ => None,
        };
    }
    Ok(rest)
}

fn match_range(pattern: &mut std::str::Chars<'_>, c: Option<char>) -> Result<bool, InvalidPattern> {
    let negated = pattern.as_str().starts_with('^');
    if negated {
        pattern.next();
    }
    let mut found = false;
    let mut first = true;
    loop {
        if !first && pattern.as_str().starts_with(']') {
            pattern.next();
            return Ok(found != negated);
        }
        first = false;
        let low = range_end(pattern)?;
        let mut high = low;
        if pattern.as_str().starts_with('-') {
            pattern.next();
            high = range_end(pattern)?;
        }
        found |= c.is_some_and(|c| (low..=high).contains(&c));
    }
}

fn range_end(pattern: &mut std::str::Chars<'_>) -> Result<char, InvalidPattern> {
    let c = match pattern.next().ok_or(InvalidPattern)? {
        '-' | ']' => return Err(InvalidPattern),
        '\\' => pattern.next().ok_or(InvalidPattern)?,
        c => c,
    };
    if pattern.as_str().is_empty() { Err(InvalidPattern) } else { Ok(c) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Recorded from Go 1.23.
    #[test]
    fn matches_agrees_with_go() {
        #[rustfmt::skip]
        let rows = [
            ("", "", Ok(true)),
            ("*", "", Ok(true)),
            ("*", "a/b", Ok(false)),
            ("**", "a", Ok(true)),
            ("a*", "ab/c", Ok(false)),
            ("a*b?c*x", "abxbbxdbxebxczzx", Ok(true)),
            ("a*b?c*x", "abxbbxdbxebxczzy", Ok(false)),
            ("[a-z]*", "q", Ok(true)),
            ("[\\]a]", "]", Ok(true)),
            ("[\\-]", "-", Ok(true)),
            ("[x\\-]", "x", Ok(true)),
            ("[x\\-]", "z", Ok(false)),
            ("[-]", "-", Err("syntax error in pattern")),
            ("[x-]", "x", Err("syntax error in pattern")),
            ("[-x]", "x", Err("syntax error in pattern")),
            ("\\", "a", Err("syntax error in pattern")),
            ("[a-b-c]", "a", Err("syntax error in pattern")),
            ("[", "a", Err("syntax error in pattern")),
            ("[^", "a", Err("syntax error in pattern")),
            ("[^bc", "a", Err("syntax error in pattern")),
            ("a[", "a", Err("syntax error in pattern")),
            ("a[", "ab", Err("syntax error in pattern")),
            ("a[", "x", Err("syntax error in pattern")),
            ("a/b[", "x", Err("syntax error in pattern")),
            ("*x", "xxx", Ok(true)),
            ("a]", "a]", Ok(true)),
            ("[]a]", "]", Err("syntax error in pattern")),
            ("?", "é", Ok(true)),
            ("[é-ü]", "ö", Ok(true)),
            ("a\\*b", "a*b", Ok(true)),
            ("[*]", "*", Ok(true)),
            ("[*]x*", "*xy", Ok(true)),
        ];
        for (pattern, name, expected) in rows {
            let said = matches(pattern, name).map_err(|error| error.to_string());
            assert_eq!(said, expected.map_err(str::to_owned), "{pattern:?} {name:?}");
        }
    }

    #[test]
    fn clean_agrees_with_go() {
        for (path, cleaned) in [
            ("", "."),
            ("a/./b//c", "a/b/c"),
            ("a/../..", ".."),
            ("../../a", "../../a"),
            ("/..", "/"),
            ("/../a/", "/a"),
            ("./", "."),
            ("a/b/../../..", ".."),
        ] {
            assert_eq!(clean(path), cleaned, "{path:?}");
        }
        assert_eq!((extension("a/b.tar.gz"), extension("a.b/c"), extension(".x")), (".gz", "", ".x"));
    }

    proptest! {
        #[test]
        fn no_pattern_is_too_strange(pattern in "[a-c*?\\\\\\[\\]^/é-]{0,12}", name in "[a-c/é]{0,8}") {
            let _ = matches(&pattern, &name);
        }

        #[test]
        fn a_clean_name_stays_as_it_is(path in "[a./]{0,12}") {
            let cleaned = clean(&path);
            prop_assert_eq!(clean(&cleaned), cleaned);
        }
    }
}
