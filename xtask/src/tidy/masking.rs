//! Blanks comments and the contents of literals in Rust source.
//!
//! Lines keep their positions. It serves [`super::sources`] and is not a compiler: invalid code gives some result.

/// Returns `text` with comments and the contents of string and character literals blanked.
pub fn mask_comments_and_literals(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut bare = chars.clone();
    let mut at = 0;
    while at < chars.len() {
        let Some((from, to)) = masked_span(&chars, at) else {
            at += 1;
            continue;
        };
        for c in &mut bare[from..to] {
            if *c != '\n' {
                *c = ' ';
            }
        }
        // Skips the closing quote, so that it does not open another literal.
        at = if chars[at] == '/' { to } else { to + 1 };
    }
    bare.into_iter().collect()
}

/// Span to blank of the comment or literal that begins at `at`. Quotes stay.
fn masked_span(chars: &[char], at: usize) -> Option<(usize, usize)> {
    let next = |offset: usize| chars.get(at + offset).copied();
    let word_before = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match (chars[at], next(1)) {
        ('/', Some('/')) => Some((at, position_where(chars, at, |rest| rest[0] == '\n'))),
        ('/', Some('*')) => Some((at, block_end(chars, at))),
        ('"', _) => Some((at + 1, quoted_end(chars, at + 1))),
        ('r', Some('"' | '#')) if !word_before || chars[at - 1] == 'b' => {
            let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
            let open = at + 1 + hashes;
            if chars.get(open) != Some(&'"') {
                return None; // r#raw_identifier
            }
            let closes = |rest: &[char]| {
                rest[0] == '"' && rest.len() > hashes && rest[1..=hashes].iter().all(|c| *c == '#')
            };
            Some((open + 1, position_where(chars, open + 1, closes)))
        }
        // A character, not a lifetime: 'x', '\n', '\''.
        ('\'', Some('\\')) => Some((at + 1, position_where(chars, at + 3, |rest| rest[0] == '\''))),
        ('\'', Some(_)) if next(2) == Some('\'') => Some((at + 1, at + 2)),
        _ => None,
    }
}

/// First position from which `here` holds for the rest, or the end.
fn position_where(chars: &[char], from: usize, here: impl Fn(&[char]) -> bool) -> usize {
    (from..chars.len()).find(|at| here(&chars[*at..])).unwrap_or(chars.len())
}

fn quoted_end(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at.min(chars.len())
}

/// Block comments nest.
fn block_end(chars: &[char], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0);
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

#[cfg(test)]
mod tests {
    use super::mask_comments_and_literals;

    #[test]
    fn mask_keeps_code_only() {
        let table = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("b \" c") g"#, r#"f("      ") g"#),
            ("r#\"a \" b\"# c", "r#\"     \"# c"),
            (r"'a' '\'' '\\' b", r"' ' '  ' '  ' b"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("let r#type = 1; // x", "let r#type = 1;     "),
            ("\"never closed", "\"            "),
            ("/* never closed", "               "),
            ("'\\", "' "),
        ];
        for (text, code) in table {
            assert_eq!(mask_comments_and_literals(text), code, "{text}");
        }
    }
}
